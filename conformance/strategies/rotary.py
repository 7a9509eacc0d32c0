"""Cases of rotation: sizes from a small pool, positions, frequencies and layouts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.rotary import FAR, FROM_ZERO, IN_ORDER, POSITIONS, SCALINGS, STRIDES, VECTORS
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.spec.config import LAYOUTS, Layout, Scaling, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Contract, Format
from gaugeblock.spec.reference import rotary as reference
from gaugeblock.spec.reference.bounded import Expected
from gaugeblock.spec.rotary import Dims, options

BASE = 10000.0
TELLING = 20000  # from here on a float32 angle of a fast pair tells less than a twentieth: only slow pairs are judged


@dataclass(frozen=True, kw_only=True)
class RotaryCase(Case):
    """One call of rotate.

    x, positions, scaling and strides name recipes; at is read by the checks that shift positions or pick an element.
    """

    component: ClassVar[str] = "positions"
    method: ClassVar[str] = "rotate"
    positional: ClassVar[tuple[str, ...]] = ("x", "positions")
    shape_clause: ClassVar[str] = "ROPE-SHAPES"
    dtype_clause: ClassVar[str] = "ROPE-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("B", "H", "T", "D")

    B: int = 1
    H: int = 1
    T: int = 1
    D: int = 2
    rotary_dim: int | None = None
    x: str = "normal"
    positions: str = "start"
    base: float = BASE
    layout: str = "half"
    scaling: str = ""
    strides: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        pick(VECTORS, "x", self.x)
        pick(POSITIONS, "positions", self.positions)
        pick(STRIDES, "strides", self.strides)
        if self.scaling:
            pick(SCALINGS, "scaling", self.scaling)
        options(self.base, self.order, self.rotary_dim, self.rule)
        if self.dims.R % 2 or not 0 < self.dims.R <= self.D:
            raise ConfigError(f"case: D, or rotary_dim up to D, must be even [{self.dims}]")

    @property
    def dims(self) -> Dims:
        return Dims(self.B, self.H, self.T, self.D, self.D if self.rotary_dim is None else self.rotary_dim)

    @property
    def rule(self) -> Scaling | None:
        return SCALINGS[self.scaling] if self.scaling else None

    @property
    def order(self) -> Layout:
        return cast(Layout, self.layout)  # options has refused any other word

    def inputs(self, io: Format) -> Inputs:
        x = VECTORS[self.x](self.dims, self.order, self.random("x")).astype(io.dtype)
        p = POSITIONS[self.positions](self.dims, self.random("positions")).astype(np.int64)
        return {"x": STRIDES[self.strides](x), "positions": STRIDES[self.strides](p)}

    def options(self) -> Mapping[str, Any]:
        given = {
            "base": None if self.base == BASE else self.base,
            "layout": None if self.layout == "half" else self.layout,
            "rotary_dim": self.rotary_dim,
            "scaling": self.rule,
        }
        return {name: value for name, value in given.items() if value is not None}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        given: dict[str, Any] = {**inputs, **self.options()}
        return reference.rotate(**given, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        rule = self.rule
        kind = type(rule).__name__.lower() if rule else ""
        uses = {
            "half": self.layout == "half",
            "interleaved": self.layout != "half",
            "layout": self.layout != "half",
            "base": self.base != BASE,
            "rotary_dim": self.rotary_dim is not None,
            "odd_width": self.D % 2 == 1,
            "scaling": rule is not None,
            f"scaling.{kind}": rule is not None,
            "scaling.yarn.untruncated": isinstance(rule, YaRN) and not rule.truncate,
            "scaling.yarn.attention_factor": isinstance(rule, YaRN) and rule.attention_factor is not None,
            "positions.rows": self.positions.startswith("rows"),
            "positions.offset": self.positions not in FROM_ZERO,
            "positions.gaps": self.positions not in IN_ORDER,
            "positions.far": self.positions in FAR,
            "empty.batch": self.B == 0,
            "empty.tokens": self.T == 0,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "half": {"layout": "interleaved"},
            "interleaved": {"layout": "half"},
            "layout": {"layout": "half"},
            "base": {"base": BASE},
            "rotary_dim": {"rotary_dim": None, "D": self.D + self.D % 2},
            "odd_width": {"D": self.D + 1},
            "scaling": {"scaling": ""},
            "scaling.linear": {"scaling": ""},
            "scaling.ntk": {"scaling": ""},
            "scaling.yarn": {"scaling": ""},
            "scaling.yarn.untruncated": {"scaling": "yarn4"},
            "scaling.yarn.attention_factor": {"scaling": "yarn8"},
            "scaling.llama3": {"scaling": ""},
            "rotary_dim+scaling": {"rotary_dim": None, "D": self.D + self.D % 2},
            "positions.rows": {"positions": "offset"},
            "positions.offset": {"positions": "rows-start" if self.positions.startswith("rows") else "start"},
            "positions.gaps": {"positions": "rows" if self.positions.startswith("rows") else "offset"},
            "positions.far": {"positions": "offset"},
            "empty.batch": {"B": 1},
            "empty.tokens": {"T": 1},
        }
        return replace(self, **nearest[feature])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return (self.B, self.H, self.T, self.D), inputs["x"].dtype

    def size(self, inputs: Inputs) -> float:
        """The largest component; 0 (never vacuous) far out, where pair 0 and slow pairs still tell much."""
        if np.max(inputs["positions"], initial=0) >= TELLING:
            return 0.0
        return float(np.max(np.abs(inputs["x"].astype(np.float64)), initial=0.0))


class Sizes(NamedTuple):
    """The sizes of a case; R is its rotary_dim."""

    B: int
    H: int
    T: int
    D: int
    R: int | None = None


def _sizes(text: str) -> list[Sizes]:
    return [Sizes(*map(int, line.split())) for line in text.strip().splitlines()]


# Every size differs from every other where it can; several tokens, one, and one in a batch
# B  H  T  D
POOL = _sizes("""
  2  6  5  4
  1  1  1  2
  2  3  1  8
  1  2  7  6
  3  2  4 16
  1  4  3 64
