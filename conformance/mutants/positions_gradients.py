"""Backward passes of rotations and tables that disagree with the forward pass, which is right."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import HandwrittenPositions


@mutant(killed_by=("ROPE-GRADIENT",), dtypes=("float32", "float64"))
class RotatesOnBackward(HandwrittenPositions):
    """The cotangent is rotated in the direction of the forward pass."""

    def _backwards(self, sin: Array) -> Array:
        return sin


@mutant(killed_by=("ROPE-GRADIENT",), reports=("huggingface/candle#3612",), dtypes=("float32", "bfloat16", "float16"))
class RotationDetached(HandwrittenPositions):
    """A rotation has no gradient."""

    def rotate(self, x: Array, positions: Array, **options: object) -> Array:
        y = super().rotate(x, positions, **options)
        self._back = lambda dy: []  # type: ignore[method-assign]
        return y


@mutant(killed_by=("ROPE-GRADIENT",))
class MagnitudeMissingBackward(HandwrittenPositions):
    """The cotangent is turned back without YaRN's magnitude."""

    def _rotate_back(self, dy: Array, positions: Array, **options: object) -> Array:
        turned = super()._rotate_back(dy, positions, **options)  # type: ignore[arg-type]
        return np.asarray(turned / dy.dtype.type(self._magnitude(options.get("scaling"))))  # type: ignore[arg-type]


@mutant(
    killed_by=("POS-LOOKUP-GRADIENT",),
    reports=("pytorch/pytorch#1631", "tenstorrent/tt-metal#6232"),
    dtypes=("float32", "float64"),
)
class LastReaderOfARow(HandwrittenPositions):
    """A row of the table has the cotangent of its last reader only."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        total = np.zeros(table.shape, dy.dtype)
        total[positions] = dy
        return total


@mutant(killed_by=("POS-LOOKUP-GRADIENT",))
class ReadersAveraged(HandwrittenPositions):
    """A row of the table has the mean of its readers' cotangents."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        count = np.bincount(positions.reshape(-1), minlength=len(table))
        return np.asarray(super()._readers(table, positions, dy) / np.maximum(count, 1)[:, None].astype(dy.dtype))
