"""Wrong heads: columns that are dealt to the wrong head, projections, groups and scales."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig

Weights = Mapping[str, Array]
LAYERS = ("query", "key", "value")


@mutant(
    killed_by=("MHA-SPLIT", "MHA-PERMUTE", "MHA-INERT"),
    reports=("jsbaan/transformer-from-scratch#6", "649453932/Chinese-Text-Classification-Pytorch#10"),
    catalogue="M24",
)
class HeadsJoinedWithoutTheSwap(NumpyBackend):
    """Heads are merged by a reshape alone, so that each output row is made of several tokens."""

    def _join(self, mixed: Array) -> Array:
        B, H, T, E = mixed.shape
        return mixed.reshape(B, T, H * E)


@mutant(
    killed_by=("MHA-SPLIT", "MHA-PERMUTE", "MHA-INERT"),
    reports=("reczoo/FuxiCTR#30", "ajhalthor/Transformer-Neural-Network#8"),
    catalogue="M24",
)
class HeadsSplitWithoutTheSwap(NumpyBackend):
    """Heads are split by a reshape alone, so that each head is made of several tokens."""

    def _split(self, x: Array, heads: int) -> Array:
        B, T, width = x.shape
        return x.reshape(B, heads, T, width // heads)


@mutant(killed_by=("MHA-SPLIT",))
class ColumnsDealtRound(NumpyBackend):
    """Column c belongs to head c mod H when heads are split."""

    def _split(self, x: Array, heads: int) -> Array:
        B, T, width = x.shape
        return np.moveaxis(x.reshape(B, T, width // heads, heads), -1, 1)


@mutant(killed_by=("MHA-SPLIT", "MHA-OUTPUT"))
class RowsOfTheOutputDealtRound(NumpyBackend):
    """The joined heads lie interleaved, component by component."""

    def _join(self, mixed: Array) -> Array:
        B, H, T, E = mixed.shape
        return np.moveaxis(mixed, 1, -1).reshape(B, T, E * H)


@mutant(killed_by=("MHA-OUTPUT", "MHA-SPLIT"))
class HeadsJoinedBackwards(NumpyBackend):
    """The last head comes first."""

    def _join(self, mixed: Array) -> Array:
        return super()._join(mixed[:, ::-1])


@mutant(
    killed_by=("MHA-PROJECT", "MHA-SPLIT"), reports=("NVIDIA-NeMo/RL#2802", "awslabs/slapo#46", "lablup/mlxcel#928")
)
class PackedProjectionSplitFlat(NumpyBackend):
    """Queries, keys and values of equal width are taken from their packed columns as if those lay head by head."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        packed = [weights[f"{name}.weight"] for name in LAYERS]
        if layer == "output" or len({w.shape for w in packed}) > 1 or packed[0].shape[1] % 2:
            return super()._project(x, weights, layer)
        columns = np.concatenate(packed, axis=1).reshape(x.shape[-1], 2, 3, -1)  # as if of two heads
        own = columns[:, :, LAYERS.index(layer)].reshape(packed[0].shape)
        return super()._project(x, {**weights, f"{layer}.weight": own}, layer)


@mutant(killed_by=("MHA-PROJECT",))
class KeysAndValuesExchangedInALayer(NumpyBackend):
    """Keys are projected as values and values as keys, where their shapes allow it."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        fits = weights["key.weight"].shape == weights["value.weight"].shape
        other = {"key": "value", "value": "key"} if fits else {}
        return super()._project(x, weights, other.get(layer, layer))


@mutant(killed_by=("MHA-WEIGHTS",))
class SquareProjectionsTransposed(NumpyBackend):
    """A projection that is square is read as (out, in)."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        weight = weights[f"{layer}.weight"]
        square = weight.shape[0] == weight.shape[1]
        return super()._project(x, {**weights, f"{layer}.weight": weight.T} if square else weights, layer)


@mutant(killed_by=("MHA-PROJECT", "MHA-INERT", "MHA-BATCH-ROWS"))
class TokensCentred(NumpyBackend):
    """The mean over all tokens is subtracted before keys are projected."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        if layer == "key":
            x = (upcast(x) - np.mean(upcast(x), axis=(0, 1))).astype(x.dtype)
        return super()._project(x, weights, layer)


@mutant(killed_by=("MHA-OUTPUT",))
class SquareOutputSkipped(NumpyBackend):
    """Heads that together are as wide as the model are not projected back."""

    def _output(self, mixed: Array, weights: Weights) -> Array:
        rows, columns = weights["output.weight"].shape
        return self._join(mixed) if rows == columns else super()._output(mixed, weights)


@mutant(killed_by=("MHA-OUTPUT", "MHA-SPLIT"))
class HeadsAveraged(NumpyBackend):
    """The contributions of the heads are averaged, not added."""

    def _join(self, mixed: Array) -> Array:
        return round_once(upcast(super()._join(mixed)) / mixed.shape[1], mixed.dtype)


@mutant(killed_by=("MHA-GROUPED", "MHA-ATTEND"), reports=("ekzhang/jax-js#180", "apple/axlearn#842"))
class SharedHeadsTiled(NumpyBackend):
    """Query head h reads key/value head h mod K."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        if q.shape[1] % k.shape[1] or k.ndim != 4:
            return super().attention(q, k, v, **options)
        group = q.shape[1] // k.shape[1]
        return super().attention(q, np.tile(k, (1, group, 1, 1)), np.tile(v, (1, group, 1, 1)), **options)


