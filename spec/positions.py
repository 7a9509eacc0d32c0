"""Sinusoidal, learned and ALiBi positions: their interfaces and rules (source 4.2, 4.4; Vaswani et al. 2017)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaugeblock.spec.backend import Array
from gaugeblock.spec.errors import ConfigError, DTypeError, PositionError, ShapeError, refuse
from gaugeblock.spec.precision import FORMATS

Shape = Sequence[int]
Integers = NDArray[Any]

LIMIT = 2**24  # float32 holds every integer up to here


class Sinusoidal(ABC):
    """Sinusoidal absolute positions (source 4.2; Vaswani et al. 2017, section 3.5)."""

    @abstractmethod
    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        """Sines and cosines of the positions at dim / 2 frequencies that fall geometrically.

            result[..., 2 i] = sin(p w_i),  result[..., 2 i + 1] = cos(p w_i),  w_i = base ** (-2 i / dim)

        positions integers (T,) or (B, T) in [0, 2**24) -> (T, dim) or (B, T, dim) of the dtype asked for. The angle is
        computed in at least float32, from the integer itself.
        Raises ShapeError, DTypeError, PositionError, ConfigError (POS-ERRORS lists what for).
        Clauses: PE-* and POS-* of spec/clauses/positions.md.
        """


class LearnedPositions(ABC):
    """Learned absolute positions (source 4.4, comparison of schemes; Devlin et al. 2019)."""

    @abstractmethod
    def learned_positions(self, table: Array, positions: Array) -> Array:
        """The rows of a table.

            result[..., :] = table[p]

        table (N, M) of a float dtype, positions integers (T,) or (B, T) in [0, N) -> (T, M) or (B, T, M) of the
        table's dtype, bit for bit.
        Raises ShapeError, DTypeError, PositionError (POS-ERRORS lists what for).
        Clauses: POS-LOOKUP, POS-LOOKUP-RANGE and the other POS-* of spec/clauses/positions.md.
        """


class Alibi(ABC):
    """Attention with linear biases (source 4.4; Press et al. 2022)."""

    @abstractmethod
    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Array:
        """The slope of each head, by the authors' rule.

            slope_h = 2 ** (-8 (h + 1) / H)  where H is a power of two

        Else the slopes of the power of two below, n, then every other one of 2 n, from its first.
        -> (H,) of the dtype asked for.
        Raises DTypeError, ConfigError. Clauses: ALIBI-SLOPES, ALIBI-SLOPES-ANY.
        """

    @abstractmethod
    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        """What is added to the scaled scores of each head: a penalty that grows with the distance.

            bias[b, h, i, j] = -slope_h * |query_positions[b, i] - key_positions[b, j]|

        query_positions integers (T,) or (B, T), key_positions integers (S,) or (B, S), both in [0, 2**24) ->
        (1, H, T, S) where both have rank 1, else (B, H, T, S), of the dtype asked for. The distance is an exact
        integer, and the product is rounded once.
        Raises ShapeError, DTypeError, PositionError, ConfigError (POS-ERRORS lists what for).
        Clauses: ALIBI-* and POS-* of spec/clauses/positions.md.
        """


def sinusoidal(
    positions: Shape, kind: str, values: Integers | None, dim: int, base: float, dtype: str
) -> tuple[int, ...]:
    """The shape of a sinusoidal table, or a refusal; values are the positions where they lie on the host.

    Raises ShapeError, DTypeError, PositionError, ConfigError. Clauses: POS-SHAPES, POS-RANGE, PE-EVEN, POS-ERRORS.
    """
    where = f"sinusoidal(positions={tuple(positions)}, dim={dim!r})"
    if not whole(dim) or dim < 2 or dim % 2:
        raise refuse(ConfigError, "PE-EVEN", f"dim must be an even integer of at least 2, got {dim!r}", where)
    if not (isfinite(base) and base >= 1):
        raise refuse(ConfigError, "POS-ERRORS", f"base must be finite and at least 1, got {base!r}", where)
    wanted(dtype, where)
    integers("positions", positions, kind, where)
    within("positions", values, LIMIT, where)
    return (*positions, dim)


def learned(
    table: Shape, dtype: str, positions: Shape, kind: str, values: Integers | None, *, bounded: bool = True
) -> tuple[int, ...]:
    """The shape of looked-up rows, or a refusal; values are the positions where they lie on the host.

    bounded=False leaves positions outside the table to the caller.
    Raises ShapeError, DTypeError, PositionError. Clauses: POS-SHAPES, POS-LOOKUP-RANGE, POS-ERRORS.
    """
    where = f"learned_positions(table={tuple(table)}, positions={tuple(positions)})"
    if len(table) != 2:
        raise refuse(ShapeError, "POS-SHAPES", f"table must have rank 2, got rank {len(table)}", where)
    if dtype not in FORMATS:
        raise refuse(DTypeError, "POS-ERRORS", f"table must be one of {', '.join(FORMATS)}, got {dtype}", where)
    integers("positions", positions, kind, where)
    if bounded:
        within("positions", values, table[0], where, rule="POS-LOOKUP-RANGE")
    return (*positions, table[1])


def alibi(n_heads: int, dtype: str) -> None:
    """Refuse a number of heads or a dtype that has no meaning.

    Raises ConfigError, DTypeError. Clauses: POS-ERRORS.
    """
    where = f"alibi(n_heads={n_heads!r})"
    if not whole(n_heads) or n_heads < 1:
        raise refuse(ConfigError, "POS-ERRORS", f"n_heads must be an integer of at least 1, got {n_heads!r}", where)
    wanted(dtype, where)


def alibi_bias(
    n_heads: int,
    query: tuple[Shape, str, Integers | None],
    key: tuple[Shape, str, Integers | None],
    dtype: str,
) -> tuple[int, int, int, int]:
    """The shape (1 or B, H, T, S) of a bias, or a refusal; query and key are shape, dtype, and values if on the host.

    Raises ShapeError, DTypeError, PositionError, ConfigError. Clauses: POS-SHAPES, POS-RANGE, POS-ERRORS.
    """
    alibi(n_heads, dtype)
    where = f"alibi_bias(n_heads={n_heads}, query_positions={tuple(query[0])}, key_positions={tuple(key[0])})"
    for name, (shape, kind, values) in (("query_positions", query), ("key_positions", key)):
        integers(name, shape, kind, where)
        within(name, values, LIMIT, where)
    rows = {shape[0] for shape, _, _ in (query, key) if len(shape) == 2}
    if len(rows) > 1:
        problem = f"key_positions must have the {query[0][0]} rows of query_positions, got {key[0][0]}"
        raise refuse(ShapeError, "POS-SHAPES", problem, where)
    return (rows.pop() if rows else 1, n_heads, query[0][-1], key[0][-1])


def integers(name: str, shape: Shape, kind: str, where: str) -> None:
    """Refuse positions that are not integers (T,) or (B, T).

    Raises ShapeError, DTypeError. Clauses: POS-SHAPES, POS-ERRORS.
    """
    if len(shape) not in (1, 2):
        raise refuse(ShapeError, "POS-SHAPES", f"{name} must be (T,) or (B, T), got {tuple(shape)}", where)
    if not kind.startswith(("int", "uint")):
        raise refuse(DTypeError, "POS-ERRORS", f"{name} must be integers, got {kind}", where)


def within(name: str, values: Integers | None, below: int, where: str, *, rule: str = "POS-RANGE") -> None:
    """Refuse positions outside [0, below); None are positions that do not lie on the host.

    Raises PositionError. Clauses: POS-RANGE, POS-LOOKUP-RANGE.
    """
    if values is None or values.size == 0:
        return
    for value in (int(np.min(values)), int(np.max(values))):
        if not 0 <= value < below:
            raise refuse(PositionError, rule, f"{name} must be in [0, {below}), got {value}", where)


def whole(x: object) -> bool:
    """Whether x is an integer of Python or NumPy, and not a truth value."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def wanted(dtype: str, where: str) -> None:
    """Refuse a dtype that is none of the four.

    Raises DTypeError. Clauses: POS-ERRORS.
    """
    if dtype not in FORMATS:
        raise refuse(DTypeError, "POS-ERRORS", f"dtype must be one of {', '.join(FORMATS)}, got {dtype!r}", where)
