"""How the arrays of an activation or feed-forward case are made: each recipe separates what random input hides."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import HALF, Format
from gaugeblock.spec.reference.bounded import Real

Rng = np.random.Generator
Shape = tuple[int, ...]
Numbers = Callable[[Shape, Format, Rng], Real]

DENSE, LOGARITHMIC = 40000, 20000  # of the numbers that stand for a format too wide to try all of it
INTERESTING = 12.0  # beyond it every gate is 0 or 1 in half precision and float32


def every(io: Format, rng: Rng) -> Numpy:
    """Every finite number of a half-precision format; else a dense grid where the functions bend, and every size."""
    if io.name in HALF:
        codes = np.arange(2**16, dtype=np.uint16).view(io.dtype)
        with np.errstate(invalid="ignore"):  # some codes are signalling NaN
            return codes[np.isfinite(codes)]
    step = 2 * INTERESTING / DENSE
    dense = -INTERESTING + step * (np.arange(DENSE) + rng.random(DENSE))
    exponents = rng.uniform(io.emin - io.p, io.emax, LOGARITHMIC)
    sizes = np.exp2(exponents) * rng.choice([-1.0, 1.0], LOGARITHMIC)
    return np.concatenate([[0.0, io.max, -io.max, io.tiny, -io.tiny], dense, sizes]).astype(io.dtype)


def _special(shape: Shape, io: Format, rng: Rng) -> Real:
    """Where the formulas differ most (2.699), where they bend, and the numbers that anyone can look up."""
    known = [1.0, -2.0, 3.0, -2.699, 2.699, 0.0, -0.75, 0.5, -1.0, 2.0, -5.0, 5.0, -0.1, -3.5]
    return rng.permutation(np.resize(known, int(np.prod(shape)))).reshape(shape)


def _large(shape: Shape, io: Format, rng: Rng) -> Real:
    """Magnitudes from 8 to the largest, at which a cube or an exponential overflows."""
    return np.asarray(np.exp2(rng.uniform(3, io.emax, shape)) * rng.choice([-1.0, 1.0], shape))


def _far(shape: Shape, io: Format, rng: Rng) -> Real:
    """Magnitudes from 8 to 512: an exponential overflows in float32, where its quotient by itself is no number."""
    return np.asarray(np.exp2(rng.uniform(3, 9, shape)) * rng.choice([-1.0, 1.0], shape))


def _small(shape: Shape, io: Format, rng: Rng) -> Real:
    return np.asarray(np.exp2(rng.uniform(io.emin - io.p, -3, shape)) * rng.choice([-1.0, 1.0], shape))


NUMBERS: Mapping[str, Numbers] = {
    "normal": lambda shape, io, rng: 2 * rng.normal(size=shape),
    "special": _special,
    "integers": lambda shape, io, rng: rng.integers(-9, 10, shape).astype(np.float64),
    "large": _large,
    "far": _far,
    "small": _small,
}


class Widths(NamedTuple):
    """The widths of a feed-forward network: of the model, and between."""

    M: int
    F: int


Made = dict[str, Real]


def _rows(scale: float) -> Callable[[Shape, Rng], Real]:
    return lambda shape, rng: scale * rng.normal(size=shape)


def _scaled_rows(shape: Shape, rng: Rng) -> Real:
    """Rows of very different magnitude."""
    return rng.normal(size=shape) * 10 ** rng.uniform(-3, 1, (*shape[:-1], 1))


def _cancelling(shape: Shape, rng: Rng) -> Real:
    """Large terms that cancel in the product with weights whose neighbours nearly agree."""
    return rng.normal(size=shape) + 8.0 * np.where(np.arange(shape[-1]) % 2, -1.0, 1.0)


ROWS: Mapping[str, Callable[[Shape, Rng], Real]] = {
    "normal": _rows(1.0),
    "scaled": _scaled_rows,
    "cancelling": _cancelling,
    "integers": lambda shape, rng: rng.integers(-3, 4, shape).astype(np.float64),
    "ones": lambda shape, rng: np.ones(shape),
    "zero": lambda shape, rng: np.zeros(shape),
}


def _layers(d: Widths, of: Callable[[int, int], Real]) -> Made:
    return {"gate": of(d.M, d.F), "up": of(d.M, d.F), "down": of(d.F, d.M)}


def _normal(d: Widths, rng: Rng) -> Made:
    return _layers(d, lambda fan_in, fan_out: rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in))


def _positive(d: Widths, rng: Rng) -> Made:
    """Down weights of one sign: nothing cancels in the last sum, and every hidden unit tells."""
    made = _normal(d, rng)
    return {**made, "down": np.abs(made["down"]) + 0.5 / d.F}


def _integers(d: Widths, rng: Rng) -> Made:
    """Small integers: with relu every partial sum is exact, so that a wrong index cannot hide in a bound."""
    return _layers(d, lambda fan_in, fan_out: rng.integers(-2, 3, (fan_in, fan_out)).astype(np.float64))


def _diagonal(gate: float, up: float) -> Callable[[Widths, Rng], Made]:
    def recipe(d: Widths, rng: Rng) -> Made:
        eye = np.eye(d.M, d.F)
        return {"gate": gate * eye, "up": up * eye, "down": eye.T.copy()}

    return recipe


def _single(d: Widths, rng: Rng) -> Made:
    """One path through the network: input m to hidden unit f to output n, each at random."""
    m, f, n = rng.integers(d.M), rng.integers(d.F), rng.integers(d.M)
    wide, narrow = np.zeros((d.M, d.F)), np.zeros((d.F, d.M))
    wide[m, f], narrow[f, n] = 1.0, 1.0
    return {"gate": 1.5 * wide, "up": wide, "down": narrow}


def _shut(d: Widths, rng: Rng) -> Made:
    """A gate whose weights are zero."""
    made = _normal(d, rng)
    return {**made, "gate": np.zeros((d.M, d.F))}


def _steep(d: Widths, rng: Rng) -> Made:
    """Large hidden values: the activations are at their limits, where an exponential overflows in half precision."""
    made = _positive(d, rng)
    return {**made, "gate": 12 * made["gate"], "up": 12 * made["up"]}


WEIGHTS: Mapping[str, Callable[[Widths, Rng], Made]] = {
    "normal": _normal,
    "positive": _positive,
    "integers": _integers,
    "probe": _diagonal(2.0, 3.0),  # not 1 and 2: swapped and ungated would then coincide
    "steep": _steep,
    "single": _single,
    "shut": _shut,
}
BIASES: Mapping[str, tuple[str, ...]] = {
    "all": ("gate", "up", "down"),
    "gate": ("gate",),
    "up": ("up",),
    "down": ("down",),
    "gate+up": ("gate", "up"),
    "up+down": ("up", "down"),
}


def _strided(x: Numpy) -> Numpy:
    """The same values, every axis read with a gap."""
    room = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
    view = room[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def _transposed(x: Numpy) -> Numpy:
    """The same values, the last two axes lying across memory: how a library's (out, in) weights arrive."""
    return x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if x.ndim > 1 else _strided(x)


LAYOUTS: Mapping[str, Callable[[Numpy], Numpy]] = {
    "": lambda x: x,
    "strided": _strided,
    "transposed": _transposed,
}
