"""Backward passes of norms that disagree with the forward pass, which is right."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import HandwrittenNorms
from gaugeblock.conformance.unusual.normalization import SampleDeviationDeclared
from gaugeblock.conformance.unusual.normalization_gradients import SampleDeviationBackward

BOTH = ("float32", "float64")


@mutant(killed_by=("RMS-GRADIENT-ORTHOGONAL", "RMS-GRADIENT", "LN-GRADIENT"), dtypes=BOTH)
class MeanSquareHeldConstant(HandwrittenNorms):
    """The mean square, or the variance, is taken for a constant."""

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        return np.asarray(r * h)


@mutant(killed_by=("LN-GRADIENT-ORTHOGONAL", "LN-GRADIENT"), dtypes=BOTH)
class MeanHeldConstant(HandwrittenNorms):
    """The mean of LayerNorm is taken for a constant."""

    def _mean_back(self, h: Array) -> Array:
        return np.zeros_like(h[..., :1])


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"), reports=("karpathy/llm.c#763",))
class WeightMissingBackward(HandwrittenNorms):
    """The gradient of x lacks the weight."""

    def _weighted(self, dy: Array, weight: Array | None) -> Array:
        return dy


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"))
class WeightOfTheLastRow(HandwrittenNorms):
    """Weight and bias get the gradient of the last row only."""

    def _over_rows(self, g: Array) -> Array:
        return g.reshape(-1, g.shape[-1])[-1] if g.size else np.zeros(g.shape[-1], g.dtype)


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"))
class WeightAveragedOverRows(HandwrittenNorms):
    """Weight and bias get the mean over the rows, not the sum."""

    def _over_rows(self, g: Array) -> Array:
        return np.asarray(super()._over_rows(g) / g.dtype.type(max(g.size // g.shape[-1], 1)))


@mutant(killed_by=("RMS-GRADIENT",), reports=("unslothai/unsloth#832",))
class WeightWithoutGradient(HandwrittenNorms):
    """Weight and bias have the gradient zero."""

    def _over_rows(self, g: Array) -> Array:
        return np.zeros(g.shape[-1], g.dtype)


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"))
class SumForMeanBackward(HandwrittenNorms):
    """The backward pass sums over the row where it should take the mean."""

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        return np.asarray(r * (h - normal * np.sum(h * normal, axis=-1, keepdims=True)))


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"))
class BackwardOnePercentOff(HandwrittenNorms):
    """The term of the mean square is 1 % too large."""

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        term = normal * np.mean(h * normal, axis=-1, keepdims=True)
        return np.asarray(r * (h - h.dtype.type(1.01) * term))


class OtherEpsBackward(HandwrittenNorms):
    """The backward pass has an eps of its own."""

    backwards = False

    def vjp(self, function: Any, *primals: Any) -> Any:
        value, pullback = super().vjp(function, *primals)

        def with_other_eps(dy: Array) -> Any:
            self.backwards = True
            try:
                return pullback(dy)
            finally:
                self.backwards = False

        return value, with_other_eps


@mutant(killed_by=("RMS-GRADIENT", "LN-GRADIENT"))
class EpsMissingBackward(OtherEpsBackward):
    """The reciprocal root is made again without eps."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, 0.0 if self.backwards else eps)

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, 0.0 if self.backwards else eps)


@mutant(killed_by=("LN-GRADIENT-ORTHOGONAL", "LN-GRADIENT"), dtypes=BOTH)
class PopulationBackwardOfSamples(SampleDeviationDeclared, HandwrittenNorms):
    """The sample deviation plus eps, which is declared, has the backward pass of the population form."""


@mutant(killed_by=("LN-GRADIENT",), dtypes=BOTH)
class DeviationWithEpsBackward(SampleDeviationBackward):
    """The backward pass of a declared sample deviation divides by the deviation plus eps throughout."""

    def _row_back(self, h: Array, centred: Array, r: Array) -> Array:
        b = r * r * r * self._pulled(h * centred)
        return np.asarray(r * (h - self._mean_back(h)) - b * centred)


@mutant(killed_by=("LN-GRADIENT-ORTHOGONAL", "LN-GRADIENT"), dtypes=BOTH)
class BesselForgottenBackward(SampleDeviationBackward):
    """The backward pass of a declared sample deviation divides by the width, not by the width less one."""

    def _pulled(self, terms: Array) -> Array:
        return np.asarray(np.mean(terms, axis=-1, keepdims=True))
