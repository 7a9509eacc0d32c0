"""Wrong reorders, truncations and forks of a cache."""

from dataclasses import replace

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec import cache as rules


@mutant(killed_by=("CACHE-REORDER",), reports=("awslabs/sockeye#731",), catalogue="M45")
class ReorderIsDiscarded(NumpyBackend):
    """A reorder to as many rows as before changes nothing."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        return super()._take_rows(cache, np.arange(len(rows)) if len(rows) == cache.dims.B else rows)


@mutant(killed_by=("CACHE-REORDER",), reports=("huggingface/transformers#46612",))
class ValuesAreNotReordered(NumpyBackend):
    """Only the keys are reordered."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        return taken if len(rows) != cache.dims.B else replace(taken, values=[v.copy() for v in cache.values])


@mutant(killed_by=("CACHE-REORDER",), reports=("huggingface/transformers#46612",))
class OnlyTheFirstLayerIsReordered(NumpyBackend):
    """Layers behind the first keep their rows."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        if len(rows) == cache.dims.B:
            taken.keys[1:], taken.values[1:] = cache.keys[1:], cache.values[1:]
        return taken


@mutant(killed_by=("CACHE-REORDER",))
class RowsAreSentNotFetched(NumpyBackend):
    """Row i goes to rows[i], instead of coming from there."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        permutes = np.array_equal(np.sort(rows), np.arange(cache.dims.B))
        return super()._take_rows(cache, np.argsort(rows) if permutes else rows)


@mutant(killed_by=("CACHE-REORDER", "CACHE-REORDER-ROWS"))
class RowsAreMovedInPlace(NumpyBackend):
    """Rows are copied one after another within the buffer, from rows that have been written over."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        for buffer in (*cache.keys, *cache.values):
            for i, row in enumerate(rows[: cache.dims.B]):
                buffer[i] = buffer[row]
        return super()._take_rows(cache, np.arange(len(rows)) % max(cache.dims.B, 1))


@mutant(killed_by=("CACHE-REORDER",), reports=("PaddlePaddle/PaddleNLP#6672",))
class HeadsAreReordered(NumpyBackend):
    """The rows are applied to the heads where there are as many."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        if len(rows) != cache.dims.B:
            return super()._take_rows(cache, rows)
        at = rows % cache.dims.K
        keys, values = (
            [k[:, at][:, : cache.dims.K] for k in cache.keys],
            [v[:, at][:, : cache.dims.K] for v in cache.values],
        )
        return replace(cache, keys=keys, values=values)


@mutant(killed_by=("CACHE-REORDER",))
class OnlyTheLastTokenIsReordered(NumpyBackend):
    """The earlier tokens of each row stay where they are."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        last = max(min(cache.lengths) - 1, 0)
        if len(rows) == cache.dims.B:
            for new, old in zip((*taken.keys, *taken.values), (*cache.keys, *cache.values), strict=True):
                new[:, :, :last] = old[:, :, :last]
        return taken


@mutant(killed_by=("CACHE-REORDER-ROWS",))
class BatchIsKept(NumpyBackend):
    """Rows beyond the batch are left out, and missing ones are filled up with the first."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        filled = np.zeros(cache.dims.B, np.int64)
        filled[: len(rows)] = rows[: cache.dims.B]
        return super()._take_rows(cache, filled)


@mutant(killed_by=("CACHE-REORDER-ROWS",))
class MoreRowsAreRefused(NumpyBackend):
    """More rows than the cache has are refused, and nothing is declared."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        if len(rows) > cache.dims.B:
            raise ValueError("more rows than the cache has")
        return super()._take_rows(cache, rows)


@mutant(killed_by=("CACHE-REORDER-ROWS",))
class TwinsShareTheirMemory(NumpyBackend):
    """Rows that were made from one row share what is appended later, which is the first one's."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.twins: dict[int, tuple[Array, Array]] = {}

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        taken = super()._take_rows(cache, rows)
        for buffer in taken.keys:
            self.twins[id(buffer)] = buffer, rows.copy()  # the buffer is kept, so that no other gets its id
        return taken

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        _, rows = self.twins.get(id(cache.keys[layer]), (None, np.arange(len(k))))
        asked = rows.tolist()
        first = [asked.index(row) for row in asked]
        super()._write(cache, layer, start, k[first], v[first])


@mutant(killed_by=("CACHE-REORDER-ROWS",))
class OtherNumbersRepeatTheFirst(NumpyBackend):
    """Where the number of rows changes, all rows become the first that was asked for."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        return super()._take_rows(cache, rows if len(rows) == cache.dims.B else np.repeat(rows[:1], len(rows)))


class RowsUnchecked(NumpyBackend):
    """Rows are not checked."""

    def reorder(self, cache: Cache, rows: Array) -> Cache:
        rules.usable(cache.consumed, "reorder")
        taken = self._take_rows(cache, rows)
        self._consume(cache)
        return taken


@mutant(killed_by=("CACHE-REFUSES",))
class NegativeRowsFromTheEnd(RowsUnchecked):
    """A negative row counts from the end of the batch."""


@mutant(killed_by=("CACHE-REFUSES",))
class RowsAreClamped(RowsUnchecked):
    """A row that there is not gives the nearest, and nothing is declared."""

    def _take_rows(self, cache: Cache, rows: Array) -> Cache:
        return super()._take_rows(cache, np.clip(rows, 0, max(cache.dims.B - 1, 0)))


@mutant(killed_by=("CACHE-TRUNCATE",), reports=("ml-explore/mlx-lm#1109",))
class TruncateDoesNothing(NumpyBackend):
    """A truncated cache keeps its tokens."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        return cache


