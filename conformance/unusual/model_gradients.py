"""Backward passes of decoders in other orders, which the bounds of the gradients admit."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants.handwritten import Back
from gaugeblock.conformance.mutants.taped import Taped
from gaugeblock.conformance.unusual import correct

CHUNK = 3


@correct
class HeadInChunks(Taped):
    """The head goes back over a few columns of the vocabulary at a time, as one that is fused with its loss does."""

    dtypes = frozenset({"float32", "float64"})

    def _head_back(self, x: Array, model: Model, dy: Array) -> Back:
        w, tied = model.weights, model.config.tied
        table = w["decoder.embedding.weight"] if tied else w["head.weight"]
        wide = upcast(table) if tied else upcast(table).T  # (V, M)
        rows, g = upcast(x).reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        dx, own = np.zeros_like(rows), np.zeros_like(wide)
        for n in range(0, len(wide), CHUNK):
            some = slice(n, n + CHUNK)
            dx = dx + g[:, some] @ wide[some]
            own[some] = g[:, some].T @ rows
        bias = w.get("head.bias")
        return [(x, dx.reshape(x.shape)), (table, own if tied else own.T), (bias, np.sum(g[::-1], axis=0))]

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        total = np.zeros(table.shape, dy.dtype)
        np.add.at(total, positions.reshape(-1)[::-1], dy.reshape(-1, dy.shape[-1])[::-1])
        return total
