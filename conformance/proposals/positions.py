"""What a backend's positions show of themselves; rotary positions have a room of their own."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.positions import outside
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
from gaugeblock.conformance.verdict import Status, judge
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
    """Each feature whose call raises, with the error's first line."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        for name in (n for n in FEATURES if n.startswith(f"{offer}.")):
            cell = Cell(backend, "positions", dtype, offer=offer)
            try:
                cell.call(USING[offer](cell, name.removeprefix(f"{offer}.")))
            except BackendRaised as raised:
                found[name] = f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
            except Nonconformance:
                continue
    for room in _rotary(backend):
        found |= room.unsupported(backend, dtype)
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Order, slopes and form by one probe each, then what a position out of range gives."""
    found = backend.conventions
    for offer, name, other, case in PROBES:
        changed: dict[str, Any] = {name: other}
        sibling = replace(found, **changed)
        if offers(backend, "positions", offer) and not _holds(backend, dtype, offer, case, found):
            found = sibling if _holds(backend, dtype, offer, case, sibling) else found
    rules: tuple[OutOfRange, ...] = get_args(OutOfRange)
    found = next(c for rule in rules if _keeps(backend, dtype, c := replace(found, out_of_range=rule)))
    for room in _rotary(backend):
        backend.conventions = found
        found = room.conventions(backend, dtype)
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pools holds."""
    held = Level.STRICT
    for offer, case in _level_cases():
        if offers(backend, "positions", offer):
            cell = Cell(backend, "positions", dtype, offer=offer)
            case = cell.fit(case)
            inputs = case.inputs(cell.io)
            try:
                got = cell.call(case, inputs)
            except (BackendRaised, Nonconformance):
                return None
            while judge(got, cell.expected(case, inputs, held)).status is Status.FAIL:
                if held is Level.NAIVE:
                    return None
                held = Level(held.value - 1)
    for room in _rotary(backend):
        found: Level | None = room.level(backend, dtype)
        return None if found is None else min(held, found)
    return held


def _level_cases() -> Iterator[tuple[str, Case]]:
    for n, d in enumerate(positions.POOL):
        for recipe in ("edges", "gaps"):
            yield "sinusoidal", SinusoidalCase(**d._asdict(), positions=recipe, seed=n)
    for n, x in enumerate(alibi.POOL):
        for recipe in ("cached", "thousand"):
            yield "alibi", BiasCase(**x._asdict(), positions=recipe, seed=n)


def _holds(backend: Backend, dtype: str, offer: str, case: Case, conventions: Conventions) -> bool:
    """Whether the backend conforms in this case under these conventions, at any level."""
    cell = Cell(backend, "positions", dtype, offer=offer)
    if cell.fit(case) != case:
        return False
    inputs = case.inputs(cell.io)
    try:
        got = cell.call(case, inputs)
    except (BackendRaised, Nonconformance):
        return False
    return judge(got, case.expected(inputs, cell.contract(Level.STORED), conventions)).status is not Status.FAIL


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
