"""Normalization cases: sizes from a small pool, eps, and recipes that are blind to as little as possible."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.normalization import LAYOUTS, ROWS, WEIGHTS, Rows
from gaugeblock.conformance.strategies import Draw
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.normalization import options
from gaugeblock.spec.precision import EXACT, Contract, Format
from gaugeblock.spec.reference import normalization as reference
from gaugeblock.spec.reference.bounded import Expected

C = TypeVar("C", bound="NormCase")

AXES = ("M", "TM", "BTM", "BHTM")  # of x, by rank


@dataclass(frozen=True, kw_only=True)
class NormCase(Case):
    """One call of a normalization: what LayerNorm and RMSNorm share.

    rank says which axes x has: M alone, (T, M), (B, T, M) or (B, H, T, M). x, weight and layout name recipes, a weight
    of "" is None; at is read by the checks that single out a row or an element.
    """

    component: ClassVar[str] = "normalization"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M")

    B: int = 1
    H: int = 1
    T: int = 1
    M: int = 1
    rank: int = 3
    x: str = "normal"
    weight: str = ""
    eps: float = 1e-5
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        for recipes, name in ((ROWS, "x"), (WEIGHTS, "weight"), (WEIGHTS, "bias"), (LAYOUTS, "layout")):
            chosen = getattr(self, name, "")
            if chosen not in recipes and (chosen or name == "x"):
                raise ConfigError(f"case: {name} must be one of {', '.join(recipes)}, got {chosen!r}")
        options(self.eps, method="layer_norm")
        if self.M < 1 or not 1 <= self.rank <= 4 or any(getattr(self, n) != 1 for n in "BHT" if n not in self.axes):
            raise ConfigError(f"case: M must be at least 1, rank 1 to 4, and an axis that x has not 1 [{self}]")

    @property
    def axes(self) -> str:
        """The letters of x's axes."""
        return AXES[self.rank - 1]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x."""
        return tuple(getattr(self, name) for name in self.axes)

    def inputs(self, io: Format) -> Inputs:
        rows = Rows(self.shape, self.eps, io)
        made = {"x": ROWS[self.x](rows, self.random("x"))}
        for name in self.positional[1:]:
            if recipe := getattr(self, name):
                made[name] = WEIGHTS[recipe](rows, self.random(name))
        return {name: LAYOUTS[self.layout](x.astype(io.dtype)) for name, x in made.items()}

    def options(self) -> Mapping[str, Any]:
        return {"eps": self.eps}

    @abstractmethod
    def reference(self, inputs: Inputs, eps: float, contract: Contract, conventions: Conventions) -> Expected:
        """What the reference gives for these arrays and another eps."""

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        return self.reference(inputs, self.eps, contract, conventions)

    def used(self) -> frozenset[str]:
        uses = {
            "weightless": not self.weight,
            "eps.zero": self.eps == 0,
            "empty.rows": 0 in self.shape,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "weightless": {"weight": "one"},
            "biasless": {"bias": "zero"},
            "eps.zero": {"eps": 1e-5},
            "empty.rows": {n: max(getattr(self, n), 1) for n in "BHT"},
        }
        return replace(self, **nearest[feature])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return inputs["x"].shape, inputs["x"].dtype

    def size(self, inputs: Inputs) -> float:
        value = self.expected(inputs, EXACT, Conventions()).value
        return float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))


@dataclass(frozen=True, kw_only=True)
class LayerNormCase(NormCase):
    """One call of layer_norm."""

    method: ClassVar[str] = "layer_norm"
    positional: ClassVar[tuple[str, ...]] = ("x", "weight", "bias")
    shape_clause: ClassVar[str] = "LN-SHAPES"
    dtype_clause: ClassVar[str] = "LN-DTYPE"

    bias: str = ""

    def reference(self, inputs: Inputs, eps: float, contract: Contract, conventions: Conventions) -> Expected:
        weight, bias = inputs.get("weight"), inputs.get("bias")
        return reference.layer_norm(inputs["x"], weight, bias, eps=eps, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        return super().used() | ({"biasless"} if not self.bias else set())


@dataclass(frozen=True, kw_only=True)
class RMSNormCase(NormCase):
    """One call of rms_norm."""

    method: ClassVar[str] = "rms_norm"
    positional: ClassVar[tuple[str, ...]] = ("x", "weight")
    shape_clause: ClassVar[str] = "RMS-SHAPES"
    dtype_clause: ClassVar[str] = "RMS-DTYPE"

    def reference(self, inputs: Inputs, eps: float, contract: Contract, conventions: Conventions) -> Expected:
        weight = inputs.get("weight")
        return reference.rms_norm(inputs["x"], weight, eps=eps, contract=contract, conventions=conventions)


class Size(NamedTuple):
    """The axes of x, and how many of them it has."""

    rank: int
    B: int
    H: int
    T: int
    M: int


def _sizes(text: str) -> list[Size]:
    return [Size(*map(int, line.split())) for line in text.strip().splitlines()]


# No two axes of one size; widths beside multiples of 8; one row as well as several. The pools share their shapes.
# rank  B  H  T     M
POOL = _sizes("""
     3  2  1  3     8
     3  1  1  1     4
     2  1  1  5    16
     3  2  1  3   100
     1  1  1  1    64
     4  2  3  5     7
     2  1  1  3     2
     3  3  1  2  1024
