"""How the arrays of a rotation are made, and the scaling rules: each separates faults that plain input hides."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.positions import Integers
from gaugeblock.spec.reference.bounded import Real
from gaugeblock.spec.reference.rotary import pairs
from gaugeblock.spec.rotary import POSITIONS_END, Dims

Rng = np.random.Generator


def _normal(d: Dims, layout: Layout, rng: Rng) -> Real:
    return rng.normal(size=(d.B, d.H, d.T, d.D))


def _axis(d: Dims, layout: Layout, rng: Rng) -> Real:
    """Each pair is (1, 0): the result is the cosine and the sine of its angle."""
    x = np.zeros((d.B, d.H, d.T, d.D))
    x[..., pairs(d, layout)[0]] = 1.0
    return x


def _index(d: Dims, layout: Layout, rng: Rng) -> Real:
    """Component d holds d + 1, in every row: the result tells where each component went."""
    return np.broadcast_to(np.arange(1.0, d.D + 1), (d.B, d.H, d.T, d.D)).copy()


def _equal(d: Dims, layout: Layout, rng: Rng) -> Real:
    """The same vector in every batch row, head and token: the result depends on the position alone."""
    return np.broadcast_to(rng.normal(size=d.D), (d.B, d.H, d.T, d.D)).copy()


def _scaled(d: Dims, layout: Layout, rng: Rng) -> Real:
    """Rows of very different magnitude."""
    return _normal(d, layout, rng) * 10 ** rng.uniform(-3, 3, (d.B, d.H, d.T, 1))


def _integers(d: Dims, layout: Layout, rng: Rng) -> Real:
    return rng.integers(-3, 4, (d.B, d.H, d.T, d.D)).astype(np.float64)


VECTORS: Mapping[str, Callable[[Dims, Layout, Rng], Real]] = {
    "normal": _normal,
    "axis": _axis,
    "index": _index,
    "equal": _equal,
    "scaled": _scaled,
    "integers": _integers,
}


def _from(low: int, high: int, step: int = 1) -> Callable[[Dims, Rng], Integers]:
    """A start between low and high, then step by step."""
    return lambda d, rng: low + step * (rng.integers(0, (high - low) // step) + np.arange(d.T))


def _among(low: int, high: int, *shape: str) -> Callable[[Dims, Rng], Integers]:
    """Positions at random, in any order, some of them twice."""
    return lambda d, rng: rng.integers(low, high, [getattr(d, axis) for axis in shape])


def _edges(d: Dims, rng: Rng) -> Integers:
    """Zero, one, and what lies around the powers of two at which half precision loses integers."""
    return rng.choice([0, 1, 2, 255, 256, 257, 511, 2047, 2048, 2049, 4095], d.T)


def _gaps(d: Dims, rng: Rng) -> Integers:
    return np.sort(rng.choice(4000, d.T, replace=False))


def _rows(d: Dims, rng: Rng) -> Integers:
    """Every batch row starts elsewhere, as in a ragged batch that is being decoded."""
    return rng.choice(3000, (d.B, 1), replace=False) + np.arange(d.T)


def _padded(d: Dims, rng: Rng) -> Integers:
    """Batch rows padded on the left by different lengths: a pad and the first token are both at zero."""
    lengths = rng.permutation(np.arange(d.B) % max(d.T, 1))
    return np.asarray(np.maximum(np.arange(d.T) - lengths[:, None], 0))


POSITIONS: Mapping[str, Callable[[Dims, Rng], Integers]] = {
    "start": lambda d, rng: np.arange(d.T),
    "zero": lambda d, rng: np.zeros(d.T, np.int64),
    "offset": _from(1, 4000),
    "odd-256": _from(257, 2000, 2),
    "odd-2048": _from(2049, 4000, 2),
    "edges": _edges,
    "gaps": _gaps,
    "permuted": lambda d, rng: rng.permutation(d.T) + rng.integers(0, 3000),
    "same": lambda d, rng: np.full(d.T, rng.integers(1, 4000)),
    "thousands": _among(4096, 20000, "T"),
    "far": _among(20000, 200000, "T"),
    "million": _from(900000, 1100000),
    "anywhere": _among(0, POSITIONS_END, "T"),
    "last": lambda d, rng: POSITIONS_END - 1 - np.arange(d.T),
    "rows": _rows,
    "rows-start": lambda d, rng: np.broadcast_to(np.arange(d.T), (d.B, d.T)).copy(),
    "rows-gaps": _among(0, 4000, "B", "T"),
    "rows-padded": _padded,
}
IN_ORDER = ("start", "offset", "million", "rows", "rows-start")
FROM_ZERO = ("start", "zero", "rows-start", "rows-padded")
FAR = ("thousands", "far", "million", "anywhere", "last")

# the ends of no ramp lie near a whole pair for the widths and bases that are drawn
SCALINGS: Mapping[str, Scaling] = {
    "linear4": Linear(4.0),
    "linear2.5": Linear(2.5),
    "ntk2": NTK(2.0),
    "ntk7.5": NTK(7.5),
    "yarn4": YaRN(4.0, 256),
    "yarn8": YaRN(8.0, 1024, fast=16, slow=2),
    "yarn1": YaRN(1.0, 256),
    "yarn1.5": YaRN(1.5, 256),
    "yarn0.5": YaRN(0.5, 256),
    "yarn-long": YaRN(16.0, 163840),
    "yarn-short": YaRN(4.0, 128),  # would begin before the first pair
    "yarn-wide": YaRN(4.0, 1024, slow=0.01),  # would end behind the last component, for a base of 100
    "yarn-step": YaRN(4.0, 6),  # begins and ends at the first pair
    "yarn-untruncated": YaRN(4.0, 256, truncate=False),
    "yarn-factor": YaRN(40.0, 4096, attention_factor=0.75),
    "yarn-factor1": YaRN(32.0, 4096, attention_factor=1.0),
    "llama3": Llama3(8.0, 1.0, 4.0, 8192),
    "llama3-64": Llama3(8.0, 1.0, 4.0, 64),
}


def _strided(x: Numpy) -> Numpy:
    """Every second element of arrays twice as long, the last two axes swapped."""
    if x.ndim < 2:
        wide = np.zeros(2 * x.size, x.dtype)
        wide[::2] = x
        return wide[::2]
    wide = np.zeros((*x.shape[:-2], 2 * x.shape[-1], x.shape[-2]), x.dtype).swapaxes(-1, -2)
    wide[..., ::2] = x
    return wide[..., ::2]


def _repeated(x: Numpy) -> Numpy:
    """The first batch row for all of them, by a stride of zero."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim > 1 else x


STRIDES: Mapping[str, Callable[[Numpy], Numpy]] = {"": lambda x: x, "strided": _strided, "repeated": _repeated}
