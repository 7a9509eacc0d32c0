"""Declarations of what a backend lacks, drawn so that they leave it something to offer."""

from collections.abc import Mapping
from random import Random

from gaugeblock.spec.config import ACTIVATIONS
from gaugeblock.spec.features import FEATURES

PLAIN = frozenset(f"activation.{name}" for name in ACTIVATIONS)
SCHEMES = frozenset({"positionless", "learned", "sinusoidal", "rotary", "alibi"})
EITHER = tuple(map(frozenset, (("pre", "post"), ("rms", "layer"))))
NONE = ("final_norm", "embedding_norm", "bias", "feed_forward.bias")
STACK = (*EITHER, frozenset({"gated", "plain"}), SCHEMES, *(frozenset({name, f"{name}.none"}) for name in NONE))
# of each of these an implementation offers at least one
CHOICES: Mapping[str, tuple[frozenset[str], ...]] = {
    "encoder": (*STACK, frozenset({"ids", "vectors"})),
    "decoder": (*STACK, frozenset({"tied", "untied"})),
    "multihead": (frozenset({"bias", "bias.none"}),),
    "block": (
        *EITHER,
        *(frozenset({name, f"{name}.none"}) for name in ("bias", "ffn_bias")),
        frozenset({"gated", "ungated"}),
        frozenset({"causal", "bidirectional"}),
    ),
    "rotary": (frozenset({"half", "interleaved"}), frozenset({"half", "layout"})),
    "feed_forward": (
        frozenset({"plain", "swiglu"}),
        PLAIN,
        *(frozenset({f"{gate}bias", f"{gate}bias.none"}) for gate in ("", "swiglu.")),
    ),
}
GATES = {"encoder": "gated", "decoder": "gated", "block": "gated"}


def of(offer: str) -> list[str]:
    """The features of an interface, without its name."""
    return [name.removeprefix(f"{offer}.") for name in FEATURES if name.startswith(f"{offer}.")]


def lacking(offer: str, random: Random) -> frozenset[str]:
    """Few or most features of an interface, one of every choice left."""
    while True:
        share = random.choice((0.15, 0.5, 0.8, 0.95))
        lacks = {name for name in of(offer) if random.random() < share}
        for choice in CHOICES.get(offer, ()):
            if choice <= lacks:
                lacks.discard(random.choice(sorted(choice)))
        if offer == "rotary" and "layout" in lacks:
            lacks.add("interleaved")
        if _offers_something(offer, lacks):
            return frozenset(lacks)


def _offers_something(offer: str, lacks: set[str]) -> bool:
    gate = GATES.get(offer)
    no_network = gate in lacks and lacks >= PLAIN
    return not no_network and not any(choice <= lacks for choice in CHOICES.get(offer, ()))
