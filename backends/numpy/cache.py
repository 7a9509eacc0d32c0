"""The key/value cache in NumPy (source 7): buffers of fixed capacity, written in place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.spec import cache as rules
from gaugeblock.spec.cache import Dims, KVCache
from gaugeblock.spec.precision import FORMATS


@dataclass
class Cache:
    """What the layers hold, and what a decoder keeps besides.

    keys, values   for each layer (B, K, N, D) and (B, K, N, E), N the capacity, filled up to the layer's length;
    lengths        the tokens that each layer holds;
    real           bool (B, N): which columns are tokens and not padding, None where nobody asks;
    cross          for each layer the keys and values of the memory, (B, H, S, D) and (B, H, S, E), none without one;
    memory_mask    bool (B, S), None where the memory has no padding;
    consumed       whether a call has taken it.
    """

    keys: list[Array]
    values: list[Array]
    lengths: list[int]
    real: Array | None = None
    cross: Sequence[tuple[Array, Array]] = ()
    memory_mask: Array | None = None
    consumed: bool = False

    @property
    def dims(self) -> Dims:
        (B, K, N, D), E = self.keys[0].shape, self.values[0].shape[3]
        return Dims(len(self.keys), B, K, N, D, E)


class NumpyKVCache(KVCache):
    """Ownership makes writing in place safe: only the handle that a call returns sees the buffers again."""

    def init_cache(
        self,
        *,
        layers: int,
        batch: int,
        kv_heads: int,
        capacity: int,
        key_width: int,
        value_width: int,
        dtype: str,
    ) -> Cache:
        d = rules.dims(
            layers=layers,
            batch=batch,
            kv_heads=kv_heads,
            capacity=capacity,
            key_width=key_width,
            value_width=value_width,
            dtype=dtype,
        )
        kind = FORMATS[dtype].dtype
        keys = [np.zeros((d.B, d.K, d.N, d.D), kind) for _ in range(d.L)]
        values = [np.zeros((d.B, d.K, d.N, d.E), kind) for _ in range(d.L)]
        return Cache(keys, values, [0] * d.L)

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        rules.usable(cache.consumed, "append")
        layer = rules.layer_of(cache.dims, layer, "append")
        dtype = cache.keys[layer].dtype.name
        start = cache.lengths[layer]
        T = rules.appended(cache.dims, start, k.shape, v.shape, k.dtype.name, v.dtype.name, dtype)
        self._write(cache, layer, start, k, v)
        cache = self._consume(cache)
        cache.lengths[layer] = start + T
        return cache

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        rules.usable(cache.consumed, "read")
        k, v = self._view(cache, rules.layer_of(cache.dims, layer, "read"))
        return k.copy(), v.copy()

    def reorder(self, cache: Cache, rows: Array) -> Cache:
        rules.usable(cache.consumed, "reorder")
        rules.reordered(cache.dims, rows.shape, rows.dtype.name, rows)
        taken = self._take_rows(cache, rows)
        self._consume(cache)
        return taken

    def truncate(self, cache: Cache, length: int) -> Cache:
        rules.usable(cache.consumed, "truncate")
        length = rules.truncated(cache.dims, min(cache.lengths), length)
        return self._shorten(self._consume(cache), length)

    def fork(self, cache: Cache) -> Cache:
        rules.usable(cache.consumed, "fork")
        return self._copied(cache)

    def cache_nbytes(self, cache: Cache) -> int:
        rules.usable(cache.consumed, "cache_nbytes")
        return sum(buffer.nbytes for buffer in (*cache.keys, *cache.values))

    def cache_length(self, cache: Cache) -> int:
        rules.usable(cache.consumed, "cache_length")
        return min(cache.lengths)

    def _consume(self, cache: Cache) -> Cache:
        """The handle to use next, over the same buffers; the given one raises from here on.

        The last thing that a call does: one that raises before it has consumed nothing.
        """
        cache.consumed = True
        return replace(cache, lengths=list(cache.lengths), consumed=False)

    def _view(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        """What a layer holds, without copying."""
        length = cache.lengths[layer]
        return cache.keys[layer][:, :, :length], cache.values[layer][:, :, :length]

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        end = start + k.shape[2]
        cache.keys[layer][:, :, start:end] = k
        cache.values[layer][:, :, start:end] = v

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        """Whatever has a batch axis, with these rows: indexing by integers copies."""
        return replace(
            cache,
            keys=[buffer[rows] for buffer in cache.keys],  # (R, K, N, D)
            values=[buffer[rows] for buffer in cache.values],  # (R, K, N, E)
            lengths=list(cache.lengths),
            real=None if cache.real is None else cache.real[rows],
            cross=tuple((k[rows], v[rows]) for k, v in cache.cross),
            memory_mask=None if cache.memory_mask is None else cache.memory_mask[rows],
        )

    def _shorten(self, cache: Cache, length: int) -> Cache:
        """Move the lengths back; what lies behind them is written over before it is read."""
        return replace(cache, lengths=[length] * len(cache.lengths))

    def _copied(self, cache: Cache) -> Cache:
        """A cache of its own; only what is never written to is shared."""
        return replace(
            cache,
            keys=[buffer.copy() for buffer in cache.keys],
            values=[buffer.copy() for buffer in cache.values],
            lengths=list(cache.lengths),
            real=None if cache.real is None else cache.real.copy(),
        )
