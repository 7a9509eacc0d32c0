"""Cases of multi-head attention: sizes from a small pool, configurations, and recipes for weights, masks, positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.feedforward import LAYOUTS
from gaugeblock.conformance.recipes.multihead import BY_HEAD, MASKS, POSITIONS, ROWS, Span, mask
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.conformance.strategies.compositions import AttentionFields, weights_of
from gaugeblock.spec import weights
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.multihead import Dims
from gaugeblock.spec.precision import Format
from gaugeblock.spec.reference.multihead import call
from gaugeblock.spec.reference.program import Step


@dataclass(frozen=True, kw_only=True)
class MultiHeadCase(AttentionFields):
    """One call of multi_head_attention; S is read where there is a context.

    mask, positions and layout name recipes; at and poison are read by the checks that single out a row or a head.
    """

    component: ClassVar[str] = "multihead"
    method: ClassVar[str] = "multi_head_attention"
    positional: ClassVar[tuple[str, ...]] = ("x",)
    shape_clause: ClassVar[str] = "MHA-SHAPES"
    dtype_clause: ClassVar[str] = "MHA-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M", "H", "K", "D", "E")

    context: bool = False
    S: int = 1
    mask: str = ""
    positions: str = ""
    causal: bool = False
    layout: str = ""
    at: int = 0
    poison: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(("", *MASKS), "mask", self.mask)
        pick(("", *POSITIONS), "positions", self.positions)
        pick(LAYOUTS, "layout", self.layout)
        if self.context and (self.rotary or self.alibi or self.window is not None or self.causal):
            raise ConfigError(f"case: with a context there is no rotary, alibi, window or causal [{self.dims}]")

    @property
    def dims(self) -> Dims:
        return Dims(self.B, self.T, self.S if self.context else self.T, self.M, self.H, self.K, self.D, self.E)

    @property
    def config(self) -> AttentionConfig:
        return self.attention

    def inputs(self, io: Format) -> Inputs:
        d = self.dims
        made: dict[str, Any] = {"x": self.rows("x", (d.B, d.T, d.M), io)}
        if self.context:
            made["context"] = self.rows("context", (d.B, d.S, d.M), io)
        made |= self.filled(weights.attention(self.config), io)
        if self.positions:
            made["positions"] = POSITIONS[self.positions](Span(d.B, d.T), self.random("positions"))
        if self.mask:
            made["mask"] = mask(self.mask, d, self.random("mask"))
        return {name: self.laid_out(x) for name, x in made.items()}

    def laid_out(self, x: Any) -> Any:
        """An array in the case's memory layout."""
        return LAYOUTS[self.layout](x)

    def options(self) -> Mapping[str, Any]:
        return {"causal": True} if self.causal else {}

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        keywords = {name: arrays[name] for name in ("context", "positions", "mask") if name in arrays}
        return [arrays["x"], weights_of(arrays), self.config], {**keywords, **self.options()}

    def program(self, inputs: Inputs) -> Sequence[Step]:
        (_, held, config), keywords = self.arguments(inputs)
        keywords.pop("context", None)
        return call(self.given(inputs), held, config, **keywords)

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return inputs["x"].shape, inputs["x"].dtype

    def used(self) -> frozenset[str]:
        d, biases = self.dims, len(self.biased)
        uses = {
            "context": self.context,
            "rectangular": d.T != d.S,
            "rotary": bool(self.rotary),
            "rotary.interleaved": self.rotary == "interleaved",
            "rotary.partial": bool(self.rotary) and self.rotary_dim not in (None, self.D),
            "rotary.scaling": bool(self.rotary and self.scaling),
            "alibi": self.alibi,
            "alibi.heads": self.alibi and bool(self.H & (self.H - 1)),
            "window": self.window is not None,
            "causal": self.causal,
            "mask": bool(self.mask),
            "mask.heads": self.mask in BY_HEAD,
            "positions": bool(self.positions),
            "positions.rows": self.positions in ROWS,
            "bias": biases > 0,
            "bias.some": 0 < biases < 4,
            "bias.none": not biases,
            "grouped": self.H != self.K,
            "value_width": self.D != self.E,
            "inner_width": self.M != self.H * self.D,
            "scale": self.scale is not None,
            "empty.batch": d.B == 0,
            "empty.queries": d.T == 0,
            "empty.keys": d.S == 0 and self.context,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "context": {"context": False},
            "rectangular": {"S": self.T} if self.T else {"context": False},
            "rotary": {"rotary": ""},
            "rotary.interleaved": {"rotary": "half"},
            "rotary.partial": {"rotary_dim": None},
            "rotary.scaling": {"scaling": ""},
            "alibi": {"alibi": False},
            "alibi.heads": {"H": 4, "K": 4 if self.K == self.H else 1},
            "window": {"window": None},
            "causal": {"causal": False},
            "mask": {"mask": ""},
            "mask.heads": {"mask": "random"},
            "positions": {"positions": ""},
            "positions.rows": {"positions": "near-gaps"},
            "bias": {"bias": ""},
            "bias.some": {"bias": "all"},
            "bias.none": {"bias": "all"},
            "grouped": {"K": self.H},
            "value_width": {"E": self.D},
            "inner_width": {"M": self.H * self.D},
            "scale": {"scale": None},
            "empty.batch": {"B": 1},
            "empty.queries": {"T": 1},
            "empty.keys": {"S": 1},
        }
        return replace(self, **nearest[feature.split("+")[-1]])


