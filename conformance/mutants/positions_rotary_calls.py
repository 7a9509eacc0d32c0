"""Rotations with wrong shapes, types, views, refusals and declarations; inputs written, NaN spread or swallowed."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_calls import as_if_contiguous
from gaugeblock.spec.config import Layout, Scaling, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.precision import HALF
from gaugeblock.spec.rotary import POSITIONS_END, Dims


@mutant(killed_by=("ROPE-DTYPE",), dtypes=HALF)
class RotationIsWide(NumpyBackend):
    """Half precision comes back as float32."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return upcast(super().rotate(x, positions, **options))


@mutant(killed_by=("ROPE-SHAPES",))
class TokensBeforeHeads(NumpyBackend):
    """The result is laid out (B, T, H, D)."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return super().rotate(x, positions, **options).swapaxes(1, 2)


@mutant(killed_by=("ROPE-SHAPES",))
class SingleTokenSqueezed(NumpyBackend):
    """The axis of a single token is missing in the result."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        result = super().rotate(x, positions, **options)
        return result[:, :, 0] if result.shape[2] == 1 else result


@mutant(killed_by=("ROPE-STRIDES",))
class StridesOfVectorsIgnored(NumpyBackend):
    """Vectors are read as if they were contiguous."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return super().rotate(as_if_contiguous(x), positions, **options)


@mutant(killed_by=("ROPE-STRIDES",))
class StridesOfPositionsIgnored(NumpyBackend):
    """Positions are read as if they were contiguous."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        base = positions if positions.base is None or positions.flags.c_contiguous else positions.base
        flat = np.ravel(base, order="K")
        return super().rotate(x, np.resize(flat, positions.shape), **options)


@mutant(killed_by=("ROPE-INPUTS-INTACT",))
class RotatedInPlace(NumpyBackend):
    """The caller's vectors are rotated where they lie."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        result = super().rotate(x, positions, **options)
        if x.flags.writeable:
            x[...] = result
        return result


@mutant(killed_by=("ROPE-INPUTS-INTACT",), reports=("ml-explore/mlx-lm#1097",))
class PositionsAdvanced(NumpyBackend):
    """The caller's positions are advanced by the length of the call."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        result = super().rotate(x, positions, **options)
        if positions.flags.writeable:
            positions += positions.shape[-1]
        return result


@mutant(killed_by=("ROPE-NONFINITE",))
class NanInRotationIsCleaned(NumpyBackend):
    """NaN in the result is replaced by zero."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        return np.where(np.isnan(turned), 0, turned)


@mutant(killed_by=("ROPE-NONFINITE",))
class RotationByAMatrix(NumpyBackend):
    """The whole matrix is multiplied, zeros included: a NaN fills its token."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        turned[..., : d.R] += 0 * np.sum(x[..., : d.R], axis=-1, keepdims=True)
        return turned


@mutant(killed_by=("ROPE-NONFINITE",))
class InfinityRefused(NumpyBackend):
    """A vector that is not finite is refused."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        if not np.all(np.isfinite(x)):
            raise ValueError("not finite")
        return super()._turned(d, x, cos, sin, layout)


@mutant(killed_by=("ROPE-EMPTY-AXES",))
class NoBatchRowsToRotateRaise(NumpyBackend):
    """A batch of no rows raises."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        np.max(np.abs(x), axis=0)
        return super()._turned(d, x, cos, sin, layout)


