"""Rotary position embedding: its interface and its shape rules (source 4.3; Su et al. 2021)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import dtype, ndarray

from gaugeblock.spec.backend import Array
from gaugeblock.spec.config import Layout, RotaryConfig, Scaling
from gaugeblock.spec.errors import DTypeError, PositionError, ShapeError, refuse
from gaugeblock.spec.precision import FORMATS

Shape = Sequence[int]
Integers = ndarray[Any, dtype[Any]]

POSITIONS_END = 2**24  # the first integer behind which float32 no longer holds every integer


class Rotary(ABC):
    """Rotary position embedding (Su et al. 2021, section 3.2.2)."""

    @abstractmethod
    def rotate(
        self,
        x: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
    ) -> Array:
        """Turn each pair of components by its token's position times the pair's frequency.

            a' = a cos(p w_i) - b sin(p w_i),   b' = b cos(p w_i) + a sin(p w_i),   w_i = base ** (-2 i / R)

        x (B, H, T, D) float, positions (T,) or (B, T) integers in [0, 2**24) -> (B, H, T, D) of x's dtype. R is
        rotary_dim, None is D. Pair i is components (i, i + R/2) in layout "half", (2i, 2i + 1) in "interleaved";
        components from R on stay as they are. scaling (spec.config) changes the frequencies; YaRN's also lengthens
        the vector.
        Raises ShapeError, DTypeError, ConfigError, PositionError (ROPE-ERRORS lists what for).
        Clauses: spec/clauses/positions.md, those that begin with ROPE.
        """


class Dims(NamedTuple):
    """The sizes of a rotation: those of x, and the number R of rotated components."""

    B: int
    H: int
    T: int
    D: int
    R: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._asdict().items())


def dims(x: Shape, positions: Shape, *, rotary_dim: int | None = None) -> Dims:
    """Read the sizes off the shapes of a rotation, or refuse them.

    x (B, H, T, D) and positions (T,) or (B, T) are shapes. Raises ShapeError. Clauses: ROPE-SHAPES, ROPE-REFUSES.
    """
    where = f"rotate(x={tuple(x)}, positions={tuple(positions)}, rotary_dim={rotary_dim})"
    _require(len(x) == 4, f"x must have rank 4, got rank {len(x)}", where)
    B, H, T, D = x
    R = D if rotary_dim is None else rotary_dim
    _require(D > 0, "x must have a width of at least 1, got 0", where)
    _require(R % 2 == 0, f"x must have an even width where no rotary_dim is given, got {D}", where)
    _require(R <= D, f"rotary_dim must not exceed x's width {D}, got {R}", where)
    fits = tuple(positions) in ((T,), (B, T))
    _require(fits, f"positions must be (T,) or (B, T) with B={B}, T={T}, got {tuple(positions)}", where)
    return Dims(B, H, T, D, R)


def dtypes(x: str, positions: str) -> None:
    """Refuse other element types than a float x and integer positions; the arguments are dtype names.

    Raises DTypeError. Clauses: ROPE-DTYPE, ROPE-ERRORS.
    """
    if x not in FORMATS:
        raise refuse(DTypeError, "ROPE-ERRORS", f"x must be one of {', '.join(FORMATS)}, got {x}", "rotate")
    if not positions.startswith(("int", "uint")):
        raise refuse(DTypeError, "ROPE-ERRORS", f"positions must be integers, got {positions}", "rotate")


def options(base: float, layout: Layout, rotary_dim: int | None, scaling: Scaling | None) -> None:
    """Refuse parameters without meaning: those that RotaryConfig refuses.

    Raises ConfigError. Clauses: ROPE-ERRORS.
    """
    RotaryConfig(base, layout, rotary_dim, scaling)


def in_range(positions: Integers | None) -> None:
    """Refuse positions outside [0, 2**24); None where they cannot be read without waiting for a device.

    Raises PositionError. Clauses: ROPE-RANGE.
    """
    if positions is None or positions.size == 0:
        return
    lowest, highest = int(positions.min()), int(positions.max())
    if lowest < 0 or highest >= POSITIONS_END:
        problem = f"positions must lie in [0, {POSITIONS_END}), got {lowest if lowest < 0 else highest}"
        raise refuse(PositionError, "ROPE-RANGE", problem, "rotate")


def _require(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise refuse(ShapeError, "ROPE-SHAPES", problem, where)
