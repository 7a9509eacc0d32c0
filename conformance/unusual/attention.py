"""Attention in other orders of operations, which the reference admits at level strict."""

from typing import Any, ClassVar

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.attention import Dims

LOG2_E = float(np.log2(np.e))


def finite(highest: Array) -> Array:
    """The largest score, or zero where there is none."""
    return np.where(highest == -np.inf, 0, highest)


def divided(x: Array, total: Array) -> Array:
    """x / total; zeros where the total is zero."""
    return np.asarray(x / np.where(total == 0, 1, total))


def flushed(x: Array) -> Array:
    """x with zeros for its subnormals."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0, x)


class ByBlocks(NumpyBackend):
    """Softmax and mixture go together, over blocks of keys: hidden scores are passed on as -inf in place of weights."""

    block: ClassVar[int] = 16

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return np.where(visible, scores, -np.inf)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        wide = np.repeat(v, d.H // d.K, axis=1)
        starts = range(0, d.S, self.block)
        return self._reduce(
            np.zeros((d.B, d.H, d.T, d.E), v.dtype),
            [(weights[..., n : n + self.block], wide[:, :, n : n + self.block]) for n in starts],
        )

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        raise NotImplementedError


class Online(ByBlocks):
    """Running maximum, sum and output, rescaled whenever the maximum grows."""

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        output, total = nothing, nothing[..., :1]
        highest = np.full_like(total, -np.inf)
        for scores, v in blocks:
            new = np.maximum(highest, np.max(scores, axis=-1, keepdims=True))
            exps, rescale = np.exp(scores - finite(new)), np.exp(highest - finite(new))
            output, total = output * rescale + exps @ v, total * rescale + np.sum(exps, axis=-1, keepdims=True)
            highest = new
        return divided(output, total)


@correct
class OnlineInSixteens(Online):
    """An online softmax over blocks of 16 keys."""

    block = 16


@correct
class OnlineInSixtyFours(Online):
    """An online softmax over blocks of 64 keys."""

    block = 64


@correct
class OnlineFromTheEnd(Online):
    """An online softmax that begins with the last block."""

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        return super()._reduce(nothing, blocks[::-1])


@correct
class OnlineSkipsHiddenBlocks(Online):
    """An online softmax that does not visit a block in which every key is hidden from every query."""

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        return super()._reduce(nothing, [(scores, v) for scores, v in blocks if not np.all(scores == -np.inf)])


@correct
class TwoPasses(ByBlocks):
    """The maximum and the sum are found in one pass over the keys, the output in another."""

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        highest = np.full_like(nothing[..., :1], -np.inf)
        for scores, _ in blocks:
            highest = np.maximum(highest, np.max(scores, axis=-1, keepdims=True))
        total = nothing[..., :1]
        for scores, _ in blocks:
            total = total + np.sum(np.exp(scores - finite(highest)), axis=-1, keepdims=True)
        for scores, v in blocks:
            nothing = nothing + divided(np.exp(scores - finite(highest)), total) @ v
        return nothing


@correct
class SplitKeys(ByBlocks):
    """Each block of keys gives a finished output; the outputs are merged through their log-sum-exp."""

    block = 24

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        parts = [(nothing, np.full_like(nothing[..., :1], -np.inf)), *(self._part(*block) for block in blocks)]
        logs = np.concatenate([log for _, log in parts], axis=-1)
        highest = finite(np.max(logs, axis=-1, keepdims=True))
        with np.errstate(divide="ignore"):
            whole = highest + np.log(np.sum(np.exp(logs - highest), axis=-1, keepdims=True))
        return np.asarray(sum(np.exp(log - finite(whole)) * output for output, log in parts))

    def _part(self, scores: Array, v: Array) -> tuple[Array, Array]:
        highest = finite(np.max(scores, axis=-1, keepdims=True))
        exps = np.exp(scores - highest)
        total = np.sum(exps, axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            return divided(exps @ v, total), highest + np.log(total)


@correct
class DividedLate(ByBlocks):
    """The mixture is divided by the sum of the exponentials, not each weight."""

    block = 1 << 30

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        for scores, v in blocks:
            exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True)))
            return divided(exps @ v, np.sum(exps, axis=-1, keepdims=True))
        return nothing


@correct
class BaseTwo(NumpyBackend):
    """The exponential is one to base two; its constant is folded into the scale and into the bias."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return super()._scale(d, scale) * LOG2_E

    def _add_bias(self, scores: Array, bias: Array | None) -> Array:
        return scores if bias is None else scores + bias.astype(scores.dtype) * scores.dtype.type(LOG2_E)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp2(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        return divided(exps, np.sum(exps, axis=-1, keepdims=True))


@correct
class ScaleOnQueries(NumpyBackend):
    """The queries are scaled."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d, q * q.dtype.type(scale), k, 1.0)


@correct
class ScaleOnKeys(NumpyBackend):
    """The keys are scaled."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d, q, k * k.dtype.type(scale), 1.0)


@correct
class ScaleOnBoth(NumpyBackend):
    """Queries and keys are scaled by the root of the scale, the queries by its sign as well."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        root = np.sqrt(q.dtype.type(abs(scale)))
        return super()._scores(d, q * (root * q.dtype.type(np.sign(scale))), k * root, 1.0)


@correct
class SumsReversed(NumpyBackend):
    """Every sum begins at its last term."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d, q[..., ::-1], k[..., ::-1], scale)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        visible = np.broadcast_to(visible, scores.shape)
        return super()._softmax(scores[..., ::-1], visible[..., ::-1])[..., ::-1]

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d, weights[..., ::-1].copy(), v[:, :, ::-1].copy())


