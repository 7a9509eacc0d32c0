"""Wrong LayerNorms: weight, bias, constants, declarations."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.conventions import Conventions

Given = Array | None


@mutant(killed_by=("LN-AFFINE", "LN-FORMULA"))
class LayerNormWeightIgnored(NumpyBackend):
    """The weight is not used."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, None, bias)


@mutant(killed_by=("LN-AFFINE", "LN-ZERO-ROW", "LN-FORMULA"))
class LayerNormBiasIgnored(NumpyBackend):
    """The bias is not used."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, weight, None)


@mutant(killed_by=("LN-AFFINE", "LN-ZERO-ROW", "LN-FORMULA"))
class LayerNormBiasBeforeWeight(NumpyBackend):
    """The bias is added before the weight is applied, and scaled with the rest."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(super()._affine(normalized, None, bias), weight, None)


@mutant(killed_by=("LN-AFFINE", "LN-ZERO-ROW", "LN-FORMULA"))
class LayerNormBiasSubtracted(NumpyBackend):
    """The bias is subtracted."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, weight, None if bias is None else -bias)


@mutant(killed_by=("LN-AFFINE", "LN-ZERO-ROW", "LN-FORMULA"))
class LayerNormWeightAndBiasExchanged(NumpyBackend):
    """Weight and bias are taken for one another."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, bias, weight)


@mutant(killed_by=("LN-AFFINE",))
class LayerNormBiasOnlyWithWeight(NumpyBackend):
    """Without a weight the bias is forgotten."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, weight, None if weight is None else bias)


@mutant(killed_by=("LN-AFFINE",))
class LayerNormWeightOnlyWithBias(NumpyBackend):
    """Without a bias the weight is forgotten."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, None if bias is None else weight, bias)


@mutant(killed_by=("LN-AFFINE", "LN-FORMULA"))
class LayerNormWeightPlusOne(NumpyBackend):
    """The weight stands for one plus itself, as in RMSNorm's other convention."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, None if weight is None else weight + weight.dtype.type(1), bias)


@mutant(killed_by=("LN-FORMULA", "LN-MOMENTS"))
class LayerNormTooLarge(NumpyBackend):
    """The normalized row is 0.1 % too large."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(super()._inverse_deviation(variance, eps) * variance.dtype.type(1.001))


@mutant(killed_by=("LN-FORMULA", "LN-MOMENTS"), dtypes=("float32", "bfloat16", "float16"))
class LayerNormOnePercentTooLarge(NumpyBackend):
    """The normalized row is 1 % too large."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(super()._inverse_deviation(variance, eps) * variance.dtype.type(1.01))


@mutant(killed_by=("LN-SHIFT", "LN-LARGE-MEAN", "LN-FORMULA"))
class LayerNormMeanTooLarge(NumpyBackend):
    """The mean is 0.1 % too large."""

    def _mean(self, x: Array) -> Array:
        return np.asarray(super()._mean(x) * x.dtype.type(1.001))


@mutant(killed_by=("LN-FORMULA", "LN-AFFINE"))
class LayerNormNegative(NumpyBackend):
    """The mean less the row is normalized, not the row less the mean."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(-super()._inverse_deviation(variance, eps))


@mutant(killed_by=("LN-FORMULA", "LN-MOMENTS"))
class LayerNormClipped(NumpyBackend):
    """Normalized values are clipped to ±3."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(np.clip(normalized, -3, 3), weight, bias)


@mutant(killed_by=("LN-FORMULA", "LN-POPULATION"))
class DeclaresSampleDeviation(NumpyBackend):
    """The sample deviation plus eps is declared; it is the population variance with eps inside."""

    conventions = Conventions(layer_norm_form="sample_eps_outside")


@mutant(killed_by=("LN-ROWS", "LN-FORMULA"))
class LayerNormRemembersTheMean(NumpyBackend):
    """The mean is a running one, of this call and of the calls before."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.state: Any = 0.0

    def _mean(self, x: Array) -> Array:
        self.state = 0.9 * self.state + 0.1 * float(np.mean(x)) if x.size else self.state
        return np.asarray(super()._mean(x) + x.dtype.type(self.state))
