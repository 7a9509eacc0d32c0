"""What a backend's rotation shows of itself, by calls of one feature and by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.refusals.rotary import using
from gaugeblock.conformance.strategies.rotary import POOL, RotaryCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("rotary_partial",)
PARTIAL = RotaryCase(B=1, H=2, T=3, D=8, rotary_dim=4, positions="offset")


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature whose call raises, with the error's first line, unless a part of it raises already."""
    raised: list[str] = []
    found: dict[str, str] = {}
    names = (
        name.removeprefix("rotary.") for name in FEATURES if name.startswith("rotary.") and name != "rotary.layout"
    )
    before = dict(backend.unsupported)
    for name in sorted(names, key=lambda n: (n.count("+"), n.count("."))):
        if any(set(part.split("+")) <= set(name.split("+")) or name.startswith(f"{part}.") for part in raised):
            continue
        backend.unsupported = {**before, **{f"rotary.{part}": "raises" for part in raised}}
        error = _raises(backend, dtype, name)
        if error:
            raised.append(name)
            found[f"rotary.{name}"] = error
    backend.unsupported = before
    return found


def _raises(backend: Backend, dtype: str, feature: str) -> str:
    cell = Cell(backend, "positions", dtype, offer="rotary")
    try:
        cell.call(using(cell, feature))
    except BackendRaised as raised:
        return f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
    except Nonconformance:
        return ""
    return ""


def conventions(backend: Backend, dtype: str) -> Conventions:
    """How a partial rotation counts, where it is offered and fits either way."""
    found = backend.conventions
    cell = Cell(backend, "positions", dtype, offer="rotary")
    case = cell.fit(PARTIAL)
    if case.rotary_dim is None:
        return found
    either = (found, replace(found, rotary_partial="proportional"))
    return next((choice for choice in either if _holds(cell, case, choice)), found)


def _holds(cell: Cell, case: RotaryCase, choice: Conventions) -> bool:
    inputs = case.inputs(cell.io)
    try:
        got = cell.call(case, inputs)
    except (BackendRaised, Nonconformance):
        return False
    return judge(got, case.expected(inputs, cell.contract(Level.STORED), choice)).status is not Status.FAIL


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    cell = Cell(backend, "positions", dtype, offer="rotary")
    held = Level.STRICT
    for case in map(cell.fit, _level_cases()):
        inputs = case.inputs(cell.io)
        try:
            got = cell.call(case, inputs)
        except (BackendRaised, Nonconformance):
            return None
        while judge(got, cell.expected(case, inputs, held)).status is Status.FAIL:
            if held is Level.NAIVE:
                return None
            held = Level(held.value - 1)
    return held


def _level_cases() -> Iterator[RotaryCase]:
    for d in POOL:
        for seed, positions in enumerate(("offset", "odd-256", "rows")):
            case = RotaryCase(B=d.B, H=d.H, T=d.T, D=d.D, positions=positions, seed=seed)
            yield from (case, replace(case, layout="interleaved"))
