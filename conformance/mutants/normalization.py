"""Wrong LayerNorms: mean, variance, eps."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant

Given = Array | None

FIELD = ("harvardnlp/annotated-transformer#119", "codertimo/BERT-pytorch#30", "allenai/allennlp#953")


@mutant(killed_by=("LN-POPULATION", "LN-FORMULA", "LN-MOMENTS"), reports=FIELD, catalogue="M41")
class LayerNormSampleVariance(NumpyBackend):
    """The variance is divided by M - 1."""

    def _variance(self, x: Array, centred: Array) -> Array:
        M = x.shape[-1]
        return np.asarray(super()._variance(x, centred) * x.dtype.type(M / max(M - 1, 1)))


@mutant(killed_by=("LN-EPS-INSIDE",), reports=("hkproj/pytorch-transformer#31",), catalogue="M41")
class LayerNormEpsOutside(NumpyBackend):
    """eps is added to the standard deviation."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(variance) + variance.dtype.type(eps)))


@mutant(
    killed_by=("LN-POPULATION", "LN-EPS-INSIDE", "LN-FORMULA"),
    reports=(*FIELD, "hkproj/pytorch-transformer#31", "hyunwoongko/transformer#7"),
    catalogue="M41",
)
class LayerNormSampleDeviationEpsOutside(NumpyBackend):
    """The sample deviation plus eps divides, and nothing is declared."""

    def _variance(self, x: Array, centred: Array) -> Array:
        M = x.shape[-1]
        return np.asarray(super()._variance(x, centred) * x.dtype.type(M / max(M - 1, 1)))

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(variance) + variance.dtype.type(eps)))


@mutant(killed_by=("LN-LARGE-MEAN", "LN-SHIFT"), reports=("tracel-ai/burn#5607",), catalogue="M41")
class LayerNormOnePass(NumpyBackend):
    """The variance is E[x²] - E[x]², clipped at zero."""

    def _variance(self, x: Array, centred: Array) -> Array:
        square = np.mean(x * x, axis=-1, keepdims=True)
        return np.asarray(np.maximum(square - self._mean(x) ** 2, 0))


@mutant(killed_by=("LN-LARGE-MEAN", "LN-SHIFT"), reports=("tracel-ai/burn#5607",), catalogue="M41", dtypes=("float16",))
class LayerNormOnePassOfHalf(LayerNormOnePass):
    """The variance is E[x²] - E[x]², of float16 rows in float32."""


@mutant(
    killed_by=("LN-LARGE-MEAN", "LN-SHIFT"),
    reports=("pytorch/pytorch#51102", "patrick-kidger/equinox#314"),
    catalogue="M41",
)
class LayerNormOnePassNotClipped(NumpyBackend):
    """The variance is E[x²] - E[x]², and may be negative."""

    def _variance(self, x: Array, centred: Array) -> Array:
        return np.asarray(np.mean(x * x, axis=-1, keepdims=True) - self._mean(x) ** 2)


@mutant(
    killed_by=("LN-FORMULA", "LN-SCALE", "LN-MOMENTS"),
    reports=("131250208/TPlinker-joint-extraction#37",),
)
class LayerNormSquareForRoot(NumpyBackend):
    """The centred row is divided by the square of variance plus eps."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (variance + variance.dtype.type(eps)) ** 2)


@mutant(killed_by=("LN-FORMULA", "LN-SCALE", "LN-MOMENTS"))
class LayerNormRootMissing(NumpyBackend):
    """The centred row is divided by variance plus eps."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (variance + variance.dtype.type(eps)))


@mutant(killed_by=("LN-EPS-INSIDE", "LN-ZERO-ROW"))
class LayerNormEpsIgnored(NumpyBackend):
    """eps is not used."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, 0.0)


@mutant(killed_by=("LN-EPS-INSIDE",))
class LayerNormEpsFloored(NumpyBackend):
    """An eps below 1e-4 is taken for 1e-4."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, max(eps, 1e-4))


@mutant(killed_by=("LN-EPS-INSIDE",))
class LayerNormEpsFixed(NumpyBackend):
    """eps is 1e-5, whatever the caller gives."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, 1e-5)


@mutant(killed_by=("LN-EPS-INSIDE",))
class LayerNormEpsSquared(NumpyBackend):
    """eps is squared before it is added to the variance."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, eps * eps)


