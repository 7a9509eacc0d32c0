"""Rotations that mistake the position of a token, mix tokens, or remember other calls."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import Layout, Scaling
from gaugeblock.spec.rotary import Dims


@mutant(
    killed_by=("ROPE-POSITIONS", "ROPE-ROWS"),
    reports=("Blaizzy/mlx-vlm#1983", "pytorch/executorch#2010", "keras-team/keras-hub#1544"),
)
class PositionsCountedAnew(NumpyBackend):
    """Tokens are counted from 0 in every call."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(np.broadcast_to(np.arange(positions.shape[-1]), positions.shape), frequencies)


@mutant(killed_by=("ROPE-POSITIONS",))
class PositionsFromTheFirst(NumpyBackend):
    """Positions are taken to follow the first one without a gap."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        follow = positions[..., :1] + np.arange(positions.shape[-1])
        return super()._angles(follow, frequencies)


@mutant(killed_by=("ROPE-POSITIONS",))
class PositionsSorted(NumpyBackend):
    """Positions are put in order first."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(np.sort(positions, axis=-1), frequencies)


@mutant(killed_by=("ROPE-POSITIONS",))
class TokensShareTheFirstPosition(NumpyBackend):
    """Every token gets the position of the first."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(np.broadcast_to(positions[..., :1], positions.shape), frequencies)


@mutant(killed_by=("ROPE-ROWS",), reports=("Blaizzy/mlx-vlm#1883", "rasbt/reasoning-from-scratch#33"))
class FirstRowForAll(NumpyBackend):
    """The positions of the first batch row serve all of them."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(positions if positions.ndim == 1 else positions[0], frequencies)


@mutant(killed_by=("ROPE-ROWS",), reports=("Blaizzy/mlx-vlm#1883",))
class RowOffsetsAlongTime(NumpyBackend):
    """The offset of a batch row is added along the tokens instead."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        if positions.ndim == 1:
            return super()._angles(positions, frequencies)
        t = np.arange(positions.shape[1])
        along = t + positions[t % positions.shape[0], 0] if positions.size else t
        return super()._angles(np.broadcast_to(along, positions.shape), frequencies)


@mutant(killed_by=("ROPE-ROWS",))
class BatchRowsContinue(NumpyBackend):
    """One row of positions goes on from batch row to batch row, as if the batch were one sequence."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        if positions.ndim == 1 and x.ndim == 4:
            positions = positions + positions.size * np.arange(x.shape[0])[:, None]
        return super().rotate(x, positions, **options)


@mutant(
    killed_by=("ROPE-SINGLE",),
    reports=("ml-explore/mlx#3795", "ml-explore/mlx#3494", "ml-explore/mlx#3949", "oxiglade/mlx-rs#359"),
    catalogue="M36",
)
class OneTokenRotatesOneRow(NumpyBackend):
    """With one token, only the first batch row is rotated."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        if d.T == 1:
            turned[1:] = x[1:]
        return turned


@mutant(killed_by=("ROPE-SINGLE",), reports=("ml-explore/mlx#3496",), catalogue="M36")
class OneTokenFillsOneRow(NumpyBackend):
    """With one token, only the first batch row is written; the others are zero."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        if d.T == 1:
            turned[1:] = 0
        return turned


@mutant(killed_by=("ROPE-SINGLE",))
class OneTokenIsAtZero(NumpyBackend):
    """A single token is not rotated."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        return x.copy() if d.T == 1 else super()._turned(d, x, cos, sin, layout)


@mutant(killed_by=("ROPE-FORMULA", "ROPE-POSITIONS"))
class PositionsGrowWithTheHead(NumpyBackend):
    """Each head counts its tokens one further than the head before it."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        self.heads = np.arange(d.H)[:, None, None]
        return super()._frequencies(d, base)

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(positions, frequencies) + self.heads * frequencies


