"""Wrong biases of projections: lost, needed all at once, added in the wrong place or too often."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, RotaryConfig

Weights = Mapping[str, Array]
LAYERS = ("query", "key", "value", "output")


class Biased(NumpyBackend):
    """Changes the weights before a projection reads them."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        return super()._project(x, self._changed(dict(weights), layer), layer)

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        raise NotImplementedError


@mutant(killed_by=("MHA-BIAS",))
class QueryBiasLost(Biased):
    """The bias of the queries is ignored."""

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        return {n: w for n, w in weights.items() if n != "query.bias"}


@mutant(killed_by=("MHA-BIAS",))
class KeyBiasLost(Biased):
    """The bias of the keys is ignored."""

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        return {n: w for n, w in weights.items() if n != "key.bias"}


@mutant(killed_by=("MHA-BIAS",))
class ValueBiasLost(Biased):
    """The bias of the values is ignored."""

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        return {n: w for n, w in weights.items() if n != "value.bias"}


@mutant(killed_by=("MHA-BIAS", "MHA-EMPTY-ROW"))
class OutputBiasLost(Biased):
    """The bias of the output projection is ignored."""

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        return {n: w for n, w in weights.items() if n != "output.bias"}


@mutant(killed_by=("MHA-BIAS",))
class BiasesOfAllOrNone(Biased):
    """Biases are used only where every projection has one, so that a layer without one for its keys loses all."""

    def _changed(self, weights: dict[str, Any], layer: str) -> Weights:
        complete = all(f"{name}.bias" in weights for name in LAYERS)
        return weights if complete else {n: w for n, w in weights.items() if n.endswith("weight")}


@mutant(killed_by=("MHA-OUTPUT", "MHA-BIAS", "MHA-EMPTY-ROW"))
class OutputBiasOnceForEachHead(NumpyBackend):
    """The heads are projected one by one, each with the bias."""

    def _output(self, mixed: Array, weights: Weights) -> Array:
        bias = weights.get("output.bias")
        often = {} if bias is None else {"output.bias": (upcast(bias) * mixed.shape[1]).astype(bias.dtype)}
        return super()._output(mixed, {**weights, **often})


@mutant(killed_by=("MHA-KEY-BIAS", "MHA-BIAS"))
class KeyBiasOnTheFirstToken(NumpyBackend):
    """The bias of the keys is added to the first token alone."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        y = super()._project(x, weights, layer)
        if layer == "key" and "key.bias" in weights:
            bare = {n: w for n, w in weights.items() if n != "key.bias"}
            y = np.concatenate([y[:, :1], super()._project(x[:, 1:], bare, layer)], axis=1)
        return y


@mutant(killed_by=("MHA-BIAS",))
class BiasesBehindTheRotation(NumpyBackend):
    """The biases of queries and keys are added after they have been turned."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        self.held: Any = weights
        turns = layer in ("query", "key") and self.turning
        return super()._project(x, {n: w for n, w in weights.items() if not (turns and n == f"{layer}.bias")}, layer)

    def _self_attention(self, x: Array, weights: Weights, c: AttentionConfig, *rest: Any, **more: Any) -> Array:
        self.turning = c.rotary is not None
        return super()._self_attention(x, weights, c, *rest, **more)

    def _cross_attention(self, x: Array, weights: Weights, *rest: Any, **more: Any) -> Array:
        self.turning = False
        return super()._cross_attention(x, weights, *rest, **more)

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        self.turning = False
        return super()._project_memory(context, weights, c)

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        pair = super()._rotated(q, k, positions, rotary)
        return self._later(pair[0], "query"), self._later(pair[1], "key")

    def _later(self, x: Array, layer: str) -> Array:
        bias = self.held.get(f"{layer}.bias")
        return x if bias is None else round_once(upcast(x) + upcast(bias).reshape(x.shape[1], 1, x.shape[3]), x.dtype)
