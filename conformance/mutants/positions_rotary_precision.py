"""Rotations in formats that are narrower than the declared level allows."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfPairs, stored
from gaugeblock.spec.config import Layout
from gaugeblock.spec.precision import BFLOAT16, FLOAT16, FLOAT32, HALF
from gaugeblock.spec.rotary import Dims

REPORTS = (
    "EleutherAI/gpt-neox#1003",
    "huggingface/transformers#25681",
    "huggingface/transformers#29285",
    "sgl-project/sglang-jax#1472",
    "keras-team/keras-hub#1494",
)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-PAIR-ZERO"), reports=REPORTS, catalogue="M29", dtypes=HALF)
class PositionsInTheFormat(KnowsTheFormatOfPairs):
    """Positions are held in the format of the vectors."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(stored(positions.astype(np.float64), self.io), frequencies)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-FORMULA"), reports=REPORTS[:2], catalogue="M29", dtypes=HALF)
class AnglesInTheFormat(KnowsTheFormatOfPairs):
    """Angles are rounded to the format of the vectors."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return stored(super()._angles(positions, frequencies), self.io)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-FORMULA"), reports=REPORTS[2:], catalogue="M29", dtypes=HALF)
class FrequenciesInTheFormat(KnowsTheFormatOfPairs):
    """Frequencies are rounded to the format of the vectors."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return stored(super()._frequencies(d, base), self.io)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-PAIR-ZERO"), reports=("Modalities/modalities#462",), catalogue="M29")
class PositionsInBfloat16(NumpyBackend):
    """Positions are held in bfloat16."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(stored(positions.astype(np.float64), BFLOAT16), frequencies)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-PAIR-ZERO"), reports=("NVIDIA/Megatron-LM#744",), catalogue="M29")
class PositionsInFloat16(NumpyBackend):
    """Positions are held in float16."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(stored(positions.astype(np.float64), FLOAT16), frequencies)


@mutant(killed_by=("ROPE-ANGLE", "ROPE-FORMULA"), catalogue="M29")
class AnglesInFloat16(NumpyBackend):
    """Angles are rounded to float16."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return stored(super()._angles(positions, frequencies), FLOAT16)


@mutant(killed_by=("ROPE-FORMULA", "ROPE-NORM"))
class TableInBfloat16(NumpyBackend):
    """Cosines and sines are rounded to bfloat16."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return stored(cos, BFLOAT16), stored(sin, BFLOAT16)


@mutant(killed_by=("ROPE-FORMULA",), dtypes=HALF)
class TableInTheFormat(KnowsTheFormatOfPairs):
    """Cosines and sines are rounded to the format of the vectors, and level strict is declared."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return stored(cos, self.io), stored(sin, self.io)


@mutant(killed_by=("ROPE-FORMULA",), dtypes=HALF)
class ProductsInTheFormat(KnowsTheFormatOfPairs):
    """Products are rounded to the format of the vectors, and level strict is declared."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        first, second = self._pairs(d, layout)
        a, b = x[..., first], x[..., second]
        turned[..., first] = stored(a * cos, self.io) - stored(b * sin, self.io)
        turned[..., second] = stored(b * cos, self.io) + stored(a * sin, self.io)
        return turned


@mutant(killed_by=("ROPE-FORMULA", "ROPE-NORM"))
class TrigonometryInaccurate(NumpyBackend):
    """Cosine and sine are good to 18 bits."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return np.rint(cos * 2**18) / 2**18, np.rint(sin * 2**18) / 2**18


@mutant(killed_by=("ROPE-FORMULA", "ROPE-ANGLE"), dtypes=("float64",))
class AnglesOfFloat64InFloat32(KnowsTheFormatOfPairs):
    """Angles are float32 for float64, too."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return stored(super()._angles(positions, frequencies), FLOAT32)


@mutant(killed_by=("ROPE-FORMULA",), dtypes=("float64",))
class RotationOfFloat64InFloat32(KnowsTheFormatOfPairs):
    """float64 is rotated in float32 and converted back."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        narrow = x.astype(np.float32) if x.dtype == np.float64 else x
        return super().rotate(narrow, positions, **options).astype(x.dtype)
