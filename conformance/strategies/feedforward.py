"""Feed-forward cases: sizes from a small pool, options, and recipes that are blind to as little as possible."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.feedforward import BIASES, LAYOUTS, ROWS, WEIGHTS, Widths
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.feedforward import ACTIVATIONS, Activation
from gaugeblock.spec.precision import EXACT, Contract, Format
from gaugeblock.spec.reference import feedforward as reference
from gaugeblock.spec.reference.bounded import Expected

AXES = ("M", "TM", "BTM", "BHTM")  # of x, by rank


@dataclass(frozen=True, kw_only=True)
class RankedCase(Case):
    """What cases of activations and of networks share: an x of shape (M,), (T, M), (B, T, M) or (B, H, T, M)."""

    component: ClassVar[str] = "feedforward"
    method: ClassVar[str] = ""
    positional: ClassVar[tuple[str, ...]] = ("x",)

    B: int = 1
    H: int = 1
    T: int = 1
    M: int = 1
    rank: int = 3
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        pick(LAYOUTS, "layout", self.layout)
        if not 1 <= self.rank <= 4 or any(getattr(self, n) != 1 for n in "BHT" if n not in AXES[self.rank - 1]):
            raise ConfigError(f"case: rank must be 1 to 4, and an axis that x has not 1 [{self}]")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x."""
        return tuple(getattr(self, name) for name in AXES[self.rank - 1])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return inputs["x"].shape, inputs["x"].dtype

    def size(self, inputs: Inputs) -> float:
        return float(np.max(np.abs(self.expected(inputs, EXACT, Conventions()).value), initial=0.0))


@dataclass(frozen=True, kw_only=True)
class FeedForwardCase(RankedCase):
    """One call of feed_forward, or of swiglu where it is gated.

    x, w and bias name recipes; at is read by the checks that single out a row.
    """

    conventional: ClassVar[bool] = False
    shape_clause: ClassVar[str] = "FFN-SHAPES"
    dtype_clause: ClassVar[str] = "FFN-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M", "F")

    F: int = 1
    activation: str = "relu"
    gated: bool = False
    x: str = "normal"
    w: str = "normal"
    bias: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(ACTIVATIONS, "activation", self.activation)
        pick(ROWS, "x", self.x)
        pick(WEIGHTS, "w", self.w)
        pick(("", *BIASES), "bias", self.bias)
        if self.M < 1 or self.F < 1:
            raise ConfigError(f"case: M and F must be at least 1 [{self}]")

    @property
    def called(self) -> str:
        return "swiglu" if self.gated else "feed_forward"

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of the network."""
        return ("gate", "up", "down") if self.gated else ("up", "down")

    @property
    def biased(self) -> list[str]:
        """The layers that have a bias."""
        return [layer for layer in self.layers if layer in BIASES.get(self.bias, ())]

    def inputs(self, io: Format) -> Inputs:
        weights = WEIGHTS[self.w](Widths(self.M, self.F), self.random("w"))
        made = {"x": ROWS[self.x](self.shape, self.random("x"))}
        made |= {f"{layer}.weight": weights[layer] for layer in self.layers}
        for layer in self.biased:
            width = self.M if layer == "down" else self.F
            noise = self.random(f"{layer}.bias").normal(size=width)
            made[f"{layer}.bias"] = np.rint(2 * noise) if self.w == "integers" else noise
        return {name: LAYOUTS[self.layout](x.astype(io.dtype)) for name, x in made.items()}

    def options(self) -> Mapping[str, Any]:
        return {} if self.gated else {"activation": self.activation}

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        weights = {name: x for name, x in arrays.items() if name != "x"}
        return [arrays["x"], weights], dict(self.options())

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        (x, weights), options = self.arguments(inputs)
        return getattr(reference, self.called)(x, weights, **options, contract=contract)  # type: ignore[no-any-return]

    def used(self) -> frozenset[str]:
        gate = "swiglu." if self.gated else ""
        uses = {
            "plain": not self.gated,
            "swiglu": self.gated,
            f"activation.{self.activation}": not self.gated,
            f"{gate}bias": bool(self.biased),
            f"{gate}bias.some": 0 < len(self.biased) < len(self.layers),
            f"{gate}bias.none": not self.biased,
            "rank": self.rank != 3,
            "empty": 0 in self.shape,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        if feature.startswith("activation."):
            turn = ACTIVATIONS.index(_activation(self.activation)) + 1
            return replace(self, activation=ACTIVATIONS[turn % len(ACTIVATIONS)])
        nearest: dict[str, dict[str, Any]] = {
            "plain": {"gated": True},
            "swiglu": {"gated": False},
            **{f"{gate}bias": {"bias": ""} for gate in ("", "swiglu.")},
            **{f"{gate}bias.{share}": {"bias": "all"} for gate in ("", "swiglu.") for share in ("some", "none")},
            "rank": {"rank": 3, "H": 1},
            "empty": {name: max(getattr(self, name), 1) for name in "BHT"},
        }
        return replace(self, **nearest[feature])


def _activation(name: str) -> Activation:
    return next(known for known in ACTIVATIONS if known == name)


class Size(NamedTuple):
    """The axes of x, how many of them it has, and the width between."""

    rank: int
    B: int
    H: int
    T: int
    M: int
    F: int = 1


def sizes_of(text: str) -> list[Size]:
    """The sizes in a table, one on each line."""
    return [Size(*map(int, line.split())) for line in text.strip().splitlines()]


# No two axes of one size, but for one network as wide between as without, in which a transposed weight fits.
# rank B  H  T    M    F
NETWORKS = sizes_of("""
  3  2  1  3    4    7
  3  1  1  1    1    1
  2  1  1  5    3   11
  3  3  1  1    8    5
  1  1  1  1    5    3
  3  1  1 17    6   16
  4  2  3  5    7    4
  2  1  1  4    6    6
""")
LARGE = sizes_of("""
  3  1  1 33   31   33
  3  2  1  1   64  172
  2  1  1  3  128   65
""")
NO_POSITIONS = sizes_of("""
  3  0  1  3    4    7
  2  1  1  0    3   11
""")
FEW = [size for size in NETWORKS[:4] if size.F > 1]

ANY_X = ("normal", "scaled", "cancelling", "integers")
ANY_W = ("normal", "positive", "steep")


def cases(
    draw: Draw,
    *,
    sizes: list[Size] = NETWORKS,
    gated: tuple[bool, ...] = (False,),
    activation: tuple[str, ...] = ACTIVATIONS,
    x: tuple[str, ...] = ANY_X,
    w: tuple[str, ...] = ANY_W,
    bias: tuple[str, ...] = ("",),
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[FeedForwardCase]:
    """Feed-forward cases over these sizes, recipes and options; the first of each is the simplest."""

    def build(size: Size, **given: Any) -> FeedForwardCase:
        return FeedForwardCase(**size._asdict(), **given)

    one_of = st.sampled_from
    return st.builds(
        build,
        one_of(draw.pool(sizes, LARGE if sizes is NETWORKS else [])),
        gated=one_of(gated),
        activation=one_of(activation),
        x=one_of(x),
        w=one_of(w),
        bias=one_of(bias),
        layout=one_of(layout),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
