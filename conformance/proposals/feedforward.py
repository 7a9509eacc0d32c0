"""What a backend's activations and networks show of themselves, by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.probing import known, lacking, tightest
from gaugeblock.conformance.refusals.feedforward import NETWORK, using_activation, using_network
from gaugeblock.conformance.strategies.activations import EVERY, GELU, GELU_TANH, RELU, SILU, ActivationCase
from gaugeblock.conformance.strategies.feedforward import NETWORKS, FeedForwardCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.feedforward import ACTIVATIONS
from gaugeblock.spec.precision import Level

CONVENTIONS: tuple[str, ...] = ()
NETWORKS_OF = tuple(  # one of which a backend that knows networks will know
    replace(NETWORK, bias=bias, gated=gated, activation=activation)
    for gated, activation in ((False, "relu"), (False, "gelu"), (False, "gelu_tanh"), (False, "silu"), (True, "silu"))
    for bias in ("", "all")
)


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Activations and networks know no conventions: what is declared stays."""
    return backend.conventions


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    for offer in _offered(backend):
        cell = Cell(backend, "feedforward", dtype, offer=offer)
        base = known(cell, NETWORKS_OF) if offer == "feed_forward" else None
        for name in (n.removeprefix(f"{offer}.") for n in FEATURES if n.startswith(f"{offer}.")):
            backend.unsupported = {**backend.unsupported, **found}
            error = lacking(cell, using_network(cell, name, base) if base else using_activation(cell, name), name)
            if error:
                found[f"{offer}.{name}"] = error
    return found


def _offered(backend: Backend) -> list[str]:
    return [offer for offer in ("activations", "feed_forward") if offers(backend, "feedforward", offer)]


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case holds."""
    held = Level.STRICT
    for offer in _offered(backend):
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
