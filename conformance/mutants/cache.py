"""Wrong writing and reading of a cache."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_calls import as_if_contiguous
from gaugeblock.conformance.mutants.formats import stored
from gaugeblock.spec.precision import BFLOAT16, HALF


@mutant(killed_by=("CACHE-CHUNKS",), reports=("microsoft/onnxruntime-genai#2354",), catalogue="M45")
class AHoleIsLeft(NumpyBackend):
    """Every append but the first is written one slot too far, and leaves a hole of zeros."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        room = cache.dims.N - start - 1
        if start and room > 0:
            super()._write(cache, layer, start + 1, k[:, :, :room], v[:, :, :room])
        elif not start:
            super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-APPEND", "CACHE-CHUNKS"), reports=("TrenTorch/TrenTorch#192",))
class FirstTokenIsNeverStored(NumpyBackend):
    """The first token of a cache is counted, and not stored."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        skipped = int(start == 0)
        super()._write(cache, layer, start + skipped, k[:, :, skipped:], v[:, :, skipped:])


@mutant(killed_by=("CACHE-CHUNKS",), reports=("ekryski/mlx-swift-lm#90",))
class IndexNeverAdvances(NumpyBackend):
    """Every append is written to the front, while the length grows."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, 0, k, v)


@mutant(killed_by=("CACHE-CHUNKS",))
class LastTokenIsOverwritten(NumpyBackend):
    """Every append but the first begins in the slot of the last token."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, max(start - 1, 0), k, v)


@mutant(killed_by=("CACHE-CHUNKS",))
class ChunksLoseAllButTheLast(NumpyBackend):
    """Of several tokens that come behind others only the last is stored, in every slot."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        if start:
            k, v = (np.broadcast_to(x[:, :, -1:], x.shape) for x in (k, v))
        super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-CHUNKS",))
class NewestFirst(NumpyBackend):
    """Later tokens are put in front of earlier ones."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        T = k.shape[2]
        for buffer in (cache.keys[layer], cache.values[layer]):
            buffer[:, :, T : start + T] = buffer[:, :, :start].copy()
        super()._write(cache, layer, 0, k, v)


@mutant(killed_by=("CACHE-APPEND", "CACHE-SHAPES"))
class KeysAndValuesExchanged(NumpyBackend):
    """read gives the values first."""

    def _view(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        k, v = super()._view(cache, layer)
        return v, k


@mutant(killed_by=("CACHE-SHAPES",), reports=("pytorch/pytorch#176767",))
class ValuesHaveTheWidthOfKeys(NumpyBackend):
    """Values that are wider than the keys are cut to their width."""

    def _view(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        k, v = super()._view(cache, layer)
        return k, v[..., : k.shape[-1]]


@mutant(killed_by=("CACHE-SHAPES",))
class CacheIsReadTokensFirst(NumpyBackend):
    """read gives (B, T, K, D)."""

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        k, v = super().read(cache, layer)
        return k.swapaxes(1, 2), v.swapaxes(1, 2)


@mutant(killed_by=("CACHE-DTYPE",), dtypes=HALF)
class HalfIsReadWide(NumpyBackend):
    """Half precision is read as float32."""

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        k, v = super().read(cache, layer)
        return k.astype(np.float32), v.astype(np.float32)


@mutant(killed_by=("CACHE-APPEND",))
class StoredInBfloat16(NumpyBackend):
    """What is stored goes through bfloat16."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, start, stored(k, BFLOAT16), stored(v, BFLOAT16))


@mutant(killed_by=("CACHE-APPEND",), reports=("gittensor-ai-lab/sparkinfer#289",))
class RowsShareASlot(NumpyBackend):
    """Every row is written over by the last one of the batch."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, start, k[-1:], v[-1:])


@mutant(killed_by=("CACHE-APPEND", "CACHE-CHUNKS"))
class HeadsAreReadAsTokens(NumpyBackend):
    """Heads and tokens are exchanged by a reshape that should be a transposition."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape) for x in (k, v))
        super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-LAYERS", "CACHE-APPEND"))
class LayersShareABuffer(NumpyBackend):
    """All layers write to the same buffer."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        for each in range(cache.dims.L):
            super()._write(cache, each, start, k, v)


@mutant(killed_by=("CACHE-LAYERS",))
class OneIndexForAllLayers(NumpyBackend):
    """The layers are written where the longest of them ends."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        longest = max(cache.lengths) if start != max(cache.lengths) - k.shape[2] else start
        super()._write(cache, layer, min(longest, cache.dims.N - k.shape[2]), k, v)


@mutant(killed_by=("CACHE-LENGTH",))
class LengthOfTheFirstLayer(NumpyBackend):
    """cache_length looks at the first layer only."""

    def cache_length(self, cache: Cache) -> int:
        return super().cache_length(cache) and cache.lengths[0]


@mutant(killed_by=("CACHE-LENGTH",))
class LengthIsTheCapacity(NumpyBackend):
    """cache_length gives the room that there is."""

    def cache_length(self, cache: Cache) -> int:
        return max(super().cache_length(cache), cache.dims.N)


@mutant(killed_by=("CACHE-LENGTH",))
class LengthCountsCalls(NumpyBackend):
    """cache_length grows by one with every append, however many tokens it brings."""

    def cache_length(self, cache: Cache) -> int:
        return min(super().cache_length(cache), 1)


@mutant(killed_by=("CACHE-NONFINITE",))
class WrittenByOneHot(NumpyBackend):
    """Tokens are written by products with zeros and ones: a NaN spreads over the cache."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        slots = np.arange(cache.dims.N)
        for t in range(k.shape[2]):
            hit = (slots == start + t)[:, None]
            for buffer, x in ((cache.keys[layer], k), (cache.values[layer], v)):
                one = hit.astype(x.dtype)
                buffer[:] = buffer * (1 - one) + x[:, :, t : t + 1] * one


@mutant(killed_by=("CACHE-NONFINITE",))
class NanIsStoredAsZero(NumpyBackend):
    """NaN is stored as zero."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, start, np.nan_to_num(k), np.nan_to_num(v))


@mutant(killed_by=("CACHE-STRIDES",))
class StridesAreIgnored(NumpyBackend):
    """What is appended is read as if it were contiguous."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        super()._write(cache, layer, start, as_if_contiguous(k), as_if_contiguous(v))