@mutant(killed_by=("MHA-GROUPED", "MHA-ATTEND"))
class FirstSharedHeadForAll(NumpyBackend):
    """Where heads are shared, every query head reads the first key/value head, as with one of them."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        shared = k.ndim == 4 and k.shape[1] < q.shape[1]
        return super().attention(q, k[:, :1] if shared else k, v[:, :1] if shared else v, **options)


@mutant(killed_by=("MHA-HEADS", "MHA-PROJECT"))
class HeadsNormalizedTogether(NumpyBackend):
    """Queries are divided by their root mean square over all heads."""

    def _split(self, x: Array, heads: int) -> Array:
        if heads == 1:
            return super()._split(x, heads)
        size = np.sqrt(np.mean(np.square(upcast(x)), axis=-1, keepdims=True) + 1e-6)
        return super()._split(round_once(upcast(x) / size, x.dtype), heads)


@mutant(killed_by=("MHA-HEADS", "MHA-ATTEND"))
class HeadsTalk(NumpyBackend):
    """A hundredth of the neighbouring head is added to each."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        mixed = super().attention(q, k, v, **options)
        return round_once(upcast(mixed) + upcast(np.roll(mixed, 1, axis=1)) / 100, mixed.dtype)


@mutant(killed_by=("MHA-WIDTHS", "MHA-ATTEND"), reports=("pytorch/pytorch#176767",))
class ValuesCutToTheKeysWidth(NumpyBackend):
    """Values are read as far as keys are wide."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        mixed = super().attention(q, k, v, **options)
        return np.where(np.arange(mixed.shape[-1]) < q.shape[-1], mixed, np.zeros((), mixed.dtype))


@mutant(killed_by=("MHA-SCALE",))
class ScaledByTheModelsWidth(NumpyBackend):
    """The scale is 1/sqrt(M) where none is configured."""

    def _score_scale(self, c: AttentionConfig) -> float | None:
        return float(c.width**-0.5) if c.scale is None else c.scale


@mutant(killed_by=("MHA-SCALE",))
class ScaledByTheValuesWidth(NumpyBackend):
    """The scale is 1/sqrt(E) where none is configured."""

    def _score_scale(self, c: AttentionConfig) -> float | None:
        return float(c.value_width**-0.5) if c.scale is None else c.scale


@mutant(killed_by=("MHA-SCALE",))
class ConfiguredScaleIgnored(NumpyBackend):
    """The scale is 1/sqrt(D), whatever is configured."""

    def _score_scale(self, c: AttentionConfig) -> float | None:
        return None


@mutant(killed_by=("MHA-SCALE", "MHA-ATTEND"))
class ScaledTwice(NumpyBackend):
    """Scores are scaled once more after the layer has asked for it."""

    def _score_scale(self, c: AttentionConfig) -> float | None:
        return float((c.head_width**-0.5 if c.scale is None else c.scale) * c.head_width**-0.5)


@mutant(killed_by=("MHA-ATTEND",))
class LastHeadTwoPercentOff(NumpyBackend):
    """The mixture of the last head is 2 % too large."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        mixed = np.array(super().attention(q, k, v, **options))
        mixed[:, -1:] = round_once(upcast(mixed[:, -1:]) * 1.02, mixed.dtype)
        return mixed


@mutant(killed_by=("MHA-PROJECT",))
class ProjectionsInTensorFloat(NumpyBackend):
    """The operands of projections are cut to ten bits of mantissa, as matrix units do where nobody forbids it."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        if x.dtype != np.float32:
            return super()._project(x, weights, layer)
        cut = {n: self._cut(w) if n.endswith("weight") else w for n, w in weights.items()}
        return super()._project(self._cut(x), cut, layer)

    def _cut(self, x: Array) -> Array:
        return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@mutant(killed_by=("MHA-PROJECT",), dtypes=("bfloat16", "float16"))
class ProjectionsSummedInHalf(NumpyBackend):
    """Every partial sum of a projection is rounded to the format of x."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        weight, total = weights[f"{layer}.weight"], weights.get(f"{layer}.bias", np.zeros(1, x.dtype))
        for n in range(len(weight)):
            total = (total + x[..., n : n + 1] * weight[n]).astype(x.dtype)
        return np.broadcast_to(total, (*x.shape[:-1], weight.shape[1]))
