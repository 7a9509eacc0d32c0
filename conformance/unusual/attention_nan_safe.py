"""Attention that keeps what it promises about NaN and infinity behind a mask."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.attention import Window


class NanSafe(NumpyBackend):
    """A mixture that knows which keys are visible, and not only what weight they have."""

    nan_safe = True

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
        visible = np.broadcast_to(self._visible(d, mask, bias, causal, window), (d.B, d.H, d.T, d.S))
        scores = self._add_bias(self._scores(d, upcast(q), upcast(k), self._scale(d, scale)), bias)
        values = np.repeat(upcast(v), d.H // d.K, axis=1)  # (B, H, S, E)
        return round_once(self._mixed(self._softmax(scores, visible), values, visible), q.dtype)

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        """weights and visible (B, H, T, S), v (B, H, S, E) -> (B, H, T, E)."""
        raise NotImplementedError


@correct
class SelectsTerms(NanSafe):
    """nan_safe: every term of the mixture is selected before the sum."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        terms = np.where(visible[..., None], weights[..., None] * v[:, :, None], 0)  # (B, H, T, S, E)
        return np.asarray(terms.sum(axis=-2))


@correct
class MarksQueries(NanSafe):
    """nan_safe: the values are mixed without their NaN and infinity, which a second product of bits puts back."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        finite = np.isfinite(v)
        seen = visible.astype(v.dtype) @ (~finite).astype(v.dtype) > 0
        return np.where(seen, np.nan, weights @ np.where(finite, v, 0))
