"""Sinusoidal, learned and ALiBi positions in NumPy (source 4.2, 4.4; Vaswani et al. 2017; Press et al. 2022)."""

import ml_dtypes
import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once
from gaugeblock.spec import positions as rules
from gaugeblock.spec.positions import Alibi, LearnedPositions, Sinusoidal


class NumpySinusoidal(Sinusoidal):
    """Sines and cosines as one reads them, in float64 whatever is asked for: a far angle needs the digits."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        rules.sinusoidal(positions.shape, positions.dtype.name, positions, dim, base, dtype)
        angles = self._pe_angles(positions, self._pe_frequencies(dim, base))
        return round_once(self._pe_table(angles), _named(dtype))

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        """base ** (-2 i / dim), (dim / 2,)."""
        pairs = np.arange(dim // 2)
        return np.asarray(float(base) ** (-2 * pairs / dim))

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return np.asarray(positions[..., None] * frequencies)  # (..., T, dim / 2)

    def _pe_table(self, angles: Array) -> Array:
        """Sine and cosine of an angle side by side: (..., T, dim)."""
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        return pairs.reshape(*angles.shape[:-1], 2 * angles.shape[-1])


class NumpyLearnedPositions(LearnedPositions):
    """A lookup."""

    def learned_positions(self, table: Array, positions: Array) -> Array:
        rules.learned(table.shape, table.dtype.name, positions.shape, positions.dtype.name, positions)
        return self._looked_up(table, positions)

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return np.asarray(table[positions])


class NumpyAlibi(Alibi):
    """Slopes, distances, and their product."""

    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Array:
        rules.alibi(n_heads, dtype)
        return round_once(self._alibi_slopes(n_heads), _named(dtype))

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        query = query_positions.shape, query_positions.dtype.name, query_positions
        key = key_positions.shape, key_positions.dtype.name, key_positions
        rules.alibi_bias(n_heads, query, key, dtype)
        distances = self._alibi_distances(query_positions.astype(np.int64), key_positions.astype(np.int64))
        return round_once(self._alibi_product(self._alibi_slopes(n_heads), distances), _named(dtype))

    def _alibi_slopes(self, n_heads: int) -> Array:
        """The slope of each head (H,), in float64."""
        lower = 2 ** (n_heads.bit_length() - 1)
        between = self._alibi_sequence(2 * lower)[::2]  # every other slope of twice as many heads
        return np.concatenate([self._alibi_sequence(lower), between[: n_heads - lower]])

    def _alibi_sequence(self, n: int) -> Array:
        return np.asarray(2.0 ** (-8 * np.arange(1, n + 1) / n))

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        """|i - j| as exact integers, (1 or B, 1, T, S)."""
        return np.asarray(np.abs(np.atleast_2d(query)[:, None, :, None] - np.atleast_2d(key)[:, None, None, :]))

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        return np.asarray(-slopes[:, None, None] * distances)  # (1 or B, H, T, S)


def _named(dtype: str) -> np.dtype[np.generic]:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
