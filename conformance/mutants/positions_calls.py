"""Wrong shapes, types, refusals, state and declarations of tables, lookups and linear biases."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.positions_sinusoidal import of_the_first
from gaugeblock.spec.precision import HALF


@mutant(killed_by=("POS-STATELESS", "PE-BASE"), reports=("ml-explore/mlx#561",))
class SinusoidalKeptByWidth(NumpyBackend):
    """Frequencies are kept from the first call of a width, whatever its base."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.kept: dict[int, Array] = {}

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return self.kept.setdefault(dim, super()._pe_frequencies(dim, base))


@mutant(killed_by=("POS-STATELESS",), reports=("lucidrains/x-transformers#90",))
class DistancesKeptByLength(NumpyBackend):
    """Distances are kept from the first call of a length, whatever its positions."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.kept: dict[tuple[Any, Any], Array] = {}

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return self.kept.setdefault((query.shape, key.shape), super()._alibi_distances(query, key))


@mutant(killed_by=("PE-EVEN",), reports=("gc-os-ai/pyaptamer#607",))
class OddWidthCutOff(NumpyBackend):
    """An odd width gives a table without its last cosine."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        return super().sinusoidal(positions, dim + dim % 2, base=base, dtype=dtype)[..., :dim]


@mutant(killed_by=("POS-RANGE",))
class NegativePositionsTaken(NumpyBackend):
    """Negative positions turn the pairs backwards."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        table = super().sinusoidal(np.abs(positions), dim, base=base, dtype=dtype)
        return np.where((positions < 0)[..., None] & (np.arange(dim) % 2 == 0), -table, table)


@mutant(killed_by=("POS-RANGE",))
class PositionsOfBiasUnchecked(NumpyBackend):
    """A bias is made of any positions."""

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        lowest = min(np.min(query_positions, initial=0), np.min(key_positions, initial=0))
        return super().alibi_bias(n_heads, query_positions - lowest, key_positions - lowest, dtype=dtype)


@mutant(killed_by=("POS-REFUSES",))
class SpareRowsDropped(NumpyBackend):
    """Rows of positions that have no partner are dropped."""

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        query, key = query_positions, key_positions
        if query.ndim == key.ndim == 2:
            B = min(len(query), len(key))
            query, key = query[:B], key[:B]
        return super().alibi_bias(n_heads, query, key, dtype=dtype)


@mutant(killed_by=("POS-SHAPES",))
class TableAlwaysHasABatch(NumpyBackend):
    """Positions (T,) give a table (1, T, M)."""

    def _pe_table(self, angles: Array) -> Array:
        table = super()._pe_table(angles)
        return table[None] if table.ndim == 2 else table


@mutant(killed_by=("POS-SHAPES",))
class LookupRowsFlattened(NumpyBackend):
    """Positions (B, T) give rows (B T, M)."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(table, positions.reshape(-1))


@mutant(killed_by=("POS-SHAPES",), reports=("lucidrains/x-transformers#298",))
class BiasWithoutBatch(NumpyBackend):
    """A bias that all batch rows share has rank 3."""

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        bias = super()._alibi_product(slopes, distances)
        return bias[0] if len(bias) == 1 else bias


@mutant(killed_by=("POS-SHAPES",))
class BiasHasHeadsLast(NumpyBackend):
    """The bias is laid out (B, T, S, H)."""

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        return np.moveaxis(super()._alibi_product(slopes, distances), 1, -1)


@mutant(killed_by=("POS-DTYPE",), dtypes=HALF)
class TableIsWide(NumpyBackend):
    """A table in half precision comes back as float32."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        return upcast(super().sinusoidal(positions, dim, base=base, dtype=dtype))


@mutant(killed_by=("POS-DTYPE",), dtypes=HALF)
class LookupIsWide(NumpyBackend):
    """Rows of a table in half precision come back as float32."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return upcast(super()._looked_up(table, positions))


@mutant(killed_by=("POS-DTYPE",), reports=("NVIDIA/TensorRT-Model-Connect#667",), dtypes=HALF)
class BiasIsWide(NumpyBackend):
    """A bias in half precision comes back as float32."""

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        return super().alibi_bias(n_heads, query_positions, key_positions, dtype="float32")


@mutant(killed_by=("POS-EMPTY",))
class NothingRaises(NumpyBackend):
    """No positions raise an error of a reduction over nothing."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(np.minimum(positions, np.max(positions)), frequencies)


@mutant(killed_by=("POS-SHAPES",))
class NothingHasOneQuery(NumpyBackend):
    """A bias for no query has one row."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(query if query.size else np.zeros(1, np.int64), key)


@mutant(killed_by=("POS-INPUTS-INTACT",))
class PositionsMovedInPlace(NumpyBackend):
    """Positions are counted from their first where they lie."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        angles = super()._pe_angles(positions, frequencies)
        positions -= np.min(positions, initial=0) + 1
        return angles


@mutant(killed_by=("POS-INPUTS-INTACT",))
class TableScaledInPlace(NumpyBackend):
    """The table is scaled where it lies, after it has been read."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        rows = super()._looked_up(table, positions)
        table *= table.dtype.type(2)
        return rows


@mutant(killed_by=("POS-UNSUPPORTED",), reports=("deepspeedai/DeepSpeed#4442",))
class UnsupportedBaseIgnored(NumpyBackend):
    """A given base is declared unsupported, accepted and ignored."""

    unsupported = {"sinusoidal.base": "not needed"}

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, 10000.0)


@mutant(killed_by=("POS-UNSUPPORTED",))
class UnsupportedRowsIgnored(NumpyBackend):
    """Positions by row are declared unsupported, accepted and read from the first row."""

    unsupported = {"alibi.positions.rows": "not needed", "learned_positions.positions.rows": "not needed"}

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(of_the_first(query), of_the_first(key))


@mutant(killed_by=("POS-UNSUPPORTED",), reports=("ml-explore/mlx#343",))
class UnsupportedHeadsWorkAfterAll(NumpyBackend):
    """Head counts that are no power of two are declared unsupported, and right."""

    unsupported = {"alibi.heads": "not needed"}
