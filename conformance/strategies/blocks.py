"""Block cases: sizes from a small pool, every switch of the configuration, and weights that shut sublayers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.attention import MASKS
from gaugeblock.conformance.recipes.blocks import LAYOUTS, POSITIONS
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.conformance.strategies.compositions import BlockFields, weights_of
from gaugeblock.spec import attention
from gaugeblock.spec import weights as names
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import ACTIVATIONS
from gaugeblock.spec.precision import Format
from gaugeblock.spec.reference import blocks as reference
from gaugeblock.spec.reference.bounded import Bits
from gaugeblock.spec.reference.program import Step

EMPTY = {"B": "empty.batch", "T": "empty.tokens", "S": "empty.context"}


@dataclass(frozen=True, kw_only=True)
class BlockCase(BlockFields):
    """One call of block.

    S is the length of the context where cross is set; positions names a recipe of recipes.blocks, mask and context_mask
    recipes of recipes.attention, "" for none; at is read by the checks that single out a row or a column.
    """

    component: ClassVar[str] = "blocks"
    method: ClassVar[str] = "block"
    positional: ClassVar[tuple[str, ...]] = ("x",)
    shape_clause: ClassVar[str] = "BLOCK-SHAPES"
    dtype_clause: ClassVar[str] = "BLOCK-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M", "H", "K", "D", "E", "F")

    S: int = 1
    positions: str = ""
    mask: str = ""
    context_mask: str = ""
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(LAYOUTS, "layout", self.layout)
        pick(("", *POSITIONS), "positions", self.positions)
        for name in (self.mask, self.context_mask):
            pick(("", *MASKS), "mask", name)

    def inputs(self, io: Format) -> Inputs:
        made = {"x": self.rows("x", (self.B, self.T, self.M), io)}
        if self.cross:
            made["context"] = self.rows("context", (self.B, self.S, self.M), io)
        made |= self.filled(names.block(self.block), io)
        arrays = {name: LAYOUTS[self.layout](x) for name, x in made.items()}
        if self.positions:
            arrays["positions"] = POSITIONS[self.positions](self.B, self.T, self.random("positions"))
        if self.mask:
            arrays["mask"] = self._mask(self.mask, self.T, "mask")
        if self.context_mask and self.cross:
            arrays["context_mask"] = self._mask(self.context_mask, self.S, "context_mask")
        return arrays

    def _mask(self, recipe: str, columns: int, purpose: str) -> Bits:
        d = attention.Dims(self.B, self.H, self.K, self.T, columns, self.D, self.E)
        return MASKS[recipe](d, self.random(purpose))

    def options(self) -> Mapping[str, Any]:
        return {}

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        weights = weights_of(arrays)
        keywords = {name: x for name, x in arrays.items() if name != "x" and name not in weights}
        return [arrays["x"], weights, self.block], keywords

    def program(self, inputs: Inputs) -> Sequence[Step]:
        given = {name: inputs.get(name) for name in ("positions", "mask", "context_mask")}
        return reference.call(self.given(inputs), weights_of(inputs), self.block, **given)

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return inputs["x"].shape, inputs["x"].dtype

    def used(self) -> frozenset[str]:
        uses = {
            "context": self.cross,
            "rms": self.norm == "rms",
            "layer": self.norm == "layer",
            "pre": self.placement == "pre",
            "post": self.placement == "post",
            "gated": self.gated,
            "ungated": not self.gated,
            f"activation.{self.activation}": not self.gated,
            "ffn_bias": self.ffn_bias,
            "ffn_bias.none": not self.ffn_bias,
            "causal": self.causal,
            "bidirectional": not self.causal,
            "mask": bool(self.mask),
            "mask.heads": self.mask == "heads",
            "context_mask": bool(self.context_mask) and self.cross,
            "positions": bool(self.positions),
            "positions.rows": self.positions == "rows",
            "rotary": bool(self.rotary),
            "rotary.interleaved": self.rotary == "interleaved",
            "alibi": self.alibi,
            "window": self.window is not None,
            "scale": self.scale is not None,
            "bias": bool(self.biased),
            "bias.some": 0 < len(self.biased) < 4,
            "bias.none": not self.biased,
            "grouped": self.H != self.K,
            "value_width": self.D != self.E,
            "inner_width": self.M != self.H * self.D,
            "eps.zero": self.eps == 0,
            **{name: getattr(self, size) == 0 for size, name in EMPTY.items()},
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        if feature.startswith("activation."):
            later = ACTIVATIONS[ACTIVATIONS.index(self.activation) + 1 :]
            return replace(self, activation=later[0]) if later else self.without("ungated")
        return replace(self, **self._nearest(feature))

    def _nearest(self, feature: str) -> dict[str, Any]:
        nearest: dict[str, dict[str, Any]] = {
            "context": {"cross": False, "S": 1, "context_mask": ""},
            "rms": {"norm": "layer"},
            "layer": {"norm": "rms"},
            "pre": {"placement": "post"},
            "post": {"placement": "pre"},
            "gated": {"gated": False, "activation": ACTIVATIONS[0]},
            "ungated": {"gated": True, "activation": "silu"},
            "ffn_bias": {"ffn_bias": False},
            "ffn_bias.none": {"ffn_bias": True},
            "causal": {"causal": False},
            "bidirectional": {"causal": True},
            "mask": {"mask": ""},
            "mask.heads": {"mask": "random"},
            "context_mask": {"context_mask": ""},
            "positions": {"positions": ""},
            "positions.rows": {"positions": "gaps"},
            "rotary": {"rotary": ""},
            "rotary.interleaved": {"rotary": "half"},
            "alibi": {"alibi": False},
            "window": {"window": None},
            "scale": {"scale": None},
            "bias": {"bias": ""},
            "bias.some": {"bias": "all"},
            "bias.none": {"bias": "all"},
            "grouped": {"K": self.H},
            "value_width": {"E": self.D},
            "inner_width": {"M": self.H * self.D},
            "eps.zero": {"eps": 1e-5},
        }
        return nearest.get(feature) or {size: 1 for size, name in EMPTY.items() if name == feature}


class Size(NamedTuple):
    """The axes of a block call; S is the length of a context."""

    B: int
    T: int
    S: int
    M: int
    H: int
    K: int
    D: int
    E: int
    F: int


def sizes_of(text: str) -> list[Size]:
    """The sizes in a table, one on each line."""
    return [Size(*map(int, line.split())) for line in text.strip().splitlines()]


# widths of joined heads other than the model's, K other than 1 and H, and lengths other than one another
# B  T  S   M  H  K  D  E  F
SIZES = sizes_of("""
  1  3  2   4  1  1  2  3  5
  2  4  3   6  4  2  2  3  5
  3  2  5   5  2  1  6  4  7
  2  5  4   8  3  3  4  1  6
