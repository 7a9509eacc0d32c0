"""Backward passes of networks in other forms, which the bounds of the gradients admit."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.handwritten import HandwrittenNetworks
from gaugeblock.conformance.unusual import correct


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
