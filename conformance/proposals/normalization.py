"""What a backend's normalizations show of themselves: forms by probes, levels by the bound of each."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.refusals.normalization import BASES, using
from gaugeblock.conformance.strategies.normalization import POOL, NormCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level
from gaugeblock.spec.reference.bounded import Expected

CONVENTIONS = ("layer_norm_form", "rms_weight")
SIBLINGS = {"layer_norm": ("layer_norm_form", "sample_eps_outside"), "rms_norm": ("rms_weight", "1+w")}


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature whose call raises, with the error's first line."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        for name in (n for n in FEATURES if n.startswith(f"{offer}.")):
            cell = Cell(backend, "normalization", dtype, offer=offer)
            try:
                cell.call(using(cell, name.removeprefix(f"{offer}.")))
            except BackendRaised as raised:
                found[name] = f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
            except Nonconformance:
                continue
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """The form of LayerNorm and the meaning of RMSNorm's weight, in addition to what other components have shown."""
    found = backend.conventions
    for offer in _offered(backend):
        name, other = SIBLINGS[offer]
        changed: dict[str, Any] = {name: other}
        sibling = replace(found, **changed)
        case = replace(BASES[offer], M=4)
        if not _holds(backend, dtype, offer, case, found) and _holds(backend, dtype, offer, case, sibling):
            found = sibling
    return found


def _holds(backend: Backend, dtype: str, offer: str, case: NormCase, conventions: Conventions) -> bool:
    """Whether the backend conforms in this case under these conventions, at any level."""
    cell = Cell(backend, "normalization", dtype, offer=offer)
    inputs = case.inputs(cell.io)
    try:
        got = cell.call(case, inputs)
    except (BackendRaised, Nonconformance):
        return False
    return _within(got, case.expected(inputs, cell.contract(Level.STORED), conventions))


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    held = Level.STRICT
    for offer in _offered(backend):
        cell = Cell(backend, "normalization", dtype, offer=offer)
        for case in map(cell.fit, _level_cases(offer)):
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


def _offered(backend: Backend) -> list[str]:
    return [offer for offer in BASES if offers(backend, "normalization", offer)]


def _level_cases(offer: str) -> Iterator[NormCase]:
    for size in POOL:
        for seed, x in enumerate(("normal", "scaled", "outlier", "heavy")):
            case = replace(BASES[offer], **size._asdict(), x=x, seed=seed)
            yield from (case, replace(case, weight="one"))


def _within(got: Numpy, expected: Expected) -> bool:
    return judge(got, expected).status is not Status.FAIL