""")
LARGE = sizes_of("""
  2  7 11  16  8  4  6 10 12
  1  1  5  12  4  2 10  3  6
""")
NO_TOKENS = sizes_of("""
  0  3  2   4  1  1  2  3  5
  2  0  3   6  4  2  2  3  5
""")
NO_CONTEXT = sizes_of("""
  2  4  0   6  4  2  2  3  5
""")

SQUARE = sizes_of("""
  2  4  4   6  4  2  2  3  5
""")
LONG = SIZES[1:2] + SIZES[3:] + SIZES[:1]
BATCHED = SIZES[1:]

# every kind of feed-forward: activation, gated, ffn_bias
NETWORKS = (
    ("silu", True, False),
    ("gelu", False, True),
    ("relu", False, False),
    ("gelu_tanh", False, True),
    ("silu", False, False),
    ("silu", True, True),
)
PLAIN = NETWORKS[:2]
SOME_BIAS = ("", "all", "query+value+output")


def cases(
    draw: Draw,
    *,
    sizes: list[Size] = SIZES,
    norm: tuple[str, ...] = ("rms", "layer"),
    placement: tuple[str, ...] = ("pre", "post"),
    network: tuple[tuple[str, bool, bool], ...] = PLAIN,
    cross: tuple[bool, ...] = (False, True),
    causal: tuple[bool, ...] = (False, True),
    bias: tuple[str, ...] = SOME_BIAS,
    eps: tuple[float, ...] = (1e-5,),
    rotary: tuple[str, ...] = ("",),
    alibi: tuple[bool, ...] = (False,),
    window: tuple[Window | None, ...] = (None,),
    scale: tuple[float | None, ...] = (None,),
    positions: tuple[str, ...] = ("",),
    mask: tuple[str, ...] = ("",),
    context_mask: tuple[str, ...] = ("",),
    x: tuple[str, ...] = ("normal",),
    w: tuple[str, ...] = ("normal",),
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[BlockCase]:
    """Block cases over these sizes, recipes and options; the first of each is the simplest."""

    def build(size: Size, network: tuple[str, bool, bool], **given: Any) -> BlockCase:
        activation, gated, ffn_bias = network
        axes = size._asdict() if given["cross"] else {**size._asdict(), "S": 1}
        return BlockCase(**axes, activation=activation, gated=gated, ffn_bias=ffn_bias, **given)

    given = {name: value for name, value in locals().items() if name not in ("draw", "sizes", "build")}
    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE if sizes is SIZES else [])),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
        **{name: st.sampled_from(choices) for name, choices in given.items()},
    )
