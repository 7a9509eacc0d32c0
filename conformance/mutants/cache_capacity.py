"""Wrong capacities and sizes of a cache."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import CapacityError


def grown(cache: Cache, more: int) -> Cache:
    """The cache with room for more tokens."""
    keys, values = (
        [np.pad(buffer, [(0, 0), (0, 0), (0, more), (0, 0)]) for buffer in buffers]
        for buffers in (cache.keys, cache.values)
    )
    cache.keys, cache.values = keys, values
    return cache


def beyond(cache: Cache, layer: int, k: Array) -> int:
    """How many of the new tokens there is no room for."""
    lengths = cache.lengths[layer : layer + 1] if 0 <= layer < cache.dims.L and k.ndim == 4 else [0]
    return max(int(lengths[0] + k.shape[min(2, k.ndim - 1)]) - cache.dims.N, 0)


@mutant(killed_by=("CACHE-CAPACITY",))
class GrowsUndeclared(NumpyBackend):
    """Tokens beyond the capacity are taken, and nothing is declared."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        more = beyond(cache, layer, k)
        return super().append(grown(cache, more) if more else cache, layer, k, v)


@mutant(killed_by=("CACHE-CAPACITY",), reports=("huggingface/transformers#37574",))
class WrapsAround(NumpyBackend):
    """Tokens beyond the capacity are written over the first ones."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        more = beyond(cache, layer, k)
        if not more:
            return super().append(cache, layer, k, v)
        fit = k.shape[2] - more
        cache = super().append(cache, layer, k[:, :, :fit], v[:, :, :fit])
        for t in range(fit, k.shape[2]):
            self._write(cache, layer, (t - fit) % max(cache.dims.N, 1), k[:, :, t : t + 1], v[:, :, t : t + 1])
        return cache


@mutant(killed_by=("CACHE-CAPACITY",))
class DropsWhatDoesNotFit(NumpyBackend):
    """Tokens beyond the capacity are dropped."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        fit = k.shape[min(2, k.ndim - 1)] - beyond(cache, layer, k)
        if k.shape != (*k.shape[:-2], fit, k.shape[-1]):
            k, v = k[:, :, :fit], v[:, :, :fit]
        return super().append(cache, layer, k, v)


@mutant(killed_by=("CACHE-CAPACITY",))
class StartIsClamped(NumpyBackend):
    """Tokens beyond the capacity are moved to where they fit, over the last ones."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        more = beyond(cache, layer, k)
        if more and k.shape[2] <= cache.dims.N:
            cache.lengths[layer] -= more
        return super().append(cache, layer, k, v)


@mutant(killed_by=("CACHE-CAPACITY",))
class StoresWhatFitsAndRaises(NumpyBackend):
    """Of tokens beyond the capacity those that fit are stored before the call raises."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        try:
            return super().append(cache, layer, k, v)
        except CapacityError:
            fit = k.shape[2] - beyond(cache, layer, k)
            self._write(cache, layer, cache.lengths[layer], k[:, :, :fit], v[:, :, :fit])
            cache.lengths[layer] = cache.dims.N
            raise


@mutant(killed_by=("CACHE-CAPACITY",))
class OverflowConsumes(NumpyBackend):
    """An append that is refused for want of room consumes the cache."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        try:
            return super().append(cache, layer, k, v)
        except CapacityError:
            cache.consumed = True
            raise


@mutant(killed_by=("CACHE-CAPACITY",))
class LastSlotIsNeverUsed(NumpyBackend):
    """A cache is full when one slot is left."""

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        if not cache.consumed and k.ndim == 4 and k.shape[2] and cache.lengths[layer] + k.shape[2] == cache.dims.N:
            raise CapacityError("the cache is full")
        return super().append(cache, layer, k, v)


@mutant(killed_by=("CACHE-CAPACITY",))
class GrowsAndForgets(NumpyBackend):
    """grows is declared, and a cache that grows loses what it held."""

    conventions = Conventions(capacity="grows")

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        more = beyond(cache, layer, k)
        if more:
            cache = grown(cache, more)
            cache.keys[layer][:], cache.values[layer][:] = 0, 0
        return super().append(cache, layer, k, v)


@mutant(killed_by=("CACHE-CAPACITY",))
class DeclaresThatItGrows(NumpyBackend):
    """grows is declared, and tokens beyond the capacity are refused."""

    conventions = Conventions(capacity="grows")


@mutant(killed_by=("CACHE-BYTES",))
class BytesOfTheKeys(NumpyBackend):
    """Only the keys are counted."""

    def cache_nbytes(self, cache: Cache) -> int:
        super().cache_nbytes(cache)
        return sum(buffer.nbytes for buffer in cache.keys)


@mutant(killed_by=("CACHE-BYTES",))
class BytesOfOneLayer(NumpyBackend):
    """Only the first layer is counted."""

    def cache_nbytes(self, cache: Cache) -> int:
        return super().cache_nbytes(cache) // cache.dims.L


@mutant(killed_by=("CACHE-BYTES",))
class BytesOfOneRow(NumpyBackend):
    """Only one row of the batch is counted."""

    def cache_nbytes(self, cache: Cache) -> int:
        return super().cache_nbytes(cache) // max(cache.dims.B, 1)


@mutant(killed_by=("CACHE-BYTES",))
class BytesOfHalfPrecision(NumpyBackend):
    """Two bytes are counted for every number."""

    def cache_nbytes(self, cache: Cache) -> int:
        return super().cache_nbytes(cache) * 2 // cache.keys[0].itemsize


@mutant(killed_by=("CACHE-BYTES",))
class BytesOfTwiceTheKeys(NumpyBackend):
    """The values are taken to be as wide as the keys."""

    def cache_nbytes(self, cache: Cache) -> int:
        super().cache_nbytes(cache)
        return 2 * sum(buffer.nbytes for buffer in cache.keys)
