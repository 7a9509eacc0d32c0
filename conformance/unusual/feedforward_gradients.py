"""Backward passes of networks in other forms, which the bounds of the gradients admit."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
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
class NetworksBackwardInTheFormat(HandwrittenNetworks):
    """Every intermediate of the backward pass is rounded to the format of the call, as eager code has it."""

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        self.io = x.dtype
        return super().feed_forward(x, weights, activation=activation)

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        self.io = x.dtype
        return super().swiglu(x, weights)

    def _linear_back(self, dy: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return upcast(round_once(super()._linear_back(dy, weights, layer), self.io))

    def _layer_back(self, x: Array, dy: Array, weights: Mapping[str, Array], layer: str) -> Back:
        return super()._layer_back(x, upcast(round_once(dy, self.io)), weights, layer)
