"""Caches that hold their tokens in other ways, or honestly declare what they do otherwise."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec import cache as rules
from gaugeblock.spec.cache import Dims
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.precision import FORMATS, HALF

Pair = tuple[Array, Array]


@dataclass
class Held:
    """A cache of sizes d: what each layer holds, in whatever form, and how many tokens that are."""

    d: Dims
    dtype: str
    layers: list[Any]
    lengths: list[int]
    consumed: bool = False


class Own(NumpyBackend):
    """A cache whose layers have a form of their own: subclasses say how tokens are put there and got back."""

    grows = False

    def init_cache(self, **sizes: Any) -> Any:
        d = rules.dims(**sizes)
        return Held(d, sizes["dtype"], [self._nothing(d, sizes["dtype"]) for _ in range(d.L)], [0] * d.L)

    def append(self, cache: Any, layer: int, k: Array, v: Array) -> Any:
        rules.usable(cache.consumed, "append")
        rules.layer_of(cache.d, layer, "append")
        d, held = cache.d, cache.lengths[layer]
        d = d._replace(N=max(d.N, held + k.shape[min(2, k.ndim - 1)])) if self.grows else d
        T = rules.appended(d, held, k.shape, v.shape, k.dtype.name, v.dtype.name, cache.dtype)
        layers, lengths = list(cache.layers), list(cache.lengths)
        layers[layer], lengths[layer] = self._put(cache, layer, k, v), held + T
        return self._next(cache, replace(cache, layers=layers, lengths=lengths))

    def read(self, cache: Any, layer: int) -> Pair:
        rules.usable(cache.consumed, "read")
        rules.layer_of(cache.d, layer, "read")
        k, v = self._got(cache, layer)
        return k.copy(), v.copy()

    def reorder(self, cache: Any, rows: Array) -> Any:
        rules.usable(cache.consumed, "reorder")
        R = rules.reordered(cache.d, rows.shape, rows.dtype.name, rows)
        pairs = [self._got(cache, layer) for layer in range(cache.d.L)]
        return self._next(cache, self._anew(cache, cache.d._replace(B=R), [(k[rows], v[rows]) for k, v in pairs]))

    def truncate(self, cache: Any, length: int) -> Any:
        rules.usable(cache.consumed, "truncate")
        rules.truncated(cache.d, min(cache.lengths), length)
        pairs = [self._got(cache, layer) for layer in range(cache.d.L)]
        return self._next(cache, self._anew(cache, cache.d, [(k[:, :, :length], v[:, :, :length]) for k, v in pairs]))

    def fork(self, cache: Any) -> Any:
        rules.usable(cache.consumed, "fork")
        return self._anew(cache, cache.d, [self._got(cache, layer) for layer in range(cache.d.L)])

    def cache_nbytes(self, cache: Any) -> int:
        rules.usable(cache.consumed, "cache_nbytes")
        return sum(int(x.nbytes) for layer in range(cache.d.L) for x in self._got(cache, layer))

    def cache_length(self, cache: Any) -> int:
        rules.usable(cache.consumed, "cache_length")
        length: int = min(cache.lengths)
        return length

    def _anew(self, cache: Held, d: Dims, pairs: list[Pair]) -> Held:
        """A cache of these sizes that holds these tokens."""
        made = Held(d, cache.dtype, [self._nothing(d, cache.dtype) for _ in range(d.L)], [0] * d.L)
        for layer, (k, v) in enumerate(pairs):
            made.layers[layer] = self._put(made, layer, k, v)
            made.lengths[layer] = k.shape[2]
        return made

    def _next(self, cache: Held, after: Held) -> Held:
        cache.consumed = True
        return after

    def _nothing(self, d: Dims, dtype: str) -> Any:
        """A layer without tokens."""
        return tuple(np.zeros((d.B, d.K, 0, W), FORMATS[dtype].dtype) for W in (d.D, d.E))

    def _put(self, cache: Held, layer: int, k: Array, v: Array) -> Any:
        """The layer with these tokens behind those that it holds."""
        return tuple(np.concatenate(both, axis=2) for both in zip(cache.layers[layer], (k, v), strict=True))

    def _got(self, cache: Held, layer: int) -> Pair:
        k, v = cache.layers[layer]
        return k, v


@correct
class Concatenated(Own):
    """Keys and values are concatenated, as the source document does; nothing is reserved."""


@correct
class NeverConsumed(Own):
    """Every call makes new arrays, and old caches stay what they were."""

    conventions = Conventions(consumed_cache="valid")

    def _next(self, cache: Held, after: Held) -> Held:
        return after


@correct
class Growing(Own):
    """Tokens beyond the capacity are taken."""

    conventions = Conventions(capacity="grows")
    grows = True


@correct
class GrowingAndNeverConsumed(Own):
    """Both at once, as dynamic caches of lists do."""

    conventions = Conventions(consumed_cache="valid", capacity="grows")
    grows = True

    def _next(self, cache: Held, after: Held) -> Held:
        return after


@correct
class ListOfChunks(Own):
    """The appended arrays themselves are kept, and joined when they are read."""

    def _nothing(self, d: Dims, dtype: str) -> Any:
        first: Pair = super()._nothing(d, dtype)
        return (first,)

    def _put(self, cache: Held, layer: int, k: Array, v: Array) -> Any:
        return (*cache.layers[layer], (k, v))

    def _got(self, cache: Held, layer: int) -> Pair:
        k, v = (np.concatenate(chunks, axis=2) for chunks in zip(*cache.layers[layer], strict=True))
        return k, v


@correct
class Paged(Own):
    """Tokens lie in pages of three that the layer reserves one by one, last slot first."""

    page = 3

    def _nothing(self, d: Dims, dtype: str) -> Any:
        return []

    def _put(self, cache: Held, layer: int, k: Array, v: Array) -> Any:
        d, pages, start = cache.d, list(cache.layers[layer]), cache.lengths[layer]
        for t in range(k.shape[2]):
            at = start + t
            if at // self.page == len(pages):
                dtype = FORMATS[cache.dtype].dtype
                pages.append(tuple(np.full((d.B, d.K, self.page, W), 7, dtype) for W in (d.D, d.E)))
            for slots, x in zip(pages[at // self.page], (k, v), strict=True):
                slots[:, :, self.page - 1 - at % self.page] = x[:, :, t]
        return pages

    def _got(self, cache: Held, layer: int) -> Pair:
        k, v = super()._nothing(cache.d, cache.dtype)
        for pair in cache.layers[layer]:
            k, v = (np.concatenate([x, slots[:, :, ::-1]], axis=2) for x, slots in zip((k, v), pair, strict=True))
        length = cache.lengths[layer]
        return k[:, :, :length], v[:, :, :length]


@correct
class OneArray(Own):
    """Keys and values lie side by side in one array, tokens before heads."""

    def _nothing(self, d: Dims, dtype: str) -> Any:
        return np.zeros((d.B, 0, d.K, d.D + d.E), FORMATS[dtype].dtype)

    def _put(self, cache: Held, layer: int, k: Array, v: Array) -> Any:
        new = np.concatenate([k, v], axis=-1).swapaxes(1, 2)
        return np.concatenate([cache.layers[layer], new], axis=1)

    def _got(self, cache: Held, layer: int) -> Pair:
        both = cache.layers[layer].swapaxes(1, 2)
        return both[..., : cache.d.D], both[..., cache.d.D :]


@correct
class StoredWide(Own):
    """Half precision is kept as float32 and rounded back, which loses nothing."""

    dtypes = frozenset(HALF)

    def _nothing(self, d: Dims, dtype: str) -> Any:
        return super()._nothing(d, "float32")

    def _got(self, cache: Held, layer: int) -> Pair:
        k, v = (x.astype(FORMATS[cache.dtype].dtype) for x in cache.layers[layer])
        return k, v


@correct
class TheSameHandle(NumpyBackend):
    """Every call returns the object that it was given, and declares that nobody may use it twice."""

    conventions = Conventions(consumed_cache="undefined")

    def append(self, cache: Any, layer: int, k: Array, v: Array) -> Any:
        return self._into(cache, super().append(cache, layer, k, v))

    def reorder(self, cache: Any, rows: Array) -> Any:
        return self._into(cache, super().reorder(cache, rows))

    def truncate(self, cache: Any, length: int) -> Any:
        return self._into(cache, super().truncate(cache, length))

    def _into(self, cache: Any, after: Any) -> Any:
        cache.__dict__.update(after.__dict__)
        return cache


@correct
class OneIndex(Own):
    """One index serves all layers: they are appended to in turn, or not at all."""

    unsupported = {"kv_cache.layers.apart": "one index for all layers"}

    def append(self, cache: Any, layer: int, k: Array, v: Array) -> Any:
        rules.usable(cache.consumed, "append")
        behind = [n for n, length in enumerate(cache.lengths) if length < max(cache.lengths)]
        if k.ndim == 4 and k.shape[2] and layer != (behind[0] if behind else 0) and 0 <= layer < cache.d.L:
            raise Unsupported("layers are appended to in turn")
        return super().append(cache, layer, k, v)


@correct
class AppendOnly(Own):
    """Tokens and rows cannot be taken back, moved or copied, and values are as wide as keys."""

    unsupported = {
        "kv_cache.reorder": "no beams",
        "kv_cache.reorder.repeat": "no beams",
        "kv_cache.truncate": "no drafts",
        "kv_cache.fork": "no search",
        "kv_cache.value_width": "one array for both",
        "kv_cache.empty.tokens": "a step has a token",
        "kv_cache.empty.batch": "a batch has a row",
        "kv_cache.capacity.zero": "a cache has room",
        "kv_cache.layers.apart": "one index for all layers",
    }

    def init_cache(self, **sizes: Any) -> Any:
        if sizes["key_width"] != sizes["value_width"] or not sizes["batch"] or not sizes["capacity"]:
            raise Unsupported("no such cache")
        return super().init_cache(**sizes)

    def append(self, cache: Any, layer: int, k: Array, v: Array) -> Any:
        rules.usable(cache.consumed, "append")
        behind = [n for n, length in enumerate(cache.lengths) if length < max(cache.lengths)]
        if not k.shape[min(2, k.ndim - 1)] or (layer not in (behind or [0])):
            raise Unsupported("no such append")
        return super().append(cache, layer, k, v)

    def reorder(self, cache: Any, rows: Array) -> Any:
        raise Unsupported("no beams")

    def truncate(self, cache: Any, length: int) -> Any:
        raise Unsupported("no drafts")

    def fork(self, cache: Any) -> Any:
        raise Unsupported("no search")
