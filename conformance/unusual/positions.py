"""Sinusoidal tables, lookups and linear biases in other ways that the reference admits."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import FORMATS, HALF, Level


class Narrow(NumpyBackend):
    """Computes tables and biases in float32 unless float64 is asked for, as most libraries do."""

    wide: Any = np.float32

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        self.wide = np.float64 if dtype == "float64" else np.float32
        return super().sinusoidal(positions, dim, base=base, dtype=dtype)

    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Array:
        self.wide = np.float64 if dtype == "float64" else np.float32
        return super().alibi_slopes(n_heads, dtype=dtype)

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        self.wide = np.float64 if dtype == "float64" else np.float32
        return super().alibi_bias(n_heads, query_positions, key_positions, dtype=dtype)

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return np.asarray(positions[..., None].astype(self.wide) * frequencies)

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        return super()._alibi_product(slopes.astype(self.wide), distances.astype(self.wide))


@correct
class FrequenciesByExponential(Narrow):
    """exp(-2 i ln(base) / M), every step rounded."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        step = -np.log(self.wide(base)) / self.wide(dim)
        return np.asarray(np.exp(np.arange(0, dim, 2).astype(self.wide) * step))


@correct
class FrequenciesByQuotient(Narrow):
    """p / base ** (2 i / M), every step rounded."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.asarray(self.wide(base) ** (np.arange(0, dim, 2).astype(self.wide) / self.wide(dim)))

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return np.asarray(positions[..., None].astype(self.wide) / frequencies)


@correct
class FrequenciesByReciprocal(Narrow):
    """1 / base ** (2 i / M), then a product, every step rounded."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        exponent = np.arange(0, dim, 2).astype(self.wide) / self.wide(dim)
        return np.asarray(self.wide(1) / np.exp2(exponent * np.log2(self.wide(base))))


@correct
class TableByComplexNumbers(Narrow):
    """exp(1j p w): real part cosine, imaginary part sine."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, base).astype(self.wide)

    def _pe_table(self, angles: Array) -> Array:
        turned = np.exp(1j * angles)
        return np.stack([turned.imag, turned.real], axis=-1).reshape(*angles.shape[:-1], 2 * angles.shape[-1])


@correct
class TableByColumns(NumpyBackend):
    """Every column computes an angle of its own, and takes its sine or cosine."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.repeat(super()._pe_frequencies(dim, base), 2)

    def _pe_table(self, angles: Array) -> Array:
        return np.where(np.arange(angles.shape[-1]) % 2 == 0, np.sin(angles), np.cos(angles))


@correct
class TableOfAllPositions(NumpyBackend):
    """A table of the first 5000 positions from which rows are read; farther ones are computed."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        whole = super()._pe_angles(np.arange(5000), frequencies)
        far = super()._pe_angles(positions, frequencies)
        return np.where((positions < 5000)[..., None], whole[np.minimum(positions, 4999)], far)


@correct
class HalvesKept(NumpyBackend):
    """All sines come first, as declared."""

    conventions = Conventions(sinusoidal_order="halves")

    def _pe_table(self, angles: Array) -> Array:
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@correct
class BaseInFloat32(Narrow):
    """The base is held in float32, as declared."""

    conventions = Conventions(scalars="float32")

    def _scale(self, d: object, scale: float | None) -> float:
        return float(np.float32(super()._scale(d, scale)))  # type: ignore[arg-type]

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, float(np.float32(base))).astype(self.wide)


@correct
class LookupBySelection(NumpyBackend):
    """Rows are selected by comparison and summed, so that nothing but the row itself takes part."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        chosen = (positions[..., None] == np.arange(len(table)))[..., None]
        zero = np.zeros((), table.dtype)
        return np.sum(np.where(chosen, table, zero), axis=-2, dtype=np.float64).astype(table.dtype)


@correct
class OutsideIsNan(NumpyBackend):
    """Positions outside the table give NaN on both sides, as declared."""

    conventions = Conventions(out_of_range="nan")

    def learned_positions(self, table: Array, positions: Array) -> Array:
        outside = (positions < 0) | (positions >= len(table))
        rows = super().learned_positions(table, np.where(outside, 0, positions))
        return np.where(outside[..., None], np.asarray(np.nan, table.dtype), rows)


@correct
class OutsideIsNearest(NumpyBackend):
    """Positions outside the table give its nearest row, as declared; no other positions are checked."""

    conventions = Conventions(out_of_range="clamps")

    def learned_positions(self, table: Array, positions: Array) -> Array:
        return super().learned_positions(table, np.clip(positions, 0, len(table) - 1))


@correct
class OutsideIsUndefined(NumpyBackend):
    """Negative positions count from the end of the table, as "undefined" lets them."""

    conventions = Conventions(out_of_range="undefined")

    def learned_positions(self, table: Array, positions: Array) -> Array:
        return np.asarray(table[positions])


@correct
class SlopesByProducts(Narrow):
    """A rounded ratio is multiplied up from head to head."""

    def _alibi_sequence(self, n: int) -> Array:
        return np.asarray(np.cumprod(np.full(n, 2.0 ** (-8 / n), self.wide), dtype=self.wide))


@correct
class SlopesByExponential(Narrow):
    """exp(-8 ln(2) h / n) where the exponent is fractional, every step rounded."""

    def _alibi_sequence(self, n: int) -> Array:
        h = np.arange(1, n + 1).astype(self.wide)
        exponents = -8 * h / self.wide(n)
        return np.asarray(np.exp2(exponents) if 8 % n == 0 else np.exp(exponents * np.log(self.wide(2))))


@correct
class SlopesAllGeometric(NumpyBackend):
    """One geometric sequence for every number of heads, as declared."""

    conventions = Conventions(alibi_slopes="geometric")

    def _alibi_slopes(self, n_heads: int) -> Array:
        return self._alibi_sequence(n_heads)


@correct
class KeyPositionsOnly(Narrow):
    """The bias is the slope times the key's position, as declared."""

    conventions = Conventions(alibi_bias="key_only")

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return np.asarray(-np.atleast_2d(key)[:, None, None, :] + 0 * np.atleast_2d(query)[:, None, :, None])


@correct
class DistancesInFloat32(Narrow):
    """Positions are turned into float32, which holds them, before they are subtracted."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(query.astype(np.float32), key.astype(np.float32))


@correct
class SlopesStored(NumpyBackend):
    """The bias is made of slopes in half precision, as level stored lets it."""

    level = {f"positions@{dtype}": Level.STORED for dtype in HALF} | {dtype: Level.STRICT for dtype in HALF}

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        super().alibi_bias(n_heads, query_positions, key_positions, dtype=dtype)  # refuses what is malformed
        wide = np.float64 if dtype == "float64" else np.float32
        slopes = self.alibi_slopes(n_heads, dtype=dtype).astype(wide)
        distances = self._alibi_distances(query_positions, key_positions).astype(wide)
        return round_once(self._alibi_product(slopes, distances), FORMATS[dtype].dtype)