@mutant(killed_by=("ROPE-EMPTY-AXES",))
class NoTokensToRotateRaise(NumpyBackend):
    """A call with no tokens raises: there is no largest of no positions."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        np.max(positions, axis=-1)
        return super()._angles(positions, frequencies)


@mutant(killed_by=("ROPE-REFUSES",))
class OddWidthRoundedDown(NumpyBackend):
    """Of an odd width the last component is left alone."""

    def rotate(self, x: Array, positions: Array, *, rotary_dim: int | None = None, **options: Any) -> Array:
        if x.ndim == 4 and x.shape[-1] % 2 and rotary_dim is None:
            rotary_dim = x.shape[-1] - 1
        return super().rotate(x, positions, rotary_dim=rotary_dim, **options)


@mutant(killed_by=("ROPE-REFUSES",))
class OddRotaryDimRoundedDown(NumpyBackend):
    """An odd rotary_dim is rounded down."""

    def rotate(self, x: Array, positions: Array, *, rotary_dim: int | None = None, **options: Any) -> Array:
        return super().rotate(x, positions, rotary_dim=rotary_dim and max(rotary_dim // 2 * 2, 2), **options)


@mutant(killed_by=("ROPE-REFUSES",))
class RotaryDimCutOff(NumpyBackend):
    """A rotary_dim beyond the width rotates all."""

    def rotate(self, x: Array, positions: Array, *, rotary_dim: int | None = None, **options: Any) -> Array:
        return super().rotate(x, positions, rotary_dim=rotary_dim and min(rotary_dim, x.shape[-1]), **options)


@mutant(killed_by=("ROPE-REFUSES",))
class PositionsRepeatToFit(NumpyBackend):
    """Too few positions are repeated, and too many are cut off."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        if positions.ndim == 1 and x.ndim == 4 and positions.size:
            positions = np.resize(positions, x.shape[2])
        return super().rotate(x, positions, **options)


@mutant(killed_by=("ROPE-REFUSES",))
class RowsCutOff(NumpyBackend):
    """Rows of positions beyond the batch are ignored."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return super().rotate(x, positions[: x.shape[0]] if positions.ndim == 2 else positions, **options)


@mutant(killed_by=("ROPE-REFUSES",))
class UnknownLayoutIsHalf(NumpyBackend):
    """Every layout but interleaved is taken for half."""

    def rotate(self, x: Array, positions: Array, *, layout: Layout = "half", **options: Any) -> Array:
        chosen: Layout = "interleaved" if layout == "interleaved" else "half"
        return super().rotate(x, positions, layout=chosen, **options)


@mutant(killed_by=("ROPE-REFUSES",), reports=("lablup/mlxcel#1324",))
class UnknownScalingIgnored(NumpyBackend):
    """A scaling that is none of the rules is ignored."""

    def rotate(self, x: Array, positions: Array, *, scaling: Scaling | None = None, **options: Any) -> Array:
        known = scaling if isinstance(scaling, Scaling) else None
        return super().rotate(x, positions, scaling=known, **options)


@mutant(killed_by=("ROPE-RANGE",))
class NegativePositionsAccepted(NumpyBackend):
    """Negative positions are taken for zero."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return super().rotate(x, np.maximum(positions, 0), **options)


@mutant(killed_by=("ROPE-RANGE",))
class FarPositionsAccepted(NumpyBackend):
    """Positions from 2**24 on are rotated as float32 holds them."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return super().rotate(x, np.minimum(positions, POSITIONS_END - 1), **options)


@mutant(killed_by=("ROPE-UNSUPPORTED",))
class YarnDeclaredAbsentButIgnored(NumpyBackend):
    """YaRN is declared unsupported; asked for all the same, plain frequencies are used."""

    unsupported = {"rotary.scaling.yarn": "no long contexts"}

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        return w if isinstance(scaling, YaRN) else super()._scaled(w, d, base, scaling)


@mutant(killed_by=("ROPE-UNSUPPORTED",))
class InterleavedDeclaredAbsentButRight(NumpyBackend):
    """The layout interleaved is declared unsupported, and works."""

    unsupported = {"rotary.interleaved": "halves only"}


@mutant(killed_by=("ROPE-LAYOUT", "ROPE-FORMULA"))
class InterleavedRefused(NumpyBackend):
    """The layout interleaved is refused, and nothing of it is declared."""

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        if layout == "interleaved":
            raise Unsupported("rotary: interleaved")
        return super()._pairs(d, layout)


@mutant(killed_by=("ROPE-PARTIAL", "ROPE-PARTIAL-REST"))
class DeclaresProportional(NumpyBackend):
    """A partial rotation is declared proportional; it is compact."""

    conventions = Conventions(rotary_partial="proportional")
