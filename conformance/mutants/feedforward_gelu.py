"""Wrong forms of GELU."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.feedforward import erf
from gaugeblock.conformance.mutants import mutant

ROOT_2_PI = float(np.sqrt(2 / np.pi))
MIXED_UP = (
    "NVIDIA-NeMo/Megatron-Bridge#4661",
    "Lightning-AI/litgpt#1031",
    "chelsea0x3b/dfdx#804",
    "huggingface/candle#900",
)


def tanh_gelu(x: Array, cubic: float = 0.044715, factor: float = ROOT_2_PI) -> Array:
    """GELU by tanh with other constants."""
    with np.errstate(over="ignore"):
        inner = x.dtype.type(factor) * (x + x.dtype.type(cubic) * x * x * x)
    return np.asarray(x / 2 * (1 + np.tanh(inner)))


@mutant(killed_by=("ACT-GELU", "FFN-ACTIVATION"), reports=MIXED_UP, catalogue="M44")
class GeluByTanh(NumpyBackend):
    """GELU is approximated by tanh, whatever is asked for."""

    def _gelu(self, x: Array) -> Array:
        return self._gelu_tanh(x)


@mutant(killed_by=("ACT-GELU-TANH", "FFN-ACTIVATION"), reports=MIXED_UP, catalogue="M44")
class GeluNeverByTanh(NumpyBackend):
    """GELU is exact, whatever is asked for."""

    def _gelu_tanh(self, x: Array) -> Array:
        return self._gelu(x)


@mutant(killed_by=("ACT-GELU",), catalogue="M44")
class GeluByTanhUnlessTold(NumpyBackend):
    """The default of approximate is tanh."""

    def gelu(self, x: Array, *, approximate: str = "tanh") -> Array:
        return super().gelu(x, approximate=approximate)


@mutant(killed_by=("ACT-GELU",))
class NoneTakenForTrue(NumpyBackend):
    """Any word that is not empty asks for tanh, "none" included."""

    def gelu(self, x: Array, *, approximate: str = "") -> Array:
        return super().gelu(x, approximate="tanh" if approximate else "none")


@mutant(killed_by=("ACT-GELU", "FFN-ACTIVATION"))
class GeluBySigmoid(NumpyBackend):
    """GELU is approximated by x sigmoid(1.702 x)."""

    def _gelu(self, x: Array) -> Array:
        return self._silu(x, 1.702)


@mutant(killed_by=("ACT-GELU", "FFN-ACTIVATION"))
class SiluForGelu(NumpyBackend):
    """SiLU stands for GELU."""

    def _gelu(self, x: Array) -> Array:
        return self._silu(x, 1.0)


@mutant(killed_by=("ACT-GELU-TANH", "ACT-REFLECT"), reports=("tensorflow/tfjs#8224",))
class TanhGeluWithoutX(NumpyBackend):
    """GELU by tanh lacks its leading x: it is the gate alone."""

    def _gelu_tanh(self, x: Array) -> Array:
        return np.asarray(super()._gelu_tanh(x) / np.where(x == 0, 1, x))


@mutant(killed_by=("ACT-GELU",))
class ErrorFunctionUnscaled(NumpyBackend):
    """erf is taken at x, not at x / sqrt(2)."""

    def _normal_cdf(self, x: Array) -> Array:
        return super()._normal_cdf(x * x.dtype.type(np.sqrt(2)))


@mutant(killed_by=("ACT-GELU", "ACT-REFLECT", "ACT-LIMITS"))
class HalfForgotten(NumpyBackend):
    """GELU is x (1 + erf(x / sqrt(2))), without the half."""

    def _normal_cdf(self, x: Array) -> Array:
        return 2 * super()._normal_cdf(x)


@mutant(killed_by=("ACT-GELU", "ACT-REFLECT"))
class OneForgotten(NumpyBackend):
    """GELU is x erf(x / sqrt(2)) / 2, without the one."""

    def _normal_cdf(self, x: Array) -> Array:
        return np.asarray(super()._normal_cdf(x) - x.dtype.type(0.5))


@mutant(killed_by=("ACT-GELU",))
class CdfCutOff(NumpyBackend):
    """Beyond three deviations the gate is 0 or 1."""

    def _normal_cdf(self, x: Array) -> Array:
        return np.where(np.abs(x) > 3, x > 0, super()._normal_cdf(x)).astype(x.dtype)


@mutant(killed_by=("ACT-GELU",))
class CdfFromTable(NumpyBackend):
    """The gate is interpolated in a table with steps of 1/32."""

    def _normal_cdf(self, x: Array) -> Array:
        grid = np.linspace(-8, 8, 513)
        return np.asarray(np.interp(x, grid, (1 + erf(grid * np.sqrt(0.5))) / 2)).astype(x.dtype)


@mutant(killed_by=("ACT-GELU",))
class CdfOfFiveDigits(NumpyBackend):
    """The error function is good to five digits (Abramowitz and Stegun 1964, 7.1.25)."""

    def _normal_cdf(self, x: Array) -> Array:
        t = 1 / (1 + 0.47047 * np.abs(x) * np.sqrt(0.5))
        tail = t * (0.3480242 + t * (-0.0958798 + t * 0.7478556)) * np.exp(-np.square(x, dtype=np.float64) / 2)
        return np.asarray((1 + np.copysign(1 - tail, x)) / 2).astype(x.dtype)


@mutant(killed_by=("ACT-GELU",), dtypes=("float64",))
class CdfOfSevenDigits(NumpyBackend):
    """The error function is good to seven digits, in float64 too (Abramowitz and Stegun 1964, 7.1.26)."""

    def _normal_cdf(self, x: Array) -> Array:
        t = 1 / (1 + 0.3275911 * np.abs(x) * np.sqrt(0.5))
        series = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
        return np.asarray((1 + np.copysign(1 - t * series * np.exp(-x * x / 2), x)) / 2).astype(x.dtype)


@mutant(killed_by=("ACT-GELU-TANH",))
class CubicOnePerMilleOff(NumpyBackend):
    """The cubic coefficient is 0.1 % too large."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, cubic=0.044715 * 1.001)


@mutant(killed_by=("ACT-GELU-TANH",))
class CubicOnePercentOff(NumpyBackend):
    """The cubic coefficient is 1 % too large."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, cubic=0.044715 * 1.01)


@mutant(killed_by=("ACT-GELU-TANH",))
class CubicCut(NumpyBackend):
    """The cubic coefficient is 0.0447."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, cubic=0.0447)


@mutant(killed_by=("ACT-GELU-TANH",))
class CubicForgotten(NumpyBackend):
    """The cubic term is missing."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, cubic=0.0)


@mutant(killed_by=("ACT-GELU-TANH",))
class RootOfTwoOverPiCut(NumpyBackend):
    """sqrt(2 / pi) is 0.798."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, factor=0.798)


@mutant(killed_by=("ACT-GELU-TANH",))
class RootForgotten(NumpyBackend):
    """2 / pi stands for its root."""

    def _gelu_tanh(self, x: Array) -> Array:
        return tanh_gelu(x, factor=2 / np.pi)
