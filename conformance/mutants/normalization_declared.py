"""Normalizations that declare what they do not do."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.declared import declares, forgets
from gaugeblock.conformance.unusual.normalization import (
    EpsHeldInFloat32,
    NormsWithoutOptions,
    OnePlusWeightDeclared,
    SampleDeviationDeclared,
)
from gaugeblock.spec.conventions import Conventions

declares(NumpyBackend, __name__, killed_by=("RMS-WEIGHT",), convention="rms_weight", value="1+w")
declares(OnePlusWeightDeclared, __name__, killed_by=("RMS-WEIGHT",), convention="rms_weight", value="w")
declares(
    SampleDeviationDeclared, __name__, killed_by=("LN-POPULATION",), convention="layer_norm_form", value="population"
)
declares(
    EpsHeldInFloat32,
    __name__,
    killed_by=("LN-EPS-INSIDE",),
    dtypes=("float64",),
    convention="scalars",
    value="float64",
)


@mutant(killed_by=("LN-EPS-INSIDE",))
class SampleVarianceButEpsInside(SampleDeviationDeclared):
    """The sample deviation is divided by with eps inside the root, where eps outside is declared."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return NumpyBackend._inverse_deviation(self, variance, eps)


@mutant(killed_by=("LN-POPULATION",))
class EpsOutsideButPopulation(NumpyBackend):
    """eps is added to the population deviation, where the sample deviation is declared."""

    conventions = Conventions(layer_norm_form="sample_eps_outside")

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(variance) + variance.dtype.type(eps)))


forgets(
    NormsWithoutOptions,
    __name__,
    {
        "layer_norm.weightless": "LN-AFFINE",
        "layer_norm.biasless": "LN-AFFINE",
        "layer_norm.eps.zero": "LN-ZERO-ROW",
        "layer_norm.empty.rows": "LN-EMPTY",
        "rms_norm.weightless": "RMS-MOMENT",
        "rms_norm.eps.zero": "RMS-ZERO-ROW",
        "rms_norm.empty.rows": "RMS-EMPTY",
    },
)
