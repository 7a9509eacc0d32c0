"""What a backend's multi-head attention shows of itself: features that raise, and the level that its steps hold."""

from collections.abc import Iterator
from dataclasses import replace

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.compositions import holds
from gaugeblock.conformance.proposals.probing import known, lacking
from gaugeblock.conformance.refusals.multihead import BASE, using
from gaugeblock.conformance.strategies.multihead import ANY, EVERY, MultiHeadCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS: tuple[str, ...] = ()
FAMILIES = (BASE, replace(BASE, bias="all"))


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Compositions know no conventions: what is declared stays."""
    return backend.conventions


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason, unless a part of it is lacking already."""
    found: dict[str, str] = {}
    declared, base = backend.unsupported, known(Cell(backend, "multihead", dtype), FAMILIES)
    names = (n.removeprefix("multihead.") for n in FEATURES if n.startswith("multihead."))
    for name in sorted(names, key=lambda n: ("+" in n, n)):
        backend.unsupported = {**declared, **found}
        cell = Cell(backend, "multihead", dtype)
        case = using(cell, name, base)
        gone = {n.removeprefix("multihead.") for n in found}
        error = "" if gone & case.used() else lacking(cell, case, name)
        if error:
            found[f"multihead.{name}"] = error
    backend.unsupported = declared
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every step of every case holds."""
    held = sorted((level for level in Level if level > Level.NAIVE), reverse=True)
    return next((level for level in held if all(_holds(backend, dtype, level, case) for case in _cases())), None)


def _holds(backend: Backend, dtype: str, level: Level, case: MultiHeadCase) -> bool:
    cell = Cell(backend, "multihead", dtype)
    cell.level = level
    try:
        holds(cell, cell.fit(case))
    except (BackendRaised, Nonconformance):
        return False
    return True


def _cases() -> Iterator[MultiHeadCase]:
    for size in EVERY:
        for seed, (x, w) in enumerate(ANY):
            yield MultiHeadCase(**size.fields, x=x, w=w, bias="all", mask="random", seed=seed)
            if not size.S:
                yield MultiHeadCase(**size.fields, x=x, w=w, rotary="half", alibi=True, causal=True, seed=seed)
