"""Backward passes of norms in other forms, which the bounds of the gradients admit."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.handwritten import HandwrittenNorms
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.normalization import SampleDeviationDeclared, SampleDeviationOneByOne


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


@correct
class SampleDeviationBackward(SampleDeviationDeclared, HandwrittenNorms):
    """The sample deviation plus eps, declared, and its gradients: with the deviation alone in one of the divisors."""

    def _row_back(self, h: Array, centred: Array, r: Array) -> Array:
        deviation = np.sqrt(self._variance(centred, centred))
        b = r * r * self._pulled(h * centred) / deviation
        return np.asarray(r * (h - self._mean_back(h)) - b * centred)

    def _pulled(self, terms: Array) -> Array:
        M = terms.shape[-1]
        return np.asarray(np.sum(terms, axis=-1, keepdims=True) / terms.dtype.type(M - 1))


@correct
class SampleDeviationByParts(SampleDeviationOneByOne, HandwrittenNorms):
    """The same as a tape has it, quotient, root, squares and mean by turns, with sums taken element by element."""

    def _row_back(self, h: Array, centred: Array, r: Array) -> Array:
        M, two = h.dtype.type(h.shape[-1]), h.dtype.type(2)
        root = np.sqrt(self._variance(centred, centred) * self._bessel)
        moved = -np.add.accumulate(h * (centred * r) * r, axis=-1)[..., -1:]
        squares = moved / (two * root) * self._bessel / M
        back = h * r + squares * two * centred
        return np.asarray(back - np.add.accumulate(back, axis=-1)[..., -1:] / M)
