"""Rotary position embedding in NumPy (source 4.3; Su et al. 2021)."""

from math import ceil, floor, log, pi

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.rotary import Dims, Rotary, dims, dtypes, in_range, options


class NumpyRotary(Rotary):
    """Rotation as one reads it: frequencies, angles, pairs; the table is made in float64."""

    def rotate(
        self,
        x: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
    ) -> Array:
        options(base, layout, rotary_dim, scaling)
        d = dims(x.shape, positions.shape, rotary_dim=rotary_dim)
        dtypes(x.dtype.name, positions.dtype.name)
        in_range(positions)
        frequencies = self._scaled(self._frequencies(d, base), d, base, scaling)
        cos, sin = self._table(self._angles(positions, frequencies), self._magnitude(scaling))
        wide = upcast(x)
        return round_once(self._turned(d, wide, cos.astype(wide.dtype), sin.astype(wide.dtype), layout), x.dtype)

    def _exponents(self, d: Dims) -> Array:
        """2 i / R for each pair i: (R/2,)."""
        return np.arange(0, d.R, 2) / d.R

    def _frequencies(self, d: Dims, base: float) -> Array:
        return np.asarray(base ** -self._exponents(d))

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        """The frequencies (R/2,) after scaling."""
        match scaling:
            case None:
                return w
            case Linear(factor):
                return w / factor
            case NTK(alpha):
                return w if d.R == 2 else self._frequencies(d, base * alpha ** (d.R / (d.R - 2)))
            case YaRN():
                share = self._yarn_share(d, base, scaling)
                return np.asarray(w / scaling.factor * share + w * (1 - share))
            case Llama3():
                share = self._llama3_share(w, scaling)
                return np.asarray(w / scaling.factor * share + w * (1 - share))

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        """How much of each pair is divided by the factor: a ramp over the index of the pair."""
        low, high = (d.R * log(s.original / (2 * pi * turns)) / (2 * log(base)) for turns in (s.fast, s.slow))
        if s.truncate:
            low, high = floor(low), ceil(high)
        low, high = min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1)
        ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.001)
        return np.asarray(np.clip(ramp, 0, 1))

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        """How much of each pair is divided by the factor: by its turns within the original length."""
        turns = s.original * w / (2 * pi)
        return np.clip((s.high - turns) / (s.high - s.low), 0, 1)

    def _magnitude(self, scaling: Scaling | None) -> float:
        if not isinstance(scaling, YaRN):
            return 1.0
        if scaling.attention_factor is not None:
            return scaling.attention_factor
        return 0.1 * log(scaling.factor) + 1 if scaling.factor > 1 else 1.0

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        """Position times frequency: (T, R/2) or (B, 1, T, R/2), which broadcast over the heads."""
        angles = positions[..., None].astype(np.float64) * frequencies
        return angles if positions.ndim == 1 else angles[:, None]

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        return magnitude * np.cos(angles), magnitude * np.sin(angles)

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        """Where the first and the second components of the pairs lie."""
        if layout == "half":
            return slice(0, d.R // 2), slice(d.R // 2, d.R)
        return slice(0, d.R, 2), slice(1, d.R, 2)

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        first, second = self._pairs(d, layout)
        a, b = x[..., first], x[..., second]
        turned = x.copy()
        turned[..., first] = a * cos - b * sin
        turned[..., second] = b * cos + a * sin
        return turned
