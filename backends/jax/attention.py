"""Scaled dot-product attention in JAX (source 2.1-2.2; Vaswani et al. 2017, eq. 1)."""

from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from gaugeblock.spec.attention import Attention, SoftCapped, Window, cap, dims, dtypes, options


class JaxAttention(Attention, SoftCapped):
    """One jitted function; the options are traced, so that only shapes and dtypes compile anew."""

    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        return self._attend(q, k, v, mask, bias, causal, window, scale, None)

    def soft_capped_attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        softcap: float,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        cap(softcap)
        return self._attend(q, k, v, mask, bias, causal, window, scale, softcap)

    def _attend(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        bias: Array | None,
        causal: bool,
        window: Window | None,
        scale: float | None,
        softcap: float | None,
    ) -> Array:
        d = dims(q.shape, k.shape, v.shape, mask=_shape(mask), bias=_shape(bias))
        dtypes(_name(q), _name(k), _name(v), mask=_dtype(mask), bias=_dtype(bias))
        options(window, scale)
        past = d.S - d.T  # the last query stands at the last key
        left, right = (d.T + d.S if side is None else min(side, d.T + d.S) for side in window or (None, None))
        first, last = past - left, past + (0 if causal else right)
        mixed: Array = _attention(q, k, v, mask, bias, first, last, 1 / sqrt(d.D) if scale is None else scale, softcap)
        return mixed


@jax.jit
def _attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    bias: Array | None,
    first: int,
    last: int,
    scale: float,
    softcap: float | None = None,
) -> Array:
    """Query t sees the keys t + first to t + last."""
    wide = jnp.promote_types(q.dtype, jnp.float32)
    (B, H, T, D), (_, K, S, E) = q.shape, v.shape
    grouped = q.reshape(B, K, H // K * T, D)  # the queries that share a key head, as rows of one matrix
    scores = jnp.einsum(
        "bknd,bksd->bkns", grouped, k, preferred_element_type=wide, precision=lax.Precision.HIGHEST
    ).reshape(B, H, T, S) * jnp.asarray(scale, wide)
    if softcap is not None:
        cap_of = jnp.asarray(softcap, wide)
        scores = cap_of * jnp.tanh(scores / cap_of)
    ahead = jnp.subtract(*(lax.broadcasted_iota(int, (T, S), axis) for axis in (1, 0)))
    visible = (ahead >= first) & (ahead <= last)
    if mask is not None:
        visible = visible & mask
    if bias is not None:
        scores = scores + bias.astype(wide)
        visible = visible & (bias > -jnp.inf)
    weights = _softmax(jnp.where(visible, scores, -jnp.inf))
    mixed = jnp.einsum(
        "bkns,bkse->bkne", weights.reshape(B, K, H // K * T, S), v.astype(wide), precision=lax.Precision.HIGHEST
    )
    return mixed.reshape(B, H, T, E).astype(q.dtype)


def _softmax(scores: Array) -> Array:
    """Over the last axis; a row of -inf gives zeros."""
    least = float(np.finfo(scores.dtype).min)
    largest = lax.stop_gradient(scores.max(axis=-1, keepdims=True, initial=least))
    grown = jnp.exp(scores - largest)
    total = grown.sum(axis=-1, keepdims=True)
    return grown / (total + (total == 0))


def _shape(x: Array | None) -> tuple[int, ...] | None:
    return None if x is None else x.shape


def _name(x: Array) -> str:
    return x.dtype.name


def _dtype(x: Array | None) -> str | None:
    return None if x is None else _name(x)
