"""Wrong scales and wrong softmaxes."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims


def normalized(exps: Array) -> Array:
    """Exponentials over their sum; zeros where the sum is zero."""
    total = np.sum(exps, axis=-1, keepdims=True)
    return np.asarray(exps / np.where(total == 0, 1, total))


@mutant(killed_by=("ATTN-SCALE", "ATTN-FORMULA"), reports=("mlc-ai/mlc-llm#3426",), catalogue="M02")
class ScaleMissing(NumpyBackend):
    """The scores are not scaled unless a scale is given."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return 1.0 if scale is None else scale


@mutant(
    killed_by=("ATTN-SCALE", "ATTN-FORMULA"),
    reports=("lucidrains/vit-pytorch#65", "omihub777/ViT-CIFAR#11", "juho-lee/set_transformer#18"),
    catalogue="M01",
)
class ScaleOfTheModelWidth(NumpyBackend):
    """The scores are divided by the root of the model's width, not of the head's."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return float(1 / np.sqrt(d.H * d.D)) if scale is None else scale


@mutant(killed_by=("ATTN-SCALE", "ATTN-FORMULA"), reports=("esceptico/perceiver-io#9",))
class ScaleInverted(NumpyBackend):
    """The scores are multiplied by sqrt(D)."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return float(np.sqrt(d.D)) if scale is None else scale


@mutant(killed_by=("ATTN-SCALE", "ATTN-FORMULA"))
class ScaleWithoutRoot(NumpyBackend):
    """The scores are divided by D, not by its root."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return 1 / d.D if scale is None else scale


@mutant(killed_by=("ATTN-SCALE", "ATTN-FORMULA"), reports=("SKaiNET-developers/SKaiNET#860",))
class DefaultScaleIsZero(NumpyBackend):
    """No scale given is read as a scale of zero: every weight is equal."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return scale or 0.0


@mutant(killed_by=("ATTN-SCALE-GIVEN",))
class GivenScaleIgnored(NumpyBackend):
    """The scale is 1 / sqrt(D), whatever the caller gives."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return super()._scale(d, None)


@mutant(killed_by=("ATTN-SCALE-GIVEN",))
class GivenScaleOnTop(NumpyBackend):
    """A given scale multiplies 1 / sqrt(D) instead of replacing it."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return super()._scale(d, None) * (1.0 if scale is None else scale)


@mutant(killed_by=("ATTN-SCALE-GIVEN",))
class GivenScaleOfZeroIgnored(NumpyBackend):
    """A scale of zero is taken for none."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return super()._scale(d, scale or None)


@mutant(killed_by=("ATTN-SCALE-GIVEN",))
class GivenScaleLosesItsSign(NumpyBackend):
    """A negative scale is used by its magnitude."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return abs(super()._scale(d, scale))


@mutant(
    killed_by=("ATTN-FORMULA", "ATTN-CONVEX"),
    reports=("labmlai/annotated_deep_learning_paper_implementations#146", "FudanNLP/fastNLP#254"),
    catalogue="M03",
)
class SoftmaxOverQueries(NumpyBackend):
    """The softmax runs over the queries of a key."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores.swapaxes(-1, -2), visible.swapaxes(-1, -2)).swapaxes(-1, -2)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-CONVEX", "ATTN-HEADS"))
class SoftmaxOverHeads(NumpyBackend):
    """The softmax runs over the heads."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores.swapaxes(-1, 1), visible.swapaxes(-1, 1)).swapaxes(-1, 1)


@mutant(killed_by=("ATTN-BATCH-ROWS", "ATTN-FORMULA", "ATTN-CONVEX"), reports=("PetrochukM/PyTorch-NLP#2",))
class SoftmaxOverBatch(NumpyBackend):
    """The softmax runs over the batch."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores.swapaxes(-1, 0), visible.swapaxes(-1, 0)).swapaxes(-1, 0)


@mutant(killed_by=("ATTN-SINGLE", "ATTN-FORMULA"))
class OneQuerySqueezed(NumpyBackend):
    """The axis of a single query is squeezed away, and the softmax runs over the axis that takes its number."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        if scores.shape[-2] > 1:
            return super()._softmax(scores, visible)
        return super()._softmax(scores.swapaxes(-1, 1), visible.swapaxes(-1, 1)).swapaxes(-1, 1)


