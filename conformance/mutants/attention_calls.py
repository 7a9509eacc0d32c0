"""Wrong shapes, types, views, refusals and declarations; inputs written, NaN swallowed."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims, Window
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ShapeError, Unsupported
from gaugeblock.spec.precision import HALF

Given = Array | None


def as_if_contiguous(x: Array) -> Array:
    """The elements in the order of memory, read as if that were the order of the axes."""
    return np.ravel(x, order="K").reshape(x.shape)


@mutant(killed_by=("ATTN-DTYPE",), dtypes=HALF)
class ResultIsWide(NumpyBackend):
    """Half precision comes back as float32."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return upcast(super().attention(q, k, v, **options))


@mutant(killed_by=("ATTN-SHAPES",), reports=("pytorch/pytorch#176767",))
class ResultHasTheKeyWidth(NumpyBackend):
    """The result is as wide as the keys, not as the values."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        result = super().attention(q, k, v, **options)
        return np.resize(result, (*result.shape[:3], k.shape[3]))


@mutant(killed_by=("ATTN-SHAPES",), reports=("jax-ml/jax#35916",))
class ResultHasHeadsBehindQueries(NumpyBackend):
    """The result is laid out (B, T, H, E)."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, k, v, **options).swapaxes(1, 2)


@mutant(killed_by=("ATTN-SHAPES",), reports=("pytorch/pytorch#97111",))
class ResultEndsWithTheLastToken(NumpyBackend):
    """The queries behind the last key that a mask leaves visible are cut off."""

    def attention(self, q: Array, k: Array, v: Array, *, mask: Given = None, **options: Any) -> Array:
        result = super().attention(q, k, v, mask=mask, **options)
        if mask is None:
            return result
        tokens = np.flatnonzero(np.any(np.broadcast_to(mask, (*mask.shape[:3], k.shape[2])), axis=(0, 1, 2)))
        return result[:, :, : tokens[-1] + 1 if tokens.size else 0]


@mutant(
    killed_by=("ATTN-STRIDES",),
    reports=("ROCm/pytorch#3230", "pytorch/pytorch#112577", "flagos-ai/FlagGems#5896"),
    catalogue="M25",
)
class StridesOfValuesIgnored(NumpyBackend):
    """Values are read as if they were contiguous."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, k, as_if_contiguous(v), **options)


@mutant(killed_by=("ATTN-STRIDES",))
class StridesOfKeysIgnored(NumpyBackend):
    """Keys are read as if they were contiguous."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, as_if_contiguous(k), v, **options)


@mutant(killed_by=("ATTN-STRIDES",))
class StridesOfQueriesIgnored(NumpyBackend):
    """Queries are read as if they were contiguous."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(as_if_contiguous(q), k, v, **options)


@mutant(killed_by=("ATTN-STRIDES",))
class StridesOfTheMaskIgnored(NumpyBackend):
    """The mask is read as if it were contiguous."""

    def attention(self, q: Array, k: Array, v: Array, *, mask: Given = None, **options: Any) -> Array:
        return super().attention(q, k, v, mask=None if mask is None else as_if_contiguous(mask), **options)


@mutant(killed_by=("ATTN-INPUTS-INTACT",))
class QueriesScaledInPlace(NumpyBackend):
    """The queries are multiplied by the scale where they lie."""

    def attention(self, q: Array, k: Array, v: Array, *, scale: float | None = None, **options: Any) -> Array:
        result = super().attention(q, k, v, scale=scale, **options)
        if q.flags.writeable:
            q *= q.dtype.type(scale or q.shape[3] ** -0.5)
        return result


@mutant(killed_by=("ATTN-INPUTS-INTACT",))
class MaskJoinedInPlace(NumpyBackend):
    """Causal is written into the caller's mask."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, causal, window)
        if mask is not None and mask.shape == visible.shape and mask.flags.writeable:
            mask &= visible
        return visible


@mutant(killed_by=("ATTN-INPUTS-INTACT",))
class BiasMaskedInPlace(NumpyBackend):
    """-inf is written into the caller's bias wherever a key is hidden."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, causal, window)
        if bias is not None and bias.shape == visible.shape and bias.flags.writeable:
            bias[~visible] = -np.inf
        return visible


@mutant(killed_by=("ATTN-NONFINITE",), reports=("pytorch/pytorch#141128",))
class NanInQueryGivesZeros(NumpyBackend):
    """A query that holds NaN gives zeros."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        lost = np.any(np.isnan(scores) & visible, axis=-1, keepdims=True)
        return np.where(lost, 0, super()._softmax(scores, visible))


@mutant(killed_by=("ATTN-NONFINITE",))
class NanScoreIsHidden(NumpyBackend):
    """A key whose score is NaN is taken for a hidden one."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(np.nan_to_num(scores), visible & ~np.isnan(scores))


@mutant(killed_by=("ATTN-NONFINITE",))
class NanIsCleaned(NumpyBackend):
    """NaN in the result is replaced by zero."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        mixed = super()._mix(d, weights, v)
        return np.where(np.isnan(mixed), 0, mixed)


