"""Wrong networks: gates, activations, biases, layers and rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant

Weights = Mapping[str, Array]


def without(weights: Weights, *names: str) -> Weights:
    """The weights without these names."""
    return {name: w for name, w in weights.items() if name not in names}


@mutant(
    killed_by=("SWIGLU-GATE", "SWIGLU-FORMULA"),
    reports=("ml-explore/mlx-lm#767", "ooples/AiDotNet.Tensors#46"),
    catalogue="M44",
)
class GateAndUpSwapped(NumpyBackend):
    """SiLU is applied to up, and gate multiplies it."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return super()._gated(up, gate)


@mutant(killed_by=("SWIGLU-GATE", "SWIGLU-SHUT"), reports=("google-research/timesfm#493",))
class GateIgnored(NumpyBackend):
    """A gated network is computed as one without a gate, with SiLU."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return self._silu(up, 1.0)


@mutant(killed_by=("SWIGLU-GATE", "SWIGLU-FORMULA"), reports=("google-research/timesfm#493",))
class UpIgnored(NumpyBackend):
    """The activated gate is passed on alone."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return self._silu(gate, 1.0)


@mutant(killed_by=("SWIGLU-SHUT", "SWIGLU-FORMULA", "SWIGLU-GATE"))
class GateIsSigmoid(NumpyBackend):
    """The gate is a sigmoid: a GLU, not a SwiGLU."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._sigmoid(gate) * up)


@mutant(killed_by=("SWIGLU-FORMULA", "SWIGLU-GATE"))
class GateIsGelu(NumpyBackend):
    """The gate is a GELU: a GEGLU."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._gelu(gate) * up)


@mutant(killed_by=("SWIGLU-FORMULA", "SWIGLU-GATE"))
class GateIsRelu(NumpyBackend):
    """The gate is a ReLU: a ReGLU."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._relu(gate) * up)


@mutant(killed_by=("SWIGLU-FORMULA", "SWIGLU-GATE"))
class GateNotActivated(NumpyBackend):
    """Gate and up are multiplied as they are: a bilinear layer."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(gate * up)


@mutant(killed_by=("SWIGLU-GATE", "SWIGLU-FORMULA"))
class ProductActivated(NumpyBackend):
    """SiLU is applied to the product of gate and up."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return self._silu(np.asarray(gate * up), 1.0)


@mutant(killed_by=("SWIGLU-GATE", "SWIGLU-FORMULA"))
class BothActivated(NumpyBackend):
    """SiLU is applied to up as well."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._silu(gate, 1.0) * self._silu(up, 1.0))


@mutant(killed_by=("SWIGLU-SHUT", "SWIGLU-GATE"))
class GateAdded(NumpyBackend):
    """The activated gate is added to up."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return np.asarray(self._silu(gate, 1.0) + up)


@mutant(killed_by=("SWIGLU-FORMULA",))
class GateOnePerMilleOff(NumpyBackend):
    """The gate is 0.1 % too large."""

    def _gated(self, gate: Array, up: Array) -> Array:
        return super()._gated(gate * gate.dtype.type(1.001), up)


@mutant(killed_by=("FFN-ACTIVATION", "FFN-FORMULA"))
class HiddenNotActivated(NumpyBackend):
    """There is no activation between the layers."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return hidden


@mutant(killed_by=("FFN-ACTIVATION", "FFN-FORMULA"))
class HiddenActivatedTwice(NumpyBackend):
    """The activation is applied twice."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return super()._activate(super()._activate(hidden, activation), activation)


@mutant(killed_by=("FFN-ACTIVATION", "FFN-FORMULA"))
class AlwaysRelu(NumpyBackend):
    """The activation is ReLU, whatever is asked for."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return self._relu(hidden)


@mutant(killed_by=("FFN-ACTIVATION", "FFN-FORMULA"), catalogue="M44")
class NetworkAlwaysByTanh(NumpyBackend):
    """A network with GELU approximates it by tanh."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return super()._activate(hidden, "gelu_tanh" if activation == "gelu" else activation)


@mutant(killed_by=("FFN-ACTIVATION", "FFN-FORMULA"), catalogue="M44")
class NetworkNeverByTanh(NumpyBackend):
    """A network with GELU by tanh uses the exact one."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return super()._activate(hidden, "gelu" if activation == "gelu_tanh" else activation)


