"""Backward passes of networks in other forms, which the bounds of the gradients admit."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfNetworks
from gaugeblock.conformance.mutants.handwritten import Back, HandwrittenNetworks
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.feedforward import GeluOfFewTerms


@correct
class SlopesOfTheGate(HandwrittenNetworks):
    """Slopes are g + z (g - g g) with the gate made again by tanh, and biases are summed from the last position on."""

    def _slope_silu(self, x: Array, beta: float) -> Array:
        z = x.dtype.type(beta) * x
        gate = (1 + np.tanh(z / 2)) / 2
        return np.asarray(gate + z * (gate - gate * gate))

    def _over_positions(self, g: Array) -> Array:
        total = np.zeros(g.shape[-1], g.dtype)
        for row in g[::-1]:
            total = total + row
        return total


@correct
class GeluOfFewTermsBackward(GeluOfFewTerms, HandwrittenNetworks):
    """The slope of GELU has the same error function as GELU itself, of few terms."""


@correct
class NetworksBackwardInTheFormat(KnowsTheFormatOfNetworks, HandwrittenNetworks):
    """Every intermediate of the backward pass is rounded to the format of the call, as eager code has it."""

    def _linear_back(self, dy: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return self._stored(super()._linear_back(dy, weights, layer))

    def _layer_back(self, x: Array, dy: Array, weights: Mapping[str, Array], layer: str) -> Back:
        return super()._layer_back(x, self._stored(dy), weights, layer)
