"""Partial rotations of the wrong components."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import Layout
from gaugeblock.spec.rotary import Dims


@mutant(
    killed_by=("ROPE-PARTIAL",),
    reports=("pie-project/pie#602", "apple/coreai-models#66", "huggingface/transformers#48652"),
    catalogue="M30",
)
class ExponentOverAllComponents(NumpyBackend):
    """A partial rotation counts its exponents over the width of the head."""

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d) * d.R / d.D


@mutant(killed_by=("ROPE-PARTIAL", "ROPE-PARTIAL-REST"), reports=("vllm-project/vllm#43770",))
class PairsOverAllComponents(NumpyBackend):
    """A partial rotation pairs components half the head's width apart."""

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        first, second = super()._pairs(d, layout)
        return (first, slice(d.D // 2, d.D // 2 + d.R // 2)) if layout == "half" else (first, second)


@mutant(killed_by=("ROPE-PARTIAL-REST", "ROPE-PARTIAL"))
class LastComponentsRotated(NumpyBackend):
    """A partial rotation rotates the last components."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        front = np.roll(x, d.R - d.D, axis=-1)  # the first R come from the end
        return np.roll(super()._turned(d, front, cos, sin, layout), d.D - d.R, axis=-1)


@mutant(killed_by=("ROPE-PARTIAL-REST",))
class RestIsZero(NumpyBackend):
    """The components that are not rotated come back as zero."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        turned[..., d.R :] = 0
        return turned


@mutant(killed_by=("ROPE-SHAPES",))
class RestIsDropped(NumpyBackend):
    """The components that are not rotated do not come back."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        return super()._turned(d, x, cos, sin, layout)[..., : d.R]


@mutant(killed_by=("ROPE-PARTIAL-REST",), dtypes=("float32",))
class RestPassesThroughBfloat16(NumpyBackend):
    """The components that are not rotated are rounded to 8 bits on their way."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        significand, exponent = np.frexp(turned[..., d.R :])
        turned[..., d.R :] = np.ldexp(np.rint(significand * 256) / 256, exponent)
        return turned
