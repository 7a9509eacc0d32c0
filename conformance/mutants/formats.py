"""Implementations that know the format of the call where NumPy computes in a wider one, to round to it in between."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.spec.precision import Format

Given = Array | None


def stored(x: Array, io: Format | np.dtype[Any]) -> Array:
    """x rounded to a format and read back."""
    dtype = io.dtype if isinstance(io, Format) else io
    with np.errstate(over="ignore"):
        return np.asarray(x.astype(dtype).astype(x.dtype))


class KnowsTheFormat(NumpyBackend):
    """Remembers the format of the call."""

    io: np.dtype[Any]

    def _stored(self, x: Array) -> Array:
        return stored(x, self.io)


class KnowsTheFormatOfScores(KnowsTheFormat):
    """That of the queries."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        self.io = q.dtype
        return super().attention(q, k, v, **options)

    def soft_capped_attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        self.io = q.dtype
        return super().soft_capped_attention(q, k, v, **options)


class KnowsTheFormatOfPairs(KnowsTheFormat):
    """That of the vectors to be rotated."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        self.io = x.dtype
        return super().rotate(x, positions, **options)


class KnowsTheFormatOfRows(KnowsTheFormat):
    """That of the rows to be normalized."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        self.io = x.dtype
        return super().layer_norm(x, weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        self.io = x.dtype
        return super().rms_norm(x, weight, eps=eps)


class KnowsTheFormatOfNetworks(KnowsTheFormat):
    """That of the rows that go into a feed-forward network."""

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        self.io = x.dtype
        return super().feed_forward(x, weights, activation=activation)

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        self.io = x.dtype
        return super().swiglu(x, weights)
