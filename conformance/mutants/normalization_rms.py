"""Wrong RMSNorms: mean square, eps, weight."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.conventions import Conventions

Given = Array | None


@mutant(killed_by=("RMS-EPS-INSIDE",), catalogue="M42", reports=("apple/coremltools#2822",))
class RMSNormEpsOutside(NumpyBackend):
    """eps is added to the root instead of to the mean square."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(mean_square) + mean_square.dtype.type(eps)))


@mutant(killed_by=("RMS-EPS-INSIDE", "RMS-ZERO-ROW"), reports=("apple/coremltools#2822",))
class RMSNormEpsAfterTheMaximum(NumpyBackend):
    """Rows are divided by their largest element before eps is added: 0 / 0 for a row of zeros."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        if x.ndim == 0 or x.size == 0:
            return super().rms_norm(x, weight, eps=eps)
        with np.errstate(invalid="ignore", divide="ignore"):
            wide = upcast(x)
            narrow = wide / np.max(np.abs(wide), axis=-1, keepdims=True)
            gain = None if weight is None else upcast(weight)
            return super().rms_norm(narrow, gain, eps=eps).astype(x.dtype)


@mutant(killed_by=("RMS-EPS-INSIDE", "RMS-ZERO-ROW"))
class RMSNormEpsIgnored(NumpyBackend):
    """eps is not used."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, 0.0)


@mutant(killed_by=("RMS-EPS-INSIDE", "RMS-ZERO-ROW"))
class RMSNormEpsOfTheNorm(NumpyBackend):
    """No eps: rows are divided by their norm, or by 1e-12 where that is larger, and multiplied by the root of M."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(1 / np.maximum(np.sqrt(mean_square), mean_square.dtype.type(1e-12)))


@mutant(killed_by=("RMS-EPS-INSIDE",), reports=("nntrainer/nntrainer#4318",))
class RMSNormEpsFloored(NumpyBackend):
    """An eps below 1e-4 is taken for 1e-4."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, max(eps, 1e-4))


@mutant(killed_by=("RMS-EPS-INSIDE", "RMS-ZERO-ROW"), reports=("tensorflow/tensorflow#24979",), dtypes=("float16",))
class RMSNormEpsInHalf(NumpyBackend):
    """eps is held in float16, where a small one is zero."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, float(np.float16(eps)))


@mutant(killed_by=("RMS-EPS-INSIDE",))
class RMSNormEpsFixed(NumpyBackend):
    """eps is 1e-6, whatever the caller gives."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, 1e-6)


@mutant(killed_by=("RMS-EPS-INSIDE",))
class RMSNormEpsTwice(NumpyBackend):
    """eps is added to the mean square twice."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, eps * 2)


@mutant(killed_by=("RMS-NOT-CENTRED", "RMS-FORMULA"))
class RMSNormCentred(NumpyBackend):
    """The rows are centred first, as LayerNorm does."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return self.layer_norm(x, weight, None, eps=eps)


@mutant(killed_by=("RMS-NOT-CENTRED", "RMS-FORMULA"))
class RMSNormOfTheDeviation(NumpyBackend):
    """The rows are divided by their standard deviation, and not centred."""

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(x - np.mean(x, axis=-1, keepdims=True))


@mutant(killed_by=("RMS-FORMULA", "RMS-MOMENT", "RMS-WIDTHS"))
class RMSNormSquaresSummed(NumpyBackend):
    """The squares are summed, not averaged: the row gets length one."""

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(super()._mean_square(x) * x.dtype.type(x.shape[-1]))


@mutant(killed_by=("RMS-FORMULA", "RMS-MOMENT", "RMS-WIDTHS"))
class RMSNormOverOneLess(NumpyBackend):
    """The sum of squares is divided by M - 1."""

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(super()._mean_square(x) * x.dtype.type(x.shape[-1] / max(x.shape[-1] - 1, 1)))


@mutant(killed_by=("RMS-FORMULA", "RMS-MOMENT"))
class RMSNormMeanAbsolute(NumpyBackend):
    """The mean of |x| takes the place of the root mean square."""

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(np.mean(np.abs(x), axis=-1, keepdims=True) ** 2)