@mutant(
    killed_by=("ATTN-LARGE-LOGITS",),
    reports=("HabanaAI/vllm-fork#275", "huggingface/transformers#18057"),
    catalogue="M05",
)
class MaximumNotSubtracted(NumpyBackend):
    """The scores are exponentiated as they are."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return normalized(np.exp(np.where(visible, scores, -np.inf)))


@mutant(killed_by=("ATTN-LARGE-LOGITS",), reports=("HabanaAI/vllm-fork#275",))
class ConstantSubtracted(NumpyBackend):
    """A constant stands in for the largest score of the row."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return normalized(np.exp(np.where(visible, scores, -np.inf) - scores.dtype.type(20)))


@mutant(killed_by=("ATTN-LARGE-LOGITS", "ATTN-BATCH-ROWS"))
class MaximumOfAllRows(NumpyBackend):
    """The largest score of the whole array is subtracted: rows far below it vanish."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return normalized(np.exp(np.where(visible, scores - np.max(scores, initial=-np.inf), -np.inf)))


@mutant(killed_by=("ATTN-MASKED-INERT", "ATTN-LARGE-LOGITS"))
class MaximumOfHiddenKeys(NumpyBackend):
    """The largest score is sought among hidden keys too, so that they can make the visible ones vanish."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        highest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        return normalized(np.exp(np.where(visible, scores - highest, -np.inf)))


@mutant(killed_by=("ATTN-LARGE-LOGITS",))
class ScoresClipped(NumpyBackend):
    """Scores are clipped to +-100, so that their exponentials stay finite."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(np.clip(scores, -100, 100), visible)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-CONVEX", "ATTN-COUNT"))
class AttentionSink(NumpyBackend):
    """One is added to the sum of the exponentials."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        highest = np.max(scores, axis=-1, keepdims=True, initial=0)
        exps = np.exp(scores - highest)
        return np.asarray(exps / (1 + np.sum(exps, axis=-1, keepdims=True)))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-LARGE-LOGITS"))
class EarlierBlocksNotRescaled(NumpyBackend):
    """An online softmax leaves the accumulated output as it is when the largest score grows."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        weights = super()._softmax(scores, visible)
        ends = np.minimum(np.arange(scores.shape[-1]) // 16 * 16 + 15, scores.shape[-1] - 1)
        scores = np.where(visible, scores, -np.inf)
        then = np.maximum.accumulate(scores, axis=-1)[..., ends]  # the largest score known after each block of 16
        final = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        return np.where(weights > 0, weights * np.exp(final - then), 0)


@mutant(killed_by=("ATTN-WINDOW",), reports=("pytorch/pytorch#127055",))
class FirstBlockHidden(NumpyBackend):
    """An online softmax gives NaN for a row whose first block of keys is hidden: exp(-inf - -inf)."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        visible = np.broadcast_to(visible, scores.shape)
        late = np.any(visible, axis=-1, keepdims=True) & ~np.any(visible[..., :16], axis=-1, keepdims=True)
        return np.where(late, np.nan, super()._softmax(scores, visible))


@mutant(killed_by=("ATTN-CONVEX", "ATTN-FORMULA"), reports=("pytorch/pytorch#124464",), catalogue="M26")
class DropoutActive(NumpyBackend):
    """Attention dropout is applied though nothing is being trained."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.random = np.random.default_rng(0)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        kept = self.random.random(scores.shape) >= 0.1
        return np.asarray(super()._softmax(scores, visible) * kept / scores.dtype.type(0.9))


@mutant(killed_by=("ATTN-PERMUTE", "ATTN-FORMULA", "ATTN-COUNT"))
class NearKeysFavoured(NumpyBackend):
    """Scores fall with the distance between query and key, though no bias asks for it."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        T, S = scores.shape[-2:]
        distance = np.abs(np.arange(S) - np.arange(T)[:, None] - (S - T)).astype(scores.dtype)
        return super()._softmax(scores - distance / 8, visible)
