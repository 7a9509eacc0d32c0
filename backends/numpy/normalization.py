"""LayerNorm and RMSNorm in NumPy (source 6.2; Ba et al. 2016; Zhang & Sennrich 2019)."""

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.normalization import LayerNorm, RMSNorm, dims, dtypes, options


class NumpyLayerNorm(LayerNorm):
    """LayerNorm as one reads it: centre, divide by the standard deviation, weight, bias."""

    def layer_norm(self, x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
        dims(x.shape, _shape(weight), _shape(bias), method="layer_norm")
        dtypes(x.dtype.name, _dtype(weight), _dtype(bias), method="layer_norm")
        options(eps, method="layer_norm")
        wide = upcast(x)
        centred = wide - self._mean(wide)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 for a row of zeros without eps
            normalized = centred * self._inverse_deviation(self._variance(wide, centred), eps)
            return round_once(self._affine(normalized, weight, bias), x.dtype)

    def _mean(self, x: Array) -> Array:
        return np.asarray(np.mean(x, axis=-1, keepdims=True))

    def _variance(self, x: Array, centred: Array) -> Array:
        """The population variance in two passes: E[x²] - E[x]² cancels where the mean is large."""
        return np.asarray(np.mean(centred * centred, axis=-1, keepdims=True))

    def _inverse_deviation(self, variance: Array, eps: float) -> Array:
        return np.asarray(1 / np.sqrt(variance + variance.dtype.type(eps)))

    def _affine(self, normalized: Array, weight: Array | None, bias: Array | None) -> Array:
        scaled = normalized if weight is None else normalized * upcast(weight)
        return scaled if bias is None else scaled + upcast(bias)


class NumpyRMSNorm(RMSNorm):
    """RMSNorm as one reads it: divide by the root mean square, weight."""

    def rms_norm(self, x: Array, weight: Array | None, *, eps: float) -> Array:
        dims(x.shape, _shape(weight), method="rms_norm")
        dtypes(x.dtype.name, _dtype(weight), method="rms_norm")
        options(eps, method="rms_norm")
        wide = upcast(x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 for a row of zeros without eps
            normalized = wide * self._inverse_rms(self._mean_square(wide), eps)
            return round_once(normalized if weight is None else normalized * self._gain(weight), x.dtype)

    def _mean_square(self, x: Array) -> Array:
        return np.asarray(np.mean(x * x, axis=-1, keepdims=True))

    def _inverse_rms(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(1 / np.sqrt(mean_square + mean_square.dtype.type(eps)))

    def _gain(self, weight: Array) -> Array:
        return upcast(weight)


def _shape(x: Array | None) -> tuple[int, ...] | None:
    return None if x is None else x.shape


def _dtype(x: Array | None) -> str | None:
    return None if x is None else x.dtype.name