class Size(NamedTuple):
    """The sizes of a case; S is 0 for attention of a sequence on itself."""

    B: int
    T: int
    S: int
    M: int
    H: int
    K: int
    D: int
    E: int

    @property
    def fields(self) -> dict[str, Any]:
        """As a case has them; a context of no tokens is written as -1."""
        sizes: dict[str, Any] = {name: n for name, n in self._asdict().items() if name != "S"}
        return {**sizes, "context": True, "S": max(self.S, 0)} if self.S else sizes


def sizes_of(text: str) -> list[Size]:
    """The sizes in a table, one on each line."""
    return [Size(*map(int, line.split())) for line in text.strip().splitlines()]


# No two sizes alike where it can be, H not K squared; the third has square weights, in which a transposed one fits.
# B  T  S  M  H  K  D  E
POOL = sizes_of("""
  1  1  0  1  1  1  2  1
  1  3  0  5  2  1  4  6
  2  4  0  8  2  2  4  4
  2  5  0  7  6  3  4  2
  3  4  0  9  6  2  2  5
  2  7  0 12  4  1  6  3
""")
CROSS = sizes_of("""
  1  2  1  3  1  1  2  1
  2  3  5  7  6  3  4  2
  3  5  4  8  2  2  4  4
  2  1  6  9  6  2  2  5
  1  3  3  5  2  1  4  6
""")
LARGE = sizes_of("""
  2 17  0 16  8  2  8  5
  1 33  0 16  4  4  4  4
  4  9  0 15  9  3  6  7
""")
FAR = sizes_of("""
  1 17  0  4  2  1  2  3
  1 33  0  3  1  1  2  2
""")
LONG = POOL[1:]
BOTH = [POOL[2], CROSS[1], POOL[3], POOL[1], CROSS[2], POOL[4], POOL[5], CROSS[3], CROSS[4]]
EVERY = [POOL[2], POOL[3], CROSS[1], CROSS[2], POOL[0]]
SQUARE = [POOL[2], CROSS[2], POOL[1]]
GROUPED = [size for size in BOTH if size.H != size.K]
FREE = [size for size in BOTH if size.D != size.E and size.M != size.H * size.D]
NO_BATCH, NO_QUERIES, NO_KEYS, NO_CROSS_QUERIES = sizes_of("""
  0  3  0  5  2  1  4  6
  2  0  0  5  2  1  4  6
  2  3 -1  7  6  3  4  2
  2  0  5  7  6  3  4  2
""")

SOME_BIASES = ("query+value+output", "query+key+value", "output", "key", "query", "value")
ROTARY = ("half", "interleaved")

# recipes of x and of the weights; with the first even a result in bfloat16 has a bound that tells something
ANY = (("positive", "positive"), ("normal", "normal"), ("normal", "peaked"), ("scaled", "even"))
EXACT = (("integers", "integers"),)


def cases(
    draw: Draw,
    *,
    sizes: list[Size] = POOL,
    large: bool = False,
    filled: tuple[tuple[str, str], ...] = ANY,
    **chosen: tuple[Any, ...],
) -> st.SearchStrategy[MultiHeadCase]:
    """Cases over these sizes and options, the first of each the simplest; large admits the large sizes at that.

    A quick run takes three sizes, which most of the lists begin with: a compiler is as slow as its shapes are many.
    """

    def build(size: Size, filled: tuple[str, str], **fields: Any) -> MultiHeadCase:
        return MultiHeadCase(**size.fields, x=filled[0], w=filled[1], **fields)

    return st.builds(
        build,
        st.sampled_from(sizes[:3] if draw.profile == "quick" else draw.pool(sizes, LARGE if large else [])),
        st.sampled_from(filled),
        at=st.sampled_from(range(256)),
        seed=st.integers(0, 2**16 - 1),
        **{name: st.sampled_from(values) for name, values in chosen.items()},
    )