@mutant(killed_by=("ATTN-EMPTY-AXES",), reports=("pytorch/pytorch#81077", "Dao-AILab/flash-attention#1155"))
class NoBatchRowsRaise(NumpyBackend):
    """A batch of no rows raises."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores[0] += 0
        return super()._softmax(scores, visible)


@mutant(killed_by=("ATTN-EMPTY-AXES",))
class NoQueriesRaise(NumpyBackend):
    """A call with no queries raises."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores[:, :, 0] += 0
        return super()._softmax(scores, visible)


@mutant(killed_by=("ATTN-EMPTY-AXES",), reports=("flashinfer-ai/flashinfer#363",))
class NoKeysRaise(NumpyBackend):
    """A call with no keys raises: there is no largest of no scores."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        np.max(scores, axis=-1)
        return super()._softmax(scores, visible)


@mutant(killed_by=("ATTN-EMPTY-ROW",), reports=("Dao-AILab/flash-attention#1537",))
class NoKeysGiveNan(NumpyBackend):
    """A call with no keys gives NaN."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d, weights, v) + (0 if d.S else v.dtype.type(np.nan))


@mutant(killed_by=("ATTN-REFUSES",))
class WidthsNotCompared(NumpyBackend):
    """Queries and keys of different widths are multiplied as far as both go."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        both = min(q.shape[-1], k.shape[-1])
        return super().attention(q[..., :both], k[..., :both], v, **options)


@mutant(killed_by=("ATTN-REFUSES",))
class LengthsNotCompared(NumpyBackend):
    """Keys without a value are left out."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        both = min(k.shape[-2], v.shape[-2])
        return super().attention(q, k[..., :both, :], v[..., :both, :], **options)


@mutant(killed_by=("ATTN-REFUSES",))
class HeadsNotCompared(NumpyBackend):
    """Heads that do not divide are shared out as well as may be."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        if q.ndim == 4 and q.shape[1] % k.shape[1]:
            order = np.arange(q.shape[1]) * k.shape[1] // q.shape[1]
            k, v = k[:, order], v[:, order]
        return super().attention(q, k, v, **options)


@mutant(killed_by=("ATTN-REFUSES",))
class ShortMaskAccepted(NumpyBackend):
    """A mask that is too short says nothing of the keys behind it."""

    def attention(self, q: Array, k: Array, v: Array, *, mask: Given = None, **options: Any) -> Array:
        if mask is not None and 1 < mask.shape[3] < k.shape[2]:
            mask = np.pad(mask, [(0, 0)] * 3 + [(0, k.shape[2] - mask.shape[3])], constant_values=True)
        return super().attention(q, k, v, mask=mask, **options)


@mutant(killed_by=("ATTN-EMPTY-ROW", "ATTN-FORMULA", "ATTN-CAUSAL-ALIGN"))
class MoreQueriesThanKeysRefused(NumpyBackend):
    """More queries than keys are refused."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        if q.shape[2] > k.shape[2]:
            raise ShapeError("more queries than keys")
        return super().attention(q, k, v, **options)


@mutant(killed_by=("ATTN-INTERSECT",))
class MaskWithCausalRefused(NumpyBackend):
    """A mask and causal in one call are refused, and nothing of it is declared."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        if causal and mask is not None:
            raise Unsupported("attention: mask and causal in one call")
        return super()._visible(d, mask, bias, causal, window)


@mutant(killed_by=("ATTN-UNSUPPORTED",), reports=("huggingface/transformers#35924",))
class DeclaredAbsentButIgnored(NumpyBackend):
    """The window is declared unsupported; given all the same, it is silently ignored."""

    unsupported = {"attention.window": "a mask does it"}

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal, None)


@mutant(killed_by=("ATTN-UNSUPPORTED",))
class DeclaredAbsentButRight(NumpyBackend):
    """The window is declared unsupported, and works."""

    unsupported = {"attention.window": "a mask does it"}


@mutant(killed_by=("ATTN-CAUSAL-ALIGN", "ATTN-CAUSAL-LEAK", "ATTN-WINDOW"))
class DeclaresTopLeft(NumpyBackend):
    """Top-left alignment is declared; it is bottom-right."""

    conventions = Conventions(causal_alignment="top_left")


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"))
class DeclaresTiledHeads(NumpyBackend):
    """Tiled heads are declared; they are grouped."""

    conventions = Conventions(head_order="tiled")


@mutant(killed_by=("ATTN-EMPTY-ROW",))
class DeclaresMeanRows(NumpyBackend):
    """Rows that see no key are declared to be the mean; they are zeros."""

    conventions = Conventions(empty_row="mean")


@mutant(killed_by=("ATTN-EMPTY-ROW",))
class DeclaresNanByBias(NumpyBackend):
    """Rows that a bias has emptied are declared to be NaN; they are zeros."""

    conventions = Conventions(empty_row={"bias": "nan"})
