"""Backward passes of blocks that disagree with the forward pass, which is right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import Back
from gaugeblock.conformance.mutants.multihead_gradients import OfALayer
from gaugeblock.conformance.mutants.taped import Step, Taped

BOTH = ("float32", "float64")
ALL = ("float32", "float64", "bfloat16", "float16")
Weights = Mapping[str, Array]


@mutant(killed_by=("BLOCK-GRADIENT-PRE", "BLOCK-GRADIENT"), dtypes=ALL)
class ResidualDroppedBackward(Taped):
    """The gradient comes back through the sublayers alone, not past them."""

    def _residual_back(self, x: Array, y: Array, dy: Array) -> Back:
        return [(y, dy)]


@mutant(killed_by=("BLOCK-GRADIENT-PRE", "BLOCK-GRADIENT"))
class ResidualHalvedBackward(Taped):
    """Stream and sublayer share the cotangent, half of it each."""

    def _residual_back(self, x: Array, y: Array, dy: Array) -> Back:
        return [(x, dy / 2), (y, dy / 2)]


@mutant(killed_by=("BLOCK-GRADIENT",))
class SublayersDetached(Taped):
    """The gradient comes back past the sublayers alone; their weights have none."""

    def _residual_back(self, x: Array, y: Array, dy: Array) -> Back:
        return [(x, dy)]


@mutant(killed_by=("BLOCK-GRADIENT-POST", "BLOCK-GRADIENT"), dtypes=BOTH)
class NormsHeldConstant(Taped):
    """Norms divide the cotangent by the deviation, and project nothing out."""

    def _mean_back(self, h: Array) -> Array:
        return np.zeros_like(h[..., :1])

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        return np.asarray(r * h)


@mutant(killed_by=("BLOCK-GRADIENT-POST", "BLOCK-GRADIENT"))
class VarianceHeldConstant(Taped):
    """Norms take their variance, or mean square, for a constant."""

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        return np.asarray(r * h)


@mutant(killed_by=("BLOCK-GRADIENT-POST", "BLOCK-GRADIENT"))
class MeansHeldConstant(Taped):
    """Norms take their mean for a constant."""

    def _mean_back(self, h: Array) -> Array:
        return np.zeros_like(h[..., :1])


@mutant(killed_by=("BLOCK-GRADIENT",))
class NormWeightsMissingBackward(Taped):
    """The cotangent passes norms without their weights."""

    def _weighted(self, dy: Array, weight: Array | None) -> Array:
        return dy


@mutant(killed_by=("BLOCK-GRADIENT",))
class ContextThroughValuesOnly(Taped):
    """The context has the gradient of its values; that of its keys is lost."""

    def _project_memory(self, context: Array, weights: Weights, c: Any) -> tuple[Array, Array]:
        self.crossing = context
        return super()._project_memory(context, weights, c)

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        found = super()._project_back(x, dy, weights, layer)
        return found[1:] if layer == "key" and x is self.__dict__.get("crossing") else found


@mutant(killed_by=("BLOCK-GRADIENT-HIDDEN", "BLOCK-GRADIENT"), dtypes=ALL)
class BlockMadeAgainWithoutMasks(OfALayer):
    """A checkpointed block is made again without the masks that it was called with."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "mask": None}


@mutant(killed_by=("BLOCK-GRADIENT-HIDDEN", "BLOCK-GRADIENT"), dtypes=ALL)
class BlockMadeAgainWithoutCausality(OfALayer):
    """A checkpointed block is made again without causality."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "causal": False}


@mutant(killed_by=("BLOCK-GRADIENT",))
class NetworkMadeAgainFromTheFirstRow(Taped):
    """The feed-forward network's weights have the gradient of the first batch row."""

    def _layer_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        one = layer in ("up", "down", "gate")
        return super()._layer_back(x[:1] if one else x, dy[:1] if one else dy, weights, layer)


@mutant(killed_by=("BLOCK-GRADIENT-CALL",), dtypes=("float32", "float64"))
class CheckpointsOnce(Taped):
    """What a block kept is overwritten when its pullback is called: a second call starts from the first's result."""

    def _reversed(self, tape: list[Step], found: dict[int, Array]) -> dict[int, Array]:
        before = self.__dict__.setdefault("before", {})
        made = super()._reversed(tape, {key: g + before.get(key, 0) for key, g in found.items()})
        before.update(found)
        return made


@mutant(killed_by=("BLOCK-GRADIENT-CALL",), dtypes=("float32", "float64", "bfloat16"))
class DropsOutInTraining(Taped):
    """Under vjp a block drops a tenth of its outputs, and makes the others larger."""

    def vjp(self, function: Any, *primals: Any) -> Any:
        value, pullback = super().vjp(function, *primals)
        kept = np.random.default_rng(0).random(value.shape) >= 0.1
        return np.asarray((value * kept / 0.9).astype(value.dtype)), pullback


@mutant(killed_by=("BLOCK-GRADIENT-CALL",), dtypes=("float32", "bfloat16"))
class BiasesLeftOut(Taped):
    """What the pullback gives has no entries for biases."""

    def vjp(self, function: Any, *primals: Any) -> Any:
        value, pullback = super().vjp(function, *primals)
        return value, lambda dy: tuple(_weights_only(g) for g in pullback(dy))


def _weights_only(found: Any) -> Any:
    if not isinstance(found, Mapping):
        return found
    return {name: g for name, g in found.items() if name.endswith("weight")}