@mutant(killed_by=("FFN-FORMULA", "FFN-ACTIVATION"))
class InputActivated(NumpyBackend):
    """The activation is applied before the first layer, not after it."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        self.asked = activation
        return super().feed_forward(x, weights, activation=activation)

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        early = layer == "up" and "gate.weight" not in weights
        return super()._linear(super()._activate(x, self.asked) if early else x, weights, layer)

    def _activate(self, hidden: Array, activation: str) -> Array:
        return hidden


@mutant(killed_by=("FFN-FORMULA",))
class HiddenOnePerMilleOff(NumpyBackend):
    """Hidden values are 0.1 % too large."""

    def _activate(self, hidden: Array, activation: str) -> Array:
        return super()._activate(hidden * hidden.dtype.type(1.001), activation)


@mutant(killed_by=("FFN-FORMULA", "FFN-INTEGERS"))
class ResultOnePercentOff(NumpyBackend):
    """The result is 1 % too large."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        y = super()._linear(x, weights, layer)
        return y * y.dtype.type(1.01) if layer == "down" else y


class ChangesBiases(NumpyBackend):
    """Sees the weights before the network does."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        return super().feed_forward(x, self._biases(dict(weights)), activation=activation)

    def swiglu(self, x: Array, weights: Weights) -> Array:
        return super().swiglu(x, self._biases(dict(weights)))

    def _biases(self, weights: dict[str, Array]) -> Weights:
        raise NotImplementedError


@mutant(killed_by=("FFN-BIAS",))
class UpBiasLost(ChangesBiases):
    """The bias of up is ignored."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        return without(weights, "up.bias")


@mutant(killed_by=("FFN-BIAS",))
class DownBiasLost(ChangesBiases):
    """The bias of down is ignored."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        return without(weights, "down.bias")


@mutant(killed_by=("FFN-BIAS",))
class GateBiasLost(ChangesBiases):
    """The bias of the gate is ignored."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        return without(weights, "gate.bias")


@mutant(killed_by=("FFN-BIAS",))
class BiasesNeedOneAnother(ChangesBiases):
    """Biases are used only where every layer has one."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        layers = {name.partition(".")[0] for name in weights}
        complete = all(f"{layer}.bias" in weights for layer in layers)
        return weights if complete else without(weights, *(f"{layer}.bias" for layer in layers))


@mutant(killed_by=("FFN-BIAS",))
class BiasesOfGateAndUpSwapped(ChangesBiases):
    """The biases of gate and up are exchanged."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        other = {"gate.bias": "up.bias", "up.bias": "gate.bias"} if "gate.weight" in weights else {}
        return {other.get(name, name): w for name, w in weights.items()}


@mutant(killed_by=("FFN-BIAS", "FFN-INTEGERS"))
class DownBiasSubtracted(ChangesBiases):
    """The bias of down is subtracted."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        return {name: -w if name == "down.bias" else w for name, w in weights.items()}


@mutant(killed_by=("FFN-BIAS",))
class FirstBiasForAll(ChangesBiases):
    """The first element of the bias of down is added everywhere."""

    def _biases(self, weights: dict[str, Array]) -> Weights:
        return {n: np.broadcast_to(w[:1], w.shape) if n == "down.bias" else w for n, w in weights.items()}


@mutant(killed_by=("FFN-BIAS", "FFN-FORMULA"))
class BiasBehindTheActivation(NumpyBackend):
    """The bias of up is added after the activation."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        self.bias: Any = weights.get("up.bias", np.zeros(1, x.dtype)).astype(np.float64)
        return super().feed_forward(x, without(weights, "up.bias"), activation=activation)

    def _activate(self, hidden: Array, activation: str) -> Array:
        return np.asarray(super()._activate(hidden, activation) + self.bias.astype(hidden.dtype))


@mutant(killed_by=("FFN-INTEGERS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class LastHiddenUnitSkipped(NumpyBackend):
    """The last hidden unit is not read where their number is odd."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        if layer != "down" or x.shape[-1] % 2 == 0:
            return super()._linear(x, weights, layer)
        even = {**weights, "down.weight": weights["down.weight"][:-1]}
        return super()._linear(x[..., :-1], even, layer)


@mutant(killed_by=("FFN-INTEGERS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class HiddenUnitsShifted(NumpyBackend):
    """Each row of down.weight is read by the next hidden unit."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        return super()._linear(np.roll(x, 1, axis=-1) if layer == "down" else x, weights, layer)


@mutant(killed_by=("FFN-INTEGERS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class SquareWeightsTransposed(NumpyBackend):
    """A weight that is square is read as (out, in)."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        weight = weights[f"{layer}.weight"]
        square = weight.shape[0] == weight.shape[1]
        return super()._linear(x, {**weights, f"{layer}.weight": weight.T} if square else weights, layer)
