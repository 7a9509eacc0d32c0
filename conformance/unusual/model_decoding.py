"""Decoders that are right in an unusual way; none of them shows its intermediates but by its results."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import ModelConfig
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import CacheError, CapacityError, PositionError, ShapeError
from gaugeblock.spec.model import Decoder


@dataclass
class Text:
    """The tokens that were handed over, and nothing else."""

    ids: Array
    real: Array
    memory: Mapping[str, Any]
    capacity: int
    consumed: bool = False


class Silent(Decoder, Backend):
    """Computes all columns at once as another backend does, and shows nothing but its logits."""

    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.inner = NumpyBackend()

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Model:
        return self.inner.load(weights, config)

    def logits(self, model: Model, tokens: Array, **options: Any) -> Array:
        return self.inner.logits(model, tokens, **options)


@correct
class RecomputesEverything(Silent):
    """The cache is the text: every step computes all columns again."""

    unsupported = {"decoder.bytes": "no keys or values are kept"}

    def start(self, model: Model, batch: int, capacity: int, **memory: Any) -> Text:
        self.inner.start(model, batch, capacity, **memory)  # for its refusals
        nothing = np.zeros((batch, 0), np.int64)
        return Text(nothing, nothing.astype(bool), {name: x for name, x in memory.items() if x is not None}, capacity)

    def step(
        self, model: Model, tokens: Array, cache: Text, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Text]:
        self._usable(cache)
        if tokens.ndim != 2 or len(tokens) != len(cache.ids):
            raise ShapeError("tokens must have the rows of the cache [step]")
        if cache.ids.shape[1] + tokens.shape[1] > cache.capacity:
            raise CapacityError("there is no room [step]")
        new = np.ones(tokens.shape, bool) if token_mask is None else token_mask
        if new.shape != tokens.shape:
            raise ShapeError("token_mask must have the shape of tokens [step]")
        ids, real = np.concatenate([cache.ids, tokens], axis=1), np.concatenate([cache.real, new], axis=1)
        scores = self.inner.logits(model, ids, token_mask=real, **cache.memory)[:, cache.ids.shape[1] :]
        cache.consumed = True
        after = replace(cache, ids=ids, real=real, consumed=False)
        return (self.inner._last_real(scores, new) if last_only else scores), after

    def generate(self, model: Model, tokens: Array, **options: Any) -> Array:
        return self.inner.generate(model, tokens, **{**options, "use_cache": False})

    def reorder(self, cache: Text, rows: Array) -> Text:
        self._usable(cache)
        if rows.size and (rows.min() < 0 or rows.max() >= len(cache.ids)):
            raise PositionError("there is no such row [reorder]")
        cache.consumed = True
        memory = {name: x[rows] for name, x in cache.memory.items()}
        return Text(cache.ids[rows], cache.real[rows], memory, cache.capacity)

    def truncate(self, cache: Text, length: int) -> Text:
        self._usable(cache)
        cache.consumed = True
        return replace(cache, ids=cache.ids[:, :length], real=cache.real[:, :length], consumed=False)

    def fork(self, cache: Text) -> Text:
        self._usable(cache)
        return replace(cache)

    def cache_nbytes(self, cache: Text) -> int:
        self._usable(cache)
        return 0

    def cache_length(self, cache: Text) -> int:
        self._usable(cache)
        return int(cache.ids.shape[1])

    def _usable(self, cache: Text) -> None:
        if cache.consumed:
            raise CacheError("the cache was consumed by an earlier call")


@correct
class StepsNeverConsume(RecomputesEverything):
    """A cache is a value: a step gives a new one, and the old one stays what it was, as declared."""

    conventions = Conventions(consumed_cache="valid")

    def _usable(self, cache: Text) -> None:
        return None


@correct
class TextOfAnyLength(RecomputesEverything):
    """Steps beyond the capacity are taken, as declared."""

    conventions = Conventions(capacity="grows")

    def start(self, model: Model, batch: int, capacity: int, **memory: Any) -> Text:
        return replace(super().start(model, batch, capacity, **memory), capacity=2**31)


@correct
class OneTokenAtATime(Silent):
    """A chunk is stepped through column by column."""

    def start(self, model: Model, batch: int, capacity: int, **memory: Any) -> Cache:
        return self.inner.start(model, batch, capacity, **memory)

    def step(
        self, model: Model, tokens: Array, cache: Cache, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Cache]:
        whole = self.inner.step
        if tokens.ndim != 2 or tokens.shape[1] < 2 or cache.consumed:
            return whole(model, tokens, cache, token_mask=token_mask, last_only=last_only)
        trial, _ = whole(model, tokens, self.fork(cache), token_mask=token_mask)  # for its refusals
        parts = []
        for n in range(tokens.shape[1]):
            mask = None if token_mask is None else token_mask[:, n : n + 1]
            scores, cache = whole(model, tokens[:, n : n + 1], cache, token_mask=mask)
            parts.append(scores)
        real = np.ones(tokens.shape, bool) if token_mask is None else token_mask
        scores = np.concatenate(parts, axis=1).astype(trial.dtype)
        return (self.inner._last_real(scores, real) if last_only else scores), cache

    def reorder(self, cache: Cache, rows: Array) -> Cache:
        return self.inner.reorder(cache, rows)

    def truncate(self, cache: Cache, length: int) -> Cache:
        return self.inner.truncate(cache, length)

    def fork(self, cache: Cache) -> Cache:
        return self.inner.fork(cache)

    def cache_nbytes(self, cache: Cache) -> int:
        return self.inner.cache_nbytes(cache)

    def cache_length(self, cache: Cache) -> int:
        return self.inner.cache_length(cache)

    def generate(self, model: Model, tokens: Array, **options: Any) -> Array:
        return self.inner.generate(model, tokens, **options)
