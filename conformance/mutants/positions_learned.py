"""Wrong lookups."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_calls import as_if_contiguous
from gaugeblock.conformance.mutants.formats import stored
from gaugeblock.conformance.mutants.positions_sinusoidal import of_the_first
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import BFLOAT16


@mutant(killed_by=("POS-LOOKUP",), reports=("huggingface/transformers#20761",))
class RowsFromTwo(NumpyBackend):
    """Row p + 2 of the table is read for position p."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(table, (positions + 2) % len(table))


@mutant(killed_by=("POS-ANY-ORDER", "POS-LOOKUP"), reports=("Blaizzy/mlx-vlm#1983",))
class RowsCountedAnew(NumpyBackend):
    """Rows 0 to T - 1 are read, whatever the positions."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        counted = np.arange(positions.shape[-1]) % len(table)
        return super()._looked_up(table, np.broadcast_to(counted, positions.shape))


@mutant(killed_by=("POS-ROWS",), reports=("huggingface/transformers#22161", "Blaizzy/mlx-vlm#1883"))
class LookupRowsShareTheFirst(NumpyBackend):
    """Every batch row reads the positions of the first."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(table, of_the_first(positions))


@mutant(killed_by=("POS-LOOKUP",))
class RowsScaled(NumpyBackend):
    """Rows are multiplied by the root of their width."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return np.asarray(super()._looked_up(table, positions) * table.dtype.type(np.sqrt(table.shape[1])))


@mutant(killed_by=("POS-LOOKUP",))
class RowsInBfloat16(NumpyBackend):
    """Rows go through bfloat16."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return stored(super()._looked_up(table, positions), BFLOAT16)


@mutant(killed_by=("POS-NONFINITE",))
class LookupByOneHot(NumpyBackend):
    """Rows are read by a product with one-hot rows: a NaN spreads over its column."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return np.asarray((positions[..., None] == np.arange(len(table))).astype(table.dtype) @ table)


@mutant(killed_by=("POS-NONFINITE",))
class NanInTheTableCleaned(NumpyBackend):
    """NaN in a row is replaced by zero."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return np.nan_to_num(super()._looked_up(table, positions))


class Unchecked(NumpyBackend):
    """Positions are not checked."""

    def learned_positions(self, table: Array, positions: Array) -> Array:
        return self._looked_up(table, positions)


@mutant(killed_by=("POS-LOOKUP-RANGE",))
class OutsideIsClamped(Unchecked):
    """A position outside the table gives the nearest row, and nothing is declared."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(table, np.clip(positions, 0, len(table) - 1))


@mutant(killed_by=("POS-LOOKUP-RANGE",))
class NegativeFromTheEnd(Unchecked):
    """A negative position counts from the end of the table."""


@mutant(killed_by=("POS-LOOKUP-RANGE",))
class OutsideWraps(Unchecked):
    """clamps is declared, and positions behind the table begin at its first row again."""

    conventions = Conventions(out_of_range="clamps")

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(table, positions % len(table))


@mutant(killed_by=("POS-LOOKUP-RANGE",))
class NanBehindTheTableOnly(Unchecked):
    """nan is declared, and kept behind the table; in front of it a position counts from the end."""

    conventions = Conventions(out_of_range="nan")

    def _looked_up(self, table: Array, positions: Array) -> Array:
        outside = (positions >= len(table)) | (positions < -len(table))
        rows = super()._looked_up(table, np.where(outside, 0, positions))
        return np.where(outside[..., None], np.asarray(np.nan, table.dtype), rows)


@mutant(killed_by=("POS-STRIDES",))
class StridesOfTheTableIgnored(NumpyBackend):
    """The table is read as if it were contiguous."""

    def _looked_up(self, table: Array, positions: Array) -> Array:
        return super()._looked_up(as_if_contiguous(table), positions)
