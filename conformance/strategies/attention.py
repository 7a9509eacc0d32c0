"""Attention cases: sizes from a small pool, options, and recipes that are blind to as little as possible."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.attention import BIASES, LAYOUTS, MASKS, QUERIES_KEYS, VALUES
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.spec.attention import Dims, Window, cap, options
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Contract, Format
from gaugeblock.spec.reference import attention as reference
from gaugeblock.spec.reference.bounded import Expected

MOST_QUERIES = 64  # to be given to many keys; their scores would fill the memory


@dataclass(frozen=True, kw_only=True)
class AttentionCase(Case):
    """One call of attention.

    qk, v, mask, bias and layout name recipes; at and poison are read by the checks that single out a key or a row.
    """

    component: ClassVar[str] = "attention"
    method: ClassVar[str] = "attention"
    positional: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    shape_clause: ClassVar[str] = "ATTN-SHAPES"
    dtype_clause: ClassVar[str] = "ATTN-DTYPE"
    empty_row_clause: ClassVar[str] = "ATTN-EMPTY-ROW"
    sizes: ClassVar[tuple[str, ...]] = ("B", "H", "K", "T", "S", "D", "E")

    B: int = 1
    H: int = 1
    K: int = 1
    T: int = 1
    S: int = 1
    D: int = 1
    E: int = 1
    qk: str = "normal"
    v: str = "normal"
    mask: str = ""
    bias: str = ""
    causal: bool = False
    window: Window | None = None
    scale: float | None = None
    softcap: float | None = None
    layout: str = ""
    at: int = 0
    poison: float = 0.0

    def __post_init__(self) -> None:
        pick(QUERIES_KEYS, "qk", self.qk)
        pick(VALUES, "v", self.v)
        for recipes, name in ((MASKS, "mask"), (BIASES, "bias"), (LAYOUTS, "layout")):
            if getattr(self, name):
                pick(recipes, name, getattr(self, name))
        options(self.window, self.scale)
        if self.softcap is not None:
            cap(self.softcap)
        if self.D < 1 or self.K < 1 or self.H % self.K:
            raise ConfigError(f"case: D and K must be at least 1, and H a multiple of K [{self.dims}]")

    @property
    def dims(self) -> Dims:
        return Dims(self.B, self.H, self.K, self.T, self.S, self.D, self.E)

    @property
    def called(self) -> str:
        return "attention" if self.softcap is None else "soft_capped_attention"

    @property
    def scaled_by(self) -> float:
        return 1 / sqrt(self.D) if self.scale is None else self.scale

    def inputs(self, io: Format) -> Inputs:
        d = self.dims
        q, k = QUERIES_KEYS[self.qk](d, self.random("qk"))
        made = {"q": q, "k": k, "v": VALUES[self.v](d, self.random("v"))}
        if self.bias:
            made["bias"] = BIASES[self.bias](d, self.random("bias"))
        arrays = {name: x.astype(io.dtype) for name, x in made.items()}
        if self.mask:
            arrays["mask"] = MASKS[self.mask](d, self.random("mask"))
        return {name: self.laid_out(x) for name, x in arrays.items()}

    def laid_out(self, x: Numpy) -> Numpy:
        """An array in the case's memory layout."""
        return LAYOUTS[self.layout](x)

    def options(self) -> Mapping[str, Any]:
        given = {"causal": self.causal or None, "window": self.window, "scale": self.scale}
        given["softcap"] = self.softcap
        return {name: value for name, value in given.items() if value is not None}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        given: dict[str, Any] = {**inputs, **self.options()}
        return reference.attention(**given, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        uses = {
            "mask": bool(self.mask),
            "mask.heads": self.mask == "heads",
            "bias": bool(self.bias),
            "bias.infinite": self.bias in ("infinite", "hide"),
            "causal": self.causal,
            "window": self.window is not None,
            "scale": self.scale is not None,
            "scale.nonpositive": self.scale is not None and self.scale <= 0,
            "rectangular": self.T != self.S,
            "grouped": self.H != self.K,
            "value_width": self.D != self.E,
            "empty.batch": self.B == 0,
            "empty.queries": self.T == 0,
            "empty.keys": self.S == 0,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "mask": {"mask": ""},
            "mask.heads": {"mask": "random"},
            "bias": {"bias": ""},
            "bias.infinite": {"bias": "normal"},
            "causal": {"causal": False},
            "window": {"window": None},
            "scale": {"scale": None},
            "scale.nonpositive": {"scale": abs(self.scale or 0.5)},
            "rectangular": {"T": self.S} if 0 < self.S <= MOST_QUERIES else {"S": self.T},
            "grouped": {"K": self.H},
            "value_width": {"E": self.D},
            "empty.batch": {"B": 1},
            "empty.queries": {"T": 1},
            "empty.keys": {"S": 1},
        }
        return replace(self, **nearest[feature.split("+")[-1]])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return (self.B, self.H, self.T, self.E), inputs["q"].dtype

    def size(self, inputs: Inputs) -> float:
        return float(np.max(np.abs(inputs["v"].astype(np.float64)), initial=0.0))


def _sizes(text: str) -> list[Dims]:
    return [Dims(*map(int, line.split())) for line in text.strip().splitlines()]


# Every size differs from every other where it can, H is not K squared, lengths stand beside multiples of 16, 32, 64;
# and D = E in every second line, since fused kernels serve nothing else.
# B  H  K  T  S  D  E
POOL = _sizes("""
  1  1  1  1  1  1  1
  1  2  1  3  3  2  2
  2  6  3  5  7  4 10
  2  6  1  9  9  4  4
  2  6  2  7  5  8  3
  2  4  2  1 33 16 16
  2  3  3  6  6  5  2
  2  4  2  3  5  4  4
  1  2  2 17 65 16 16
  3  4  4  2 16  7  5
""")
TAILS = _sizes("""
  1  6  2  1   31 4  4
  1  6  2  1   64 4  3
  1  6  3  5  129 8  8
  1  2  1 33  127 2  4
  1  6  2  1 1025 4  4
""")
FAR = _sizes("""
  1  1  1  1 32769 8 8
""")
LARGE = _sizes("""
  1  2  2 64  63  80  64
  1  3  1 16 257 128  16
  1  4  2 31  32  16 130
  1  2  1  2 128 256   3
  1  2  2 65 255   2   1
  1  1  1  3 1024 16   2
""")
POLYTOPES = _sizes("""
  1  2  1  2  4  2  2
  1  2  2  1  6  3  4
  2  6  2  3 16  8  5
  1  6  3  1 32 16 16
""")
SINGLE = _sizes("""
  1  1  1  1  1  1  1
  2  4  2  1  1  3  2
  1  2  1  5  1  2  3
  1  2  2  1  6  1  2
  2  3  1  4  3  1  1
""")
NO_BATCH, NO_QUERIES, NO_KEYS = _sizes("""
  0  4  2  3  5  4  2
  2  4  2  0  5  4  2
  2  4  2  3  0  4  2
""")
TALL = _sizes("""
  1  1  1  2  1  1  1
  2  6  2  7  5  8  3
  1  6  3  9  2  4  5
""")
SQUARE = [d for d in POOL if d.T == d.S > 1]
WIDE = [d for d in POOL if d.S > 1]
GROUPED = [d for d in POOL if d.H != d.K]
BATCHED = [d for d in POOL if d.B > 1]
LONG = [d for d in POOL if d.S > 3]


ANY_QK = ("normal", "integers", "scaled", "near-ties", "peaked", "cancelling", "heavy", "ascending", "low")
FAR_OUT = ("winner", "high", "deep", "far", "far-below")
ANY_V = ("normal", "integers", "offset", "cancelling")


def cases(
    draw: Draw,
    *,
    sizes: list[Dims] = POOL,
    qk: tuple[str, ...] = ANY_QK,
    v: tuple[str, ...] = ANY_V,
    mask: tuple[str, ...] = ("",),
    bias: tuple[str, ...] = ("",),
    causal: tuple[bool, ...] = (False,),
    window: tuple[Window | None, ...] = (None,),
    scale: tuple[float | None, ...] = (None,),
    softcap: tuple[float | None, ...] = (None,),
    layout: tuple[str, ...] = ("",),
    poison: tuple[float, ...] = (0.0,),
    large: bool = True,
) -> st.SearchStrategy[AttentionCase]:
    """Attention cases over these sizes, recipes and options, the first of each the simplest.

    large admits the large sizes of a thorough run.
    """

    def build(d: Dims, **chosen: Any) -> AttentionCase:
        return AttentionCase(**d._asdict(), **chosen)

    one_of = st.sampled_from
    return st.builds(
        partial(build),
        one_of(draw.pool(sizes, LARGE if large and sizes in (POOL, TAILS, WIDE, LONG) else [])),
        qk=one_of(qk),
        v=one_of(v),
        mask=one_of(mask),
        bias=one_of(bias),
        causal=one_of(causal),
        window=one_of(window),
        scale=one_of(scale),
        softcap=one_of(softcap),
        layout=one_of(layout),
        poison=one_of(poison),
        at=one_of(range(256)),  # hypothesis copies integers into one another, and then repeats all the other choices
        seed=st.integers(0, 2**16 - 1),
    )
