"""Normalizations in other orders of operations, which the reference admits at the level that they declare."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfRows
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import HALF, Level

Given = Array | None
Moments = tuple[Array, Array, Array]


class Updated(NumpyBackend):
    """Mean and variance come from one pass over the row."""

    def _mean(self, x: Array) -> Array:
        n, mean, square = self._moments(x)
        self.variance = np.asarray(square / n)
        return mean

    def _variance(self, x: Array, centred: Array) -> Array:
        return self.variance

    def _moments(self, x: Array) -> Moments:
        raise NotImplementedError


def joined(a: Moments, b: Moments) -> Moments:
    """The number, mean and sum of squared deviations of two parts together (Chan, Golub and LeVeque 1983)."""
    (n, mean_a, square_a), (m, mean_b, square_b) = a, b
    delta, total = mean_b - mean_a, n + m
    return total, mean_a + delta * (m / total), square_a + square_b + delta * delta * (n * m / total)


def single(x: Array) -> Moments:
    """The moments of one element of each row."""
    return np.ones_like(x), x, np.zeros_like(x)


@correct
class LayerNormByWelford(Updated):
    """Mean and variance are updated value by value."""

    def _moments(self, x: Array) -> Moments:
        mean, square = x[..., :1], np.zeros_like(x[..., :1])
        for k in range(1, x.shape[-1]):
            delta = x[..., k : k + 1] - mean
            mean = mean + delta / x.dtype.type(k + 1)
            square = square + delta * (x[..., k : k + 1] - mean)
        return np.full_like(mean, x.shape[-1]), mean, square


@correct
class LayerNormByBlocks(Updated):
    """Mean and variance of blocks of seven are merged."""

    def _moments(self, x: Array) -> Moments:
        blocks = [x[..., n : n + 7] for n in range(0, x.shape[-1], 7)]
        parts = [self._of_block(block) for block in blocks]
        while len(parts) > 1:
            parts = [joined(parts[0], parts[1]), *parts[2:]]
        return parts[0]

    def _of_block(self, block: Array) -> Moments:
        mean = np.mean(block, axis=-1, keepdims=True)
        return np.full_like(mean, block.shape[-1]), mean, np.sum((block - mean) ** 2, axis=-1, keepdims=True)


@correct
class LayerNormByHalves(Updated):
    """Mean and variance are merged over a tree of halves."""

    def _moments(self, x: Array) -> Moments:
        parts = [single(x[..., n : n + 1]) for n in range(x.shape[-1])]
        while len(parts) > 1:
            parts = [joined(*parts[n : n + 2]) if n + 1 < len(parts) else parts[n] for n in range(0, len(parts), 2)]
        return parts[0]


@correct
class SumsOfRowsOneByOne(NumpyBackend):
    """Sums are taken element by element, from the last to the first, and multiplied by a rounded 1 / M."""

    def _mean(self, x: Array) -> Array:
        return self._by_the_reciprocal(x)

    def _variance(self, x: Array, centred: Array) -> Array:
        return self._by_the_reciprocal(centred * centred)

    def _mean_square(self, x: Array) -> Array:
        return self._by_the_reciprocal(x * x)

    def _by_the_reciprocal(self, x: Array) -> Array:
        total = np.add.accumulate(x[..., ::-1], axis=-1)[..., -1:]
        return np.asarray(total * x.dtype.type(1 / x.shape[-1]))


@correct
class LayerNormFolded(NumpyBackend):
    """One multiplication and one addition per element: x s + (b - mean s) with s = weight / deviation."""

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        result = super().layer_norm(x, weight, bias, eps=eps)
        wide = upcast(x)
        mean = self._mean(wide)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = self._inverse_deviation(self._variance(wide, wide - mean), eps)
            scale = scale if weight is None else scale * upcast(weight)
            shift = -mean * scale if bias is None else upcast(bias) - mean * scale
            return round_once(wide * scale + shift, result.dtype)


@correct
class NormsDivide(NumpyBackend):
    """Weight times row, divided by the root."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        self.root = np.sqrt(variance + variance.dtype.type(eps))
        return np.ones_like(variance)

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(super()._affine(normalized, weight, None) / self.root, None, bias)


@correct
class RMSNormWeightFirst(NumpyBackend):
    """Weight and reciprocal root are multiplied before the row is."""

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        self.inverse = super()._inverse_rms(mean_square, eps)
        return np.ones_like(mean_square)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        as_it_is = super().rms_norm(x, None, eps=eps)
        super().rms_norm(x, weight, eps=eps)
        with np.errstate(invalid="ignore", over="ignore"):
            gain = self.inverse if weight is None else self.inverse * upcast(weight)
            return round_once(upcast(x) * gain, as_it_is.dtype)


