"""Wrong shapes, types, views, refusals and declarations of the normalizations; inputs written, NaN swallowed."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_calls import as_if_contiguous
from gaugeblock.spec.precision import HALF

Given = Array | None


@mutant(killed_by=("LN-DTYPE", "RMS-DTYPE"), dtypes=HALF)
class NormsComeBackWide(NumpyBackend):
    """Half precision comes back as float32."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return upcast(super().layer_norm(x, weight, bias, eps=eps))

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return upcast(super().rms_norm(x, weight, eps=eps))


@mutant(killed_by=("LN-SHAPES", "RMS-SHAPES"))
class NormsComeBackFlat(NumpyBackend):
    """The leading axes of the result are folded into one."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return super().layer_norm(x, weight, bias, eps=eps).reshape(-1, x.shape[-1])

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(x, weight, eps=eps).reshape(-1, x.shape[-1])


@mutant(killed_by=("LN-FORMULA", "RMS-FORMULA"))
class NormsOfThreeAxesOnly(NumpyBackend):
    """Arrays that have not three axes raise."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(_of_three_axes(x))

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(_of_three_axes(x))


def _of_three_axes(x: Array) -> Array:
    if x.ndim != 3:
        raise ValueError("x must be (B, T, M)")
    return x


@mutant(killed_by=("LN-STRIDES", "RMS-STRIDES"))
class StridesOfRowsIgnored(NumpyBackend):
    """x is read as if it were contiguous."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return super().layer_norm(as_if_contiguous(x), weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(as_if_contiguous(x), weight, eps=eps)


@mutant(killed_by=("LN-STRIDES", "RMS-STRIDES"))
class StridesOfWeightsIgnored(NumpyBackend):
    """The weight of a strided call is read from consecutive places."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return super().layer_norm(x, _consecutive(weight), bias, eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(x, _consecutive(weight), eps=eps)


def _consecutive(x: Given) -> Given:
    """The elements that follow the first in memory, where they are part of the array."""
    if x is None or x.ndim != 1 or x.flags.c_contiguous or x.strides == (0,):
        return x
    step = x.strides[0] // x.itemsize
    spread = np.zeros(x.shape[0] * step, x.dtype)
    spread[::step] = x
    return spread[: x.shape[0]]


@mutant(killed_by=("LN-INPUTS-INTACT",))
class RowsCentredInPlace(NumpyBackend):
    """The rows are centred where they lie."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        result = super().layer_norm(x, weight, bias, eps=eps)
        if x.flags.writeable:
            x -= np.mean(upcast(x), axis=-1, keepdims=True).astype(x.dtype)
        return result


@mutant(killed_by=("RMS-INPUTS-INTACT",))
class ResultWrittenOverRows(NumpyBackend):
    """The result is written over x, and x is what comes back."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        result = super().rms_norm(x, weight, eps=eps)
        if x.flags.writeable:
            x[...] = result
        return result


@mutant(killed_by=("LN-INPUTS-INTACT",))
class BiasFoldedIntoTheWeight(NumpyBackend):
    """The weight is overwritten with its product with the bias."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        result = super().layer_norm(x, weight, bias, eps=eps)
        if weight is not None and bias is not None and weight.flags.writeable:
            weight *= bias
        return result


@mutant(killed_by=("RMS-INPUTS-INTACT",))
class OneAddedInPlace(NumpyBackend):
    """One is added to the caller's weight."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        result = super().rms_norm(x, weight, eps=eps)
        if weight is not None and weight.flags.writeable:
            weight += weight.dtype.type(1)
        return result


@mutant(killed_by=("LN-NONFINITE", "RMS-NONFINITE"))
class NanInRowsIsCleaned(NumpyBackend):
    """NaN in x is read as zero."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return super().layer_norm(np.where(np.isnan(x), x.dtype.type(0), x), weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(np.where(np.isnan(x), x.dtype.type(0), x), weight, eps=eps)


@mutant(killed_by=("LN-NONFINITE", "RMS-NONFINITE"))
class NanIsLeftOutOfTheMean(NumpyBackend):
    """The means leave NaN out, so that only the element itself is NaN."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(np.nan_to_num(x))

    def _variance(self, x: Array, centred: Array) -> Array:
        return super()._variance(x, np.nan_to_num(centred))

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(np.nan_to_num(x))


