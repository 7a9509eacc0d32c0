"""Wrong heads, wrong batch rows, and keys that a tile loses or finds beyond the end."""

from typing import ClassVar

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims


class HeadMap(NumpyBackend):
    """Query head h reads the key/value head that _served_by names."""

    def _served_by(self, d: Dims) -> Array:
        return np.arange(d.H) // (d.H // d.K)

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d._replace(K=d.H), q, k[:, self._served_by(d)], scale)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d._replace(K=d.H), weights, v[:, self._served_by(d)])


@mutant(
    killed_by=("ATTN-HEADS", "ATTN-FORMULA"),
    reports=("apple/axlearn#842", "ekzhang/jax-js#180", "onnx/onnx#7274"),
    catalogue="M22",
)
class HeadsTiled(HeadMap):
    """Key/value heads are tiled over the query heads: h reads h % K."""

    def _served_by(self, d: Dims) -> Array:
        return np.arange(d.H) % d.K


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"), reports=("PSAL-POSTECH/ONNXim#34",), catalogue="M23")
class HeadsDividedByTheirNumber(HeadMap):
    """Query head h reads key/value head h // K, the last one where there is none."""

    def _served_by(self, d: Dims) -> Array:
        return np.minimum(np.arange(d.H) // d.K, d.K - 1)


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"), reports=("FlashML-org/FreeToken#177",))
class HeadTileCrossesGroups(HeadMap):
    """Query heads go in pairs and both read what serves the first."""

    def _served_by(self, d: Dims) -> Array:
        return np.arange(d.H) // 2 * 2 // (d.H // d.K)


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"))
class FirstHeadServesAll(HeadMap):
    """Every query head reads the first key/value head."""

    def _served_by(self, d: Dims) -> Array:
        return np.zeros(d.H, int)


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"))
class ValueHeadsTiled(NumpyBackend):
    """Keys are read by group, values by tile."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d._replace(K=d.H), weights, v[:, np.arange(d.H) % d.K])


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"))
class KeyHeadsTiled(NumpyBackend):
    """Values are read by group, keys by tile."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d._replace(K=d.H), q, k[:, np.arange(d.H) % d.K], scale)


@mutant(killed_by=("ATTN-HEADS", "ATTN-FORMULA"), reports=("PrimeIntellect-ai/prime-rl#2681",))
class GroupsRepeatKeysOverTime(NumpyBackend):
    """Keys and values are repeated along their length, and then read as if it had been along the heads."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        k = np.repeat(k, d.H // d.K, axis=2).reshape(d.B, d.H, d.S, d.D)
        return super()._scores(d._replace(K=d.H), q, k, scale)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        v = np.repeat(v, d.H // d.K, axis=2).reshape(d.B, d.H, d.S, d.E)
        return super()._mix(d._replace(K=d.H), weights, v)


@mutant(killed_by=("ATTN-BATCH-ROWS", "ATTN-FORMULA"))
class FirstRowServesDecoding(NumpyBackend):
    """With one query per row, the grid has no batch axis: every row reads the first row's values."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d, weights, np.broadcast_to(v[:1], v.shape) if d.T == 1 else v)


class PaddedTile(NumpyBackend):
    """After a whole tile, the keys that pad the last one enter the softmax with a score of zero."""

    tile: ClassVar[int]

    def _softmax(self, scores: Array, visible: Array) -> Array:
        S = scores.shape[-1]
        room = [(0, 0), (0, 0), (0, 0), (0, -S % self.tile if self.tile < S else 0)]
        return super()._softmax(np.pad(scores, room), np.pad(visible, room, constant_values=True))[..., :S]


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class PaddingOfSixteenCounted(PaddedTile):
    """The padding of a tile of 16 keys is counted in the denominator."""

    tile = 16


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class PaddingOfThirtyTwoCounted(PaddedTile):
    """The padding of a tile of 32 keys is counted in the denominator."""

    tile = 32


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class PaddingOfSixtyFourCounted(PaddedTile):
    """The padding of a tile of 64 keys is counted in the denominator."""

    tile = 64


@mutant(killed_by=("ATTN-FORMULA",))
class TailOfLongRowDropped(NumpyBackend):
    """Beyond 128 keys, an incomplete last tile of 8 is not visited."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        S = scores.shape[-1]
        return super()._softmax(scores, visible & (np.arange(S) < (S if S <= 128 else S // 8 * 8)))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class LastKeyDropped(NumpyBackend):
    """The last key is never visible, unless it is the only one."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        S = scores.shape[-1]
        return super()._softmax(scores, visible & (np.arange(S) < max(S - 1, 1)))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class FirstKeyDropped(NumpyBackend):
    """The first key is never visible, unless it is the only one."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        S = scores.shape[-1]
        return super()._softmax(scores, visible & (np.arange(S) > (0 if S > 1 else -1)))


@mutant(killed_by=("ATTN-FORMULA",), reports=("pytorch/pytorch#174861",))
class ReadsBeyondTheEnd(NumpyBackend):
    """Beyond 1024 keys, the last value is read from behind the array: another head's first one."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        if d.S > 1024:
            v = np.concatenate([v[:, :, :-1], np.roll(v, -1, axis=1)[:, :, :1]], axis=2)
        return super()._mix(d, weights, v)


@mutant(killed_by=("ATTN-FORMULA",))
class OddWidthCut(NumpyBackend):
    """Queries and keys are read in pairs of elements; the last one of an odd width is lost."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        even = d.D // 2 * 2 or 1
        return super()._scores(d._replace(D=even), q[..., :even], k[..., :even], scale)


@mutant(killed_by=("ATTN-VALUE-WIDTH", "ATTN-FORMULA"))
class ValueWidthInFours(NumpyBackend):
    """Values are read four elements at a time; what is left over comes out as zero."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        whole = d.E // 4 * 4 or d.E
        return super()._mix(d, weights, np.where(np.arange(d.E) < whole, v, 0))


@mutant(killed_by=("ATTN-VALUE-WIDTH", "ATTN-FORMULA"))
class ValuesCutToTheKeyWidth(NumpyBackend):
    """What a value holds beyond the width of the keys comes out as zero."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d, weights, np.where(np.arange(d.E) < d.D, v, 0))
