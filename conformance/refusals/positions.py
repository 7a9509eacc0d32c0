"""Malformed calls of sinusoidal, learned and ALiBi positions, and the smallest calls that use one of their features."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.alibi import BiasCase
from gaugeblock.conformance.strategies.positions import LookupCase, SinusoidalCase
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.positions import LIMIT

TABLE = SinusoidalCase(B=2, T=3, M=4, positions="gaps")
LOOKUP = LookupCase(B=2, T=3, N=5, M=4)
BIAS = BiasCase(B=2, H=2, T=2, S=3)
P = np.arange(3)
OUTSIDE = ((-1, "negative"), (LIMIT, "2**24"), (2**31 - 1, "2**31 - 1"))


def odd_widths(cell: Cell) -> Iterator[Malformed]:
    """Widths that cannot be split into pairs."""
    for dim in (5, 1, 3):
        yield _call(ConfigError, f"dim is {dim}", "sinusoidal", P, dim, dtype=cell.dtype)


def sinusoidal(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call of sinusoidal but for odd widths and positions out of range."""
    for p, problem in _wrong_ranks():
        yield _call(ShapeError, problem, "sinusoidal", p, 4, must=False, dtype=cell.dtype)
    for dim in (0, -2):
        yield _call(ConfigError, f"dim is {dim}", "sinusoidal", P, dim, must=False, dtype=cell.dtype)
    yield _call(DTypeError, "positions are not integers", "sinusoidal", P + 0.5, 4, must=False, dtype=cell.dtype)
    yield _call(DTypeError, "dtype is unknown", "sinusoidal", P, 4, must=False, dtype="float12")
    if offers(cell, "base"):
        for base in (0.0, -1.0, np.nan, np.inf):
            yield _call(ConfigError, f"base is {base}", "sinusoidal", P, 4, must=False, base=base, dtype=cell.dtype)


def sinusoidal_range(cell: Cell) -> Iterator[Malformed]:
    """Positions outside [0, 2**24), where the backend does not declare that they mean something else."""
    for p, problem in _out_of_range(cell):
        yield _call(PositionError, problem, "sinusoidal", p, 4, dtype=cell.dtype)


def learned(cell: Cell) -> Iterator[Malformed]:
    """Every malformed lookup but for positions outside the table."""
    table = LOOKUP.inputs(cell.io)["table"]
    for p, problem in _wrong_ranks():
        yield _call(ShapeError, problem, "learned_positions", table, p, must=False)
    yield _call(ShapeError, "the table has rank 1", "learned_positions", table[:, 0], P, must=False)
    yield _call(DTypeError, "positions are not integers", "learned_positions", table, P + 0.5, must=False)
    yield _call(DTypeError, "the table holds integers", "learned_positions", table.astype(np.int64), P, must=False)


def learned_range(cell: Cell) -> Iterator[Malformed]:
    """Positions outside the table, where the backend does not declare what they give."""
    if cell.backend.conventions.out_of_range == "raises":
        table = LOOKUP.inputs(cell.io)["table"]
        for value in (-1, LOOKUP.N, LIMIT):
            yield _call(PositionError, f"a position is {value}", "learned_positions", table, np.array([0, value]))


def alibi(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call of ALiBi but for contradictions and positions out of range."""
    for n in (0, -4):
        yield _call(ConfigError, f"n_heads is {n}", "alibi_slopes", n, must=False, dtype=cell.dtype)
        yield _call(ConfigError, f"n_heads is {n}", "alibi_bias", n, P, P, must=False, dtype=cell.dtype)
    yield _call(DTypeError, "dtype is unknown", "alibi_slopes", 2, must=False, dtype="float12")
    for p, problem in _wrong_ranks():
        yield _call(ShapeError, f"query_{problem}", "alibi_bias", 2, p, P, must=False, dtype=cell.dtype)
        yield _call(ShapeError, f"key_{problem}", "alibi_bias", 2, P, p, must=False, dtype=cell.dtype)
    for q, k in ((P + 0.5, P), (P, P + 0.5)):
        yield _call(DTypeError, "positions are not integers", "alibi_bias", 2, q, k, must=False, dtype=cell.dtype)


def alibi_contradictions(cell: Cell) -> Iterator[Malformed]:
    """Queries and keys of different batches."""
    if offers(cell, "positions.rows") and offers(cell, "positions"):
        two, three = np.zeros((2, 4), np.int64), np.zeros((3, 5), np.int64)
        yield _call(ShapeError, "the keys have other batch rows", "alibi_bias", 2, two, three, dtype=cell.dtype)


def alibi_range(cell: Cell) -> Iterator[Malformed]:
    """Positions outside [0, 2**24), of queries and of keys."""
    if offers(cell, "positions"):
        for p, problem in _out_of_range(cell):
            yield _call(PositionError, f"query_{problem}", "alibi_bias", 2, p, P, dtype=cell.dtype)
            yield _call(PositionError, f"key_{problem}", "alibi_bias", 2, P, p, dtype=cell.dtype)


def using_sinusoidal(cell: Cell, feature: str) -> SinusoidalCase:
    """A small case that uses a feature, and otherwise only what the backend offers."""
    changed: dict[str, dict[str, Any]] = {
        "base": {"base": 500.0},
        "positions.rows": {"rows": True},
        "positions.far": {"positions": "milestones"},
        "empty.positions": {"T": 0},
    }
    return replace(TABLE, **changed[feature])


def using_learned(cell: Cell, feature: str) -> LookupCase:
    """A small lookup that uses a feature."""
    changed: dict[str, dict[str, Any]] = {"positions.rows": {"rows": True}, "empty.positions": {"T": 0}}
    return replace(LOOKUP, **changed[feature])


def using_alibi(cell: Cell, feature: str) -> BiasCase:
    """A small bias that uses a feature, and otherwise only what the backend offers."""
    changed: dict[str, dict[str, Any]] = {
        "heads": {"H": 3},
        "positions": {"positions": "gaps"},
        "positions.rows": {"positions": "padded", "rows": "both"},
        "positions.far": {"positions": "last"},
        "empty.positions": {"T": 0},
    }
    case = replace(BIAS, **changed[feature])
    for option in declared(cell):
        if option != feature and option in case.used() and not feature.startswith(f"{option}."):
            case = case.without(option)
    return case


def _wrong_ranks() -> Iterator[tuple[Any, str]]:
    yield np.asarray(3), "positions have rank 0"
    yield np.zeros((2, 3, 4), np.int64), "positions have rank 3"


def _out_of_range(cell: Cell) -> Iterator[tuple[Any, str]]:
    if cell.backend.conventions.out_of_range == "raises":
        for value, name in OUTSIDE:
            yield np.array([0, value, 1]), f"positions hold a value that is {name}"


def _call(
    error: type[GaugeblockError], problem: str, method: str, *positional: Any, must: bool = True, **keywords: Any
) -> Malformed:
    return Malformed(problem, error, method, positional, keywords, must)
