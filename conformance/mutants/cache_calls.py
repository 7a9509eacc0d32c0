"""Wrong ownership and refusals of a cache, and state that caches share."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec import cache as rules
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ShapeError


@mutant(killed_by=("CACHE-CONSUMED",))
class NothingIsConsumed(NumpyBackend):
    """A cache stays usable after a call has taken it, and nothing is declared."""

    def _consume(self, cache: Cache) -> Cache:
        return replace(cache, lengths=list(cache.lengths))


@mutant(killed_by=("CACHE-CONSUMED",))
class ConsumedCachesAreRead(NumpyBackend):
    """Only the calls that consume refuse a consumed cache."""

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        return super().read(replace(cache, consumed=False), layer)


@mutant(killed_by=("CACHE-CONSUMED",))
class ConsumedCachesAreForked(NumpyBackend):
    """A consumed cache can be forked."""

    def fork(self, cache: Cache) -> Cache:
        return super().fork(replace(cache, consumed=False))


@mutant(killed_by=("CACHE-CONSUMED",))
class ReorderDoesNotConsume(NumpyBackend):
    """A reordered cache stays usable."""

    def reorder(self, cache: Cache, rows: Array) -> Cache:
        taken = super().reorder(cache, rows)
        cache.consumed = False
        return taken


@mutant(killed_by=("CACHE-CONSUMED",))
class TheSameHandleComesBack(NumpyBackend):
    """append returns the cache that it was given."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        after = super().append(cache, layer, k, v)
        cache.consumed, cache.lengths = False, after.lengths
        return cache


@mutant(killed_by=("CACHE-CONSUMED",))
class DeclaresThatConsumedIsValid(NumpyBackend):
    """valid is declared, and caches that come from one another write to the same buffers."""

    conventions = Conventions(consumed_cache="valid")

    def _consume(self, cache: Cache) -> Cache:
        return replace(cache, lengths=list(cache.lengths))


@mutant(killed_by=("CACHE-ATOMIC",))
class ConsumesBeforeItLooks(NumpyBackend):
    """A call that is refused has consumed the cache."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        before = replace(cache)
        cache.consumed = True
        return super().append(before, layer, k, v)


@mutant(killed_by=("CACHE-ATOMIC",))
class RefusedTruncationEmpties(NumpyBackend):
    """A truncation that is refused has emptied the cache."""

    def truncate(self, cache: Cache, length: int) -> Cache:
        held, cache.lengths = cache.lengths, [0] * len(cache.lengths)
        rules.truncated(cache.dims, min(held), length)
        cache.lengths = held
        return super().truncate(cache, length)


@mutant(killed_by=("CACHE-ATOMIC",))
class KeysBeforeValues(NumpyBackend):
    """The keys are stored and counted before the values are looked at."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        try:
            return super().append(cache, layer, k, v)
        except ShapeError:
            d = cache.dims
            if k.shape[:2] == (d.B, d.K) and k.ndim == 4 and k.shape[3] == d.D and not cache.consumed:
                cache.keys[layer][:, :, cache.lengths[layer] :][:, :, : k.shape[2]] = k
                cache.lengths[layer] = min(cache.lengths[layer] + k.shape[2], d.N)
            raise


@mutant(killed_by=("CACHE-HANDED-OUT",), reports=("ml-explore/mlx-lm#1097",))
class BuffersAreHandedOut(NumpyBackend):
    """read gives views of the buffers."""

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        rules.usable(cache.consumed, "read")
        return self._view(cache, rules.layer_of(cache.dims, layer, "read"))


@mutant(killed_by=("CACHE-HANDED-OUT",), reports=("ml-explore/mlx-lm#1097",), catalogue="M45")
class LengthIsHandedOut(NumpyBackend):
    """cache_length gives an array that later calls write to."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.length: Any = np.zeros((), np.int64)

    def cache_length(self, cache: Cache) -> int:
        self.length[...] = super().cache_length(cache)
        told: int = self.length
        return told


@mutant(killed_by=("CACHE-INPUTS-INTACT",))
class InputsAreKept(NumpyBackend):
    """Tokens that fill the cache are kept where they are passed in, and written to later."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        if k.shape[2] == cache.dims.N and k.flags.writeable:
            cache.keys[layer], cache.values[layer] = k, v
        else:
            super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-INPUTS-INTACT",))
