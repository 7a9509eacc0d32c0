"""Wrong forms of SiLU and of ReLU."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant


@mutant(killed_by=("ACT-SILU", "ACT-REFLECT", "SWIGLU-SHUT"))
class SigmoidForSilu(NumpyBackend):
    """SiLU lacks its leading x: it is the sigmoid."""

    def _silu(self, x: Array, beta: float) -> Array:
        return self._sigmoid(x.dtype.type(beta) * x)


@mutant(killed_by=("ACT-SILU",))
class HardSwish(NumpyBackend):
    """SiLU is x clip(x + 3, 0, 6) / 6."""

    def _silu(self, x: Array, beta: float) -> Array:
        return np.asarray(x * np.clip(beta * x + 3, 0, 6) / 6).astype(x.dtype)


@mutant(killed_by=("ACT-SILU", "SWIGLU-FORMULA"))
class GeluForSilu(NumpyBackend):
    """GELU stands for SiLU."""

    def _silu(self, x: Array, beta: float) -> Array:
        return self._gelu(x)


@mutant(killed_by=("ACT-SILU", "ACT-LIMITS"))
class SiluWithoutSign(NumpyBackend):
    """The exponential has the wrong sign: the gate closes where it should open."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, -beta)


@mutant(killed_by=("ACT-SILU",))
class SlopeOnePerMilleOff(NumpyBackend):
    """The argument of the sigmoid is 0.1 % too large."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, 1.001 * beta)


@mutant(killed_by=("ACT-SILU",), dtypes=("bfloat16",))
class SlopeOnePercentOff(NumpyBackend):
    """The argument of the sigmoid is 1 % too large, seen in bfloat16."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, 1.01 * beta)


@mutant(killed_by=("ACT-LIMITS", "ACT-SILU"))
class ExponentialOverflows(NumpyBackend):
    """SiLU is x exp(x) / (1 + exp(x)), which is NaN where the exponential overflows."""

    def _silu(self, x: Array, beta: float) -> Array:
        e = np.exp(x.dtype.type(beta) * x)
        return np.asarray(x * e / (1 + e))


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaIgnored(NumpyBackend):
    """beta is one."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, 1.0)


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaDivides(NumpyBackend):
    """x is divided by beta."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, 1 / beta if beta else 0.0)


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaOutside(NumpyBackend):
    """beta multiplies the result too."""

    def _silu(self, x: Array, beta: float) -> Array:
        return np.asarray(x.dtype.type(beta) * super()._silu(x, beta))


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaOfZeroIgnored(NumpyBackend):
    """A beta of zero is taken for none."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, beta or 1.0)


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaLosesItsSign(NumpyBackend):
    """A negative beta is used by its magnitude."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, abs(beta))


@mutant(killed_by=("ACT-SILU-BETA",))
class BetaAtMostOne(NumpyBackend):
    """A beta above one is cut."""

    def _silu(self, x: Array, beta: float) -> Array:
        return super()._silu(x, min(beta, 1.0))


@mutant(killed_by=("ACT-RELU", "ACT-REFLECT", "FFN-INTEGERS"))
class LeakyRelu(NumpyBackend):
    """A hundredth of what is negative passes."""

    def _relu(self, x: Array) -> Array:
        return np.where(x < 0, x / 100, x)


@mutant(killed_by=("ACT-RELU", "ACT-LIMITS"))
class ReluSix(NumpyBackend):
    """ReLU is cut at six."""

    def _relu(self, x: Array) -> Array:
        return np.clip(x, 0, 6)


@mutant(killed_by=("ACT-RELU", "FFN-INTEGERS"))
class ReluIsAbsolute(NumpyBackend):
    """What is negative changes its sign."""

    def _relu(self, x: Array) -> Array:
        return np.abs(x)


@mutant(killed_by=("ACT-RELU",))
class ReluRounds(NumpyBackend):
    """ReLU is (x + |x|) / 2 with a rounded third in the way."""

    def _relu(self, x: Array) -> Array:
        return np.asarray(np.maximum(x * x.dtype.type(3) / x.dtype.type(3), 0))


@mutant(killed_by=("ACT-RELU",))
class ReluWithThreshold(NumpyBackend):
    """What is below a thousandth vanishes."""

    def _relu(self, x: Array) -> Array:
        return np.where(x < 1e-3, 0, x)
