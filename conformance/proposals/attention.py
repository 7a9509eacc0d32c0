"""What a backend's attention shows of itself, by counting probes and by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.probing import fits, lacking, tightest
from gaugeblock.conformance.refusals.attention import using
from gaugeblock.conformance.strategies.attention import POOL, AttentionCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions, EmptyRow, Route
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("causal_alignment", "empty_row", "head_order")
PROBE = AttentionCase(B=1, H=4, K=4, T=3, S=3, D=4, E=4, qk="zero", v="index")
EMPTIES: dict[Route, dict[str, Any]] = {
    "mask": {"mask": "none"},
    "bias": {"bias": "hide"},
    "causal": {"causal": True, "T": 5},
    "window": {"window": (0, 0), "T": 5},
}


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason, unless a part of it is lacking already."""
    known: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(
        (n.removeprefix("attention.") for n in FEATURES if n.startswith("attention.")),
        key=lambda n: (n.count("+"), n.count(".")),
    ):
        if any(set(part.split("+")) <= set(name.split("+")) or name.startswith(f"{part}.") for part in known):
            continue
        backend.unsupported = {f"attention.{part}": "raises" for part in known}
        cell = Cell(backend, "attention", dtype)
        error = lacking(cell, using(cell, name), name)
        if error:
            known.append(name)
            found[f"attention.{name}"] = error
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Alignment and head order from counting probes, the empty row from each route that can empty one."""
    found = Conventions()
    cell = Cell(backend, "attention", dtype)
    found = _fitting(cell, replace(PROBE, T=2, causal=True), found, "causal_alignment", "top_left")
    found = _fitting(cell, replace(PROBE, K=2, v="head"), found, "head_order", "tiled")
    rules = {route: rule for route in EMPTIES if (rule := _empty_row(cell, route, found))}
    if set(rules.values()) <= {"zeros"}:
        return found
    same = len(set(rules.values())) == 1
    return replace(found, empty_row=next(iter(rules.values())) if same else rules)


def _fitting(cell: Cell, case: AttentionCase, so_far: Conventions, name: str, other: str) -> Conventions:
    changed: dict[str, Any] = {name: other}
    return next((c for c in (so_far, replace(so_far, **changed)) if fits(cell, case, c)), so_far)


def _empty_row(cell: Cell, route: Route, so_far: Conventions) -> EmptyRow | None:
    rules: tuple[EmptyRow, ...] = ("zeros", "mean", "nan")
    case = replace(PROBE, v="normal", **EMPTIES[route])
    return next((rule for rule in rules if fits(cell, case, replace(so_far, empty_row=rule))), None)


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    return tightest(Cell(backend, "attention", dtype), _level_cases())


def _level_cases() -> Iterator[AttentionCase]:
    for size in POOL:
        for seed, (qk, v) in enumerate((("normal", "normal"), ("peaked", "offset"), ("ascending", "cancelling"))):
            case = AttentionCase(**size._asdict(), qk=qk, v=v, seed=seed)
            yield from (case, replace(case, bias="normal"))
