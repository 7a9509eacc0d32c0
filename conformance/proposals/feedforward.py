"""What a backend's activations and networks show of themselves, by the bound of each level."""

from collections.abc import Iterator

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.probing import lacking, tightest
from gaugeblock.conformance.refusals.feedforward import using_activation, using_network
from gaugeblock.conformance.strategies.activations import EVERY, GELU, GELU_TANH, RELU, SILU, ActivationCase
from gaugeblock.conformance.strategies.feedforward import NETWORKS, FeedForwardCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.feedforward import ACTIVATIONS
from gaugeblock.spec.precision import Level

CONVENTIONS: tuple[str, ...] = ()
USING = {"activations": using_activation, "feed_forward": using_network}


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Activations and networks know no conventions: what is declared stays."""
    return backend.conventions


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    for offer, using in USING.items():
        if not offers(backend, "feedforward", offer):
            continue
        cell = Cell(backend, "feedforward", dtype, offer=offer)
        for name in (n.removeprefix(f"{offer}.") for n in FEATURES if n.startswith(f"{offer}.")):
            backend.unsupported = {**backend.unsupported, **found}
            error = lacking(cell, using(cell, name), name)
            if error:
                found[f"{offer}.{name}"] = error
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case holds."""
    held = Level.STRICT
    for offer in USING:
        if not offers(backend, "feedforward", offer):
            continue
        found = tightest(Cell(backend, "feedforward", dtype, offer=offer), _cases(offer), held)
        if found is None:
            return None
        held = found
    return held


def _cases(offer: str) -> Iterator[Case]:
    if offer == "activations":
        for function, approximate in (RELU, GELU, GELU_TANH, SILU):
            yield ActivationCase(function=function, approximate=approximate, x=EVERY)
        return
    for size in NETWORKS:
        for seed, w in enumerate(("normal", "positive", "steep")):
            for activation in ACTIVATIONS:
                yield FeedForwardCase(**size._asdict(), activation=activation, w=w, bias="all", seed=seed)
            yield FeedForwardCase(**size._asdict(), gated=True, w=w, bias="all", seed=seed)
