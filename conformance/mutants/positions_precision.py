"""Formats and approximations that are too coarse for sinusoidal tables and linear biases."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.formats import stored
from gaugeblock.spec.precision import BFLOAT16, FORMATS, HALF


class KnowsTheDtype(NumpyBackend):
    """Remembers the dtype that the call asks for."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        self.asked = FORMATS[dtype]
        return super().sinusoidal(positions, dim, base=base, dtype=dtype)

    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Array:
        self.asked = FORMATS[dtype]
        return super().alibi_slopes(n_heads, dtype=dtype)

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        self.asked = FORMATS[dtype]
        return super().alibi_bias(n_heads, query_positions, key_positions, dtype=dtype)


@mutant(killed_by=("PE-FORMULA", "PE-FAR"), reports=("EleutherAI/gpt-neox#1003",), dtypes=HALF)
class SinusoidalPositionsInHalf(KnowsTheDtype):
    """Positions are rounded to the dtype that is asked for."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(stored(positions.astype(np.float64), self.asked), frequencies)


@mutant(killed_by=("PE-FORMULA", "PE-FAR", "PE-SHIFT"), reports=("EleutherAI/gpt-neox#1003",), dtypes=HALF)
class SinusoidalAnglesInHalf(KnowsTheDtype):
    """Angles are rounded to the dtype that is asked for."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return stored(super()._pe_angles(positions, frequencies), self.asked)


@mutant(killed_by=("PE-FORMULA", "PE-FAR", "PE-SHIFT"), dtypes=HALF)
class SinusoidalFrequenciesInHalf(KnowsTheDtype):
    """Frequencies are rounded to the dtype that is asked for."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return stored(super()._pe_frequencies(dim, base), self.asked)


@mutant(killed_by=("PE-FORMULA", "PE-FREQUENCIES", "PE-FAR"))
class SinusoidalFrequenciesInBfloat16(NumpyBackend):
    """Frequencies are kept in bfloat16, whatever is asked for."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return stored(super()._pe_frequencies(dim, base), BFLOAT16)


@mutant(killed_by=("PE-FORMULA", "PE-UNIT-NORM"))
class SinusoidalTableInBfloat16(NumpyBackend):
    """The table goes through bfloat16 before it is given out as float32."""

    def _pe_table(self, angles: Array) -> Array:
        return stored(super()._pe_table(angles), BFLOAT16)


@mutant(killed_by=("PE-FAR",))
class CosineAsShiftedSine(NumpyBackend):
    """The cosine is the sine of the angle plus pi / 2, added in float32."""

    def _pe_table(self, angles: Array) -> Array:
        narrow = angles.astype(np.float32)
        pairs = np.stack([np.sin(narrow), np.sin(narrow + np.float32(np.pi / 2))], axis=-1)
        return pairs.reshape(*angles.shape[:-1], 2 * angles.shape[-1])


@mutant(killed_by=("PE-FAR",))
class AnglesReducedInFloat32(NumpyBackend):
    """Angles are reduced to one turn with a float32 value of 2 pi."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        angles, turn = super()._pe_angles(positions, frequencies).astype(np.float32), np.float32(2 * np.pi)
        return np.asarray(angles - turn * np.floor(angles / turn))


@mutant(killed_by=("PE-FAR", "PE-FORMULA"), dtypes=("float64",))
class SinusoidalFloat64InFloat32(NumpyBackend):
    """float64 is asked for, angles are computed in float32."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(positions.astype(np.float32), frequencies.astype(np.float32)).astype(np.float64)


@mutant(killed_by=("PE-FORMULA",), dtypes=("bfloat16",))
class SinusoidalTruncated(NumpyBackend):
    """The table is cut to bfloat16 instead of rounded."""

    def _pe_table(self, angles: Array) -> Array:
        bits = super()._pe_table(angles).astype(np.float32).view(np.uint32) & 0xFFFF0000
        return bits.view(np.float32).astype(np.float64)


@mutant(killed_by=("ALIBI-DISTANCE", "ALIBI-BIAS"), reports=("NVIDIA/TensorRT-Model-Connect#667",), dtypes=HALF)
class DistancesInHalf(KnowsTheDtype):
    """Distances are rounded to the dtype that is asked for before they are multiplied."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return stored(super()._alibi_distances(query, key).astype(np.float64), self.asked)


@mutant(
    killed_by=("ALIBI-DISTANCE",),
    reports=("NVIDIA/TensorRT-Model-Connect#667", "Dao-AILab/flash-attention#846"),
)
class DistancesInBfloat16(NumpyBackend):
    """Distances are rounded to bfloat16, whatever is asked for."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return stored(super()._alibi_distances(query, key).astype(np.float64), BFLOAT16)


@mutant(killed_by=("ALIBI-DISTANCE", "ALIBI-BIAS"), reports=("Dao-AILab/flash-attention#846",), dtypes=HALF)
class PositionsOfBiasInHalf(KnowsTheDtype):
    """Positions are rounded to the dtype that is asked for before they are subtracted."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        narrow = (stored(p.astype(np.float64), self.asked) for p in (query, key))
        return super()._alibi_distances(*narrow)


@mutant(killed_by=("ALIBI-SLOPES-ANY", "ALIBI-SLOPES"))
class SlopesInBfloat16(NumpyBackend):
    """Slopes go through bfloat16 before they are given out as float32."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return stored(super()._alibi_slopes(n_heads), BFLOAT16)


@mutant(killed_by=("ALIBI-SLOPES-ANY", "ALIBI-BIAS"), reports=("Dao-AILab/flash-attention#846",), dtypes=HALF)
class SlopesStoredButDeclaredStrict(KnowsTheDtype):
    """Slopes are rounded to the dtype that is asked for before they are multiplied, and level strict is declared."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return stored(super()._alibi_slopes(n_heads), self.asked)


@mutant(killed_by=("ALIBI-SLOPES-ANY", "ALIBI-BIAS"), dtypes=("float64",))
class AlibiFloat64InFloat32(NumpyBackend):
    """float64 is asked for, slopes are float32."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return stored(super()._alibi_slopes(n_heads), np.dtype(np.float32))


@mutant(killed_by=("ALIBI-BIAS",), dtypes=("bfloat16",))
class BiasTruncated(NumpyBackend):
    """The bias is cut to bfloat16 instead of rounded."""

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        bits = super()._alibi_product(slopes, distances).astype(np.float32).view(np.uint32) & 0xFFFF0000
        return bits.view(np.float32)