@mutant(killed_by=("ROPE-FORMULA", "ROPE-POSITIONS"))
class OnlyTheFirstHead(NumpyBackend):
    """Only the first head is rotated."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        turned[:, 1:] = x[:, 1:]
        return turned


@mutant(killed_by=("ROPE-INDEPENDENT",))
class ScaledByTheLargest(NumpyBackend):
    """Vectors are divided by their largest component of all, and multiplied by it afterwards."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        largest = np.max(np.abs(x[..., : d.R]), initial=0) or x.dtype.type(1)
        turned = super()._turned(d, x / largest, cos, sin, layout)
        turned[..., : d.R] *= largest
        turned[..., d.R :] = x[..., d.R :]
        return np.where((cos[..., :1] == 1) & (np.broadcast_to(sin[..., :1], cos[..., :1].shape) == 0), x, turned)


@mutant(killed_by=("ROPE-INDEPENDENT", "ROPE-POSITIONS"))
class TokensLeak(NumpyBackend):
    """A thousandth of the token before is added to each token."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        turned[:, :, 1:, : d.R] += x[:, :, :-1, : d.R] * x.dtype.type(1e-3)
        return turned


@mutant(killed_by=("ROPE-SHIFT", "ROPE-COMPOSE", "ROPE-FORMULA"))
class AnglesGrowFaster(NumpyBackend):
    """Angles grow with the power 1.01 of the position."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(np.power(positions.astype(np.float64), 1.01), frequencies)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-POSITIONS"))
class PositionsEndAtTwoThousand(NumpyBackend):
    """Positions beyond the table's 2048 rows take its last row."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(np.minimum(positions, 2047), frequencies)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-PAIR-ZERO"))
class PositionsWrapAt65536(NumpyBackend):
    """Positions are held in 16 bits."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(positions % 65536, frequencies)


class Remembers(NumpyBackend):
    """Keeps something from call to call."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.kept: dict[Any, Array] = {}


@mutant(killed_by=("ROPE-STATELESS",))
class FrequenciesKeptByWidth(Remembers):
    """Frequencies are computed once for each width, whatever the base."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return self.kept.setdefault(d.R, super()._frequencies(d, base))


@mutant(killed_by=("ROPE-STATELESS",), reports=("ml-explore/mlx#561", "whittle-org/whittle#21"))
class FrequenciesKeptByBase(Remembers):
    """The frequencies of the widest call so far serve narrower ones."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        kept = self.kept.get(base)
        if kept is None or kept.size < d.R // 2:
            kept = self.kept[base] = super()._frequencies(d, base)
        return kept[: d.R // 2]


@mutant(killed_by=("ROPE-STATELESS",))
class ScalingStays(Remembers):
    """A rule for the frequencies stays in force for later calls of the same width."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        if scaling is None:
            return self.kept.get(d.R, w)
        return self.kept.setdefault(d.R, super()._scaled(w, d, base, scaling))


@mutant(
    killed_by=("ROPE-STATELESS",),
    reports=("huggingface/transformers#25104", "huggingface/transformers#27227", "vllm-project/vllm#3488"),
    catalogue="M35",
)
class BaseStaysGrown(Remembers):
    """A call of more than 8 tokens makes the base grow, for good."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        if d.T > 8 or self.kept:
            self.kept[0] = np.zeros(())
        return super()._frequencies(d, 3 * base if self.kept and d.T <= 8 else base)


@mutant(killed_by=("ROPE-STATELESS",))
class PositionsKeptByLength(Remembers):
    """The angles of a length are computed once."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        key = (positions.shape, frequencies.shape)
        return self.kept.setdefault(key, super()._angles(positions, frequencies))


@mutant(killed_by=("ROPE-STATELESS",), dtypes=("float32",))
class TableStaysNarrow(Remembers):
    """The table is rounded to the narrowest format that has been asked for so far."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        if x.dtype.itemsize == 2:
            self.kept[0] = np.zeros(())
        return super().rotate(x, positions, **options)

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return (cos.astype(np.float16), sin.astype(np.float16)) if self.kept else (cos, sin)
