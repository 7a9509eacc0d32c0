"""What keys and values of new tokens hold."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gaugeblock.spec.precision import Format

Values = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator

SHAPE = tuple[int, int, int, int]


def _magnitudes(shape: SHAPE, io: Format, rng: Rng) -> Values:
    """Every magnitude of the format, to whose last bit a detour through another format is seen."""
    powers = rng.uniform(io.emin + 1, io.emax, shape)
    return np.asarray(rng.choice([-1.0, 1.0], shape) * 2.0**powers)


def _huge(shape: SHAPE, io: Format, rng: Rng) -> Values:
    """Values near the largest of the format, whose sums and products overflow."""
    return np.asarray(rng.choice([-1.0, 1.0], shape) * io.max * rng.uniform(0.5, 0.99, shape))


def _nonfinite(shape: SHAPE, io: Format, rng: Rng) -> Values:
    """Ordinary values among which some are NaN or infinite."""
    x = rng.normal(size=shape)
    odd = rng.choice([np.nan, np.inf, -np.inf], shape)
    return np.where(rng.uniform(size=shape) < 0.25, odd, x)


VALUES: Mapping[str, Callable[[SHAPE, Format, Rng], Values]] = {
    "normal": lambda shape, io, rng: rng.normal(size=shape),
    "magnitudes": _magnitudes,
    "huge": _huge,
    "nonfinite": _nonfinite,
}
FINITE = ("normal", "magnitudes", "huge")

# Scripts, for strategies.cache to read: a3 = append three tokens to every layer, a3@1 = to layer 1 alone,
# r2.0.0 = reorder, t2 = truncate to 2, f = fork and go on with the copy, s = go on with the other one, o = read.
APPENDS = ("a1", "a3", "a2,o")
CHUNKS = ("a1,a1", "a2,a1", "a1,a3,o", "a3,a1,a1", "a2,o,a2,o,a1")
APART = ("a3@0,o,a1@1,a1@1", "a2@1,a1@0", "a1@1,a2@1,o,a3@0", "a2,a1@1,o,a1@0")
REORDERS = ("a2,r2.0.1", "a3,r1.0,a1", "a1,r2.1.0,o,r1.2.0,a2", "a2,r0.2.1,t1,a2")
REPEATS = ("a2,r1.0.1", "a2,r0.0,o", "a3,r1.0.0,a1", "a3,r1,a1", "a1,r1.0,o,r0.1.0,a2,r2,a1")
TRUNCATIONS = ("a3,t2", "a3,t1,a1", "a2,t0,a3,o", "a3,a1,t2,o,a2,t3,a1", "a2,t2,a1")
OVERWRITTEN = ("a3,t1,a1", "a2,t0,a1,o,a2", "a3,t1,a1,o,a1,t2,a1", "a3,t2,o,t1,a2", "a3,t1,a1,a1")
FORKS = ("a2,f", "a2,f,a1,s,a2", "a1,f,a1,s,o,a3", "a3,f,t1,a2,s", "a3,f,s,t1,a2,s,a1", "a2,f,a1,f,a1,s,t2,a1")
REORDERED_FORKS = ("a2,f,r2.1.0,a1,s,a2", "a2,f,s,r1.2.0,s,a1")
HANDED_OUT = ("a2,o,a2", "a3,o,t0,a3", "a1,o,a1,o,a1,o", "a3,o,t1,o,a2")
EMPTY_TOKENS = ("a0", "a2,a0,o,a1", "a0,a3", "a3,t3,a0")
NO_TOKENS = ("o", "t0,o")