@mutant(killed_by=("LN-NONFINITE", "RMS-NONFINITE"))
class NanInWeightsIsOne(NumpyBackend):
    """NaN in the weight is read as one."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(normalized, None if weight is None else np.nan_to_num(upcast(weight), nan=1), bias)

    def _gain(self, weight: Array) -> Array:
        return np.nan_to_num(super()._gain(weight), nan=1)


@mutant(killed_by=("LN-NONFINITE",))
class NanInOneRowReachesAll(NumpyBackend):
    """The largest variance of the array scales all rows before it is taken out again."""

    def _variance(self, x: Array, centred: Array) -> Array:
        variance = super()._variance(x, centred)
        most = np.max(variance, initial=1)
        return np.asarray(variance / most * most)


@mutant(killed_by=("RMS-NONFINITE",))
class NanInOneRowReachesAllRms(NumpyBackend):
    """The largest mean square of the array scales all rows before it is taken out again."""

    def _mean_square(self, x: Array) -> Array:
        square = super()._mean_square(x)
        most = np.max(square, initial=1)
        return np.asarray(square / most * most)


@mutant(killed_by=("LN-ZERO-ROW", "RMS-ZERO-ROW"))
class ZeroRowsWithoutEpsAreZero(NumpyBackend):
    """A row of zeros without eps gives zeros, because 0 / 0 is replaced."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.where(variance + eps == 0, 0, super()._inverse_deviation(variance, eps))

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.where(mean_square + eps == 0, 0, super()._inverse_rms(mean_square, eps))


@mutant(killed_by=("LN-ZERO-ROW", "LN-SCALE", "RMS-ZERO-ROW", "RMS-SCALE"))
class NoEpsIsALittleEps(NumpyBackend):
    """eps = 0 is taken for 1e-6."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, eps or 1e-6)

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, eps or 1e-6)


@mutant(killed_by=("LN-EMPTY", "RMS-EMPTY"))
class NoRowsRaise(NumpyBackend):
    """An array without rows raises: there is no first of them."""

    def _mean(self, x: Array) -> Array:
        x.reshape(-1, x.shape[-1])[0]
        return super()._mean(x)

    def _mean_square(self, x: Array) -> Array:
        x.reshape(-1, x.shape[-1])[0]
        return super()._mean_square(x)


@mutant(killed_by=("LN-REFUSES", "RMS-REFUSES"))
class LongWeightsAccepted(NumpyBackend):
    """Of a weight that is longer than a row the beginning is used."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        return super().layer_norm(x, _narrowed(weight, x), _narrowed(bias, x), eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        return super().rms_norm(x, _narrowed(weight, x), eps=eps)


def _narrowed(x: Given, rows: Array) -> Given:
    return x[: rows.shape[-1]] if x is not None and x.ndim == 1 and rows.ndim else x


@mutant(killed_by=("LN-REFUSES",))
class ShortBiasAccepted(NumpyBackend):
    """A bias that is shorter than a row is repeated."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        if bias is not None and bias.ndim == 1 and x.ndim and bias.shape[0] < x.shape[-1]:
            bias = np.resize(bias, x.shape[-1])
        return super().layer_norm(x, weight, bias, eps=eps)


@mutant(killed_by=("RMS-REFUSES",))
class ShortWeightAccepted(NumpyBackend):
    """Elements behind the end of the weight are multiplied by one."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        if weight is not None and weight.ndim == 1 and x.ndim and weight.shape[0] < x.shape[-1]:
            weight = np.append(weight, np.ones(x.shape[-1] - weight.shape[0], weight.dtype))
        return super().rms_norm(x, weight, eps=eps)


@mutant(killed_by=("LN-UNSUPPORTED", "RMS-UNSUPPORTED"))
class NoEpsDeclaredAbsentButIgnored(NumpyBackend):
    """eps = 0 is declared unsupported; given all the same, it is silently 1e-3."""

    unsupported = {"layer_norm.eps.zero": "divides by zero", "rms_norm.eps.zero": "divides by zero"}

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, eps or 1e-3)

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, eps or 1e-3)


@mutant(killed_by=("LN-UNSUPPORTED", "RMS-UNSUPPORTED"))
class WeightlessDeclaredAbsentButRight(NumpyBackend):
    """A call without weight is declared unsupported, and works."""

    unsupported = {"layer_norm.weightless": "pass ones", "rms_norm.weightless": "pass ones"}
