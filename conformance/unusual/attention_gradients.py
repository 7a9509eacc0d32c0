"""Backward passes of attention in other forms and orders, which the bounds of the gradients admit."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfScores
from gaugeblock.conformance.mutants.handwritten import HandwrittenAttention
from gaugeblock.conformance.unusual import BACKWARD, correct
from gaugeblock.spec.attention import Dims

BLOCK = 2


@correct
class DeltaFromTheOutput(HandwrittenAttention):
    """Weights are made again from the log-sum-exp, the row term from the output and its cotangent."""

    dtypes = BACKWARD

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        hidden = np.where(visible, scores, -np.inf)
        m = np.max(hidden, axis=-1, keepdims=True, initial=-np.inf)
        m = np.where(m == -np.inf, 0, m)
        total = np.sum(np.exp(hidden - m), axis=-1, keepdims=True)
        lse = np.where(total > 0, m + np.log(np.where(total > 0, total, 1)), np.inf)
        return np.asarray(np.exp(hidden - lse))

    def _row_term(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return np.asarray(np.sum(dy * y, axis=-1, keepdims=True))


@correct
class KeyBlocksBackward(DeltaFromTheOutput):
    """As a flash kernel goes: keys in blocks, groups from the last head to the first, the scale by both its roots."""

    dtypes = BACKWARD

    def _scores_back(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        delta = self._row_term(p, dp, dy, y)
        starts = range(0, p.shape[-1], BLOCK)
        return np.concatenate(
            [p[..., n : n + BLOCK] * dp[..., n : n + BLOCK] - p[..., n : n + BLOCK] * delta for n in starts] or [p],
            axis=-1,
        )

    def _over_group(self, d: Dims, g: Array) -> Array:
        parts = g.reshape(d.B, d.K, d.H // d.K, *g.shape[2:])
        total = np.zeros_like(parts[:, :, 0])
        for h in reversed(range(d.H // d.K)):
            total = total + parts[:, :, h]
        return total

    def _scaled_back(self, c: Any) -> Any:
        return np.sqrt(c) * np.sqrt(c) if c >= 0 else c


@correct
class AttentionBackwardInTheFormat(KnowsTheFormatOfScores, HandwrittenAttention):
    """Weights and scores of the backward pass, and what heads give a group, are rounded to the format of the call."""

    dtypes = BACKWARD

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        return self._stored(super()._weights_again(scores, visible))

    def _scores_back(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return self._stored(super()._scores_back(p, self._stored(dp), dy, y))

    def _over_group(self, d: Dims, g: Array) -> Array:
        return super()._over_group(d, self._stored(g))
