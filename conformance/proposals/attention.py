"""What a backend's attention shows of itself, by counting probes and by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.refusals.attention import using
from gaugeblock.conformance.strategies.attention import POOL, AttentionCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.conventions import Conventions, EmptyRow, Route
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level
from gaugeblock.spec.reference.bounded import Expected

CONVENTIONS = ("causal_alignment", "empty_row", "head_order")
PROBE = AttentionCase(B=1, H=4, K=4, T=3, S=3, D=4, E=4, qk="zero", v="index")
EMPTIES: dict[Route, dict[str, Any]] = {
    "mask": {"mask": "none"},
    "bias": {"bias": "hide"},
    "causal": {"causal": True, "T": 5},
    "window": {"window": (0, 0), "T": 5},
}


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature whose call raises, with the error's first line, unless a part of it raises already."""
    raised: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(
        (n.removeprefix("attention.") for n in FEATURES if n.startswith("attention.")),
        key=lambda n: (n.count("+"), n.count(".")),
    ):
        if any(set(part.split("+")) <= set(name.split("+")) or name.startswith(f"{part}.") for part in raised):
            continue
        backend.unsupported = {f"attention.{part}": "raises" for part in raised}
        error = _raises(backend, dtype, name)
        if error:
            raised.append(name)
            found[f"attention.{name}"] = error
    return found


def _raises(backend: Backend, dtype: str, feature: str) -> str:
    cell = Cell(backend, "attention", dtype)
    try:
        cell.call(using(cell, feature))
    except BackendRaised as raised:
        return f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
    except Nonconformance:
        return ""
    return ""


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Alignment and head order from counting probes, the empty row from each route that can empty one."""
    found = Conventions()
    found = _fitting(backend, dtype, replace(PROBE, T=2, causal=True), found, "causal_alignment", "top_left")
    found = _fitting(backend, dtype, replace(PROBE, K=2, v="head"), found, "head_order", "tiled")
    rules = {route: rule for route in EMPTIES if (rule := _empty_row(backend, dtype, route, found))}
    if set(rules.values()) <= {"zeros"}:
        return found
    same = len(set(rules.values())) == 1
    return replace(found, empty_row=next(iter(rules.values())) if same else rules)


def _fitting(
    backend: Backend, dtype: str, case: AttentionCase, so_far: Conventions, name: str, other: str
) -> Conventions:
    changed: dict[str, Any] = {name: other}
    sibling = replace(so_far, **changed)
    fits = [c for c in (so_far, sibling) if _holds(backend, dtype, case, c)]
    return fits[0] if fits else so_far


def _empty_row(backend: Backend, dtype: str, route: Route, so_far: Conventions) -> EmptyRow | None:
    rules: tuple[EmptyRow, ...] = ("zeros", "mean", "nan")
    case = replace(PROBE, v="normal", **EMPTIES[route])
    return next((rule for rule in rules if _holds(backend, dtype, case, replace(so_far, empty_row=rule))), None)


def _holds(backend: Backend, dtype: str, case: AttentionCase, conventions: Conventions) -> bool:
    """Whether the backend conforms in this case under these conventions, at any level."""
    cell = Cell(backend, "attention", dtype)
    fitted = cell.fit(case)
    if fitted != case:
        return False
    inputs = case.inputs(cell.io)
    try:
        got = cell.call(case, inputs)
    except (BackendRaised, Nonconformance):
        return False
    return _within(got, case.expected(inputs, cell.contract(Level.STORED), conventions))


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    cell = Cell(backend, "attention", dtype)
    held = Level.STRICT
    for case in map(cell.fit, _level_cases()):
        inputs = case.inputs(cell.io)
        try:
            got = cell.call(case, inputs)
        except (BackendRaised, Nonconformance):
            return None
        while not _within(got, cell.expected(case, inputs, held)):
            if held is Level.NAIVE:
                return None
            held = Level(held.value - 1)
    return held


def _level_cases() -> Iterator[AttentionCase]:
    for size in POOL:
        for seed, (qk, v) in enumerate((("normal", "normal"), ("peaked", "offset"), ("ascending", "cancelling"))):
            case = AttentionCase(**size._asdict(), qk=qk, v=v, seed=seed)
            yield from (case, replace(case, bias="normal"))


def _within(got: Numpy, expected: Expected) -> bool:
    return judge(got, expected).status is not Status.FAIL
