"""The key/value cache in PyTorch (source 7): buffers of fixed capacity on the backend's device, written in place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gaugeblock.backends.torch.arrays import name_of, on_host
from gaugeblock.spec import cache as rules
from gaugeblock.spec.cache import Dims, KVCache


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

    keys: list[Tensor]
    values: list[Tensor]
    lengths: list[int]
    real: Tensor | None = None
    cross: Sequence[tuple[Tensor, Tensor]] = ()
    memory_mask: Tensor | None = None
    consumed: bool = False

    @property
    def dims(self) -> Dims:
        (B, K, N, D), E = self.keys[0].shape, self.values[0].shape[3]
        return Dims(len(self.keys), B, K, N, D, E)


class TorchKVCache(KVCache):
    """Nothing is allocated after the start but by reorder and fork; a cache is not trained through."""

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
        sizes = {"layers": layers, "batch": batch, "kv_heads": kv_heads, "capacity": capacity}
        d = rules.dims(**sizes, key_width=key_width, value_width=value_width, dtype=dtype)
        kind: torch.dtype = getattr(torch, dtype)
        keys, values = (
            [torch.zeros((d.B, d.K, d.N, width), dtype=kind, device=self._device()) for _ in range(d.L)]
            for width in (d.D, d.E)
        )
        return Cache(keys, values, [0] * d.L)

    @torch.no_grad()
    def append(self, cache: Cache, layer: int, k: Tensor, v: Tensor) -> Cache:
        rules.usable(cache.consumed, "append")
        layer = rules.layer_of(cache.dims, layer, "append")
        start = cache.lengths[layer]
        T = rules.appended(cache.dims, start, k.shape, v.shape, name_of(k), name_of(v), name_of(cache.keys[layer]))
        self._write(cache, layer, start, k, v)
        cache = self._consume(cache)
        cache.lengths[layer] = start + T
        return cache

    def read(self, cache: Cache, layer: int) -> tuple[Tensor, Tensor]:
        rules.usable(cache.consumed, "read")
        k, v = self._view(cache, rules.layer_of(cache.dims, layer, "read"))
        return k.clone(memory_format=torch.contiguous_format), v.clone(memory_format=torch.contiguous_format)

    @torch.no_grad()
    def reorder(self, cache: Cache, rows: Tensor) -> Cache:
        rules.usable(cache.consumed, "reorder")
        B = cache.dims.B
        values = on_host(rows)
        rules.reordered(cache.dims, rows.shape, name_of(rows), values)
        # a row that there is not kills the context on CUDA
        taken = self._take_rows(cache, rows.long() if values is not None else rows.long().clamp(0, max(B - 1, 0)))
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

    def _view(self, cache: Cache, layer: int) -> tuple[Tensor, Tensor]:
        """What a layer holds, without copying."""
        length = cache.lengths[layer]
        return cache.keys[layer].narrow(2, 0, length), cache.values[layer].narrow(2, 0, length)

    def _write(self, cache: Cache, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        cache.keys[layer].narrow(2, start, k.shape[2]).copy_(k)
        cache.values[layer].narrow(2, start, v.shape[2]).copy_(v)

    def _take_rows(self, cache: Cache, rows: Tensor) -> Cache:
        """Whatever has a batch axis, with these rows."""

        def taken(x: Tensor) -> Tensor:
            return x.index_select(0, rows)  # (R, ...)

        return replace(
            cache,
            keys=[taken(buffer) for buffer in cache.keys],
            values=[taken(buffer) for buffer in cache.values],
            lengths=list(cache.lengths),
            real=None if cache.real is None else taken(cache.real),
            cross=tuple((taken(k), taken(v)) for k, v in cache.cross),
            memory_mask=None if cache.memory_mask is None else taken(cache.memory_mask),
        )

    def _shorten(self, cache: Cache, length: int) -> Cache:
        """Move the lengths back; what lies behind them is written over before it is read."""
        return replace(cache, lengths=[length] * len(cache.lengths))

    def _copied(self, cache: Cache) -> Cache:
        """A cache of its own; only what is never written to is shared."""
        return replace(
            cache,
            keys=[buffer.clone() for buffer in cache.keys],
            values=[buffer.clone() for buffer in cache.values],
            lengths=list(cache.lengths),
            real=None if cache.real is None else cache.real.clone(),
        )

    def _device(self) -> torch.device:
        return getattr(self, "device", torch.device("cpu"))
