"""Activations and feed-forward networks in NumPy (source 6.3; Vaswani et al. 2017, eq. 2; Shazeer 2020, eq. 6)."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.feedforward import (
    Activations,
    FeedForward,
    dtypes,
    elementwise,
    feed_forward_dims,
    swiglu_dims,
)

TERMS = 40  # of the series, which at |x| = 2 has then converged to float64
DEPTH = 60  # of the continued fraction, likewise


class NumpyNonlinearities:
    """The formulas, on arrays of float32 or float64."""

    def _relu(self, x: Array) -> Array:
        return np.asarray(np.maximum(x, 0))

    def _gelu(self, x: Array) -> Array:
        return np.asarray(x * self._normal_cdf(x))

    def _normal_cdf(self, x: Array) -> Array:
        return np.asarray((1 + erf(x * np.sqrt(0.5))) / 2).astype(x.dtype)

    def _gelu_tanh(self, x: Array) -> Array:
        with np.errstate(over="ignore"):  # a cube that overflows gives a tanh of one
            inner = x + x.dtype.type(0.044715) * x * x * x
        return np.asarray(x / 2 * (1 + np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * inner)))

    def _silu(self, x: Array, beta: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x * self._sigmoid(x.dtype.type(beta) * x))

    def _sigmoid(self, z: Array) -> Array:
        e = np.exp(-np.abs(z))  # never above one
        return np.asarray(np.where(z < 0, e, 1) / (1 + e))


class NumpyActivations(NumpyNonlinearities, Activations):
    """Each function in at least float32, rounded once."""

    def relu(self, x: Array) -> Array:
        elementwise(x.dtype.name)
        return round_once(self._relu(upcast(x)), x.dtype)

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        elementwise(x.dtype.name, approximate=approximate)
        formula = self._gelu if approximate == "none" else self._gelu_tanh
        return round_once(formula(upcast(x)), x.dtype)

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        elementwise(x.dtype.name, beta=beta)
        return round_once(self._silu(upcast(x), beta), x.dtype)


class NumpyFeedForward(NumpyNonlinearities, FeedForward):
    """The networks as one reads them, in at least float32, rounded once."""

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        feed_forward_dims(x.shape, {name: w.shape for name, w in weights.items()}, activation)
        dtypes(x.dtype.name, {name: w.dtype.name for name, w in weights.items()}, "feed_forward")
        hidden = self._linear(upcast(x), weights, "up")
        return round_once(self._linear(self._activate(hidden, activation), weights, "down"), x.dtype)

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        swiglu_dims(x.shape, {name: w.shape for name, w in weights.items()})
        dtypes(x.dtype.name, {name: w.dtype.name for name, w in weights.items()}, "swiglu")
        gate = self._linear(upcast(x), weights, "gate")
        up = self._linear(upcast(x), weights, "up")
        return round_once(self._linear(self._gated(gate, up), weights, "down"), x.dtype)

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        y = x @ upcast(weights[f"{layer}.weight"])
        bias = weights.get(f"{layer}.bias")
        return np.asarray(y if bias is None else y + upcast(bias))

    def _activate(self, hidden: Array, activation: str) -> Array:
        if activation == "silu":
            return self._silu(hidden, 1.0)
        return {"relu": self._relu, "gelu": self._gelu, "gelu_tanh": self._gelu_tanh}[activation](hidden)

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._silu(gate, 1.0) * up)


def erf(x: Array) -> Array:
    """The error function in float64, which NumPy lacks.

    Up to 2 a series whose terms all have one sign, beyond it one minus a continued fraction
    (Abramowitz and Stegun 1964, 7.1.6 and 7.1.14).
    """
    size = np.abs(np.asarray(x, np.float64))
    near, far = np.minimum(size, 2), np.clip(size, 2, 40)
    term = total = near
    for n in range(1, TERMS):
        term = term * (2 * near * near / (2 * n + 1))
        total = total + term
    series = 2 / np.sqrt(np.pi) * np.exp(-near * near) * total
    fraction = far
    for n in range(DEPTH, 0, -1):
        fraction = far + n / 2 / fraction
    rest = np.exp(-far * far) / np.sqrt(np.pi) / fraction
    return np.asarray(np.copysign(np.where(size > 2, 1 - rest, series), x))
