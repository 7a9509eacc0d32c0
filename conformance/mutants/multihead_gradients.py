"""Backward passes of multi-head attention that disagree with the forward pass, which is right."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import Back
from gaugeblock.conformance.mutants.taped import Taped
from gaugeblock.spec.attention import Dims
from gaugeblock.spec.config import RotaryConfig

BOTH = ("float32", "float64")
Weights = Mapping[str, Array]


class OfALayer(Taped):
    """One layer's gradient differs by the options that its attention is called with, on the way back only."""

    def _attention_back(self, dy: Array, q: Array, k: Array, v: Array, **options: Any) -> Back:  # type: ignore[override]
        return super()._attention_back(dy, q, k, v, **self._again(options))

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        """What attention is called with when it is made again."""
        return options


@mutant(killed_by=("MHA-GRADIENT",), dtypes=BOTH)
class KeysNotTurnedBack(Taped):
    """The gradient of the keys is not rotated back."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        made = super()._rotated(q, k, positions, rotary)
        self.tape[-1] = (made[1], lambda dy: [(k, dy)])
        return made


@mutant(killed_by=("MHA-GRADIENT",))
class RotationTurnsOnBackward(Taped):
    """Queries and keys are rotated on, in the direction of the forward pass, when their gradients come back."""

    def _backwards(self, sin: Array) -> Array:
        return sin


@mutant(killed_by=("MHA-GRADIENT",))
class SharedKeysDetached(Taped):
    """Where keys are shared their projection has no gradient, and hands none on."""

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        shared = weights["key.weight"].shape[1] != weights["query.weight"].shape[1]
        return [] if layer == "key" and shared else super()._project_back(x, dy, weights, layer)


@mutant(killed_by=("MHA-GRADIENT",))
class ValuesDetached(Taped):
    """The projection of the values has its gradient, but hands none on to what it read."""

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        found = super()._project_back(x, dy, weights, layer)
        return found[1:] if layer == "value" else found


@mutant(killed_by=("MHA-GRADIENT",), reports=("marin-community/levanter#449",))
class GroupNotSummed(Taped):
    """Shared keys and values have the gradient of the last head that reads them."""

    def _over_group(self, d: Dims, g: Array) -> Array:
        return np.asarray(g.reshape(d.B, d.K, d.H // d.K, *g.shape[2:])[:, :, -1])


@mutant(killed_by=("MHA-GRADIENT",), dtypes=BOTH)
class SquareOutputNotTransposed(Taped):
    """A square output projection is not transposed on the way back."""

    def _linear_back(self, dy: Array, weights: Weights, layer: str) -> Array:
        w = weights[f"{layer}.weight"]
        straight = layer == "output" and w.shape[0] == w.shape[1]
        return super()._linear_back(dy, {f"{layer}.weight": w.T} if straight else weights, layer)


@mutant(killed_by=("MHA-GRADIENT",))
class BiasOfOneRow(Taped):
    """Biases have the gradient of the last token, not the sum over all of them."""

    def _over_positions(self, g: Array) -> Array:
        return g[-1] if len(g) else super()._over_positions(g)


@mutant(killed_by=("MHA-GRADIENT",))
class WeightsOfTheFirstBatchRow(Taped):
    """Weights have the gradient of the first batch row, not the sum over all of them."""

    def _layer_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        return super()._layer_back(x[:1], dy[:1], weights, layer)


@mutant(killed_by=("MHA-GRADIENT",))
class LastReaderOverwrites(Taped):
    """What the readers of an array give it is written over, not added."""

    def _added(self, one: Array, other: Array) -> Array:
        return other


@mutant(killed_by=("MHA-GRADIENT",))
class HeadsSplitByReshapeBackward(Taped):
    """The cotangent of the joined heads is split by a reshape alone."""

    def _join_back(self, dy: Array, heads: int) -> Array:
        B, T, width = dy.shape
        return dy.reshape(B, heads, T, width // heads)


@mutant(killed_by=("MHA-GRADIENT-HIDDEN",), dtypes=("float32", "float64", "bfloat16", "float16"))
class CausalForgottenWhenMadeAgain(OfALayer):
    """The layer is made again for the backward pass without causality."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "causal": False}


@mutant(killed_by=("MHA-GRADIENT-HIDDEN",), dtypes=("float32", "float64", "bfloat16", "float16"))
class MaskForgottenWhenMadeAgain(OfALayer):
    """The layer is made again for the backward pass without the mask."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "mask": None}


@mutant(killed_by=("MHA-GRADIENT",))
class LinearBiasesForgottenWhenMadeAgain(OfALayer):
    """The layer is made again for the backward pass without its linear biases."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "bias": None}


@mutant(killed_by=("MHA-GRADIENT",))
class ScaleOfTheWidthWhenMadeAgain(OfALayer):
    """The layer is made again for the backward pass with the scale of its head width, whatever it was given."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "scale": None}


@mutant(killed_by=("MHA-GRADIENT",), dtypes=BOTH)
class CotangentsInBfloat16(Taped):
    """Cotangents of projections are rounded to bfloat16, whatever the format."""

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        return super()._project_back(x, dy.astype(ml_dtypes.bfloat16).astype(dy.dtype), weights, layer)


@mutant(killed_by=("MHA-GRADIENT",), dtypes=("float64",))
class CotangentsInFloat32(Taped):
    """Cotangents of projections are rounded to float32 in float64."""

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        return super()._project_back(x, dy.astype(np.float32).astype(dy.dtype), weights, layer)
