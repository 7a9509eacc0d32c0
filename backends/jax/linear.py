"""The linear layer of every composition in JAX."""

from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array, lax


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """x @ weight + bias, summed in at least float32, whatever the device's own choice, and rounded once.

    x (..., in), weight (in, out), bias (out,) or None -> (..., out) of x's dtype.
    """
    wide = jnp.promote_types(x.dtype, jnp.float32)
    y = jnp.matmul(x, weight, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return (y if bias is None else y + bias.astype(wide)).astype(x.dtype)


def layer(weights: Mapping[str, Array], name: str) -> tuple[Array, Array | None]:
    """The weight of a linear layer, and its bias where it has one."""
    return weights[f"{name}.weight"], weights.get(f"{name}.bias")