""")
LARGE = _sizes("""
  1  2 33 128
  2  2 17  80
  4  3  2  32
""")
SLIM = _sizes("""
  2  3  5  2
  1  2  4  2
""")
SINGLE = _sizes("""
  2  3  1  8
  4  2  1  6
  3  1  1  2
""")
PARTIAL = _sizes("""
  2  3  5  8  4
  1  2  4 16  6
  3  2  4 16  2
  2  3  1  8  8
""")
ODD = _sizes("""
  1  2  4  7  4
  2  3  5  3  2
""")
NO_BATCH, NO_TOKENS = _sizes("""
  0  3  5  4
  2  3  0  4
""")
BATCHED = [d for d in POOL if d.B > 1]
LONG = [d for d in POOL if d.T > 1]
SLOW = [*SLIM, *(d for d in POOL if d.D < 8)]

ANY_X = ("normal", "axis", "index", "scaled", "integers")
NEAR = ("start", "offset", "odd-256", "odd-2048", "edges", "gaps", "permuted", "same")
ROWS = ("rows", "rows-gaps", "rows-start", "rows-padded")
ANY_POSITIONS = (*NEAR, *ROWS, "thousands")
BASES = (BASE, 500000.0, 100.0, 1e6, 10001.0, 12345.678)  # no float32 holds the last


def cases(
    draw: Draw,
    *,
    sizes: list[Sizes] = POOL,
    x: tuple[str, ...] = ANY_X,
    positions: tuple[str, ...] = ANY_POSITIONS,
    base: tuple[float, ...] = (BASE,),
    layout: tuple[str, ...] = LAYOUTS,
    scaling: tuple[str, ...] = ("",),
    strides: tuple[str, ...] = ("",),
) -> st.SearchStrategy[RotaryCase]:
    """Rotations over these sizes, recipes and options; the first of each is the simplest."""

    def build(d: Sizes, **chosen: Any) -> RotaryCase:
        return RotaryCase(B=d.B, H=d.H, T=d.T, D=d.D, rotary_dim=d.R, **chosen)

    one_of = st.sampled_from
    return st.builds(
        build,
        one_of(draw.pool(sizes, LARGE if sizes in (POOL, LONG) else [])),
        x=one_of(x),
        positions=one_of(positions),
        base=one_of(base),
        layout=one_of(layout),
        scaling=one_of(scaling),
        strides=one_of(strides),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
