"""Activations and feed-forward networks in JAX (source 6.3; Vaswani et al. 2017, eq. 2; Shazeer 2020, eq. 6)."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from gaugeblock.spec.feedforward import (
    Activations,
    FeedForward,
    dtypes,
    elementwise,
    feed_forward_dims,
    swiglu_dims,
)


class JaxActivations(Activations):
    """The functions of jax.nn, in at least float32: on half precision they compute in half precision."""

    def relu(self, x: Array) -> Array:
        elementwise(x.dtype.name)
        y: Array = _relu(x)
        return y

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        elementwise(x.dtype.name, approximate=approximate)
        y: Array = _gelu(x, approximate == "tanh")
        return y

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        elementwise(x.dtype.name, beta=beta)
        y: Array = _silu(x, beta)
        return y


class JaxFeedForward(FeedForward):
    """One jitted function for each network; nothing leaves float32 before the result."""

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        feed_forward_dims(x.shape, {name: w.shape for name, w in weights.items()}, activation)
        dtypes(x.dtype.name, {name: w.dtype.name for name, w in weights.items()}, "feed_forward")
        y: Array = _feed_forward(x, dict(weights), activation)
        return y

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        swiglu_dims(x.shape, {name: w.shape for name, w in weights.items()})
        dtypes(x.dtype.name, {name: w.dtype.name for name, w in weights.items()}, "swiglu")
        y: Array = _swiglu(x, dict(weights))
        return y


@jax.jit
def _relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


@partial(jax.jit, static_argnums=1)
def _gelu(x: Array, approximate: bool) -> Array:
    return jax.nn.gelu(_wide(x), approximate=approximate).astype(x.dtype)


@jax.jit
def _silu(x: Array, beta: float) -> Array:
    wide = _wide(x)
    return (wide * jax.nn.sigmoid(jnp.asarray(beta, wide.dtype) * wide)).astype(x.dtype)


@partial(jax.jit, static_argnums=2)
def _feed_forward(x: Array, weights: dict[str, Array], activation: str) -> Array:
    hidden = _linear(_wide(x), weights, "up")
    return _linear(_activate(hidden, activation), weights, "down").astype(x.dtype)


@jax.jit
def _swiglu(x: Array, weights: dict[str, Array]) -> Array:
    wide = _wide(x)
    gated = jax.nn.silu(_linear(wide, weights, "gate")) * _linear(wide, weights, "up")
    return _linear(gated, weights, "down").astype(x.dtype)


def _activate(hidden: Array, activation: str) -> Array:
    if activation == "relu":
        return jax.nn.relu(hidden)
    if activation == "silu":
        return jax.nn.silu(hidden)
    return jax.nn.gelu(hidden, approximate=activation == "gelu_tanh")


def _linear(x: Array, weights: dict[str, Array], layer: str) -> Array:
    y = jnp.matmul(x, weights[f"{layer}.weight"].astype(x.dtype), precision=lax.Precision.HIGHEST)
    bias = weights.get(f"{layer}.bias")
    return y if bias is None else y + bias.astype(x.dtype)


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