@correct
class SumsOneByOne(NumpyBackend):
    """Every sum adds one term after the other: the order with the largest error."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        k = np.repeat(k, d.H // d.K, axis=1)
        total = np.zeros((d.B, d.H, d.T, d.S), q.dtype)
        for i in range(d.D):
            total = total + q[..., i, None] * k[..., None, :, i]
        return total * q.dtype.type(scale)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        return divided(exps, np.add.accumulate(exps, axis=-1)[..., -1:]) if scores.shape[-1] else exps

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        v = np.repeat(v, d.H // d.K, axis=1)
        total = np.zeros((d.B, d.H, d.T, d.E), v.dtype)
        for j in range(d.S):
            total = total + weights[..., j, None] * v[:, :, None, j]
        return total


@correct
class OrderAtRandom(NumpyBackend):
    """The keys are added up in another order at every call, as atomic additions do."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        order = np.random.default_rng().permutation(d.S)
        return super()._mix(d, weights[..., order], v[:, :, order])


@correct
class SubnormalsFlushed(NumpyBackend):
    """Subnormal operands and results are flushed to zero."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        scaled = flushed(flushed(q) * flushed(np.asarray(scale, q.dtype)))
        return flushed(super()._scores(d, scaled, flushed(k), 1.0))

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return flushed(super()._softmax(scores, visible))

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return flushed(super()._mix(d, weights, flushed(v)))


@correct
class EverythingInFloat64(NumpyBackend):
    """Whatever the format, the arithmetic is done in float64."""

    def attention(self, q: Array, k: Array, v: Array, *, bias: Array | None = None, **options: Any) -> Array:
        wide = [x.astype(np.float64) for x in (q, k, v)]
        bias = None if bias is None else bias.astype(np.float64)
        return round_once(super().attention(*wide, bias=bias, **options), q.dtype)


@correct
class HeadsRepeated(NumpyBackend):
    """Key/value heads are copied for every query head that reads them."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d._replace(K=d.H), q, np.repeat(k, d.H // d.K, axis=1), scale)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d._replace(K=d.H), weights, np.repeat(v, d.H // d.K, axis=1))


@correct
class PaddedTiles(NumpyBackend):
    """Keys are padded to whole tiles of 64 with hidden ones."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        S = scores.shape[-1]
        room = [(0, 0), (0, 0), (0, 0), (0, -S % 64)]
        return super()._softmax(np.pad(scores, room), np.pad(visible, room))[..., :S]


@correct
class LowestFill(NumpyBackend):
    """Hidden scores are set to the lowest number, and rows that see no key to zero afterwards."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        filled = np.where(visible, scores, np.finfo(scores.dtype).min)
        weights = super()._softmax(filled, np.ones_like(visible))
        return np.where(np.any(visible, axis=-1, keepdims=True), weights, 0)


@correct
class ColumnsFirst(NumpyBackend):
    """The result is a view with its axes in another order, and cannot be written."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        result = np.asfortranarray(super().attention(q, k, v, **options))
        result.flags.writeable = False
        return result
