"""Wrong steps: positions, masks and memories that do not fit what the cache holds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.precision import HALF

Pair = tuple[Array, Array]


@mutant(killed_by=("MODEL-CACHED",), reports=("Blaizzy/mlx-vlm#1983", "pytorch/executorch#2010"), catalogue="M45")
class DecodeStartsAtPositionZero(NumpyBackend):
    """A step counts the positions of its tokens from 0, whatever the cache holds."""

    def _new_positions(self, positions: Array, start: int) -> Array:
        return np.asarray(super()._new_positions(positions, start) - (positions[:, start : start + 1] if start else 0))


@mutant(killed_by=("MODEL-CACHED",), reports=("skyzh/tiny-llm#46",))
class OffsetIsCountedTwice(NumpyBackend):
    """A step adds the length of the cache to positions that have it already."""

    def _new_positions(self, positions: Array, start: int) -> Array:
        return np.asarray(super()._new_positions(positions, start) + start)


@mutant(killed_by=("MODEL-CACHED",), reports=("Blaizzy/mlx-vlm#1883",), catalogue="M37")
class OneOffsetForARaggedBatch(NumpyBackend):
    """The positions of the first row serve all rows."""

    def _token_positions(self, real: Array) -> Array:
        own = super()._token_positions(real)
        return np.asarray(np.broadcast_to(own[:1], own.shape))


@mutant(killed_by=("MODEL-CACHED",), reports=("huggingface/transformers#22161", "unslothai/unsloth#3699"))
class DecodeCountsPads(NumpyBackend):
    """Prefill counts positions by real tokens, a later step by columns."""

    def _new_positions(self, positions: Array, start: int) -> Array:
        columns = np.arange(start, positions.shape[1])
        return (
            np.broadcast_to(columns, (len(positions), len(columns))) if start else super()._new_positions(positions, 0)
        )


@mutant(killed_by=("MODEL-CACHED",), reports=("huggingface/transformers#37574",), catalogue="M45")
class WindowRollsOneStepEarly(NumpyBackend):
    """With a cache the window reaches one key less far back."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        left = c.window[0] if c.window is not None else None
        if (
            remember is not None
            and left is not None
            and c.window is not None
            and len(view.keys[0]) > len(view.queries[0])
        ):
            c = replace(c, window=(max(left - 1, 0), c.window[1]))
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-CACHED",))
class WindowForgottenWithACache(NumpyBackend):
    """Steps see all keys, whatever the window."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        c = c if remember is None else replace(c, window=None)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-CACHED",), reports=("keras-team/keras-hub#2977",))
class AlibiLostWhenDecoding(NumpyBackend):
    """The linear bias is off in steps of one token."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        bias = super()._distance_bias(view, c, dtype)
        alone = view.queries.shape[-1] == 1 and view.keys.shape[-1] > 1
        return np.zeros_like(bias) if bias is not None and alone else bias


@mutant(killed_by=("MODEL-CACHED",), reports=("Mikyx-1/TinyLLM#17",), catalogue="M07")
class MaskSkippedWithACache(NumpyBackend):
    """Whenever there is a cache attention is not causal."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        view = view if remember is None else view._replace(causal=False)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-CACHED",), reports=("pytorch/pytorch#103082", "EleutherAI/gpt-neox#1178"))
class ChunkIsAlignedWithTheFirstKey(NumpyBackend):
    """In a chunk behind other tokens query i sees keys 0 to i of the cache."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        T, S = view.queries.shape[-1], view.keys.shape[-1]
        if remember is not None and 1 < T < S:
            first = np.arange(S) <= np.arange(T)[:, None]
            view = view._replace(mask=first if view.mask is None else first & view.mask, causal=False)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-CACHED",), reports=("hyprstream/hyprstream#1521",))
