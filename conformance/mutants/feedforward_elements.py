"""Wrong shapes, types, views and refusals of activations; elements mixed, inputs written, NaN swallowed."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.precision import HALF


def in_order_of_memory(x: Array) -> Array:
    """The elements in the order of memory, read as if that were the order of the axes."""
    return np.ravel(x, order="K").reshape(x.shape)


@mutant(killed_by=("ACT-DTYPE",), dtypes=HALF)
class ActivationIsWide(NumpyBackend):
    """Activations of half precision come back as float32."""

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return super().gelu(upcast(x), approximate=approximate)


@mutant(killed_by=("ACT-SHAPES",))
class ActivationIsFlat(NumpyBackend):
    """Activations of more than two axes come back with two."""

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        y = super().silu(x, beta=beta)
        return y if y.ndim < 3 else y.reshape(-1, y.shape[-1])


@mutant(killed_by=("ACT-ELEMENTWISE", "ACT-GELU"))
class GeluOfStandardized(NumpyBackend):
    """The argument of the gate is divided by the largest element of the array where that is above 3."""

    def _normal_cdf(self, x: Array) -> Array:
        largest = np.max(np.abs(x), initial=0)
        return super()._normal_cdf(x / (largest / 3) if largest > 3 else x)


@mutant(killed_by=("ACT-NONFINITE", "FFN-NONFINITE"))
class ReluOfNanIsZero(NumpyBackend):
    """ReLU prefers zero to NaN."""

    def _relu(self, x: Array) -> Array:
        return np.asarray(np.fmax(x, x.dtype.type(0)))


@mutant(killed_by=("ACT-NONFINITE",))
class GateOfNanIsClosed(NumpyBackend):
    """A NaN gives zero."""

    def _gelu(self, x: Array) -> Array:
        return np.nan_to_num(super()._gelu(x), nan=0.0)


@mutant(killed_by=("ACT-NONFINITE",))
class NanSpreads(NumpyBackend):
    """One NaN makes the whole result NaN."""

    def _silu(self, x: Array, beta: float) -> Array:
        return np.asarray(super()._silu(x, beta) + x.dtype.type(0) * np.sum(x))


@mutant(killed_by=("ACT-STRIDES",))
class StridesOfActivationsIgnored(NumpyBackend):
    """Activations read their input as if it were contiguous."""

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return super().gelu(in_order_of_memory(x), approximate=approximate)

    def relu(self, x: Array) -> Array:
        return super().relu(in_order_of_memory(x))


@mutant(killed_by=("ACT-INPUTS-INTACT",))
class ReluInPlace(NumpyBackend):
    """ReLU is written where its input lies."""

    def relu(self, x: Array) -> Array:
        y = super().relu(x)
        if x.flags.writeable:
            x[...] = y
        return y


@mutant(killed_by=("ACT-EMPTY",))
class NothingRefused(NumpyBackend):
    """An array without elements is refused."""

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        return super().silu(x.reshape(-1, *x.shape[1:]) if x.size else x[0], beta=beta)

    def relu(self, x: Array) -> Array:
        if not x.size:
            raise ValueError("nothing to do")
        return super().relu(x)


@mutant(killed_by=("ACT-REFUSES",))
class UnknownApproximationAccepted(NumpyBackend):
    """Any word but tanh means exact."""

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return super().gelu(x, approximate="tanh" if approximate == "tanh" else "none")


@mutant(killed_by=("ACT-UNSUPPORTED",))
class ApproximateIgnored(NumpyBackend):
    """approximate is declared unsupported; given all the same, it is silently ignored."""

    unsupported = {"activations.approximate": "one form is enough"}

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return super().gelu(x)


@mutant(killed_by=("ACT-UNSUPPORTED",))
class BetaAbsentButRight(NumpyBackend):
    """beta is declared unsupported, and works."""

    unsupported = {"activations.beta": "not needed"}
