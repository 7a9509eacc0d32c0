"""Attention in other orders of operations, which the reference admits at level strict."""

from typing import Any

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


@correct
class BaseTwo(NumpyBackend):
    """The exponential is one to base two; its constant is folded into the scale and into the bias."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return super()._scale(d, scale) * LOG2_E

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return super()._soft_cap(scores, softcap * LOG2_E)

    def _add_bias(self, scores: Array, bias: Array | None) -> Array:
        return scores if bias is None else scores + bias.astype(scores.dtype) * scores.dtype.type(LOG2_E)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp2(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        return divided(exps, np.sum(exps, axis=-1, keepdims=True))


@correct
class CapFoldedIntoTheScale(NumpyBackend):
    """Scale and soft cap are divided once, for all scores; the hyperbolic tangent is one of exponentials."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        x = scores * scores.dtype.type(1 / softcap)
        size = np.abs(x)
        e = np.expm1(-2 * size)  # in (-1, 0]: no cancellation near zero, no overflow far from it
        return np.asarray(np.copysign(-e / (2 + e), x) * scores.dtype.type(softcap))


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
class SumsInPairs(NumpyBackend):
    """Every sum is one of neighbours, then of the sums of neighbours, and so on: the order with the smallest error."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        k = np.repeat(k, d.H // d.K, axis=1)
        return np.asarray(_in_pairs(q[..., None, :] * k[:, :, None]) * q.dtype.type(scale))

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        return divided(exps, _in_pairs(exps)[..., None])

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        v = np.repeat(v, d.H // d.K, axis=1).swapaxes(2, 3)  # (B, H, E, S)
        return _in_pairs(weights[..., None, :] * v[:, :, None])


def _in_pairs(terms: Array) -> Array:
    """The sum over the last axis; of no terms it is zero."""
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[..., :1])], axis=-1)
        terms = terms[..., ::2] + terms[..., 1::2]
    return np.asarray(np.sum(terms, axis=-1))


@correct
class SumsOneByOne(NumpyBackend):
    """Every sum adds one term after the other: the order with the largest error."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        k = np.repeat(k, d.H // d.K, axis=1)
        total = np.zeros((d.B, d.H, d.T, d.S), q.dtype)
        for i in range(d.D):
            total = self._added(total, q[..., i, None], k[..., None, :, i])
        return np.asarray(total * q.dtype.type(scale))

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        return divided(exps, np.add.accumulate(exps, axis=-1)[..., -1:]) if scores.shape[-1] else exps

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        v = np.repeat(v, d.H // d.K, axis=1)
        total = np.zeros((d.B, d.H, d.T, d.E), v.dtype)
        for j in range(d.S):
            total = self._added(total, weights[..., j, None], v[:, :, None, j])
        return total

    def _added(self, total: Array, a: Array, b: Array) -> Array:
        return np.asarray(total + a * b)


@correct
class SumsFused(SumsOneByOne):
    """Every product is added to its sum with one rounding, as a fused multiply-add does."""

    def _added(self, total: Array, a: Array, b: Array) -> Array:
        wide = np.longdouble if total.dtype == np.float64 else np.float64
        return np.asarray((total + a.astype(wide) * b.astype(wide)).astype(total.dtype))


@correct
class OrderAtRandom(NumpyBackend):
    """The keys are added up in another order at every call, as atomic additions do."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.random = np.random.default_rng(0)  # another order at every call, the same orders in every run

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        order = self.random.permutation(d.S)
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
