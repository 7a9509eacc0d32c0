"""What a backend's encoders and decoders show of themselves: features that raise, and the level that holds."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.compositions import steps_hold, traced
from gaugeblock.conformance.proposals.probing import known, lacking
from gaugeblock.conformance.refusals.model import DECODER, ENCODER, using
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level
from gaugeblock.spec.traced import Traced

CONVENTIONS: tuple[str, ...] = ()
BIASED: dict[str, Any] = {"bias": "all", "ffn_bias": True}
# families of models, one of which a backend of one family will know
FAMILIES: Mapping[str, tuple[ModelCase, ...]] = {
    "encoder": (
        ENCODER,
        replace(ENCODER, **BIASED, placement="post", no_final_norm=True, embedding_norm=True),
        replace(ENCODER, **BIASED, vectors=True, positions="sinusoidal"),
    ),
    "decoder": (
        DECODER,
        replace(DECODER, rotary="", positions="learned", norm="layer", gated=False, activation="gelu", tied=True),
        replace(DECODER, rotary="", **BIASED, positions="learned", norm="layer", gated=False, activation="gelu_tanh"),
        replace(DECODER, rotary="", **BIASED, kind="both", positions="learned", norm="layer", gated=False),
    ),
}
SEEDS = range(4)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"positions": "sinusoidal", "embedding_norm": True},
    {"placement": "post", "bias": "all", "embedding_scale": 2.3},
)


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Models know no conventions: what is declared stays."""
    return backend.conventions


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature of whole sequences that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        cell = Cell(backend, "model", dtype, offer=offer)
        base = known(cell, FAMILIES[offer])
        for name in (n.removeprefix(f"{offer}.") for n in FEATURES if n.startswith(f"{offer}.")):
            backend.unsupported = {**backend.unsupported, **found}
            case = using(cell, name, base)
            error = lacking(cell, case, name) if name in case.used() else ""
            if error:
                found[f"{offer}.{name}"] = error
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case holds, by its steps where they are shown, else by its result."""
    held = Level.STRICT
    for offer in _offered(backend):
        cell = Cell(backend, "model", dtype, offer=offer)
        for case in map(cell.fit, _cases(known(cell, FAMILIES[offer]))):
            while not _holds(cell, case, held):
                if held is Level.NAIVE:
                    return None
                held = Level(held.value - 1)
    return held


def _holds(cell: Cell, case: ModelCase, at: Level) -> bool:
    cell.level = at
    inputs = case.inputs(cell.io)
    try:
        if isinstance(cell.backend, Traced):
            result, taps = traced(cell, case, inputs)
            steps_hold(cell, case, inputs, {**taps, case.program(inputs)[-1].name: result})
            return True
        return judge(cell.call(case, inputs), cell.expected(case, inputs)).status is not Status.FAIL
    except (BackendRaised, Nonconformance):
        return False


def _cases(base: ModelCase) -> Iterator[ModelCase]:
    for seed in SEEDS:
        for features in OPTIONS:
            yield replace(base, seed=seed, **features)


def _offered(backend: Backend) -> list[str]:
    return [offer for offer in FAMILIES if offers(backend, "model", offer)]
