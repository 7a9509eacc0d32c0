"""The formulas of every layer, as one reads them, on float64 or complex arrays.

They take any number of leading axes, and every one of them is analytic in its float arguments (comparisons look at
real parts), so that a derivative is the imaginary part of a complex step (Squire and Trapp 1998). Errors are none of
their business: the bounded functions beside them know what may be lost, and these two writings check each other.
"""

from collections.abc import Mapping
from math import pi, sqrt
from typing import Any

import numpy as np

from gaugeblock.spec.config import Norm, RotaryConfig
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference.bounded import Bits
from gaugeblock.spec.reference.feedforward import CUBIC, normal_cdf, sigmoid
from gaugeblock.spec.reference.rotary import entries, frequencies, pairs
from gaugeblock.spec.rotary import dims as rotary_dims

Numbers = Any  # float64 or complex128 arrays
Weights = Mapping[str, Numbers]


def linear(x: Numbers, weights: Weights, layer: str) -> Numbers:
    """x @ W + b; x (..., T, in), W (in, out), b (out,) -> (..., T, out)."""
    y = x @ weights[f"{layer}.weight"]
    return y + weights[f"{layer}.bias"] if f"{layer}.bias" in weights else y


def split(x: Numbers, heads: int) -> Numbers:
    """Columns to heads: (..., T, heads * D) -> (..., heads, T, D); head h takes the columns from h * D on."""
    parted = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
    return np.swapaxes(parted, -3, -2)


def join(x: Numbers) -> Numbers:
    """Heads to columns: (..., H, T, E) -> (..., T, H * E)."""
    side_by_side = np.swapaxes(x, -3, -2)
    return side_by_side.reshape(*side_by_side.shape[:-2], x.shape[-3] * x.shape[-1])


def rotate(x: Numbers, positions: Numbers, config: RotaryConfig) -> Numbers:
    """Each pair turned by its position times its frequency; x (..., B, H, T, D), positions (T,) or (B, T)."""
    d = rotary_dims(x.shape[-4:], np.shape(positions), rotary_dim=config.rotary_dim)
    w = frequencies(d, config.base, config.scaling, EXACT)
    table = entries(w, positions, config.scaling, EXACT)
    first, second = pairs(d, config.layout)
    a, b = x[..., first], x[..., second]
    turned = np.array(x)
    turned[..., first] = a * table.cos.value - b * table.sin.value
    turned[..., second] = b * table.cos.value + a * table.sin.value
    return turned


def attention(
    q: Numbers, k: Numbers, v: Numbers, *, visible: Bits, scale: float | None = None, bias: Numbers | None = None
) -> Numbers:
    """softmax(scale q k^T + bias) over the visible keys, times v; no visible key gives zeros.

    q (..., H, T, D), k (..., K, S, D), v (..., K, S, E), visible and bias broadcast to (..., H, T, S)
    -> (..., H, T, E).
    """
    group = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, group, axis=-3) for x in (k, v))  # (..., H, S, D) and (..., H, S, E)
    s = (1 / sqrt(q.shape[-1]) if scale is None else scale) * (q @ np.swapaxes(k, -1, -2))
    s = s if bias is None else s + bias
    m = np.max(np.where(visible, np.real(s), -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(visible, np.exp(np.where(visible, s - np.where(np.isfinite(m), m, 0.0), 0.0)), 0.0)
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total) @ v


def norm(x: Numbers, weights: Weights, kind: Norm, eps: float) -> Numbers:
    """RMSNorm or LayerNorm with its weight, and bias where it has one; x (..., M)."""
    centred = x - np.mean(x, axis=-1, keepdims=True) if kind == "layer" else x
    scaled = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    y = scaled * weights["weight"]
    return y + weights["bias"] if "bias" in weights else y


def activation(x: Numbers, name: str) -> Numbers:
    """relu, gelu (by erf), gelu_tanh or silu, elementwise."""
    if name == "relu":
        return np.where(np.real(x) > 0, x, 0.0)
    if name == "gelu":
        return x * normal_cdf(x)
    if name == "gelu_tanh":
        return x / 2 * (1 + np.tanh(sqrt(2 / pi) * (x + CUBIC * x * x * x)))
    return x * sigmoid(x)


def feed_forward(x: Numbers, weights: Weights, name: str, *, gated: bool) -> Numbers:
    """The network with or without a gate; x (..., M) -> (..., M)."""
    if gated:
        return linear(activation(linear(x, weights, "gate"), "silu") * linear(x, weights, "up"), weights, "down")
    return linear(activation(linear(x, weights, "up"), name), weights, "down")
