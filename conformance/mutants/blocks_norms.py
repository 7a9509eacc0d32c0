"""Blocks with wrong norms or a wrong feed-forward network: another kind, eps, weight, activation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.feedforward import without
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.weights import part

Function = Callable[[Array], Array]


class OtherNorms(NumpyBackend):
    """Takes other weights for the norm of a sublayer."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        raise NotImplementedError

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        taken = {f"{name}_norm.{kind}": w for kind, w in self._norm_weights(name, weights).items()}
        return super()._sublayer(x, {**weights, **taken}, c, name, f)


@mutant(killed_by=("BLOCK-NORM", "BLOCK-NORMS-IN-TURN", "BLOCK-FORMULA"))
class NormsSwapped(OtherNorms):
    """Attention and feed-forward network take each other's norm."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        other = {"attention": "feed_forward", "feed_forward": "attention"}.get(name, name)
        return part(weights, f"{other}_norm")


@mutant(killed_by=("BLOCK-NORM", "BLOCK-NORMS-IN-TURN", "BLOCK-FORMULA"))
class OneNormForAll(OtherNorms):
    """All sublayers share the norm of the attention."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        return part(weights, "attention_norm")


@mutant(killed_by=("BLOCK-NORM", "BLOCK-ORDER", "BLOCK-CROSS"))
class CrossSharesANorm(OtherNorms):
    """Cross-attention takes the norm of the self-attention."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        return part(weights, "attention_norm" if name == "cross" else f"{name}_norm")


@mutant(killed_by=("BLOCK-NORM", "BLOCK-NORMS-IN-TURN"))
class NormWeightsIgnored(OtherNorms):
    """Norms have weight one and bias zero, whatever the mapping says."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        own = part(weights, f"{name}_norm")
        return {kind: np.full_like(w, 1 if kind == "weight" else 0) for kind, w in own.items()}


@mutant(killed_by=("BLOCK-NORM", "BLOCK-NORMS-IN-TURN"))
class NormBiasIgnored(OtherNorms):
    """LayerNorm has no bias."""

    def _norm_weights(self, name: str, weights: Weights) -> Weights:
        own = part(weights, f"{name}_norm")
        return {kind: w if kind == "weight" else np.zeros_like(w) for kind, w in own.items()}


class OtherNorm(NumpyBackend):
    """Normalises by another configuration."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        raise NotImplementedError

    def _normed(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        other = self._other(c)
        bias = {"bias": np.zeros_like(weights["weight"])} if other.norm == "layer" else {}
        return super()._normed(x, {**bias, **weights}, other)


@mutant(killed_by=("BLOCK-NORM", "BLOCK-ROWS-NORMALISED"))
class RmsForLayer(OtherNorm):
    """LayerNorm is computed as RMSNorm, with its bias left out."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, norm="rms")


@mutant(killed_by=("BLOCK-ROWS-NORMALISED", "BLOCK-NORM"))
class RowsNotCentred(NumpyBackend):
    """LayerNorm does not subtract the mean, and keeps weight and bias."""

    def _mean(self, x: Array) -> Array:
        return np.zeros_like(super()._mean(x))


@mutant(killed_by=("BLOCK-NORM", "BLOCK-FORMULA"))
class LayerForRms(OtherNorm):
    """RMSNorm is computed as LayerNorm without a bias."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, norm="layer")


@mutant(killed_by=("BLOCK-EPS",))
class EpsIsTheDefault(OtherNorm):
    """eps is 1e-5, whatever the configuration says."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, eps=1e-5)


@mutant(killed_by=("BLOCK-EPS",))
class EpsReachesTheFirstNorm(NumpyBackend):
    """Only the first norm of a block has the eps of the configuration."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        return super()._sublayer(x, weights, c if name == "attention" else replace(c, eps=1e-5), name, f)


@mutant(killed_by=("BLOCK-EPS", "BLOCK-ROWS-NORMALISED"))
class EpsIsMissing(OtherNorm):
    """Norms have no eps."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, eps=0.0)


@mutant(killed_by=("BLOCK-CAUSAL", "BLOCK-NORM"))
class NormOverTokens(NumpyBackend):
    """RMSNorm takes its mean square over all tokens of a batch row."""

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(np.mean(x * x, axis=(-2, -1), keepdims=True) if x.ndim > 1 else super()._mean_square(x))


@mutant(killed_by=("BLOCK-NORM", "BLOCK-PLACEMENT"))
class FeedForwardNotNormalised(NumpyBackend):
    """With norms before the sublayers, the feed-forward network reads the stream as it is."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        if name != "feed_forward" or c.placement == "post":
            return super()._sublayer(x, weights, c, name, f)
        y = f(self._tap(f"{name}_norm", x))
        return self._tap(f"{name}_residual", self._residual(x, y))


@mutant(killed_by=("BLOCK-IDENTITY", "BLOCK-FORMULA"), reports=("NVIDIA-NeMo/Speech#2197",))
class NormBehindTheBlock(NumpyBackend):
    """With norms before the sublayers, the result passes one norm more."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        return y if config.placement == "post" else self._normed(y, part(weights, "feed_forward_norm"), config)


class OtherNetwork(NumpyBackend):
    """Takes another feed-forward network."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        raise NotImplementedError

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        other = self._other(c)
        return super()._network(x, weights if other.gated else without(weights, "gate.weight", "gate.bias"), other)


@mutant(
    killed_by=("BLOCK-FEED-FORWARD",),
    reports=("NVIDIA-NeMo/Megatron-Bridge#4661", "Lightning-AI/litgpt#1031", "chelsea0x3b/dfdx#804"),
    catalogue="M44",
)
class TanhGeluForGelu(OtherNetwork):
    """GELU is approximated by tanh."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, activation="gelu_tanh") if c.activation == "gelu" else c


@mutant(killed_by=("BLOCK-FEED-FORWARD",))
class GeluForSiluInABlock(NumpyBackend):
    """GELU is computed where SiLU is configured."""

    def _silu(self, x: Array, beta: float) -> Array:
        return self._gelu(x)


@mutant(killed_by=("BLOCK-FEED-FORWARD",))
class ReluForAll(OtherNetwork):
    """Networks without a gate have ReLU, as in the paper of 2017."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return c if c.gated else replace(c, activation="relu")


@mutant(killed_by=("BLOCK-FEED-FORWARD",), reports=("google-research/timesfm#493",))
class GateLeftOut(OtherNetwork):
    """A gated network is computed as one without a gate, with SiLU."""

    def _other(self, c: BlockConfig) -> BlockConfig:
        return replace(c, gated=False)


@mutant(killed_by=("BLOCK-FEED-FORWARD",))
class NetworkBiasIgnored(NumpyBackend):
    """The biases of the feed-forward network are left out."""

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        return super()._network(x, {name: w for name, w in weights.items() if "bias" not in name}, c)


@mutant(killed_by=("BLOCK-FEED-FORWARD", "BLOCK-FORMULA"))
class NetworkOfTheMeanRow(NumpyBackend):
    """The feed-forward network reads the mean of each row and its batch row's."""

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        wide = upcast(x)
        mean = np.mean(wide, axis=1, keepdims=True) if x.shape[1] else wide
        return super()._network(round_once((wide + mean) / 2, x.dtype), weights, c)