@mutant(killed_by=("RMS-FORMULA", "RMS-SCALE", "RMS-MOMENT"))
class RMSNormRootMissing(NumpyBackend):
    """The row is divided by mean square plus eps."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(1 / (mean_square + mean_square.dtype.type(eps)))


@mutant(killed_by=("RMS-WIDTHS", "RMS-FORMULA"))
class RMSNormOfTheFirstPart(NumpyBackend):
    """The root mean square is that of the first part of the row, as in partial RMSNorm."""

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(x[..., : max(x.shape[-1] // 2, 1)])


@mutant(killed_by=("RMS-WIDTHS", "RMS-FORMULA"))
class RMSNormTailDropped(NumpyBackend):
    """The mean square leaves out what lies behind the last full block of eight."""

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(x[..., : max(x.shape[-1] // 8 * 8, 1)])


@mutant(killed_by=("RMS-WIDTHS", "RMS-FORMULA", "RMS-MOMENT"))
class RMSNormDividedByThePaddedWidth(NumpyBackend):
    """The sum of squares is divided by the next power of two."""

    def _mean_square(self, x: Array) -> Array:
        M = x.shape[-1]
        return np.asarray(super()._mean_square(x) * x.dtype.type(M / (1 << (M - 1).bit_length())))


@mutant(killed_by=("RMS-WIDTHS",))
class RMSNormOfOneElementIsThatElement(NumpyBackend):
    """A row of one element is passed through to the weight."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.ones_like(mean_square) if self.single else super()._inverse_rms(mean_square, eps)

    def _mean_square(self, x: Array) -> Array:
        self.single = x.shape[-1] == 1
        return super()._mean_square(x)


@mutant(killed_by=("RMS-ROWS", "RMS-FORMULA"))
class RMSNormOfAllRows(NumpyBackend):
    """The mean square is that of the whole array."""

    def _mean_square(self, x: Array) -> Array:
        return np.full((*x.shape[:-1], 1), np.mean(x * x), x.dtype) if x.size else super()._mean_square(x)


@mutant(killed_by=("RMS-ROWS", "RMS-FORMULA"))
class RMSNormOverRows(NumpyBackend):
    """The mean square is taken over the rows, element by element."""

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(x) if x.ndim < 2 else np.mean(x * x, axis=-2, keepdims=True)


@mutant(killed_by=("RMS-WEIGHT", "RMS-FORMULA"))
class RMSNormWeightIgnored(NumpyBackend):
    """The weight is not used."""

    def _gain(self, weight: Array) -> Array:
        return np.ones_like(upcast(weight))


@mutant(killed_by=("RMS-WEIGHT", "RMS-FORMULA"))
class RMSNormWeightTwice(NumpyBackend):
    """The weight is applied twice."""

    def _gain(self, weight: Array) -> Array:
        return np.asarray(upcast(weight) ** 2)


@mutant(killed_by=("RMS-WEIGHT", "RMS-FORMULA"))
class RMSNormWeightReversed(NumpyBackend):
    """The weight is read from its end."""

    def _gain(self, weight: Array) -> Array:
        return upcast(weight)[::-1]


@mutant(
    killed_by=("RMS-WEIGHT", "RMS-FORMULA"),
    reports=("linkedin/Liger-Kernel#74", "utensils/mold#1074"),
    catalogue="M42",
)
class RMSNormOneAddedTwice(NumpyBackend):
    """One is added to weights that mean themselves."""

    def _gain(self, weight: Array) -> Array:
        return np.asarray(1 + upcast(weight))


@mutant(
    killed_by=("RMS-WEIGHT", "RMS-FORMULA"),
    reports=("linkedin/Liger-Kernel#74", "NeuraLegion/shainet#176"),
    catalogue="M42",
)
class RMSNormOneForgotten(NumpyBackend):
    """The weight is declared to stand for one plus itself, and multiplies as it is."""

    conventions = Conventions(rms_weight="1+w")


@mutant(
    killed_by=("RMS-WEIGHT", "RMS-FORMULA"),
    reports=("ggml-org/llama.cpp#5810", "vllm-project/vllm#3653"),
    dtypes=("bfloat16", "float16"),
)
class RMSNormOnePlusInHalf(NumpyBackend):
    """One plus weight is declared, and added in half precision."""

    conventions = Conventions(rms_weight="1+w")

    def _gain(self, weight: Array) -> Array:
        return upcast(weight + weight.dtype.type(1))


@mutant(killed_by=("RMS-FORMULA", "RMS-MOMENT"))
class RMSNormTooLarge(NumpyBackend):
    """The normalized row is 0.1 % too large."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(super()._inverse_rms(mean_square, eps) * mean_square.dtype.type(1.001))


@mutant(killed_by=("RMS-FORMULA",), dtypes=("float32", "bfloat16", "float16"))
class RMSNormOnePercentTooLarge(NumpyBackend):
    """The normalized row is 1 % too large."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(super()._inverse_rms(mean_square, eps) * mean_square.dtype.type(1.01))


@mutant(killed_by=("RMS-FORMULA", "RMS-NOT-CENTRED"))
class RMSNormSignLost(NumpyBackend):
    """Every element comes out positive."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(np.abs(x), weight, eps=eps)


@mutant(killed_by=("RMS-EPS-INSIDE", "RMS-FORMULA"))
class RMSNormClipped(NumpyBackend):
    """The root mean square is at most ten."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(np.minimum(mean_square, mean_square.dtype.type(100)), eps)
