"""Sinusoidal, learned and ALiBi positions in JAX (source 4.2, 4.4; Vaswani et al. 2017; Press et al. 2022)."""

from functools import partial
from math import log2
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from gaugeblock.spec import positions as rules
from gaugeblock.spec.errors import DTypeError, refuse
from gaugeblock.spec.positions import Alibi, Integers, LearnedPositions, Sinusoidal
from gaugeblock.spec.precision import FORMATS


class JaxSinusoidal(Sinusoidal):
    """Frequencies are made on the host in float64 and rounded once; angles in float32 unless float64 is asked for."""

    def sinusoidal(self, positions: Array, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Array:
        rules.sinusoidal(positions.shape, positions.dtype.name, _on_host(positions), dim, base, dtype)
        _known(dtype)
        frequencies = np.exp2(-np.arange(0, dim, 2) * (log2(base) / dim))
        table: Array = _waves(positions, frequencies.astype(_wide(dtype)), dtype)
        return table


class JaxLearnedPositions(LearnedPositions):
    """A gather; a position that is traced, and lies outside the table, gives a row of NaN."""

    def learned_positions(self, table: Array, positions: Array) -> Array:
        rules.learned(table.shape, table.dtype.name, positions.shape, positions.dtype.name, _on_host(positions))
        rows: Array = _rows(table, positions)
        return rows


class JaxAlibi(Alibi):
    """Slopes by the authors' recursion on the number of heads, made on the host."""

    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Array:
        rules.alibi(n_heads, dtype)
        _known(dtype)
        slopes: Array = jax.device_put(np.asarray(_slopes(n_heads)).astype(FORMATS[dtype].dtype))
        return slopes

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        query, key = ((p.shape, p.dtype.name, _on_host(p)) for p in (query_positions, key_positions))
        rules.alibi_bias(n_heads, query, key, dtype)
        _known(dtype)
        slopes = np.asarray(_slopes(n_heads), _wide(dtype))
        if query[2] is None or key[2] is None:
            there: Array = _bias_there(slopes, query_positions, key_positions, dtype)
            return there
        here: Array = jax.device_put(_bias(np, slopes, query[2], key[2], dtype))
        return here


@partial(jax.jit, static_argnames="dtype")
def _waves(positions: Array, frequencies: Array, dtype: str) -> Array:
    angles = positions[..., None].astype(frequencies.dtype) * frequencies
    pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return pairs.reshape(*positions.shape, 2 * frequencies.size).astype(dtype)


@jax.jit
def _rows(table: Array, positions: Array) -> Array:
    return table.at[positions].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


@partial(jax.jit, static_argnames="dtype")
def _bias_there(slopes: Array, query: Array, key: Array, dtype: str) -> Array:
    bias: Array = _bias(jnp, slopes, query, key, dtype)
    return bias


def _bias(xp: Any, slopes: Any, query: Any, key: Any, dtype: str) -> Any:
    """The same in jax.numpy or in numpy: what lies on the CPU needs nothing compiled."""
    i, j = (xp.atleast_2d(p).astype(xp.int32) for p in (query, key))  # unsigned differences would wrap
    distance = xp.abs(i[:, None, :, None] - j[:, None, None, :])  # (B, 1, T, S)
    return (-slopes[:, None, None] * distance.astype(slopes.dtype)).astype(FORMATS[dtype].dtype)


def _slopes(n: int) -> list[float]:
    lower = 2 ** (n.bit_length() - 1)
    if n == lower:
        return [2.0 ** (-8 * h / n) for h in range(1, n + 1)]
    return _slopes(lower) + _slopes(2 * lower)[::2][: n - lower]


def _on_host(x: Array) -> Integers | None:
    """The values of an array that lies on the CPU; None where they are traced, or lie on a device."""
    if isinstance(x, Tracer) or any(d.platform != "cpu" for d in x.devices()):
        return None
    return np.asarray(x)


def _wide(dtype: str) -> type[np.floating]:
    return np.float64 if dtype == "float64" else np.float32


def _known(dtype: str) -> None:
    """Refuse float64 while 64-bit mode is off, where JAX would narrow it without a word."""
    if dtype == "float64" and not jax.config.read("jax_enable_x64"):
        raise refuse(DTypeError, "POS-ERRORS", "float64 needs 64-bit mode; use the backend jax@x64", "positions")
