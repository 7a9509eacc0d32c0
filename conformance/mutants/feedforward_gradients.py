"""Backward passes of activations and networks that disagree with the forward pass, which is right."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import Back, HandwrittenNetworks


@mutant(killed_by=("ACT-GRADIENT", "FFN-GRADIENT"))
class SlopeOfGeluByTanh(HandwrittenNetworks):
    """The gradient of gelu is that of its approximation by tanh."""

    def _slope_gelu(self, x: Array) -> Array:
        return self._slope_gelu_tanh(x)


@mutant(killed_by=("ACT-GRADIENT", "FFN-GRADIENT"))
class SlopeOfGeluByErf(HandwrittenNetworks):
    """The gradient of gelu by tanh is that of gelu by erf."""

    def _slope_gelu_tanh(self, x: Array) -> Array:
        return self._slope_gelu(x)


@mutant(killed_by=("ACT-GRADIENT", "SWIGLU-GRADIENT"))
class GateHeldConstant(HandwrittenNetworks):
    """The gate of silu is taken for a constant."""

    def _slope_silu(self, x: Array, beta: float) -> Array:
        return self._sigmoid(x.dtype.type(beta) * x)


@mutant(killed_by=("ACT-GRADIENT",))
class BetaForgottenBackward(HandwrittenNetworks):
    """The gradient of silu is that of beta 1."""

    def _slope_silu(self, x: Array, beta: float) -> Array:
        return super()._slope_silu(x, 1.0)


@mutant(killed_by=("ACT-GRADIENT",), reports=("trymirai/lalamo#328",))
class SiluOverflowsBackward(HandwrittenNetworks):
    """The gradient of silu is a quotient of exponentials, infinity over infinity far below zero."""

    def _slope_silu(self, x: Array, beta: float) -> Array:
        z = x.dtype.type(beta) * x
        e = np.exp(-z)
        return np.asarray((1 + e + z * e) / ((1 + e) * (1 + e)))


@mutant(killed_by=("ACT-GRADIENT",), reports=("huggingface/candle#2082",))
class SiluIsNanAtZeroBackward(HandwrittenNetworks):
    """The gate of silu is found again as y / x, which is NaN at zero."""

    def _slope_silu(self, x: Array, beta: float) -> Array:
        gate = self._silu(x, beta) / x
        return np.asarray(gate * (1 + x.dtype.type(beta) * x * (1 - gate)))


@mutant(killed_by=("ACT-GRADIENT-RELU", "FFN-GRADIENT"), dtypes=("float32", "bfloat16", "float16"))
class ReluLeaksBackward(HandwrittenNetworks):
    """Below zero the gradient of relu is a hundredth, not zero."""

    def _slope(self, x: Array, kind: str, beta: float) -> Array:
        slope = super()._slope(x, kind, beta)
        return np.maximum(slope, x.dtype.type(0.01)) if kind == "relu" else slope


@mutant(killed_by=("ACT-GRADIENT-RELU",))
class ReluOfTheCotangent(HandwrittenNetworks):
    """The gradient of relu is cut below zero itself."""

    def relu(self, x: Array) -> Array:
        y = super().relu(x)
        self._back = lambda dy: [(x, np.maximum(dy, 0) * (x > 0))]  # type: ignore[method-assign]
        return y


@mutant(killed_by=("SWIGLU-GRADIENT",))
class GateOnlyBackward(HandwrittenNetworks):
    """The gradient of a gated network's x goes through its gate alone."""

    def _both_reads(self, by_gate: Array, by_up: Array) -> Array:
        return by_gate


@mutant(killed_by=("FFN-GRADIENT", "SWIGLU-GRADIENT"))
class WeightsOfTheLastPosition(HandwrittenNetworks):
    """Weights get the gradient of the last position only."""

    def _layer_back(self, x: Array, dy: Array, weights: Mapping[str, Array], layer: str) -> Back:
        return super()._layer_back(x.reshape(-1, x.shape[-1])[-1:], dy.reshape(-1, dy.shape[-1])[-1:], weights, layer)


@mutant(killed_by=("FFN-GRADIENT", "SWIGLU-GRADIENT"))
class BiasAveragedBackward(HandwrittenNetworks):
    """Biases get the mean over the positions, not the sum."""

    def _over_positions(self, g: Array) -> Array:
        return np.asarray(np.mean(g, axis=0))


@mutant(killed_by=("FFN-GRADIENT",))
class SlopeOfTheActivated(HandwrittenNetworks):
    """The slope is taken at the activated values instead of at what is activated."""

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        self.inner = activation
        return super().feed_forward(x, weights, activation=activation)

    def _slope(self, x: Array, kind: str, beta: float) -> Array:
        inner = getattr(self, "inner", "")
        return super()._slope(self._activate(x, kind) if inner == kind else x, kind, beta)
