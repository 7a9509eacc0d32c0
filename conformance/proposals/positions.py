"""What a backend's positions show of themselves; rotary positions have a room of their own."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.positions import outside
from gaugeblock.conformance.proposals.probing import fits, lacking, tightest
from gaugeblock.conformance.refusals import refused
from gaugeblock.conformance.refusals.positions import (
    alibi_range,
    sinusoidal_range,
    using_alibi,
    using_learned,
    using_sinusoidal,
)
from gaugeblock.conformance.strategies import alibi, positions
from gaugeblock.conformance.strategies.alibi import BiasCase, SlopesCase
from gaugeblock.conformance.strategies.positions import LookupCase, SinusoidalCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions, OutOfRange
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("sinusoidal_order", "alibi_slopes", "alibi_bias", "out_of_range", "rotary_partial")
USING = {"sinusoidal": using_sinusoidal, "learned_positions": using_learned, "alibi": using_alibi}
PROBES: tuple[tuple[str, str, str, Case], ...] = (
    ("sinusoidal", "sinusoidal_order", "halves", SinusoidalCase(T=3, M=4)),
    ("alibi", "alibi_slopes", "geometric", SlopesCase(H=6)),
    ("alibi", "alibi_bias", "key_only", BiasCase(H=2, T=2, S=3)),
)


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        for name in (n for n in FEATURES if n.startswith(f"{offer}.")):
            cell = Cell(backend, "positions", dtype, offer=offer)
            feature = name.removeprefix(f"{offer}.")
            error = lacking(cell, USING[offer](cell, feature), feature)
            if error:
                found[name] = error
    for room in _rotary(backend):
        found |= room.unsupported(backend, dtype)
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Order, slopes and form by one probe each, then what a position out of range gives."""
    found = backend.conventions
    for offer, name, other, case in PROBES:
        changed: dict[str, Any] = {name: other}
        if offers(backend, "positions", offer):
            cell = Cell(backend, "positions", dtype, offer=offer)
            found = next((c for c in (found, replace(found, **changed)) if fits(cell, case, c)), found)
    rules: tuple[OutOfRange, ...] = get_args(OutOfRange)
    found = next(c for rule in rules if _keeps(backend, dtype, c := replace(found, out_of_range=rule)))
    for room in _rotary(backend):
        backend.conventions = found
        found = room.conventions(backend, dtype)
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pools holds."""
    held: Level | None = Level.STRICT
    for offer in USING:
        if held is not None and offers(backend, "positions", offer):
            held = tightest(Cell(backend, "positions", dtype, offer=offer), _level_cases(offer), held)
    for room in _rotary(backend) if held is not None else ():
        found: Level | None = room.level(backend, dtype)
        held = None if found is None or held is None else min(held, found)
    return held


def _level_cases(offer: str) -> Iterator[Case]:
    if offer == "sinusoidal":
        for n, d in enumerate(positions.POOL):
            for recipe in ("edges", "gaps"):
                yield SinusoidalCase(**d._asdict(), positions=recipe, seed=n)
    if offer == "alibi":
        for n, x in enumerate(alibi.POOL):
            for recipe in ("cached", "thousand"):
                yield BiasCase(**x._asdict(), positions=recipe, seed=n)


def _keeps(backend: Backend, dtype: str, conventions: Conventions) -> bool:
    """Whether positions out of range give what these conventions say, in every interface that is offered."""
    backend.conventions = conventions
    cells = {offer: Cell(backend, "positions", dtype, offer=offer) for offer in _offered(backend)}
    try:
        if "sinusoidal" in cells:
            refused(cells["sinusoidal"], sinusoidal_range(cells["sinusoidal"]))
        if "alibi" in cells:
            refused(cells["alibi"], alibi_range(cells["alibi"]))
        for at in range(6) if "learned_positions" in cells else ():
            outside(cells["learned_positions"], LookupCase(T=3, N=4, M=2, at=at))
    except (BackendRaised, Nonconformance):
        return False
    return True


def _offered(backend: Backend) -> list[str]:
    return [offer for offer in USING if offers(backend, "positions", offer)]


def _rotary(backend: Backend) -> list[ModuleType]:
    """The room of rotary positions, where they are offered."""
    return [import_module("gaugeblock.conformance.proposals.rotary")] if offers(backend, "positions", "rotary") else []
