"""Wrong sinusoidal tables: frequencies, order, positions."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.conventions import Conventions

ALL = ("PE-FORMULA", "PE-FREQUENCIES", "PE-UNIT-NORM", "PE-SHIFT", "PE-OFFSET")


def of_the_first(positions: Array) -> Array:
    """Positions in which every batch row repeats the first."""
    return positions if positions.ndim == 1 else np.broadcast_to(positions[:1], positions.shape)


@mutant(
    killed_by=ALL,
    reports=(
        "Kyubyong/transformer#38",
        "jadore801120/attention-is-all-you-need-pytorch#32",
        "shenweichen/DeepCTR#379",
        "SamLynnEvans/Transformer#25",
        "BrianPulfer/PapersReimplementations#9",
    ),
    catalogue="M39",
)
class ExponentOverAllColumns(NumpyBackend):
    """The exponent is 2 j / M with j the column: sine and cosine of a pair have different frequencies."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.asarray(base ** (-2 * np.arange(dim) / dim))

    def _pe_table(self, angles: Array) -> Array:
        return np.where(np.arange(angles.shape[-1]) % 2 == 0, np.sin(angles), np.cos(angles))


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA", "PE-SHIFT", "PE-OFFSET"))
class FrequenciesEndAtOneOverBase(NumpyBackend):
    """The exponent is i / (M / 2 - 1), so that the last frequency is 1 / base."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.asarray(base ** (-np.arange(dim // 2) / max(dim // 2 - 1, 1)))


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA", "PE-SHIFT", "PE-OFFSET"))
class ExponentHalved(NumpyBackend):
    """The exponent is i / M instead of 2 i / M."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.asarray(base ** (-np.arange(dim // 2) / dim))


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA", "PE-SHIFT", "PE-OFFSET"))
class FrequenciesFromPairOne(NumpyBackend):
    """Pairs are counted from 1: no pair turns by one radian."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return np.asarray(base ** (-2 * np.arange(1, dim // 2 + 1) / dim))


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA"))
class FrequenciesReversed(NumpyBackend):
    """The slowest pair comes first."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, base)[::-1]


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA"))
class FrequenciesInTurns(NumpyBackend):
    """Frequencies are taken per turn, not per radian."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return 2 * np.pi * super()._pe_frequencies(dim, base)


@mutant(killed_by=("PE-FORMULA", "PE-FAR"))
class FrequenciesOffByAThousandth(NumpyBackend):
    """Frequencies are 1.001 times too large."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return 1.001 * super()._pe_frequencies(dim, base)


@mutant(killed_by=("PE-FREQUENCIES", "PE-FORMULA", "PE-FAR"), dtypes=("bfloat16",))
class FrequenciesOffByAHundredth(NumpyBackend):
    """Frequencies are 1.01 times too large."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return 1.01 * super()._pe_frequencies(dim, base)


@mutant(killed_by=("PE-BASE",), reports=("deepspeedai/DeepSpeed#4442",))
class SinusoidalBaseIgnored(NumpyBackend):
    """The base is 10000, whatever is given."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, 10000.0)


@mutant(killed_by=("PE-BASE",))
class BaseAddedToOne(NumpyBackend):
    """The base is one too large."""

    def _pe_frequencies(self, dim: int, base: float) -> Array:
        return super()._pe_frequencies(dim, base + 1 if base != 10000.0 else base)


@mutant(
    killed_by=("PE-ORDER", "PE-FORMULA", "PE-SHIFT"),
    reports=("allenai/allennlp#2993", "tatp22/multidim-positional-encoding#20"),
)
class HalvesUndeclared(NumpyBackend):
    """All sines come first, and the convention is not declared."""

    def _pe_table(self, angles: Array) -> Array:
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@mutant(killed_by=("PE-ORDER", "PE-FORMULA"))
class HalvesDeclared(NumpyBackend):
    """The convention of halves is declared, and not kept."""

    conventions = Conventions(sinusoidal_order="halves")


