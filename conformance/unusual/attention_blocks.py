"""Attention over blocks of keys."""

from typing import ClassVar

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.attention import divided, finite
from gaugeblock.spec.attention import Dims


class ByBlocks(NumpyBackend):
    """Softmax and mixture go together, over blocks of keys: hidden scores are passed on as -inf in place of weights."""

    size: ClassVar[int] = 16

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return np.where(visible, scores, -np.inf)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        wide = np.repeat(v, d.H // d.K, axis=1)
        starts = range(0, d.S, self.size)
        return self._reduce(
            np.zeros((d.B, d.H, d.T, d.E), v.dtype),
            [(weights[..., n : n + self.size], wide[:, :, n : n + self.size]) for n in starts],
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

    size = 16


@correct
class OnlineInSixtyFours(Online):
    """An online softmax over blocks of 64 keys."""

    size = 64


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

    size = 24

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

    size = 1 << 30

    def _reduce(self, nothing: Array, blocks: list[tuple[Array, Array]]) -> Array:
        for scores, v in blocks:
            exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True)))
            return divided(exps @ v, np.sum(exps, axis=-1, keepdims=True))
        return nothing
