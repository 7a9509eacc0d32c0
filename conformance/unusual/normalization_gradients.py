"""Backward passes of norms in other forms, which the bounds of the gradients admit."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.handwritten import HandwrittenNorms
from gaugeblock.conformance.unusual import correct


@correct
class NormsBackwardByTwoFactors(HandwrittenNorms):
    """The gradient is r h - b (x r), b the mean of h (x r) from a sum of terms scaled by r beforehand."""

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        scaled = r * h
        b = np.sum(scaled * normal, axis=-1, keepdims=True) * (h.dtype.type(1) / h.dtype.type(h.shape[-1]))
        return np.asarray(scaled - b * normal)


@correct
class NormWeightsRowByRow(HandwrittenNorms):
    """Weights and biases collect their gradients from the last row to the first, one after the other."""

    def _over_rows(self, g: Array) -> Array:
        rows = g.reshape(-1, g.shape[-1])
        total = np.zeros(g.shape[-1], g.dtype)
        for row in rows[::-1]:
            total = total + row
        return total