@mutant(killed_by=("PE-ORDER", "PE-FORMULA", "PE-SHIFT", "PE-FREQUENCIES"))
class CosineFirst(NumpyBackend):
    """The cosine of a pair comes before its sine; norms and products do not see it."""

    def _pe_table(self, angles: Array) -> Array:
        table = super()._pe_table(angles)
        return table.reshape(*angles.shape, 2)[..., ::-1].reshape(table.shape)


@mutant(killed_by=("PE-FORMULA", "PE-SHIFT", "PE-FREQUENCIES"))
class SineNegative(NumpyBackend):
    """Pairs turn the other way; norms and products do not see it."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return -super()._pe_angles(positions, frequencies)


@mutant(killed_by=("PE-UNIT-NORM", "PE-OFFSET", "PE-FORMULA"))
class TableScaledByTheRoot(NumpyBackend):
    """The table is scaled by sqrt(2 / M), so that every row has norm one."""

    def _pe_table(self, angles: Array) -> Array:
        return np.asarray(super()._pe_table(angles) / np.sqrt(angles.shape[-1]))


@mutant(killed_by=("PE-UNIT-NORM", "PE-OFFSET", "PE-FORMULA"))
class TableOffByAThousandth(NumpyBackend):
    """The table is 1.001 times too large."""

    def _pe_table(self, angles: Array) -> Array:
        return 1.001 * super()._pe_table(angles)


@mutant(killed_by=("PE-UNIT-NORM", "PE-FORMULA"), dtypes=("bfloat16", "float16"))
class TableOffByAHundredth(NumpyBackend):
    """The table is 1.01 times too large."""

    def _pe_table(self, angles: Array) -> Array:
        return 1.01 * super()._pe_table(angles)


@mutant(killed_by=("PE-FORMULA", "PE-FREQUENCIES", "PE-FAR"))
class SinusoidalFromOne(NumpyBackend):
    """Positions are counted from 1; norms, shifts and products do not see it."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(positions + 1, frequencies)


@mutant(
    killed_by=("POS-ANY-ORDER", "PE-FORMULA", "PE-FAR"),
    reports=("Blaizzy/mlx-vlm#1983", "pytorch/executorch#2010"),
)
class SinusoidalCountedAnew(NumpyBackend):
    """Positions are 0 to T - 1, whatever is given."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        counted = np.broadcast_to(np.arange(positions.shape[-1]), positions.shape)
        return super()._pe_angles(counted, frequencies)


@mutant(killed_by=("POS-ANY-ORDER",), reports=("Blaizzy/mlx-vlm#1983",))
class SinusoidalFromTheFirst(NumpyBackend):
    """Only the first position is read, the others follow it."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(positions[..., :1] + np.arange(positions.shape[-1]), frequencies)


@mutant(killed_by=("POS-ANY-ORDER",))
class SinusoidalSorted(NumpyBackend):
    """Rows come in the order of their positions."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(np.sort(positions, axis=-1), frequencies)


@mutant(killed_by=("POS-ROWS",), reports=("Blaizzy/mlx-vlm#1883",))
class RowsShareTheFirst(NumpyBackend):
    """Every batch row has the positions of the first."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(of_the_first(positions), frequencies)


@mutant(killed_by=("POS-ROWS",), reports=("ml-explore/mlx#3795",))
class OnlyTheFirstRowAtOnePosition(NumpyBackend):
    """With one position in each of several rows only the first row is filled."""

    def _pe_table(self, angles: Array) -> Array:
        table = super()._pe_table(angles)
        if angles.ndim == 3 and angles.shape[1] == 1:
            table[1:] = 0
        return table


@mutant(killed_by=("PE-FAR",))
class PositionsEndAtTheTable(NumpyBackend):
    """Positions beyond a table of 5000 rows give its last row."""

    def _pe_angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._pe_angles(np.minimum(positions, 4999), frequencies)
