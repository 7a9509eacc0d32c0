"""Rotations computed in other ways, which the reference admits at the level that they declare."""

from functools import lru_cache
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfPairs
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import PositionError
from gaugeblock.spec.precision import HALF, Level
from gaugeblock.spec.rotary import Dims

FUSED = {f"positions@{dtype}": Level.FUSED for dtype in HALF}


class InFloat32(NumpyBackend):
    """Angles in float32, as most libraries compute them, float64 for float64."""

    wide: Any = np.float32

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        self.wide = np.float64 if x.dtype == np.float64 else np.float32
        return super().rotate(x, positions, **options)

    def _exponents(self, d: Dims) -> Array:
        return np.asarray(np.arange(0, d.R, 2).astype(self.wide) / self.wide(d.R))

    def _frequencies(self, d: Dims, base: float) -> Array:
        powers: Array = self.wide(1) / self.wide(base) ** self._exponents(d)
        return powers

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        angles: Array = positions[..., None].astype(self.wide) * frequencies.astype(self.wide)
        return angles if positions.ndim == 1 else angles[:, None]

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        return np.cos(angles) * self.wide(magnitude), np.sin(angles) * self.wide(magnitude)


@correct
class PowersInFloat32(InFloat32):
    """Frequencies are reciprocals of float32 powers, angles are float32."""


@correct
class ExponentialsInFloat32(InFloat32):
    """Frequencies are float32 exponentials of a multiple of the float32 logarithm of the base."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        step = np.log(self.wide(base)) / self.wide(d.R)
        return np.asarray(np.exp(-(np.arange(0, d.R, 2).astype(self.wide) * step)))


@correct
class ExponentialsOfTwo(InFloat32):
    """Frequencies are powers of two with float32 exponents."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return np.asarray(np.exp2(-self._exponents(d) * np.log2(self.wide(base))))


@correct
class RulesInFloat32(InFloat32):
    """The rules of scaling are computed in float32 throughout, the blend as one plus a share."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        f = self.wide
        match scaling:
            case None:
                return w
            case Linear(factor):
                return np.asarray(w * (f(1) / f(factor)))
            case NTK(alpha):
                if d.R == 2:
                    return w
                return self._frequencies(d, float(f(base) * f(alpha) ** (f(d.R) / f(d.R - 2))))
            case YaRN():
                share = self._yarn_share(d, base, scaling).astype(f)
            case Llama3():
                share = self._llama3_share(w, scaling).astype(f)
        return np.asarray(w * (f(1) + share * (f(1) / f(scaling.factor) - f(1))))

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        f = self.wide
        turns = np.array([s.fast, s.slow], f)
        low, high = f(d.R) * np.log(f(s.original) / (turns * f(2 * np.pi))) / (f(2) * np.log(f(base)))
        low, high = (np.floor(low), np.ceil(high)) if s.truncate else (low, high)
        low, high = max(low, f(0)), min(high, f(d.R - 1))
        high = high if high > low else low + f(0.001)
        return np.asarray(np.clip((np.arange(d.R // 2, dtype=f) - low) / (high - low), 0, 1))

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        f = self.wide
        wavelength = f(2 * np.pi) / w
        smooth = (f(s.original) / wavelength - f(s.low)) / (f(s.high) - f(s.low))
        return np.asarray(f(1) - np.clip(smooth, 0, 1))


@correct
class PositionsDivided(InFloat32):
    """Linear scaling divides positions instead of frequencies."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        self.factor = self.wide(scaling.factor if isinstance(scaling, Linear) else 1)
        return w if isinstance(scaling, Linear) else super()._scaled(w, d, base, scaling)

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(positions.astype(self.wide) / self.factor, frequencies)


@correct
class AsComplexNumbers(NumpyBackend):
    """Pairs are complex numbers, and turned by one complex product."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        first, second = self._pairs(d, layout)
        z = (x[..., first] + 1j * x[..., second]) * (cos + 1j * sin)
        turned = x.copy()
        turned[..., first], turned[..., second] = z.real, z.imag
        return turned


@correct
class ByAMatrix(NumpyBackend):
    """Every token has its own matrix, of which only the blocks are multiplied."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        first, second = self._pairs(d, layout)
        blocks = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)  # (.., T, R/2, 2, 2)
        both = blocks @ np.stack([x[..., first], x[..., second]], -1)[..., None]
        turned = x.copy()
        turned[..., first], turned[..., second] = both[..., 0, 0], both[..., 1, 0]
        return turned


@correct
class FusedMultiplyAdd(NumpyBackend):
    """The second product and the sum are rounded once together."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        first, second = self._pairs(d, layout)
        a, b, s = (part.astype(np.float64) for part in (x[..., first], x[..., second], sin))
        turned = x.copy()
        turned[..., first] = (x[..., first] * cos).astype(np.float64) - b * s
        turned[..., second] = (x[..., second] * cos).astype(np.float64) + a * s
        return turned


@correct
class MagnitudeOnTheVectors(NumpyBackend):
    """YaRN's magnitude multiplies the rotated components, not the table."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        self.late = magnitude
        return super()._table(angles, 1.0)

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        turned[..., : d.R] *= x.dtype.type(self.late)
        return turned


@correct
class KeepsItsTables(NumpyBackend):
    """Frequencies are kept from call to call, by everything that they depend on."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return np.array(_kept(d.R, base))


@lru_cache(maxsize=64)
def _kept(R: int, base: float) -> tuple[float, ...]:
    return tuple(base ** (-2 * i / R) for i in range(R // 2))


class KeepsTheFormat(KnowsTheFormatOfPairs):
    """Rounds intermediates to the format of the call, and declares that."""

    level = NumpyBackend.level | FUSED


@correct
class TableInTheFormatDeclared(KeepsTheFormat):
    """Cosines and sines are rounded to the format of the vectors, and level fused is declared."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return self._stored(cos), self._stored(sin)


@correct
class EverythingInTheFormat(TableInTheFormatDeclared):
    """Table, both products and their sum are rounded to the format of the vectors: eager code, at level fused."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        first, second = self._pairs(d, layout)
        a, b = x[..., first], x[..., second]
        turned = x.copy()
        turned[..., first] = self._stored(self._stored(a * cos) - self._stored(b * sin))
        turned[..., second] = self._stored(self._stored(b * cos) + self._stored(a * sin))
        return turned


@correct
class ProportionalDeclared(NumpyBackend):
    """A partial rotation counts over the whole width, and says so; YaRN is not offered."""

    conventions = Conventions(rotary_partial="proportional")

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d) * d.R / d.D

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        if layout == "interleaved":
            return super()._pairs(d, layout)
        return slice(0, d.R // 2), slice(d.D // 2, d.D // 2 + d.R // 2)

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        if isinstance(scaling, NTK) and d.D > 2:
            return self._frequencies(d, base * scaling.alpha ** (d.D / (d.D - 2)))
        return super()._scaled(w, d, base, scaling)


@correct
class ProportionalInFloat32(ProportionalDeclared, PowersInFloat32):
    """The same with angles in float32, and reciprocals of float32 powers."""


@correct
class AnyPositionDeclared(NumpyBackend):
    """Positions out of range are rotated all the same, and that is declared."""

    conventions = Conventions(out_of_range="undefined")

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        try:
            return super().rotate(x, positions, **options)
        except PositionError:
            return x.copy()