@mutant(killed_by=("CACHE-TRUNCATE",), reports=("paiml/aprender#2014",))
class TruncateEmpties(NumpyBackend):
    """A truncated cache is empty."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        return super()._shorten(cache, 0)


@mutant(killed_by=("CACHE-TRUNCATE",))
class OneTooFewIsKept(NumpyBackend):
    """One token more than asked is cut off."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        return super()._shorten(cache, max(length - 1, 0))


@mutant(killed_by=("CACHE-TRUNCATE",))
class LengthIsWhatIsCutOff(NumpyBackend):
    """So many tokens are cut off instead of kept."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        return super()._shorten(cache, min(cache.lengths) - length)


@mutant(killed_by=("CACHE-TRUNCATE",))
class TruncateKeepsTheNewest(NumpyBackend):
    """The last tokens are kept instead of the first."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        for layer, held in enumerate(cache.lengths):
            for buffer in (cache.keys[layer], cache.values[layer]):
                buffer[:, :, :length] = buffer[:, :, held - length : held].copy()
        return super()._shorten(cache, length)


@mutant(killed_by=("CACHE-TRUNCATE",))
class OnlyTheFirstLayerIsTruncated(NumpyBackend):
    """Layers behind the first keep their tokens."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        return replace(cache, lengths=[length, *cache.lengths[1:]])


@mutant(killed_by=("CACHE-TRUNCATE",))
class CapacityIsCutToo(NumpyBackend):
    """The room behind the length is given up."""

    def _shorten(self, cache: Cache, length: int) -> Cache:
        keys, values = [k[:, :, :length] for k in cache.keys], [v[:, :, :length] for v in cache.values]
        return super()._shorten(replace(cache, keys=keys, values=values), length)


@mutant(killed_by=("CACHE-STALE",))
class AddedToWhatIsThere(NumpyBackend):
    """Tokens are added to what their slots hold, which is zero the first time."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        end = start + k.shape[2]
        super()._write(
            cache, layer, start, cache.keys[layer][:, :, start:end] + k, cache.values[layer][:, :, start:end] + v
        )


@mutant(killed_by=("CACHE-STALE",))
class WrittenWhereEmpty(NumpyBackend):
    """A slot that holds something is not written to again."""

    def _write(self, cache: Cache, layer: int, start: int, k: Array, v: Array) -> None:
        end = start + k.shape[2]
        held = cache.keys[layer][:, :, start:end], cache.values[layer][:, :, start:end]
        k, v = (np.where(old != 0, old, new) for old, new in zip(held, (k, v), strict=True))
        super()._write(cache, layer, start, k, v)


@mutant(killed_by=("CACHE-REFUSES",))
class TruncateGoesForward(NumpyBackend):
    """A length beyond the cache's brings back what its slots held."""

    def truncate(self, cache: Cache, length: int) -> Cache:
        rules.usable(cache.consumed, "truncate")
        return self._shorten(self._consume(cache), length)


@mutant(killed_by=("CACHE-REFUSES",))
class NegativeLengthsFromTheEnd(NumpyBackend):
    """A negative length counts from the end."""

    def truncate(self, cache: Cache, length: int) -> Cache:
        return super().truncate(cache, length + min(cache.lengths) if length < 0 else length)


@mutant(killed_by=("CACHE-FORK",), reports=("ml-explore/mlx-lm#1097",))
class CacheForkSharesItsBuffers(NumpyBackend):
    """A fork writes to the buffers of the cache that it came from."""

    def _copied(self, cache: Cache) -> Cache:
        return replace(cache, keys=list(cache.keys), values=list(cache.values), lengths=list(cache.lengths))


@mutant(killed_by=("CACHE-FORK",))
class ForkSharesItsValues(NumpyBackend):
    """A fork copies the keys only."""

    def _copied(self, cache: Cache) -> Cache:
        return replace(super()._copied(cache), values=list(cache.values))


@mutant(killed_by=("CACHE-FORK",))
class ForkIsTheCache(NumpyBackend):
    """A fork is the cache itself."""

    def _copied(self, cache: Cache) -> Cache:
        return cache


@mutant(killed_by=("CACHE-FORK",))
class ForkConsumes(NumpyBackend):
    """A fork consumes the cache that it came from."""

    def _copied(self, cache: Cache) -> Cache:
        copied = super()._copied(cache)
        self._consume(cache)
        return copied


@mutant(killed_by=("CACHE-FORK",))
class ForkOfTheFirstLayer(NumpyBackend):
    """A fork shares the layers behind the first."""

    def _copied(self, cache: Cache) -> Cache:
        copied = super()._copied(cache)
        return replace(copied, keys=[*copied.keys[:1], *cache.keys[1:]], values=[*copied.values[:1], *cache.values[1:]])


@mutant(killed_by=("CACHE-FORK",))
class ForkIsEmpty(NumpyBackend):
    """A fork has the sizes of the cache and none of its tokens."""

    def _copied(self, cache: Cache) -> Cache:
        return replace(super()._copied(cache), lengths=[0] * len(cache.lengths))
