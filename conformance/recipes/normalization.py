"""How the arrays of a normalization case are made: each recipe separates faults that plain random input hides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import Format
from gaugeblock.spec.reference.bounded import Real

Rng = np.random.Generator

LARGE = 6e4  # just inside float16, whose squares overflow above 256


@dataclass(frozen=True)
class Rows:
    """What a recipe may know: the shape (..., M), eps, and the format that will hold the values."""

    shape: tuple[int, ...]
    eps: float
    io: Format

    @property
    def M(self) -> int:
        return self.shape[-1]

    @property
    def lead(self) -> tuple[int, ...]:
        """The shape of a number for each row."""
        return (*self.shape[:-1], 1)


def _normal(r: Rows, rng: Rng) -> Real:
    return rng.normal(size=r.shape)


def _integers(r: Rows, rng: Rng) -> Real:
    """Small integers: sums, and sums of squares, are exact."""
    return rng.integers(-3, 4, r.shape).astype(np.float64)


def _scaled(r: Rows, rng: Rng) -> Real:
    """Rows of very different magnitude."""
    return np.asarray(rng.normal(size=r.shape) * 10 ** rng.uniform(-6, 3, r.lead))


def _unit(r: Rows, rng: Rng) -> Real:
    """Rows whose mean square is one."""
    x = rng.normal(size=r.shape)
    return np.asarray(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True)))


def _standard(r: Rows, rng: Rng) -> Real:
    """Rows of mean zero and variance one; of zeros where they have one element."""
    x = rng.normal(size=r.shape)
    x = x - np.mean(x, axis=-1, keepdims=True)
    return np.asarray(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-300))


def _at_root_eps(r: Rows, rng: Rng) -> Real:
    """Rows whose root mean square is 0.3, 1 or 3 times the root of eps, where its place matters most."""
    return np.asarray(_unit(r, rng) * rng.choice([0.3, 1.0, 3.0], r.lead) * np.sqrt(r.eps or 1.0))


def _deviation_at_root_eps(r: Rows, rng: Rng) -> Real:
    """Rows whose standard deviation is 0.3, 1 or 3 times the root of eps, and whose mean is of that size too."""
    size = rng.choice([0.3, 1.0, 3.0], r.lead) * np.sqrt(r.eps or 1.0)
    return np.asarray((_standard(r, rng) + rng.choice([-1.0, 0.0, 0.5], r.lead)) * size)


def _around(mean: float, spread: float) -> Callable[[Rows, Rng], Real]:
    """Rows around a large mean; the spread is at least two units of the last place that the format has there."""

    def recipe(r: Rows, rng: Rng) -> Real:
        width = max(spread, 4 * mean * r.io.u)
        return rng.choice([-1.0, 1.0], r.lead) * mean + width * rng.normal(size=r.shape)

    return recipe


def _zero(r: Rows, rng: Rng) -> Real:
    return np.zeros(r.shape)


def _some_zero(r: Rows, rng: Rng) -> Real:
    """The first row and about every third one are zero."""
    rows = rng.random(r.lead) < 0.3
    rows.reshape(-1)[:1] = True
    return np.where(rows, 0.0, rng.normal(size=r.shape))


def _constant(r: Rows, rng: Rng) -> Real:
    """Rows of one number: centring would leave nothing of them."""
    return np.broadcast_to(rng.choice([-2.0, -0.5, 1.0, 3.0, 100.0], r.lead), r.shape).copy()


def _alternating(r: Rows, rng: Rng) -> Real:
    """Plus and minus 50, with a little noise: the sum cancels, the squares do not."""
    return np.where(np.arange(r.M) % 2, -50.0, 50.0) + 1e-2 * rng.normal(size=r.shape)


def _outlier(r: Rows, rng: Rng) -> Real:
    """One element of each row is 300 times as large."""
    return rng.normal(size=r.shape) * np.where(np.arange(r.M) == rng.integers(0, r.M, r.lead), 300.0, 1.0)


def _spike(r: Rows, rng: Rng) -> Real:
    """One element of each row, its last one included, is not zero."""
    return np.where(np.arange(r.M) == rng.choice([0, r.M // 2, r.M - 1], r.lead), rng.choice([1.0, 100.0], r.lead), 0.0)


def _heavy(r: Rows, rng: Rng) -> Real:
    return np.clip(rng.standard_t(1.5, r.shape), -100, 100)


def _large(r: Rows, rng: Rng) -> Real:
    """Up to the end of float16: its squares overflow there, and so do its sums."""
    return np.asarray(rng.uniform(-1, 1, r.shape) * rng.choice([LARGE, 300.0], r.lead))


def _all_large(r: Rows, rng: Rng) -> Real:
    """All of one sign, near the end of float16: two of them do not fit into a sum."""
    return rng.choice([-1.0, 1.0], r.lead) * rng.uniform(0.5, 1.0, r.shape) * LARGE


def _small(r: Rows, rng: Rng) -> Real:
    """So small that the squares underflow in float16."""
    return np.asarray(rng.normal(size=r.shape) * 10 ** rng.uniform(-4.5, -3, r.lead))


def _w_normal(r: Rows, rng: Rng) -> Real:
    return rng.normal(size=r.M)


def _w_index(r: Rows, rng: Rng) -> Real:
    """Element i holds 1 + i mod 7: the output names the place that was read."""
    return np.asarray(1.0 + np.arange(r.M) % 7, np.float64)


def _w_scaled(r: Rows, rng: Rng) -> Real:
    return rng.normal(size=r.M) * 10 ** rng.uniform(-2, 2, r.M)


def _transposed(x: Numpy) -> Numpy:
    """The same values, the rows lying across memory."""
    return x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if x.ndim > 1 else _strided(x)


def _strided(x: Numpy) -> Numpy:
    """The same values, every axis read with a gap."""
    room = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
    view = room[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def _repeated(x: Numpy) -> Numpy:
    """The first row for all of them, and the first weight for all, by strides of zero."""
    return np.broadcast_to(x[:1] if x.ndim == 1 else x[(slice(1),) * (x.ndim - 1)], x.shape)


ROWS: Mapping[str, Callable[[Rows, Rng], Real]] = {
    "normal": _normal,
    "integers": _integers,
    "scaled": _scaled,
    "root-eps": _at_root_eps,
    "deviation-root-eps": _deviation_at_root_eps,
    "mean-100": _around(100.0, 0.3),
    "mean-1000": _around(1000.0, 0.5),
    "mean-10000": _around(10000.0, 2.0),
    "zero": _zero,
    "some-zero": _some_zero,
    "constant": _constant,
    "alternating": _alternating,
    "outlier": _outlier,
    "spike": _spike,
    "heavy": _heavy,
    "large": _large,
    "all-large": _all_large,
    "small": _small,
}
WEIGHTS: Mapping[str, Callable[[Rows, Rng], Real]] = {
    "normal": _w_normal,
    "index": _w_index,
    "scaled": _w_scaled,
    "zero": lambda r, rng: np.zeros(r.M),
    "one": lambda r, rng: np.ones(r.M),
}
LAYOUTS: Mapping[str, Callable[[Numpy], Numpy]] = {
    "": lambda x: x,
    "strided": _strided,
    "transposed": _transposed,
    "repeated": _repeated,
}
