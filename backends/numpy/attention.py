"""Scaled dot-product attention in NumPy (source 2.1-2.2; Vaswani et al. 2017, eq. 1)."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.attention import Attention, Dims, SoftCapped, Window, cap, dims, dtypes, options


class NumpyAttention(Attention, SoftCapped):
    """Attention as one reads it: scores, visible keys, softmax, mixture."""

    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        d = self._check(q, k, v, mask, bias, window, scale)
        visible = self._visible(d, mask, bias, causal, window)
        scores = self._scores(d, upcast(q), upcast(k), self._scale(d, scale))
        weights = self._softmax(self._add_bias(scores, bias), visible)
        return round_once(self._mix(d, weights, upcast(v)), q.dtype)

    def soft_capped_attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        softcap: float,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        d = self._check(q, k, v, mask, bias, window, scale)
        cap(softcap)
        visible = self._visible(d, mask, bias, causal, window)
        scores = self._soft_cap(self._scores(d, upcast(q), upcast(k), self._scale(d, scale)), softcap)
        weights = self._softmax(self._add_bias(scores, bias), visible)
        return round_once(self._mix(d, weights, upcast(v)), q.dtype)

    def _check(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        bias: Array | None,
        window: Window | None,
        scale: float | None,
    ) -> Dims:
        d = dims(q.shape, k.shape, v.shape, mask=_shape(mask), bias=_shape(bias))
        dtypes(q.dtype.name, k.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))
        options(window, scale)
        return d

    def _scale(self, d: Dims, scale: float | None) -> float:
        return float(1 / np.sqrt(d.D)) if scale is None else float(scale)

    def _visible(self, d: Dims, mask: Array | None, bias: Array | None, causal: bool, window: Window | None) -> Array:
        """Which keys each query may attend to: bool, broadcasts to (B, H, T, S)."""
        i = np.arange(d.T)[:, None] + (d.S - d.T)  # the last query is aligned with the last key
        j = np.arange(d.S)[None, :]
        visible = np.ones((1, 1, d.T, d.S), bool)
        left, right = window or (None, None)
        if causal:
            visible = visible & (j <= i)
        if left is not None:
            visible = visible & (j >= i - left)
        if right is not None:
            visible = visible & (j <= i + right)
        if mask is not None:
            visible = visible & mask
        if bias is not None:
            visible = visible & (upcast(bias) != -np.inf)
        return visible

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        grouped = q.reshape(d.B, d.K, d.H // d.K, d.T, d.D)
        scores = grouped @ k[:, :, None].swapaxes(-1, -2)  # (B, K, H/K, T, S)
        return np.asarray(scores.reshape(d.B, d.H, d.T, d.S) * q.dtype.type(scale))

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        c = scores.dtype.type(softcap)
        return np.asarray(c * np.tanh(scores / c))

    def _add_bias(self, scores: Array, bias: Array | None) -> Array:
        return scores if bias is None else scores + upcast(bias)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        """Softmax over the visible keys; a row that sees none gets weights zero."""
        scores = np.where(visible, scores, -np.inf)
        highest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        exps = np.exp(scores - np.where(highest == -np.inf, 0, highest))
        total = np.sum(exps, axis=-1, keepdims=True)
        return np.asarray(exps / np.where(total == 0, 1, total))

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        grouped = weights.reshape(d.B, d.K, d.H // d.K, d.T, d.S)
        mixed = grouped @ v[:, :, None]  # (B, K, H/K, T, E)
        return mixed.reshape(d.B, d.H, d.T, d.E)


def _shape(x: Array | None) -> tuple[int, ...] | None:
    return None if x is None else x.shape


def _dtype(x: Array | None) -> str | None:
    return None if x is None else x.dtype.name