@correct
class RMSNormScaledByTheLargest(NumpyBackend):
    """Rows are divided by their largest element before they are squared, so that no square overflows."""

    def _mean_square(self, x: Array) -> Array:
        largest = np.max(np.abs(x), axis=-1, keepdims=True)
        narrow = x / np.where(largest > 0, largest, 1)
        return np.asarray(super()._mean_square(narrow) * (largest * largest))


@correct
class NormsByNewton(NumpyBackend):
    """The reciprocal root is a rough one, refined by Newton's steps."""

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return self._refined(variance + variance.dtype.type(eps))

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return self._refined(mean_square + mean_square.dtype.type(eps))

    def _refined(self, x: Array) -> Array:
        exact = 1 / np.sqrt(x)
        r = np.asarray(exact * x.dtype.type(1 + 1e-3))
        for _ in range(3):
            r = r * (x.dtype.type(1.5) - x.dtype.type(0.5) * x * r * r)
        return np.where(np.isfinite(exact), r, exact)


@correct
class SumsOfRowsInFloat64(NumpyBackend):
    """Statistics of every format are computed in float64."""

    def _mean(self, x: Array) -> Array:
        return super()._mean(x.astype(np.float64)).astype(x.dtype)

    def _variance(self, x: Array, centred: Array) -> Array:
        return super()._variance(x, centred.astype(np.float64)).astype(x.dtype)

    def _mean_square(self, x: Array) -> Array:
        return super()._mean_square(x.astype(np.float64)).astype(x.dtype)


@correct
class NormalizedRowStored(KnowsTheFormatOfRows):
    """The normalized row is stored in half precision before the weight, and after it before the bias: level fused."""

    level = {name: Level.FUSED for name in HALF}

    def _affine(self, normalized: Array, weight: Given, bias: Given) -> Array:
        return super()._affine(self._stored(super()._affine(self._stored(normalized), weight, None)), None, bias)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        normalized = super().rms_norm(x, None, eps=eps)
        checked = super().rms_norm(x, weight, eps=eps)
        return checked if weight is None else round_once(upcast(normalized) * self._gain(weight), x.dtype)


@correct
class SampleDeviationDeclared(NumpyBackend):
    """The sample deviation plus eps divides, and is declared."""

    conventions = Conventions(layer_norm_form="sample_eps_outside")

    def _variance(self, x: Array, centred: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sum(centred * centred, axis=-1, keepdims=True) / x.dtype.type(x.shape[-1] - 1))

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(variance) + variance.dtype.type(eps)))


@correct
class SampleDeviationOneByOne(SumsOfRowsOneByOne):
    """The sample deviation from a population variance, sums taken element by element; that is declared."""

    conventions = Conventions(layer_norm_form="sample_eps_outside")

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / (np.sqrt(variance * self._bessel) + variance.dtype.type(eps)))

    def _variance(self, x: Array, centred: Array) -> Array:
        M = x.shape[-1]
        self._bessel = x.dtype.type(M / max(M - 1, 1))  # a row of one has no sample deviation
        return super()._variance(x, centred)


@correct
class OnePlusWeightDeclared(NumpyBackend):
    """The weight stands for one plus itself, which is declared; the row is multiplied by it and added."""

    conventions = Conventions(rms_weight="1+w")

    def _gain(self, weight: Array) -> Array:
        return np.asarray(upcast(weight) + 1)


@correct
class EpsHeldInFloat32(NumpyBackend):
    """eps is held in float32 for float64 rows as well, which is declared."""

    conventions = Conventions(scalars="float32")

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return super()._inverse_deviation(variance, float(np.float32(eps)))

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return super()._inverse_rms(mean_square, float(np.float32(eps)))


@correct
class NormsWithoutOptions(NumpyBackend):
    """No call without weight or bias, none with eps = 0 and none without rows, which is declared."""

    unsupported = {
        **{
            f"{offer}.{name}": "as the kernel has it"
            for offer in ("layer_norm", "rms_norm")
            for name in ("weightless", "eps.zero", "empty.rows")
        },
        "layer_norm.biasless": "as the kernel has it",
    }

    def layer_norm(self, x: Array, weight: Given, bias: Given, *, eps: float) -> Array:
        self._require(x.size > 0 and weight is not None and bias is not None and eps != 0)
        return super().layer_norm(x, weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Given, *, eps: float) -> Array:
        self._require(x.size > 0 and weight is not None and eps != 0)
        return super().rms_norm(x, weight, eps=eps)

    def _require(self, holds: bool) -> None:
        if not holds:
            raise NotImplementedError("not in this kernel")
