"""Activations and networks in formats that are narrower than the declared level allows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfNetworks, stored
from gaugeblock.spec.precision import BFLOAT16, HALF, Level

ROOT_2_PI = float(np.sqrt(2 / np.pi))


@mutant(killed_by=("ACT-GELU",), dtypes=HALF)
class GeluInHalf(NumpyBackend):
    """GELU is computed in half precision, each operation rounded."""

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        gate = round_once(self._normal_cdf(upcast(x)) * 2 - 1, x.dtype)
        return np.asarray(((gate + x.dtype.type(1)) * (x * x.dtype.type(0.5))).astype(x.dtype))


@mutant(killed_by=("ACT-GELU-TANH",), dtypes=HALF)
class TanhGeluInHalf(NumpyBackend):
    """The argument of tanh is computed in half precision."""

    def _gelu_tanh(self, x: Array) -> Array:
        half = x.astype(self.io)
        inner = half.dtype.type(ROOT_2_PI) * (half + half.dtype.type(0.044715) * half * half * half)
        return np.asarray(x / 2 * (1 + np.tanh(upcast(inner))))

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        self.io = x.dtype
        return super().gelu(x, approximate=approximate)


@mutant(killed_by=("ACT-SILU",), dtypes=HALF)
class SiluInHalf(NumpyBackend):
    """The exponential of SiLU is rounded to half precision, where that of 12 overflows in float16."""

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        e = round_once(np.exp(-upcast(x) * np.float32(beta)), x.dtype)
        return np.asarray((x / (x.dtype.type(1) + e)).astype(x.dtype))


@mutant(killed_by=("ACT-GELU", "ACT-SILU"), dtypes=("bfloat16",))
class ActivationTruncated(NumpyBackend):
    """Activations are cut to bfloat16 instead of rounded."""

    def _narrowed(self, x: Array) -> Array:
        return (x.view(np.uint32) & 0xFFFF0000).view(np.float32)

    def _gelu(self, x: Array) -> Array:
        return self._narrowed(super()._gelu(x))

    def _silu(self, x: Array, beta: float) -> Array:
        return self._narrowed(super()._silu(x, beta))


@mutant(killed_by=("ACT-GELU", "ACT-SILU", "ACT-GELU-TANH"))
class ActivationsInBfloat16(NumpyBackend):
    """float32 is rounded to bfloat16 before the activations."""

    def _stored(self, x: Array) -> Array:
        return np.asarray(x.astype(BFLOAT16.dtype).astype(x.dtype))

    def _gelu(self, x: Array) -> Array:
        return super()._gelu(self._stored(x))

    def _gelu_tanh(self, x: Array) -> Array:
        return super()._gelu_tanh(self._stored(x))

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(self._stored(x), beta)


@mutant(killed_by=("ACT-SILU", "ACT-GELU"), dtypes=("float64",))
class ActivationsInFloat32(NumpyBackend):
    """float64 is accepted, computed in float32 and converted back."""

    def gelu(self, x: Array, **options: Any) -> Array:
        return super().gelu(x.astype(np.float32), **options).astype(x.dtype)

    def silu(self, x: Array, **options: Any) -> Array:
        return super().silu(x.astype(np.float32), **options).astype(x.dtype)


@mutant(killed_by=("ACT-GELU", "ACT-SILU"), dtypes=("float16",))
class SubnormalActivationsFlushed(NumpyBackend):
    """Subnormal results of float16 are flushed to zero."""

    def _flushed(self, y: Array) -> Array:
        return np.where(np.abs(y) < np.finfo(np.float16).tiny, 0, y)

    def _gelu(self, x: Array) -> Array:
        return self._flushed(super()._gelu(x))

    def _silu(self, x: Array, beta: float) -> Array:
        return self._flushed(super()._silu(x, beta))


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"))
class LayersInTensorFloat32(NumpyBackend):
    """The factors of each product are rounded to the 11 bits of TF32."""

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        cut = {name: self._narrowed(w) for name, w in weights.items() if w.dtype == np.float32}
        return super()._linear(self._narrowed(x), {**weights, **cut}, layer)

    def _narrowed(self, x: Array) -> Array:
        significand, exponent = np.frexp(x)
        return np.asarray(np.ldexp(np.rint(np.ldexp(significand, 11)), exponent - 11).astype(x.dtype))


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"))
class HiddenInBfloat16(NumpyBackend):
    """Hidden values of a float32 network are rounded to bfloat16."""

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return super()._linear(stored(x, BFLOAT16) if layer == "down" else x, weights, layer)


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"), dtypes=("float64",))
class NetworksInFloat32(NumpyBackend):
    """float64 is accepted, computed in float32 and converted back."""

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return super()._linear(stored(x, np.dtype(np.float32)), weights, layer)


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"), dtypes=HALF)
class HiddenStoredButDeclaredFused(KnowsTheFormatOfNetworks):
    """Hidden values are rounded to half precision, and level fused is declared."""

    level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return super()._linear(stored(x, self.io), weights, layer)


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"), dtypes=("bfloat16",))
class LayersAccumulatedInHalf(KnowsTheFormatOfNetworks):
    """Every partial sum is rounded to half precision; the default level is declared."""

    level = {}

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        weight = upcast(weights[f"{layer}.weight"])
        total = np.zeros((*x.shape[:-1], weight.shape[1]), np.float32)
        for n in range(len(weight)):
            total = stored(total + stored(x[..., n : n + 1] * weight[n], self.io), self.io)
        bias = weights.get(f"{layer}.bias")
        return total if bias is None else total + upcast(bias)


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"), dtypes=("float16",))
class HiddenOverflows(KnowsTheFormatOfNetworks):
    """The square of a hidden value is kept in half precision in place of the value, where it overflows or vanishes."""

    level = {}

    def _linear(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        if layer == "down":
            with np.errstate(over="ignore"):
                x = np.sign(x) * np.sqrt(stored(x * x, self.io))
        return super()._linear(x, weights, layer)