@mutant(killed_by=("LN-EPS-INSIDE",))
class LayerNormEpsAsMaximum(NumpyBackend):
    """The larger of variance and eps divides, not their sum."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / np.sqrt(np.maximum(variance, variance.dtype.type(eps))))


@mutant(killed_by=("LN-FORMULA", "LN-SHIFT", "LN-MOMENTS"))
class LayerNormNotCentred(NumpyBackend):
    """The rows are divided by their root mean square and not centred."""

    def _mean(self, x: Array) -> Array:
        return np.zeros_like(super()._mean(x))


@mutant(killed_by=("LN-FORMULA", "LN-SHIFT"))
class LayerNormVarianceNotCentred(NumpyBackend):
    """The rows are centred, and divided by their root mean square."""

    def _variance(self, x: Array, centred: Array) -> Array:
        return super()._variance(x, x)


@mutant(killed_by=("LN-FORMULA", "LN-MOMENTS"))
class LayerNormMeanAbsoluteDeviation(NumpyBackend):
    """The mean of |x - mean| takes the place of the standard deviation."""

    def _variance(self, x: Array, centred: Array) -> Array:
        return np.asarray(np.mean(np.abs(centred), axis=-1, keepdims=True) ** 2)


@mutant(killed_by=("LN-ROWS", "LN-FORMULA"))
class LayerNormStatisticsOfAllRows(NumpyBackend):
    """Mean and variance are those of the whole array."""

    def _mean(self, x: Array) -> Array:
        return np.full((*x.shape[:-1], 1), np.mean(x), x.dtype) if x.size else super()._mean(x)

    def _variance(self, x: Array, centred: Array) -> Array:
        return np.full((*x.shape[:-1], 1), np.mean(centred**2), x.dtype) if x.size else super()._variance(x, centred)


@mutant(killed_by=("LN-ROWS", "LN-FORMULA"))
class LayerNormOverTwoAxes(NumpyBackend):
    """Mean and variance are taken over the last two axes."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(x) if x.ndim < 2 else np.mean(x, axis=(-2, -1), keepdims=True)

    def _variance(self, x: Array, centred: Array) -> Array:
        return super()._variance(x, centred) if x.ndim < 2 else np.mean(centred**2, axis=(-2, -1), keepdims=True)


@mutant(killed_by=("LN-ROWS", "LN-FORMULA"))
class LayerNormOverRows(NumpyBackend):
    """Mean and variance are taken over the rows, element by element, as batch normalization does."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(x) if x.ndim < 2 else np.mean(x, axis=-2, keepdims=True)

    def _variance(self, x: Array, centred: Array) -> Array:
        return super()._variance(x, centred) if x.ndim < 2 else np.mean(centred**2, axis=-2, keepdims=True)


@mutant(killed_by=("LN-ROWS", "LN-FORMULA"))
class LayerNormVarianceOfTheFirstRow(NumpyBackend):
    """All rows are divided by the standard deviation of the first."""

    def _variance(self, x: Array, centred: Array) -> Array:
        variance = super()._variance(x, centred)
        return np.broadcast_to(variance.reshape(-1)[:1], variance.shape) if variance.size else variance


@mutant(killed_by=("LN-WIDTHS", "LN-FORMULA"))
class LayerNormTailDropped(NumpyBackend):
    """Mean and variance leave out what lies behind the last full block of four."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(x[..., : max(x.shape[-1] // 4 * 4, 1)])

    def _variance(self, x: Array, centred: Array) -> Array:
        full = slice(max(x.shape[-1] // 4 * 4, 1))
        return super()._variance(x[..., full], centred[..., full])


@mutant(killed_by=("LN-WIDTHS", "LN-FORMULA", "LN-MOMENTS"))
class LayerNormPaddingCounted(NumpyBackend):
    """Rows are padded with zeros to a power of two, and the variance counts how far those are from the mean."""

    def _variance(self, x: Array, centred: Array) -> Array:
        M = x.shape[-1]
        padding = (1 << (M - 1).bit_length()) - M
        mean = self._mean(x)
        return np.asarray(super()._variance(x, centred) + x.dtype.type(padding / M) * mean**2)


@mutant(killed_by=("LN-WIDTHS", "LN-FORMULA"))
class LayerNormDividedByThePaddedWidth(NumpyBackend):
    """The sum of squares is divided by the next power of two."""

    def _variance(self, x: Array, centred: Array) -> Array:
        M = x.shape[-1]
        return np.asarray(super()._variance(x, centred) * x.dtype.type(M / (1 << (M - 1).bit_length())))


@mutant(killed_by=("LN-WIDTHS",))
class LayerNormOfOneElementIsThatElement(NumpyBackend):
    """A row of one element is passed through to weight and bias."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        if x.ndim == 0 or x.shape[-1] != 1:
            return super().layer_norm(x, weight, bias, eps=eps)
        return self._affine(upcast(x), weight, bias).astype(x.dtype)


@mutant(killed_by=("LN-WIDTHS", "LN-FORMULA"))
class LayerNormInGroups(NumpyBackend):
    """Rows of 64 and more are normalized half by half."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(x) if x.shape[-1] < 64 else np.repeat(_halves(x), x.shape[-1] // 2, axis=-1)

    def _variance(self, x: Array, centred: Array) -> Array:
        if x.shape[-1] < 64:
            return super()._variance(x, centred)
        return np.repeat(_halves(centred**2), x.shape[-1] // 2, axis=-1)


def _halves(x: Array) -> Array:
    return np.asarray(np.mean(x.reshape(*x.shape[:-1], 2, -1), axis=-1))
