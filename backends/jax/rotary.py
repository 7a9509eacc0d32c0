"""Rotary position embedding in JAX (source 4.3; Su et al. 2021)."""

from functools import partial
from math import ceil, exp, floor, log, tau

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.rotary import Integers, Rotary, dims, dtypes, in_range, options


class JaxRotary(Rotary):
    """Frequencies are made on the host in float64 and rounded once; angles are float32 (float64 for float64)."""

    def rotate(
        self,
        x: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
    ) -> Array:
        options(base, layout, rotary_dim, scaling)
        d = dims(x.shape, positions.shape, rotary_dim=rotary_dim)
        dtypes(x.dtype.name, positions.dtype.name)
        in_range(_on_host(positions))
        wide = np.float64 if x.dtype == np.float64 else np.float32
        frequencies = np.array(_frequencies(d.R, base, scaling), wide)
        turned: Array = _rotate(x, positions, frequencies, wide(_magnitude(scaling)), layout)
        return turned


@partial(jax.jit, static_argnames="layout")
def _rotate(x: Array, positions: Array, frequencies: Array, magnitude: Array, layout: Layout) -> Array:
    R = 2 * frequencies.size
    angles = jnp.expand_dims(positions, (-3, -1)).astype(frequencies.dtype) * frequencies
    cos, sin = lax.cos(angles) * magnitude, lax.sin(angles) * magnitude  # ([B, ]1, T, R/2)
    first, second = (slice(R // 2), slice(R // 2, R)) if layout == "half" else (slice(0, R, 2), slice(1, R, 2))
    a, b = (x[..., part].astype(frequencies.dtype) for part in (first, second))
    pairs = (a * cos - b * sin).astype(x.dtype), (b * cos + a * sin).astype(x.dtype)
    turned = jnp.concatenate(pairs, -1) if layout == "half" else jnp.stack(pairs, -1).reshape(*x.shape[:-1], R)
    return jnp.concatenate([turned, x[..., R:]], axis=-1)


def _frequencies(R: int, base: float, scaling: Scaling | None) -> list[float]:
    """The frequencies of the R/2 pairs."""
    match scaling:
        case None:
            return [base ** (-2 * i / R) for i in range(R // 2)]
        case Linear(factor):
            return [w / factor for w in _frequencies(R, base, None)]
        case NTK(alpha):
            grown = 0.0 if R == 2 else log(alpha) * R / (R - 2)
            return [exp(-2 * i / R * (log(base) + grown)) for i in range(R // 2)]
        case YaRN():
            kept = _yarn_kept(R, base, scaling)
        case Llama3():
            kept = [_llama3_kept(w, scaling) for w in _frequencies(R, base, None)]
    return [w * (k + (1 - k) / scaling.factor) for w, k in zip(_frequencies(R, base, None), kept, strict=True)]


def _yarn_kept(R: int, base: float, s: YaRN) -> list[float]:
    """How much of each pair keeps its frequency."""
    low, high = (R / 2 * log(s.original / (tau * turns), base) for turns in (s.fast, s.slow))
    low, high = (float(floor(low)), float(ceil(high))) if s.truncate else (low, high)
    low, high = min(max(low, 0.0), R - 1.0), min(max(high, 0.0), R - 1.0)
    width = high - low if high > low else 0.001
    return [1 - min(max((i - low) / width, 0.0), 1.0) for i in range(R // 2)]


def _llama3_kept(w: float, s: Llama3) -> float:
    wavelength = tau / w
    if wavelength < s.original / s.high:
        return 1.0
    if wavelength > s.original / s.low:
        return 0.0
    return (s.original / wavelength - s.low) / (s.high - s.low)


def _magnitude(scaling: Scaling | None) -> float:
    match scaling:
        case YaRN(factor, attention_factor=None):
            return 1.0 if factor <= 1 else 1.0 + 0.1 * log(factor)
        case YaRN(attention_factor=float() | int() as given):
            return float(given)
    return 1.0


def _on_host(x: Array) -> Integers | None:
    """The values of an array that lies on the CPU; None where they are traced, or lie on a device."""
    if isinstance(x, Tracer) or any(d.platform != "cpu" for d in x.devices()):
        return None
    return np.asarray(x)
