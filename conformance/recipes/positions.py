"""How positions, and the tables that they index, are made: near, with gaps, in any order, far out, row by row."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.positions import LIMIT, Integers
from gaugeblock.spec.reference.bounded import Real

Rng = np.random.Generator
Grid = tuple[int, int]  # batch rows, positions in each
Pair = tuple[Integers, Integers]

FAR = 4096  # where feature positions.far begins
# bfloat16 holds every integer up to 256, float16 up to 2048; a table of 4096 ends behind the last
EDGES = np.array([0, 1, 254, 255, 256, 257, 258, 511, 1023, 2046, 2047, 2048, 2049, 2050, 3001, 4094, 4095])
MILESTONES = np.array([4096, 4097, 8191, 32767, 32768, 32769, 65537, 100003, 131071, 1000003, 8000009])


def _first(grid: Grid, rng: Rng) -> Integers:
    return np.broadcast_to(np.arange(grid[1]), grid).copy()


def _rows(grid: Grid, rng: Rng) -> Integers:
    """Every row begins where it likes: a batch of cached sequences."""
    return np.asarray(_first(grid, rng) + rng.integers(0, 300, (grid[0], 1)))


def _gaps(grid: Grid, rng: Rng) -> Integers:
    return np.asarray(np.cumsum(rng.integers(1, 60, grid), axis=1))


def _shuffled(grid: Grid, rng: Rng) -> Integers:
    """Any order, with repetitions."""
    return np.asarray(rng.integers(0, 40 * max(grid[1], 1), grid))


def _any(grid: Grid, rng: Rng) -> Integers:
    """All magnitudes alike, up to the last position."""
    return np.asarray(np.minimum(2.0 ** rng.uniform(0, 24, grid), LIMIT - 1).astype(np.int64))


POSITIONS: Mapping[str, Callable[[Grid, Rng], Integers]] = {
    "first": _first,
    "one": lambda grid, rng: np.ones(grid, np.int64),
    "rows": _rows,
    "gaps": _gaps,
    "shuffled": _shuffled,
    "edges": lambda grid, rng: rng.choice(EDGES, grid),
    "milestones": lambda grid, rng: rng.choice(MILESTONES, grid),
    "last": lambda grid, rng: LIMIT - 1 - rng.integers(0, 300, grid),
    "any": _any,
}
FAR_POSITIONS = ("milestones", "last", "any")

LOOKUPS: Mapping[str, Callable[[Grid, int, Rng], Integers]] = {
    "first": lambda grid, rows, rng: _first(grid, rng) % rows,
    "shuffled": lambda grid, rows, rng: rng.integers(0, rows, grid),
    "backwards": lambda grid, rows, rng: (rows - 1 - _first(grid, rng)) % rows,
    "ends": lambda grid, rows, rng: rng.choice([0, rows - 1], grid),
    "same": lambda grid, rows, rng: np.full(grid, rng.integers(0, rows)),
}


def _table_index(rows: int, width: int, rng: Rng) -> Real:
    """Row n holds n + 1 throughout: the result names the row that was read."""
    return np.broadcast_to(np.arange(1.0, rows + 1)[:, None], (rows, width)).copy()


TABLES: Mapping[str, Callable[[int, int, Rng], Real]] = {
    "normal": lambda rows, width, rng: rng.normal(size=(rows, width)),
    "index": _table_index,
    "scaled": lambda rows, width, rng: rng.normal(size=(rows, width)) * 10 ** rng.uniform(-3, 3, (rows, 1)),
}


def strided(x: Numpy) -> Numpy:
    """The same values, every axis read with a gap, the last two in each other's place."""
    room = np.zeros((2 * x.shape[-1] + 1, *(2 * n + 1 for n in x.shape[:-1])), x.dtype)
    view = np.moveaxis(room[tuple(slice(1, 2 * n + 1, 2) for n in (x.shape[-1], *x.shape[:-1]))], 0, -1)
    view[...] = x
    return view


def _cached(B: int, T: int, S: int, rng: Rng) -> Pair:
    """Keys 0 to S - 1, the last T of them as queries: T = S is a prompt, T = 1 a step of decoding."""
    return _first((B, T), rng) + max(S - T, 0), _first((B, S), rng)


def _padded(B: int, T: int, S: int, rng: Rng) -> Pair:
    """Padding at the left of each row: a pad stands at 0, like the first token."""
    key = np.maximum(_first((B, S), rng) - rng.integers(0, S + 1, (B, 1)), 0)
    return key[:, S - T :].copy() if T <= S else _rows((B, T), rng), key


def _both_ways(B: int, T: int, S: int, rng: Rng) -> Pair:
    """Keys on both sides of every query."""
    return rng.integers(0, 60, (B, T)), rng.integers(0, 60, (B, S))


def _thousand(B: int, T: int, S: int, rng: Rng) -> Pair:
    """Distances of about a thousand, most of which bfloat16 does not hold."""
    return 1000 + rng.integers(0, 60, (B, T)), rng.integers(0, 40, (B, S))


def _last(B: int, T: int, S: int, rng: Rng) -> Pair:
    """Positions that float32 only just holds, near one another."""
    return LIMIT - 1 - rng.integers(0, 40, (B, T)), LIMIT - 1 - rng.integers(0, 5000, (B, S))


def _widest(B: int, T: int, S: int, rng: Rng) -> Pair:
    """The largest distances."""
    return LIMIT - 1 - rng.integers(0, 40, (B, T)), rng.integers(0, 40, (B, S))


PAIRS: Mapping[str, Callable[[int, int, int, Rng], Pair]] = {
    "cached": _cached,
    "padded": _padded,
    "gaps": lambda B, T, S, rng: (_gaps((B, T), rng) + 40 * S, _gaps((B, S), rng)),
    "both": _both_ways,
    "thousand": _thousand,
    "last": _last,
    "widest": _widest,
    "same": lambda B, T, S, rng: (np.full((B, T), 7), np.full((B, S), 7)),
}
FAR_PAIRS = ("last", "widest")