class InputsAreCleared(NumpyBackend):
    """What was stored is set to zero where it was passed in."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, start, k, v)
        k[...], v[...] = 0, 0


@mutant(killed_by=("CACHE-INPUTS-INTACT",))
class RowsAreSorted(NumpyBackend):
    """The rows are sorted where they were passed in, after use."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        rows.sort()
        return taken


@mutant(killed_by=("CACHE-STATELESS",))
class BuffersAreUsedAgain(NumpyBackend):
    """Caches of the same sizes share their buffers."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.kept: dict[str, tuple[list[Array], list[Array]]] = {}

    def init_cache(self, **sizes: Any) -> Cache:
        made = super().init_cache(**sizes)
        keys, values = self.kept.setdefault(str(sizes), (made.keys, made.values))
        return replace(made, keys=list(keys), values=list(values))


@mutant(killed_by=("CACHE-STATELESS",), reports=("whittle-org/whittle#21",))
class LengthsAreTheBackends(NumpyBackend):
    """The lengths are kept by the backend, and made anew with every cache."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.lengths: list[int] = []

    def init_cache(self, **sizes: Any) -> Cache:
        made = super().init_cache(**sizes)
        self.lengths = made.lengths
        return made

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        if len(self.lengths) == cache.dims.L and max(self.lengths) + k.shape[min(2, k.ndim - 1)] <= cache.dims.N:
            cache.lengths = self.lengths
        after = super().append(cache, layer, k, v)
        self.lengths = after.lengths
        return after


@mutant(killed_by=("CACHE-EMPTY",), reports=("pytorch/pytorch#81077",))
class AppendOfNothingRaises(NumpyBackend):
    """An append of no tokens raises."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        assert np.max(np.abs(k.shape[2:3])) >= 1
        super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-EMPTY",))
class NoTokensCountAsOne(NumpyBackend):
    """An append of no tokens advances the length."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        after = super().append(cache, layer, k, v)
        after.lengths[layer] += int(k.shape[2] == 0 and after.lengths[layer] < cache.dims.N)
        return after


@mutant(killed_by=("CACHE-EMPTY",))
class CacheWithoutRoomRaises(NumpyBackend):
    """A cache without room cannot be made."""

    def init_cache(self, **sizes: Any) -> Cache:
        made = super().init_cache(**sizes)
        assert made.dims.N
        return made


@mutant(killed_by=("CACHE-EMPTY",), reports=("pytorch/pytorch#81077",))
class CacheWithoutRowsRaises(NumpyBackend):
    """A cache without rows cannot be written to."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        assert len(k)
        super()._write(cache, layer, start, k, v)


class Unchecked(NumpyBackend):
    """Whatever broadcasts to the slots is taken."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        rules.usable(cache.consumed, "append")
        start, T = cache.lengths[layer], max(k.shape[2], v.shape[2])
        rules.room(cache.dims, start, T, "append")
        self._write(cache, layer, start, k, v)
        cache = self._consume(cache)
        cache.lengths[layer] = start + T
        return cache


@mutant(killed_by=("CACHE-REFUSES",))
class WhatBroadcastsIsTaken(Unchecked):
    """One row, head or component is spread over all."""


@mutant(killed_by=("CACHE-REFUSES",))
class LayersFromTheEnd(NumpyBackend):
    """A negative layer counts from the end."""

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        return super().read(cache, layer % cache.dims.L)

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        return super().append(cache, layer % cache.dims.L, k, v)


@mutant(killed_by=("CACHE-UNSUPPORTED",))
class UnsupportedReorderIgnored(NumpyBackend):
    """Reorder is declared unsupported, accepted and ignored."""

    unsupported = {"kv_cache.reorder": "no beams"}

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        return super()._take_rows(cache, np.arange(len(rows)) % max(cache.dims.B, 1))
