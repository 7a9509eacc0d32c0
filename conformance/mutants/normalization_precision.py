"""Normalizations in formats that are narrower than the declared level allows."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention_precision import kept_bits
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfRows, stored
from gaugeblock.spec.precision import BFLOAT16, FLOAT16, HALF

Given = Array | None


@mutant(
    killed_by=("RMS-LARGE", "RMS-FORMULA"),
    reports=(
        "pytorch/pytorch#133085",
        "pytorch/pytorch#134106",
        "nntrainer/nntrainer#3935",
        "jingyaogong/minimind#301",
    ),
    catalogue="M42",
    dtypes=("float16",),
)
class RMSNormSquaresInHalf(NumpyBackend):
    """Squares are formed in float16: they overflow above 255, and underflow below 2e-4."""

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(np.mean(stored(x * x, FLOAT16), axis=-1, keepdims=True))


@mutant(killed_by=("LN-LARGE", "LN-FORMULA"), dtypes=("float16",))
class LayerNormSquaresInHalf(NumpyBackend):
    """Squares of the centred row are formed in float16."""

    def _variance(self, x: Array, centred: Array) -> Array:
        return np.asarray(np.mean(stored(centred * centred, FLOAT16), axis=-1, keepdims=True))


@mutant(killed_by=("LN-LARGE",), dtypes=("float16",))
class LayerNormSumInHalf(NumpyBackend):
    """The sum behind the mean is kept in float16."""

    def _mean(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            total = np.add.accumulate(x.astype(np.float16), axis=-1)[..., -1:]
        return np.asarray(total.astype(x.dtype) / x.dtype.type(x.shape[-1]))


@mutant(killed_by=("LN-LARGE-MEAN", "LN-FORMULA", "LN-SHIFT"), dtypes=HALF)
class LayerNormMeanInHalf(KnowsTheFormatOfRows):
    """The mean is rounded to half precision."""

    def _mean(self, x: Array) -> Array:
        return stored(super()._mean(x), self.io)


@mutant(killed_by=("LN-FORMULA",), dtypes=HALF)
class LayerNormInverseInHalf(KnowsTheFormatOfRows):
    """The reciprocal deviation is rounded to half precision."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return stored(super()._inverse_deviation(variance, eps), self.io)


@mutant(
    killed_by=("RMS-FORMULA",),
    reports=("pytorch/pytorch#189581", "amd/IRON#139", "pytorch/pytorch#147203"),
    dtypes=HALF,
)
class RMSNormInverseInHalf(KnowsTheFormatOfRows):
    """The reciprocal root is rounded to half precision."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return stored(super()._inverse_rms(mean_square, eps), self.io)


@mutant(killed_by=("RMS-FORMULA",), reports=("amd/IRON#139",))
class RMSNormInverseOfTwelveBits(NumpyBackend):
    """The reciprocal root is the twelve bits that a fast instruction gives, without the step that refines them."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return kept_bits(super()._inverse_rms(mean_square, eps), 12)


@mutant(killed_by=("LN-FORMULA",))
class LayerNormInverseOfSixteenBits(NumpyBackend):
    """The reciprocal root is good to 16 bits."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return kept_bits(super()._inverse_deviation(variance, eps), 16)


@mutant(killed_by=("RMS-FORMULA", "RMS-WEIGHT"), reports=("pytorch/pytorch#147203",), dtypes=HALF)
class RMSNormStoredButDeclaredStrict(KnowsTheFormatOfRows):
    """The normalized row is rounded before the weight, and level strict is declared."""

    def _mean_square(self, x: Array) -> Array:
        self.row = x
        return super()._mean_square(x)

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        """What takes each element to its normalized value in half precision."""
        inverse = super()._inverse_rms(mean_square, eps)
        return np.where(
            self.row == 0, inverse, stored(self.row * inverse, self.io) / np.where(self.row == 0, 1, self.row)
        )


@mutant(killed_by=("LN-FORMULA", "LN-AFFINE"), dtypes=HALF)
class LayerNormStoredButDeclaredStrict(KnowsTheFormatOfRows):
    """The normalized row is rounded before weight and bias, and level strict is declared."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(stored(normalized, self.io), weight, bias)


@mutant(killed_by=("LN-FORMULA", "LN-AFFINE"), dtypes=HALF)
class LayerNormScaledStoredButDeclaredStrict(KnowsTheFormatOfRows):
    """The row is rounded between weight and bias, and level strict is declared."""

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(stored(super()._affine(normalized, weight, None), self.io), None, bias)


@mutant(killed_by=("RMS-FORMULA",), dtypes=("bfloat16",))
class RMSNormTruncated(NumpyBackend):
    """The result is cut to bfloat16 instead of rounded."""

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        if x.dtype != BFLOAT16.dtype or (weight is not None and weight.dtype != x.dtype):
            return super().rms_norm(x, weight, eps=eps)
        wide = super().rms_norm(upcast(x), None if weight is None else upcast(weight), eps=eps)
        return (wide.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(x.dtype)


@mutant(killed_by=("LN-FORMULA", "LN-SHIFT", "RMS-FORMULA"), dtypes=("float64",))
class NormsOfFloat64InFloat32(NumpyBackend):
    """float64 is accepted, computed in float32 and converted back."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        x, weight, bias = (_narrow(a) for a in (x, weight, bias))  # type: ignore[assignment]
        return super().layer_norm(x, weight, bias, eps=eps).astype(np.float64)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        x, weight = (_narrow(a) for a in (x, weight))  # type: ignore[assignment]
        return super().rms_norm(x, weight, eps=eps).astype(np.float64)


@mutant(killed_by=("LN-EPS-INSIDE", "RMS-EPS-INSIDE"), dtypes=("float64",))
class EpsInFloat32(NumpyBackend):
    """eps is held in float32 for float64 rows, and nothing is declared."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, float(np.float32(eps)))

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, float(np.float32(eps)))


def _narrow(x: Given) -> Given:
    return x.astype(np.float32) if x is not None and x.dtype == np.float64 else x
