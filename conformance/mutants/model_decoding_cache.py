"""Wrong caches of decoders: what a reordering, a truncation, a fork or a refusal leaves behind."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants import mutant


@mutant(
    killed_by=("MODEL-REORDER",), reports=("awslabs/sockeye#731", "huggingface/transformers#46612"), catalogue="M45"
)
class BeamReorderIsDropped(NumpyBackend):
    """A reordering keeps the rows of the keys as they were."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        if len(rows) > cache.dims.B:
            return taken
        return replace(taken, keys=[key[: len(rows)].copy() for key in cache.keys])


@mutant(killed_by=("MODEL-REORDER",), reports=("vllm-project/vllm#8545",))
class MemoryStaysWhereItWas(NumpyBackend):
    """A reordering moves the rows of the cache and not those of the memory."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        kept = np.arange(len(rows)) % max(cache.dims.B, 1)
        return replace(taken, cross=tuple((k[kept], v[kept]) for k, v in cache.cross))


@mutant(killed_by=("MODEL-REORDER",))
class PadsStayWhereTheyWere(NumpyBackend):
    """A reordering moves keys and values, and not which columns are pads."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        kept = np.arange(len(rows)) % max(cache.dims.B, 1)
        return replace(taken, real=None if cache.real is None else cache.real[kept].copy())


@mutant(killed_by=("MODEL-CACHED",))
class NothingCountsWithoutLayers(NumpyBackend):
    """The length of a cache is that of its layers, of which there may be none: every step begins at 0."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        logits, after = super().step(model, tokens, cache, **options)
        assert model.config.decoder is not None
        return logits, after if model.config.decoder.layers else replace(after, lengths=[0])


@mutant(killed_by=("MODEL-TRUNCATE",), reports=("paiml/aprender#2014",))
class TruncationEmptiesTheCache(NumpyBackend):
    """A truncation forgets everything, and keeps the length."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        for buffer in (*cache.keys, *cache.values):
            buffer[...] = 0
        return super()._shorten(cache, length)


@mutant(killed_by=("MODEL-TRUNCATE",), reports=("ggml-org/llama.cpp#12160",))
class TruncationOfTheFirstLayerOnly(NumpyBackend):
    """A truncation moves the keys of the second layer by one slot."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        for buffer in cache.keys[-1:]:
            buffer[...] = np.roll(buffer, 1, axis=2)
        return super()._shorten(cache, length)


@mutant(killed_by=("MODEL-FORK",))
class ForkSharesItsBuffers(NumpyBackend):
    """The copy writes where the original reads."""

    def _copied(self, cache: Cache) -> Cache:
        copy = super()._copied(cache)
        return replace(copy, keys=cache.keys, values=cache.values)


@mutant(killed_by=("MODEL-FORK",))
class ForkSharesItsPads(NumpyBackend):
    """The copy takes every earlier column for a real token."""

    def _copied(self, cache: Cache) -> Cache:
        copy = super()._copied(cache)
        return replace(copy, real=None if copy.real is None else np.ones_like(copy.real))


@mutant(killed_by=("MODEL-STEP-ATOMIC",))
class OverflowIsNoticedTooLate(NumpyBackend):
    """A step beyond the capacity is refused after it has written over the first column."""

    def _check_fits(self, tokens: Array, cache: Cache) -> int:
        if self.cache_length(cache) + tokens.shape[1] > cache.dims.N:
            for buffer in (*cache.keys, *cache.values):
                buffer[:, :, :1] = 1
        return super()._check_fits(tokens, cache)


@mutant(killed_by=("MODEL-STEP-ATOMIC",))
class OverflowConsumesTheCache(NumpyBackend):
    """A step beyond the capacity is refused, and takes the cache with it."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        if not cache.consumed and self.cache_length(cache) + tokens.shape[-1] > cache.dims.N:
            cache.consumed = True
        return super().step(model, tokens, cache, **options)


@mutant(killed_by=("MODEL-STEP-ATOMIC",))
class LastColumnsWrapAround(NumpyBackend):
    """A step beyond the capacity forgets the oldest columns instead of raising."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        over = 0 if cache.consumed else self.cache_length(cache) + tokens.shape[-1] - cache.dims.N
        if over > 0 and tokens.ndim == 2:
            kept = cache.dims.N - tokens.shape[1]
            cache = self.truncate(cache, max(kept, 0))
            tokens = tokens[:, -cache.dims.N :]
        return super().step(model, tokens, cache, **options)


@mutant(killed_by=("MODEL-STEP-REFUSES",))
class OneRowServesTheBatch(NumpyBackend):
    """A step of one row is taken for a step of all rows of the cache."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        if tokens.ndim == 2 and len(tokens) == 1:
            tokens = np.repeat(tokens, cache.dims.B, axis=0)
        return super().step(model, tokens, cache, **options)


@mutant(killed_by=("MODEL-CONSUMED",))
class ConsumedCacheStillSteps(NumpyBackend):
    """A step does not take its cache."""

    def _consume(self, cache: Cache) -> Cache:
        return replace(cache, lengths=list(cache.lengths))


@mutant(killed_by=("MODEL-HANDED-OUT",))
class LogitsAreOverwritten(NumpyBackend):
    """Every step of one shape gives its logits in the same array."""

    def _head(self, hidden: Array, model: Model) -> Array:
        scores = super()._head(hidden, model)
        buffers: dict[tuple[int, ...], Array] = self.__dict__.setdefault("buffers", {})
        held = buffers.setdefault((*scores.shape, scores.dtype.num), scores)
        held[...] = scores
        return held


@mutant(killed_by=("MODEL-CACHED",))
class LastOnlyTakesTheLastColumn(NumpyBackend):
    """With last_only the last column counts, whether it is a pad or not."""

    def _last_columns(self, real: Array) -> Array:
        return np.full(len(real), real.shape[1] - 1)


@mutant(killed_by=("CACHE-BYTES",))
class KeysAloneAreCounted(NumpyBackend):
    """The bytes of the values are left out."""

    def cache_nbytes(self, cache: Cache) -> int:
        return super().cache_nbytes(cache) - sum(buffer.nbytes for buffer in cache.values)


@mutant(killed_by=("MODEL-STEP-ATOMIC",))
class UnknownIdsAreClampedInSteps(NumpyBackend):
    """A step takes an id that the vocabulary has not for the nearest that it has."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        if tokens.dtype.kind in "iu" and model.config.decoder is not None:
            tokens = np.clip(tokens, 0, model.config.decoder.vocabulary - 1)
        return super().step(model, tokens, cache, **options)
