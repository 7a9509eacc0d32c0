"""What a backend shows of itself: the level, conventions and features that make its declaration true."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.checks import quiet
from gaugeblock.conformance.load import load
from gaugeblock.conformance.refusals.attention import using
from gaugeblock.conformance.selection import dtypes_of, known_dtypes
from gaugeblock.conformance.strategies.attention import POOL, AttentionCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.conventions import Conventions, EmptyRow, Route
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import HALF, Level
from gaugeblock.spec.reference.bounded import Expected

PROBE = AttentionCase(B=1, H=4, K=4, T=3, S=3, D=4, E=4, qk="zero", v="index")
EMPTIES: dict[Route, dict[str, Any]] = {
    "mask": {"mask": "none"},
    "bias": {"bias": "hide"},
    "causal": {"causal": True, "T": 5},
    "window": {"window": (0, 0), "T": 5},
}


def propose(word: str, dtypes: Sequence[str]) -> list[str]:
    """The lines to paste into a backend: conventions, unsupported, level; nothing is applied.

    Raises ConfigError, NotAvailable.
    """
    known_dtypes(dtypes)
    backend = load(word)
    with quiet():
        return _lines(backend, dtypes)


def _lines(backend: Backend, dtypes: Sequence[str]) -> list[str]:
    names = dtypes_of(backend, [name for name in dtypes if name in backend.dtypes])
    probe = "float32" if "float32" in names else names[0]
    backend.conventions, backend.unsupported = Conventions(), {}
    unsupported = dict(_unsupported(backend, probe))
    backend.unsupported = unsupported
    backend.conventions = conventions = _conventions(backend, probe)
    lines = [f"conventions = Conventions({_spelled(conventions)})"]
    lines += _mapping("unsupported", unsupported)
    levels = {name: _level(backend, name) for name in names if name in HALF}
    lines += _mapping("level", {name: level for name, level in levels.items() if level})
    lines += [f"# {name}: no level holds; `gaugeblock check` says why" for name, level in levels.items() if not level]
    return lines


def _mapping(name: str, values: dict[str, Any]) -> Iterator[str]:
    if values:
        shown = (f'"{k}": {f"Level.{v.name}" if isinstance(v, Level) else json.dumps(v)}' for k, v in values.items())
        yield f"{name} = {{{', '.join(shown)}}}"


def _spelled(conventions: Conventions) -> str:
    """Every convention that was probed, the canonical ones too: what was seen, not only what differs."""
    shown = {name: getattr(conventions, name) for name in ("causal_alignment", "empty_row", "head_order")}
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in shown.items())


def _unsupported(backend: Backend, dtype: str) -> Iterator[tuple[str, str]]:
    """Each feature whose call raises, unless a part of it raises already."""
    raised: list[str] = []
    for name in sorted((n.removeprefix("attention.") for n in FEATURES), key=lambda n: (n.count("+"), n.count("."))):
        if any(set(part.split("+")) <= set(name.split("+")) or name.startswith(f"{part}.") for part in raised):
            continue
        backend.unsupported = {f"attention.{part}": "raises" for part in raised}
        error = _raises(backend, dtype, name)
        if error:
            raised.append(name)
            yield f"attention.{name}", error


def _raises(backend: Backend, dtype: str, feature: str) -> str:
    cell = Cell(backend, "attention", dtype)
    try:
        cell.call(using(cell, feature))
    except BackendRaised as raised:
        return f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
    except Nonconformance:
        return ""
    return ""


def _conventions(backend: Backend, dtype: str) -> Conventions:
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


def _level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    cell = Cell(backend, "attention", dtype)
    level = Level.STRICT
    for case in map(cell.fit, _level_cases()):
        inputs = case.inputs(cell.io)
        try:
            got = cell.call(case, inputs)
        except (BackendRaised, Nonconformance):
            return None
        while not _within(got, cell.expected(case, inputs, level)):
            if level is Level.NAIVE:
                return None
            level = Level(level.value - 1)
    return level


def _level_cases() -> Iterator[AttentionCase]:
    for size in POOL:
        for seed, (qk, v) in enumerate((("normal", "normal"), ("peaked", "offset"), ("ascending", "cancelling"))):
            case = AttentionCase(**size._asdict(), qk=qk, v=v, seed=seed)
            yield from (case, replace(case, bias="normal"))


def _within(got: Numpy, expected: Expected) -> bool:
    return judge(got, expected).status is not Status.FAIL
