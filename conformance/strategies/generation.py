"""Cases of generation: a prompt, how far to go, and designs whose answer is known to the last id."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.conformance.strategies.decoding import SHAPES, SWITCHES, Shape
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Format

DESIGNS = ("", "chain", "twins", "ties", "close")
CHAINED = {"chain": 1, "twins": 2}  # how many ids follow on each


@dataclass(frozen=True, kw_only=True)
class GenerateCase(ModelCase):
    """One call of generate.

    design is "" for weights as they come; chain, in which every id has one successor (the sublayers give nothing, the
    embedding is a multiple of the unit matrix, larger than what positions add, no norm changes which element is the
    largest, the head is a permutation); twins, in which two ids follow with one logit, but for the last of an odd
    number; ties, in which the logits are a bias that holds its largest number twice; or close, in which the lower of
    the two ids has a little less. eos and pad are ids modulo the vocabulary.
    """

    method: ClassVar[str] = "generate"

    new: int = 1
    eos: int | None = None
    pad: int | None = None
    uncached: bool = False
    design: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(DESIGNS, "design", self.design)
        if self.encodes or (self.pad is not None and self.eos is None) or self.pads == "row":
            raise ConfigError(f"case: only decoders generate, a pad needs an eos, every row a token [{self}]")
        if self.design in CHAINED and (self.M < self.V or self.w != "closed_plain" or self.tied):
            raise ConfigError(f"case: {self.design} needs M >= V, w=closed_plain and no tied head [{self}]")
        if self.design in ("ties", "close") and not self.head_bias:
            raise ConfigError(f"case: {self.design} needs a head_bias [{self}]")

    @property
    def eos_id(self) -> int | None:
        return None if self.eos is None else self.eos % self.V

    @property
    def pad_id(self) -> int | None:
        return None if self.pad is None else self.pad % self.V

    @property
    def followers(self) -> Mapping[int, Numpy]:
        """The ids that follow each id of a chain, all with one logit: a cycle of all ids, or of all twins."""
        order, size = self.random("chain").permutation(self.V), CHAINED[self.design]
        groups = [order[n : n + size] for n in range(0, self.V, size)]
        return {int(i): groups[(n + 1) % len(groups)] for n, group in enumerate(groups) for i in group}

    @property
    def successor(self) -> Mapping[int, int]:
        """The one successor of each id of a chain: the lowest of its followers."""
        return {i: int(np.min(after)) for i, after in self.followers.items()}

    def inputs(self, io: Format) -> Inputs:
        made = dict(super().inputs(io))
        if self.design in CHAINED:
            unit = np.zeros((self.V, self.M))
            unit[np.arange(self.V), np.arange(self.V)] = 8
            head = np.zeros((self.M, self.V))
            for i, after in self.followers.items():
                head[i, after] = 1
            made |= {"decoder.embedding.weight": unit.astype(io.dtype), "head.weight": head.astype(io.dtype)}
            if "decoder.positions.weight" in made:  # where no other positions are offered; sinusoids are no larger
                small = np.clip(made["decoder.positions.weight"], -1, 1)
                made["decoder.positions.weight"] = small.astype(io.dtype)  # NumPy clips bfloat16 into float32
        if self.design in ("ties", "close"):
            made["head.bias"] = self.scores(io).astype(io.dtype)
            name = "decoder.embedding.weight" if self.tied else "head.weight"
            made[name] = np.zeros_like(made[name])
        return made

    def scores(self, io: Format) -> Numpy:
        """Small integers, the largest of which stands in two places, or nearly so in the first of them."""
        bias = self.random("ties").integers(-8, 8, size=self.V).astype(np.float64)
        places = self.random("places").permutation(self.V)[:2]
        bias[places] = 8
        if self.design == "close":
            bias[min(places)] -= 8 * io.u**0.5  # more than both bounds, and lost where half of the digits are
        return bias

    def options(self) -> Mapping[str, Any]:
        given = {"eos_id": self.eos_id, "pad_id": self.pad_id, "use_cache": False if self.uncached else None}
        told = {name: value for name, value in given.items() if value is not None}
        return {"max_new_tokens": self.new, **told}

    @property
    def called(self) -> str:
        return "generate"

    def used(self) -> frozenset[str]:
        uses = {
            "generate": True,
            "generate.eos": self.eos is not None,
            "generate.pad": self.pad is not None,
            "generate.uncached": self.uncached,
        }
        return super().used() | {name for name, used in uses.items() if used}

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "generate.eos": {"eos": None, "pad": None},
            "generate.pad": {"pad": None},
            "generate.uncached": {"uncached": False},
        }
        return replace(self, **nearest[feature]) if feature in nearest else super().without(feature)


# the chain's embedding is a multiple of the unit matrix, so M is at least V
CHAINS = (
    Shape(2, 8, 4, 2, 6, 3, 5, 7, 2),
    Shape(3, 6, 2, 1, 4, 5, 7, 5, 1),
)
NO_LAYERS = tuple(shape._replace(L=0) for shape in CHAINS[:1])
PLAIN: tuple[dict[str, Any], ...] = (
    {"no_final_norm": True},
    {"rotary": "half", "no_final_norm": True},
    {"alibi": True, "window": (2, 0), "placement": "post", "norm": "layer"},
    {"rotary": "half", "embedding_norm": True},
)


def chains(
    draw: Draw,
    *,
    shapes: tuple[Shape, ...] = CHAINS,
    new: tuple[int, ...] = (3, 1, 7, 0, 9),
    pads: tuple[str, ...] = ("", "right", "left", "middle"),
    eos: tuple[int | None, ...] = (None,),
    pad: tuple[int | None, ...] = (None,),
    uncached: tuple[bool, ...] = (False, True),
    design: str = "chain",
) -> st.SearchStrategy[GenerateCase]:
    """Prompts to a model in which every id has one successor, or two that are as likely as one another."""

    def build(shape: Shape, switch: dict[str, Any], **given: Any) -> GenerateCase:
        sizes = {**shape._asdict(), **switch, **given}
        if sizes["eos"] is None:
            sizes["pad"] = None
        return GenerateCase(**sizes, w="closed_plain", design=design, activation="silu")

    return st.builds(
        build,
        st.sampled_from(shapes),
        st.sampled_from(PLAIN),
        new=st.sampled_from(new),
        pads=st.sampled_from(pads),
        eos=st.sampled_from(eos),
        pad=st.sampled_from(pad),
        uncached=st.sampled_from(uncached),
        T=st.sampled_from((3, 4)),
        seed=st.integers(0, 2**16 - 1),
    )


def cases(
    draw: Draw,
    *,
    shapes: tuple[Shape, ...] = SHAPES[1:],
    switches: tuple[dict[str, Any], ...] = SWITCHES,
    new: tuple[int, ...] = (3, 4, 0, 1),
    pads: tuple[str, ...] = ("", "right", "left", "ragged"),
    uncached: tuple[bool, ...] = (False, True),
    T: tuple[int, ...] = (3, 4),
    **given: Any,
) -> st.SearchStrategy[GenerateCase]:
    """Prompts to models of every kind."""

    def build(shape: Shape, switch: dict[str, Any], **drawn: Any) -> GenerateCase:
        return GenerateCase(**{**shape._asdict(), "activation": "silu", **switch, **drawn, **given})

    return st.builds(
        build,
        st.sampled_from(shapes),
        st.sampled_from(switches),
        new=st.sampled_from(new),
        pads=st.sampled_from(pads),
        uncached=st.sampled_from(uncached),
        T=st.sampled_from(T),
        seed=st.integers(0, 2**16 - 1),
    )


def ties(draw: Draw, *, design: str = "ties") -> st.SearchStrategy[GenerateCase]:
    """Prompts to a model whose logits are one bias with its largest number in two places, or nearly so."""
    switches = tuple({**s, "head_bias": True} for s in SWITCHES if s.get("kind") != "both")
    return cases(draw, switches=switches, design=design)
