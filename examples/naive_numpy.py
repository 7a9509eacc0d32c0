"""A textbook attention, by someone who never thought of rows that see nothing: gaugeblock check finds them."""

import numpy as np

from gaugeblock import Backend
from gaugeblock.spec.attention import Attention


class NaiveAttention(Attention, Backend):
    name = "naive"
    dtypes = frozenset({"float64", "float32"})
    unsupported = {"attention.window": "no sliding window", "attention.bias": "no bias"}

    def attention(self, q, k, v, *, mask=None, causal=False, scale=None):
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:], k=scores.shape[-1] - scores.shape[-2]), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v
