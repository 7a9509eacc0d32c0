"""What a backend's rotation shows of itself, by calls of one feature and by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.probing import fits, lacking, tightest
from gaugeblock.conformance.refusals.rotary import using
from gaugeblock.conformance.strategies.rotary import POOL, RotaryCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("rotary_partial",)
PARTIAL = RotaryCase(B=1, H=2, T=3, D=8, rotary_dim=4, positions="offset")


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason, unless a part of it is lacking already."""
    known: list[str] = []
    found: dict[str, str] = {}
    names = (
        name.removeprefix("rotary.") for name in FEATURES if name.startswith("rotary.") and name != "rotary.layout"
    )
    before = dict(backend.unsupported)
    for name in sorted(names, key=lambda n: (n.count("+"), n.count("."))):
        if any(set(part.split("+")) <= set(name.split("+")) or name.startswith(f"{part}.") for part in known):
            continue
        backend.unsupported = {**before, **{f"rotary.{part}": "raises" for part in known}}
        cell = Cell(backend, "positions", dtype, offer="rotary")
        error = lacking(cell, using(cell, name), name)
        if error:
            known.append(name)
            found[f"rotary.{name}"] = error
    backend.unsupported = before
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """How a partial rotation counts, where it is offered and fits either way."""
    found = backend.conventions
    cell = Cell(backend, "positions", dtype, offer="rotary")
    case = cell.fit(PARTIAL)
    if case.rotary_dim is None:
        return found
    either = (found, replace(found, rotary_partial="proportional"))
    return next((choice for choice in either if fits(cell, case, choice)), found)


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    return tightest(Cell(backend, "positions", dtype, offer="rotary"), _level_cases())


def _level_cases() -> Iterator[RotaryCase]:
    for d in POOL:
        for seed, positions in enumerate(("offset", "odd-256", "rows")):
            case = RotaryCase(B=d.B, H=d.H, T=d.T, D=d.D, positions=positions, seed=seed)
            yield from (case, replace(case, layout="interleaved"))
