"""The key/value cache: its interface and its rules (source 7)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaugeblock.spec.backend import Array
from gaugeblock.spec.errors import (
    CacheError,
    CapacityError,
    ConfigError,
    DTypeError,
    GaugeblockError,
    PositionError,
    ShapeError,
    refuse,
)
from gaugeblock.spec.positions import Integers, whole
from gaugeblock.spec.precision import FORMATS

Shape = Sequence[int]
Cache = Array  # opaque to the suite: it came from init_cache, or from a method that takes one


class KVCache(ABC):
    """Keys and values of the tokens seen so far, kept layer by layer (source 7; Shazeer 2019, section 2.4).

    Every method that takes a cache consumes it and returns the one to use next, except fork and the readers: read,
    cache_nbytes and cache_length. A consumed cache raises CacheError. A call that raises consumes nothing and changes
    nothing. Arrays that were handed out never change. Clauses: CACHE-CONSUMED, CACHE-ATOMIC, CACHE-HANDED-OUT.
    """

    @abstractmethod
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
        """An empty cache.

        Each of the L layers has room for capacity tokens: keys (B, K, capacity, D), values (B, K, capacity, E), of the
        dtype named. layers, kv_heads, key_width and value_width are at least 1, batch and capacity at least 0.
        Raises ConfigError, DTypeError. Clauses: CACHE-LENGTH, CACHE-CAPACITY, CACHE-EMPTY, CACHE-STATELESS.
        """

    @abstractmethod
    def append(self, cache: Cache, layer: int, k: Array, v: Array) -> Cache:
        """Put new tokens behind those that the layer holds.

        k (B, K, T, D), v (B, K, T, E), of the cache's dtype; T may be 0. The layers are appended to one at a time, so
        that each has a length of its own.
        Raises CacheError, ShapeError, DTypeError, ConfigError for a layer that there is not, CapacityError for tokens
        that there is no room for. Clauses: CACHE-APPEND, CACHE-CHUNKS, CACHE-LAYERS, CACHE-CAPACITY, CACHE-STRIDES,
        CACHE-INPUTS-INTACT.
        """

    @abstractmethod
    def read(self, cache: Cache, layer: int) -> tuple[Array, Array]:
        """Copies of what a layer holds, oldest token first.

        -> k (B, K, length, D), v (B, K, length, E), where length is the layer's own.
        Raises CacheError, ConfigError. Clauses: CACHE-SHAPES, CACHE-DTYPE, CACHE-APPEND, CACHE-HANDED-OUT.
        """

    @abstractmethod
    def reorder(self, cache: Cache, rows: Array) -> Cache:
        """Make row i of every layer what row rows[i] was.

        rows (R,) integers in [0, B), in any order, any number of times each -> a cache of batch R.
        Raises CacheError, ShapeError, DTypeError, PositionError for a row that there is not.
        Clauses: CACHE-REORDER, CACHE-REORDER-ROWS.
        """

    @abstractmethod
    def truncate(self, cache: Cache, length: int) -> Cache:
        """Forget all but the first tokens of every layer.

        length is in [0, cache_length(cache)]; the capacity stays.
        Raises CacheError, ConfigError. Clauses: CACHE-TRUNCATE, CACHE-STALE.
        """

    @abstractmethod
    def fork(self, cache: Cache) -> Cache:
        """A cache of the same contents that shares nothing which shows; the given one stays usable.

        Raises CacheError. Clauses: CACHE-FORK.
        """

    @abstractmethod
    def cache_nbytes(self, cache: Cache) -> int:
        """The bytes that the keys and values of self-attention take up.

            L B K capacity (D + E) itemsize

        Raises CacheError. Clauses: CACHE-BYTES.
        """

    @abstractmethod
    def cache_length(self, cache: Cache) -> int:
        """The number of tokens that every layer holds: the least length of a layer.

        Raises CacheError. Clauses: CACHE-LENGTH.
        """


class Dims(NamedTuple):
    """The sizes of a cache; N is its capacity."""

    L: int
    B: int
    K: int
    N: int
    D: int
    E: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._asdict().items())


def cache_bytes(
    *, layers: int, batch: int, kv_heads: int, length: int, key_width: int, value_width: int, dtype: str
) -> int:
    """What the keys and values of length tokens take up: layers batch kv_heads length (D + E) itemsize.

    With D = E = width / heads and kv_heads = heads that is the document's 2 layers batch length width itemsize.
    Clauses: CACHE-BYTES, CACHE-COST. Source: Shazeer 2019, section 2.4.
    """
    return layers * batch * kv_heads * length * (key_width + value_width) * FORMATS[dtype].dtype.itemsize


def dims(
    *, layers: int, batch: int, kv_heads: int, capacity: int, key_width: int, value_width: int, dtype: str
) -> Dims:
    """The sizes of a new cache, or a refusal of those that have no meaning.

    Raises ConfigError, DTypeError. Clauses: CACHE-REFUSES, CACHE-ERRORS.
    """
    least = {"layers": 1, "batch": 0, "kv_heads": 1, "capacity": 0, "key_width": 1, "value_width": 1}
    given = (layers, batch, kv_heads, capacity, key_width, value_width)
    for (name, low), size in zip(least.items(), given, strict=True):
        if not whole(size) or size < low:
            raise _no(ConfigError, f"{name} must be an integer of at least {low}, got {size!r}", "init_cache")
    if dtype not in FORMATS:
        raise _no(DTypeError, f"dtype must be one of {', '.join(FORMATS)}, got {dtype!r}", "init_cache")
    return Dims(*map(int, given))


def usable(consumed: bool, where: str) -> None:
    """Refuse a cache that a call has consumed.

    Raises CacheError. Clauses: CACHE-CONSUMED.
    """
    if consumed:
        problem = "the cache was consumed by an earlier call: use the one that the call returned, or fork before it"
        raise refuse(CacheError, "CACHE-CONSUMED", problem, where)


def layer_of(d: Dims, layer: int, where: str) -> int:
    """Refuse a layer that the cache has not.

    Raises ConfigError. Clauses: CACHE-REFUSES, CACHE-ERRORS.
    """
    if not whole(layer) or not 0 <= layer < d.L:
        raise _no(ConfigError, f"layer must be an integer in [0, {d.L}), got {layer!r}", f"{where}({d})")
    return int(layer)


def appended(d: Dims, length: int, k: Shape, v: Shape, k_dtype: str, v_dtype: str, dtype: str) -> int:
    """The number T of new tokens, or a refusal of them; length is what the layer holds, dtype the cache's.

    Raises ShapeError, DTypeError, CapacityError. Clauses: CACHE-REFUSES, CACHE-CAPACITY, CACHE-ERRORS.
    """
    where = f"append({d})"
    for name, shape, width in (("k", k, d.D), ("v", v, d.E)):
        if len(shape) != 4:
            raise _no(ShapeError, f"{name} must have rank 4, got rank {len(shape)}", where)
        wanted = (d.B, d.K, k[2], width)
        if tuple(shape) != wanted:
            raise _no(ShapeError, f"{name} must be {wanted}, got {tuple(shape)}", where)
    for name, kind in (("k", k_dtype), ("v", v_dtype)):
        if kind != dtype:
            raise _no(DTypeError, f"{name} must have the cache's dtype {dtype}, got {kind}", where)
    room(d, length, k[2], where)
    return k[2]


def room(d: Dims, length: int, T: int, where: str) -> None:
    """Refuse more tokens than there is room for behind length.

    Raises CapacityError. Clauses: CACHE-CAPACITY.
    """
    if length + T > d.N:
        problem = f"the cache has room for {d.N} tokens and holds {length}, got {T} more"
        raise refuse(CapacityError, "CACHE-CAPACITY", problem, where)


def reordered(d: Dims, rows: Shape, kind: str, values: Integers | None) -> int:
    """The number R of rows, or a refusal of them; values are the rows where they lie on the host.

    Raises ShapeError, DTypeError, PositionError. Clauses: CACHE-REFUSES, CACHE-ERRORS.
    """
    where = f"reorder({d})"
    if len(rows) != 1:
        raise _no(ShapeError, f"rows must be (R,), got {tuple(rows)}", where)
    if not kind.startswith(("int", "uint")):
        raise _no(DTypeError, f"rows must be integers, got {kind}", where)
    if values is not None and values.size and not (np.min(values) >= 0 and np.max(values) < d.B):
        raise _no(PositionError, f"rows must be in [0, {d.B}), got {np.asarray(values).tolist()}", where)
    return rows[0]


def truncated(d: Dims, reached: int, length: int) -> int:
    """Refuse a length that the cache cannot be cut to; reached is the length that every layer has.

    Raises ConfigError. Clauses: CACHE-REFUSES, CACHE-ERRORS.
    """
    if not whole(length) or not 0 <= length <= reached:
        problem = f"length must be an integer in [0, {reached}], got {length!r}"
        raise _no(ConfigError, problem, f"truncate({d})")
    return int(length)


def _no(kind: type[GaugeblockError], problem: str, where: str) -> GaugeblockError:
    return refuse(kind, "CACHE-REFUSES", problem, where)