class ChunkLosesThePrefix(NumpyBackend):
    """A chunk of several tokens attends to itself alone."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        T, S = view.queries.shape[-1], view.keys.shape[-1]
        if remember is not None and 1 < T < S:
            own = np.arange(S) >= S - T
            view = view._replace(mask=own if view.mask is None else own & view.mask)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("MODEL-CACHED",))
class EarlierPadsAreForgotten(NumpyBackend):
    """A step takes every column that was there before for a real token."""

    def _noted_columns(self, cache: Cache, start: int, new: Array) -> Array:
        real = super()._noted_columns(cache, start, new)
        real[:, :start] = True
        return real


@mutant(killed_by=("MODEL-CACHED",))
class PadsOfAStepAreIgnored(NumpyBackend):
    """The token mask of a step behind other tokens is not looked at."""

    def _noted_columns(self, cache: Cache, start: int, new: Array) -> Array:
        return super()._noted_columns(cache, start, np.ones_like(new) if start else new)


@mutant(killed_by=("MODEL-CACHED",))
class TwoLayersShareACache(NumpyBackend):
    """The second layer writes its values into the first layer's buffer."""

    def _remember(self, cache: Cache, layer: int, k: Array, v: Array) -> Pair:
        start = cache.lengths[layer]
        made = super()._remember(cache, layer, k, v)
        if layer == 1:
            cache.values[0][:, :, start : start + v.shape[2]] = v
        return made


@mutant(killed_by=("MODEL-CACHED",), dtypes=HALF)
class CacheIsRoundedTwice(NumpyBackend):
    """Keys and values lose three bits on their way into the cache."""

    def _remember(self, cache: Cache, layer: int, k: Array, v: Array) -> Pair:
        return super()._remember(cache, layer, _coarse(k), _coarse(v))


@mutant(killed_by=("MODEL-CACHED",))
class FirstTokenOfAChunkIsLost(NumpyBackend):
    """Of a chunk behind other tokens the first keys and values are zero in the cache."""

    def _remember(self, cache: Cache, layer: int, k: Array, v: Array) -> Pair:
        if cache.lengths[layer] and k.shape[2] > 1:
            k, v = k.copy(), v.copy()
            k[:, :, 0], v[:, :, 0] = 0, 0
        return super()._remember(cache, layer, k, v)


@mutant(killed_by=("MODEL-CROSS-ONCE",), reports=("vllm-project/vllm#38321",))
class CrossKeysOfTheFirstLayerServeAll(NumpyBackend):
    """Every layer reads the keys and values that the first one has projected from the memory."""

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        return super()._memories([projected[0]] * len(projected) if projected else projected, memory_mask)


@mutant(killed_by=("MODEL-CROSS-ONCE",), reports=("huggingface/transformers#46111",))
class MemoryIsCutToTheWindow(NumpyBackend):
    """Steps see the last two rows of a memory only."""

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        mask = None if memory_mask is None else memory_mask[:, -2:]
        return super()._memories([(k[:, :, -2:], v[:, :, -2:]) for k, v in projected], mask)


@mutant(killed_by=("MODEL-CROSS-ONCE",))
class MemoryMaskIsForgottenInSteps(NumpyBackend):
    """A step sees the pads of the memory."""

    def start(self, *args: Any, **kwargs: Any) -> Cache:
        return replace(super().start(*args, **kwargs), memory_mask=None)


@mutant(killed_by=("MODEL-TAPS",))
class StepsCoarselyUnlessTraced(NumpyBackend):
    """A step whose intermediates nobody asks for gives logits with a few bits less."""

    def step(self, *args: Any, **kwargs: Any) -> tuple[Array, Cache]:
        scores, cache = super().step(*args, **kwargs)
        return (_coarse(scores) if self._taps is None else scores), cache


def _coarse(x: Array) -> Array:
    """x with three bits of its mantissa less."""
    mantissa, exponent = np.frexp(x.astype(np.float32))
    bits = 4 if x.dtype.itemsize == 2 else 20
    return np.asarray(np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)).astype(x.dtype)
