"""Activation cases: every number of a format, or small arrays of numbers that separate the functions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.feedforward import LAYOUTS, NUMBERS, every
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.conformance.strategies.feedforward import RankedCase, Size, sizes_of
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.feedforward import APPROXIMATIONS
from gaugeblock.spec.precision import Contract, Format
from gaugeblock.spec.reference import feedforward as reference
from gaugeblock.spec.reference.bounded import Expected

FUNCTIONS = ("relu", "gelu", "silu")
EVERY = "every"


@dataclass(frozen=True, kw_only=True)
class ActivationCase(RankedCase):
    """One call of relu, gelu or silu.

    approximate "" leaves the keyword out. x names a recipe: "every" is every finite number of a half-precision format,
    or a dense grid, whatever the sizes; at is read by the checks that single out an element.
    """

    conventional: ClassVar[bool] = False
    shape_clause: ClassVar[str] = "ACT-SHAPES"
    dtype_clause: ClassVar[str] = "ACT-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("function",)

    function: str = "relu"
    approximate: str = ""
    beta: float = 1.0
    x: str = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(FUNCTIONS, "function", self.function)
        pick(("", *APPROXIMATIONS), "approximate", self.approximate)
        pick((*NUMBERS, EVERY), "x", self.x)

    @property
    def called(self) -> str:
        return self.function

    def inputs(self, io: Format) -> Inputs:
        if self.x == EVERY:
            return {"x": every(io, self.random("x"))}
        made = NUMBERS[self.x](self.shape, io, self.random("x"))
        return {"x": LAYOUTS[self.layout](made.astype(io.dtype))}

    def options(self) -> Mapping[str, Any]:
        if self.function == "gelu" and self.approximate:
            return {"approximate": self.approximate}
        return {"beta": self.beta} if self.function == "silu" and self.beta != 1.0 else {}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        function = getattr(reference, self.function)
        expected: Expected = function(inputs["x"], **self.options(), contract=contract)
        return expected

    def size(self, inputs: Inputs) -> float:
        """The largest x: below zero all activations vanish, and their bounds are relative to x."""
        return float(np.max(np.abs(inputs["x"].astype(np.float64)), initial=0.0))

    def used(self) -> frozenset[str]:
        uses = {
            "gelu": self.function == "gelu" and self.approximate != "tanh",
            "approximate": self.function == "gelu" and self.approximate != "",
            "silu": self.function == "silu",
            "beta": self.function == "silu" and self.beta != 1.0,
            "empty": 0 in self.shape,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        if feature == "empty":
            return replace(self, **{name: max(getattr(self, name), 1) for name in "BHTM"})
        return replace(self, beta=1.0) if feature == "beta" else replace(self, function="relu")


# No two axes of one size; lengths beside multiples of 8, 16 and 32, where vector kernels have tails.
ARRAYS = sizes_of("""
  1  1  1  1    7
  2  1  1  3    5
  3  2  1  3    4
  4  2  3  1    5
  1  1  1  1    1
  2  1  1  1   33
""")
FEW = ARRAYS[:4]
NOTHING = sizes_of("""
  1  1  1  1    0
  3  2  1  0    4
""")

ANY_NUMBER = ("normal", "special", "large", "small", "integers")

Function = tuple[str, str]  # and its approximation, "" where the keyword is left out
RELU, GELU, GELU_NONE, GELU_TANH, SILU = ("relu", ""), ("gelu", ""), ("gelu", "none"), ("gelu", "tanh"), ("silu", "")


def cases(
    draw: Draw,
    *,
    sizes: list[Size] = ARRAYS,
    function: tuple[Function, ...] = (RELU, GELU, GELU_TANH, SILU),
    beta: tuple[float, ...] = (1.0,),
    x: tuple[str, ...] = ANY_NUMBER,
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[ActivationCase]:
    """Activation cases over these sizes, functions and recipes; the first of each is the simplest."""

    def build(size: Size, chosen: Function, **given: Any) -> ActivationCase:
        axes = {name: n for name, n in size._asdict().items() if name != "F"}
        return ActivationCase(**axes, function=chosen[0], approximate=chosen[1], **given)

    one_of = st.sampled_from
    return st.builds(
        build,
        one_of(draw.pool(sizes)),
        one_of(function),
        beta=one_of(beta),
        x=one_of(x),
        layout=one_of(layout),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
