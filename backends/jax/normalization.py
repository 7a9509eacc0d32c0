"""LayerNorm and RMSNorm in JAX (source 6.2; Ba et al. 2016; Zhang & Sennrich 2019)."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from gaugeblock.spec.normalization import LayerNorm, RMSNorm, dims, dtypes, options


class JaxLayerNorm(LayerNorm):
    """One jitted function; eps is traced, so that only shapes and dtypes compile anew."""

    def layer_norm(self, x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
        dims(x.shape, _shape(weight), _shape(bias), method="layer_norm")
        dtypes(x.dtype.name, _dtype(weight), _dtype(bias), method="layer_norm")
        options(eps, method="layer_norm")
        normalized: Array = _layer_norm(x, weight, bias, float(eps))
        return normalized


class JaxRMSNorm(RMSNorm):
    """One jitted function; eps is traced, so that only shapes and dtypes compile anew."""

    def rms_norm(self, x: Array, weight: Array | None, *, eps: float) -> Array:
        dims(x.shape, _shape(weight), method="rms_norm")
        dtypes(x.dtype.name, _dtype(weight), method="rms_norm")
        options(eps, method="rms_norm")
        normalized: Array = _rms_norm(x, weight, float(eps))
        return normalized


@jax.jit
def _layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    wide = jnp.promote_types(x.dtype, jnp.float32)
    row = x.astype(wide)
    centred = row - jnp.mean(row, axis=-1, keepdims=True)
    variance = jnp.mean(lax.square(centred), axis=-1, keepdims=True)  # in two passes, unlike E[x²] - E[x]²
    y = centred * lax.rsqrt(variance + jnp.asarray(eps, wide))
    y = y if weight is None else y * weight.astype(wide)
    y = y if bias is None else y + bias.astype(wide)
    return y.astype(x.dtype)


@jax.jit
def _rms_norm(x: Array, weight: Array | None, eps: float) -> Array:
    wide = jnp.promote_types(x.dtype, jnp.float32)
    row = x.astype(wide)
    mean_square = jnp.mean(lax.square(row), axis=-1, keepdims=True)
    y = row * lax.rsqrt(mean_square + jnp.asarray(eps, wide))
    return (y if weight is None else y * weight.astype(wide)).astype(x.dtype)


def _shape(x: Array | None) -> tuple[int, ...] | None:
    return None if x is None else x.shape


def _dtype(x: Array | None) -> str | None:
    return None if x is None else x.dtype.name