""")
LARGE = _sizes("""
     2  1  1  2  4096
     2  1  1 33   257
     3  2  1 17    31
     2  1  1  4    65
""")
WIDTH_3, WIDTH_1 = _sizes("""
     2  1  1  5     3
     2  1  1  3     1
""")
NO_ROWS = _sizes("""
     3  0  1  3     8
     2  1  1  0     4
""")
WIDTHS = [WIDTH_1, WIDTH_3, *(size for size in POOL if size.M in (2, 8, 64, 100, 1024))]
NARROW = [WIDTH_3, *(size for size in POOL if size.M in (2, 4, 8))]
MIDDLE = [size for size in POOL if 2 < size.M <= 100]
SEVERAL = [size for size in POOL if size.B * size.H * size.T > 1]
FEW = POOL[:4]

EPS = (1e-5, 1e-6, 1e-3, 1e-12, 0.5)
ANY_X = ("normal", "integers", "scaled", "heavy", "outlier", "alternating", "spike", "some-zero")
ANY_WEIGHT = ("normal", "index", "scaled", "one", "zero")


def layer_norm_cases(
    draw: Draw,
    *,
    sizes: list[Size] = POOL,
    x: tuple[str, ...] = ANY_X,
    weight: tuple[str, ...] = ANY_WEIGHT,
    bias: tuple[str, ...] = ("normal", "index", "scaled"),
    eps: tuple[float, ...] = EPS,
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[LayerNormCase]:
    """LayerNorm cases over these sizes, recipes and eps; the first of each is the simplest."""
    recipes = {"x": x, "weight": weight, "bias": bias, "eps": eps, "layout": layout}
    return _drawn(draw, LayerNormCase, sizes, recipes)


def rms_norm_cases(
    draw: Draw,
    *,
    sizes: list[Size] = POOL,
    x: tuple[str, ...] = ANY_X,
    weight: tuple[str, ...] = ANY_WEIGHT,
    eps: tuple[float, ...] = EPS,
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[RMSNormCase]:
    """RMSNorm cases over these sizes, recipes and eps; the first of each is the simplest."""
    return _drawn(draw, RMSNormCase, sizes, {"x": x, "weight": weight, "eps": eps, "layout": layout})


def _drawn(
    draw: Draw, case: type[C], sizes: list[Size], recipes: Mapping[str, tuple[Any, ...]]
) -> st.SearchStrategy[C]:
    def build(size: Size, **chosen: Any) -> C:
        return case(**size._asdict(), **chosen)

    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE if sizes in (POOL, MIDDLE, SEVERAL) else [])),
        **{name: st.sampled_from(values) for name, values in recipes.items()},
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
