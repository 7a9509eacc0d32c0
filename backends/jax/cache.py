"""The key/value cache in JAX (source 7): buffers of fixed capacity, given up to the call that updates them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from gaugeblock.backends.jax.arrays import on_host, owned
from gaugeblock.spec import cache as rules
from gaugeblock.spec.cache import Dims, KVCache
from gaugeblock.spec.errors import DTypeError
from gaugeblock.spec.precision import FORMATS

Length = int | Array  # an array inside a compiled function, and in the cache that one gives back


@dataclass
class Cache:
    """What the layers hold, and what a decoder keeps besides; a pytree of all but the last of these.

    keys, values   for each layer (B, K, N, D) and (B, K, N, E), N the capacity, filled up to the layer's length;
    lengths        the tokens that each layer holds;
    real           bool (B, N): which columns are tokens and not padding, None where nobody asks;
    cross          for each layer the keys and values of the memory, (B, H, S, D) and (B, H, S, E), none without one;
    memory_mask    bool (B, S), None where the memory has no padding;
    consumed       whether a call has taken it; a compiled function that takes one should be given it to donate.
    """

    keys: list[Array]
    values: list[Array]
    lengths: list[Length]
    real: Array | None = None
    cross: Sequence[tuple[Array, Array]] = ()
    memory_mask: Array | None = None
    consumed: bool = False

    @property
    def dims(self) -> Dims:
        (B, K, N, D), E = self.keys[0].shape, self.values[0].shape[3]
        return Dims(len(self.keys), B, K, N, D, E)


def _parts(cache: Cache) -> tuple[tuple[Any, ...], None]:
    rules.usable(cache.consumed, "jax.jit")
    return (cache.keys, cache.values, cache.lengths, cache.real, cache.cross, cache.memory_mask), None


jax.tree_util.register_pytree_node(Cache, _parts, lambda _, parts: Cache(*parts))


def plain(length: Length) -> Length:
    """A length as a number, where it is not traced."""
    return length if isinstance(length, Tracer) else int(length)


def known(length: Length, otherwise: int) -> int:
    """A length as a number, or otherwise where it is traced."""
    return otherwise if isinstance(length, Tracer) else int(length)


class JaxKVCache(KVCache):
    """Ownership makes donation safe: no buffer is ever handed out, and no two caches share one that is updated."""

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
        kind = FORMATS[dtype].dtype
        if dtype == "float64" and not jax.config.read("jax_enable_x64"):
            raise DTypeError("cache: float64 needs 64-bit mode; use the backend jax@x64 [init_cache]")

        def empty(width: int) -> list[Array]:
            return [owned(np.zeros((d.B, d.K, d.N, width), kind)) for _ in range(d.L)]

        return Cache(empty(d.D), empty(d.E), [0] * d.L)

    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        rules.usable(cache.consumed, "append")
        layer = rules.layer_of(cache.dims, layer, "append")
        start = plain(cache.lengths[layer])
        dtype = cache.keys[layer].dtype.name
        T = rules.appended(cache.dims, known(start, 0), k.shape, v.shape, k.dtype.name, v.dtype.name, dtype)
        self._write(cache, layer, start, k, v)
        cache = self._consume(cache)
        cache.lengths[layer] = start + T
        return cache

    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        rules.usable(cache.consumed, "read")
        layer = rules.layer_of(cache.dims, layer, "read")
        length, buffers = int(cache.lengths[layer]), (cache.keys[layer], cache.values[layer])
        k, v = (on_host(buffer) for buffer in buffers)
        if k is None or v is None:
            there: tuple[Array, Array] = _first(*buffers, length)
            return there
        here: tuple[Array, Array] = jax.device_put((k[:, :, :length].copy(), v[:, :, :length].copy()))
        return here

    def reorder(self, cache: Cache, rows: Array) -> Cache:
        rules.usable(cache.consumed, "reorder")
        rules.reordered(cache.dims, rows.shape, rows.dtype.name, on_host(rows))
        taken = self._take_rows(cache, rows)
        self._consume(cache)
        return taken

    def truncate(self, cache: Cache, length: int) -> Cache:
        rules.usable(cache.consumed, "truncate")
        length = rules.truncated(cache.dims, min(known(n, cache.dims.N) for n in cache.lengths), length)
        return self._shorten(self._consume(cache), length)

    def fork(self, cache: Cache) -> Cache:
        rules.usable(cache.consumed, "fork")
        return self._copied(cache)

    def cache_nbytes(self, cache: Cache) -> int:
        rules.usable(cache.consumed, "cache_nbytes")
        return sum(buffer.nbytes for buffer in (*cache.keys, *cache.values))

    def cache_length(self, cache: Cache) -> int:
        rules.usable(cache.consumed, "cache_length")
        return min(int(length) for length in cache.lengths)

    def _consume(self, cache: Cache) -> Cache:
        """The handle to use next, over the same buffers; the given one raises from here on.

        The last thing that a call does: one that raises before it has consumed nothing.
        """
        cache.consumed = True
        keys, values, lengths = list(cache.keys), list(cache.values), list(cache.lengths)
        return replace(cache, keys=keys, values=values, lengths=lengths, consumed=False)

    def _write(self, cache: Cache, layer: int, start: Length, k: Array, v: Array) -> None:
        cache.keys[layer], cache.values[layer] = _updated(cache.keys[layer], cache.values[layer], k, v, start)

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        """Whatever has a batch axis, with these rows."""
        held = cache.keys, cache.values, tuple(cache.cross), cache.real, cache.memory_mask
        keys, values, cross, real, memory_mask = _taken(held, rows)
        return replace(
            cache,
            keys=keys,
            values=values,
            lengths=list(cache.lengths),
            real=real,
            cross=cross,
            memory_mask=memory_mask,
        )

    def _shorten(self, cache: Cache, length: int) -> Cache:
        """Move the lengths back; what lies behind them is written over before it is read."""
        return replace(cache, lengths=[length] * len(cache.lengths))

    def _copied(self, cache: Cache) -> Cache:
        """A cache of its own, all of which may be given up without harm to the other."""
        held = cache.keys, cache.values, cache.real, cache.cross, cache.memory_mask
        keys, values, real, cross, memory_mask = jax.tree.map(owned, held)
        lengths = list(cache.lengths)
        return Cache(keys, values, lengths, real, cross, memory_mask)


@partial(jax.jit, donate_argnums=(0, 1))
def _updated(keys: Array, values: Array, k: Array, v: Array, start: Length) -> tuple[Array, Array]:
    """The buffers with new tokens from column start on; start is traced, so that every step runs the same code."""

    def written(keys: Array, values: Array) -> tuple[Array, Array]:
        return (
            lax.dynamic_update_slice_in_dim(keys, k, start, axis=2),
            lax.dynamic_update_slice_in_dim(values, v, start, axis=2),
        )

    # Behind a condition XLA updates in place also inside a larger program; else it joins the update with what reads
    # it, twice over, and copies whole buffers to do so.
    grown: tuple[Array, Array] = lax.cond(start + k.shape[2] <= keys.shape[2], written, _as_they_were, keys, values)
    return grown


def _as_they_were(keys: Array, values: Array) -> tuple[Array, Array]:
    return keys, values


@partial(jax.jit, static_argnums=2)
def _first(keys: Array, values: Array, length: int) -> tuple[Array, Array]:
    """Copies of the first columns: a slice of all of them would be the buffer itself."""
    return jnp.copy(keys[:, :, :length]), jnp.copy(values[:, :, :length])


@jax.jit
def _taken(held: Any, rows: Array) -> Any:
    """Every array, with these rows; None stays None."""
    return jax.tree.map(lambda x: jnp.take(x, rows, axis=0, mode="clip"), held)  # (R, ...)
