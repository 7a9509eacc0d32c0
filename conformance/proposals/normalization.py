"""What a backend's normalizations show of themselves: forms by probes, levels by the bound of each."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.probing import fits, lacking, tightest
from gaugeblock.conformance.refusals.normalization import BASES, using
from gaugeblock.conformance.strategies.normalization import POOL, NormCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("layer_norm_form", "rms_weight")
SIBLINGS = {"layer_norm": ("layer_norm_form", "sample_eps_outside"), "rms_norm": ("rms_weight", "1+w")}


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        for name in (n for n in FEATURES if n.startswith(f"{offer}.")):
            cell = Cell(backend, "normalization", dtype, offer=offer)
            feature = name.removeprefix(f"{offer}.")
            error = lacking(cell, using(cell, feature), feature)
            if error:
                found[name] = error
    return found


def conventions(backend: Backend, dtype: str) -> Conventions:
    """The form of LayerNorm and the meaning of RMSNorm's weight, in addition to what other components have shown."""
    found = backend.conventions
    for offer in _offered(backend):
        name, other = SIBLINGS[offer]
        changed: dict[str, Any] = {name: other}
        sibling = replace(found, **changed)
        cell = Cell(backend, "normalization", dtype, offer=offer)
        case = cell.fit(replace(BASES[offer], M=4))
        found = next((c for c in (found, sibling) if fits(cell, case, c)), found)
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case of the pool holds."""
    held = Level.STRICT
    for offer in _offered(backend):
        found = tightest(Cell(backend, "normalization", dtype, offer=offer), _level_cases(offer), held)
        if found is None:
            return None
        held = found
    return held


def _offered(backend: Backend) -> list[str]:
    return [offer for offer in BASES if offers(backend, "normalization", offer)]


def _level_cases(offer: str) -> Iterator[NormCase]:
    for size in POOL:
        for seed, x in enumerate(("normal", "scaled", "outlier", "heavy")):
            case = replace(BASES[offer], **size._asdict(), x=x, seed=seed)
            yield from (case, replace(case, weight="one"))
