"""Multi-head attention in JAX (source 3; Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gaugeblock.backends.jax.arrays import on_host
from gaugeblock.backends.jax.linear import layer, linear
from gaugeblock.spec.attention import Attention, Window
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.multihead import MultiHeadAttention, dims, dtypes, options
from gaugeblock.spec.positions import LIMIT, Alibi, within
from gaugeblock.spec.rotary import Rotary
from gaugeblock.spec.traced import Recorder

Weights = Mapping[str, Array]
Remember = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Sight:
    """What a query sees, and from how far: the same in every layer of a call.

    positions       (T,) or (B, T), of the queries and of the keys that come with them, None between two sequences;
    mask            bool (B|1, H|1, T|1, S|1), None where it hides nothing;
    bias            (B|1, H, T, S), None without ALiBi;
    causal, window  what goes by column, or by positions that are the columns;
    columns         how many of the S columns of a cache are filled, None without one or where that is traced.
    """

    positions: Array | None = None
    mask: Array | None = None
    bias: Array | None = None
    causal: bool = False
    window: Window | None = None
    columns: int | None = None


class JaxMultiHeadAttention(MultiHeadAttention, Attention, Rotary, Alibi, Recorder):
    """A chain of jitted functions, one for each named step; steps of which none reads another share one.

    Within one compiled function XLA may keep a step of half precision in float32, and joins a product of one step and
    a sum of the next in one rounding: no tap would be what the next step reads. And small functions are shared by all
    configurations. To compile a whole call is left to the caller's jax.jit: everything here can be traced.
    """

    def multi_head_attention(
        self,
        x: Array,
        weights: Weights,
        config: AttentionConfig,
        *,
        context: Array | None = None,
        positions: Array | None = None,
        mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        arrays = {"context": context, "positions": positions, "mask": mask}
        given = {name: array for name, array in arrays.items() if array is not None}
        options(config, crosses=context is not None, causal=causal)
        dims(x.shape, shapes(weights), config, **{name: array.shape for name, array in given.items()})
        dtypes(x.dtype.name, kinds(weights), **{name: array.dtype.name for name, array in given.items()})
        if positions is not None:
            within("positions", on_host(positions), LIMIT, "multi_head_attention", rule="MHA-ERRORS")
        if context is not None:
            return self._cross_attention(x, weights, config, self._keys_values(context, weights, config), mask)
        return self._self_attention(x, weights, config, self._sight(x, config, positions, mask, causal))

    def _sight(
        self, x: Array, config: AttentionConfig, positions: Array | None, mask: Array | None, causal: bool
    ) -> Sight:
        """What the queries of one sequence see of it."""
        window = config.window
        if positions is None:
            positions = jax.device_put(np.arange(x.shape[1]))
        elif window is not None:
            mask, window = _near(positions, mask, *sides(window)), None
        return Sight(positions, mask, self._distances(x.dtype.name, config, positions, positions), causal, window)

    def _distances(self, dtype: str, config: AttentionConfig, queries: Array, keys: Array) -> Array | None:
        return self.alibi_bias(config.heads, queries, keys, dtype=dtype) if config.alibi else None

    def _self_attention(
        self, x: Array, weights: Weights, config: AttentionConfig, sight: Sight, remember: Remember | None = None
    ) -> Array:
        """remember puts the new keys and values behind those of earlier calls, and gives all of them."""
        q, k, v = self._projected(x, weights, config, "query", "key", "value")
        q = self._turned("rotated_query", q, config, sight)
        k = self._turned("rotated_key", k, config, sight)
        if remember is not None:
            k, v = remember(k, v)
            self._tap_columns("keys", k, 2, sight)
            self._tap_columns("values", v, 2, sight)
        if sight.bias is not None:
            self._tap_columns("bias", sight.bias, 3, sight)
        return self._mixed(q, k, v, weights, config, sight)

    def _cross_attention(
        self, x: Array, weights: Weights, config: AttentionConfig, memory: tuple[Array, Array], mask: Array | None
    ) -> Array:
        """memory is keys and values, which do not change while a sequence grows."""
        (q,) = self._projected(x, weights, config, "query")
        return self._mixed(q, *memory, weights, config, Sight(mask=mask))

    def _keys_values(self, x: Array, weights: Weights, config: AttentionConfig) -> tuple[Array, Array]:
        k, v = self._projected(x, weights, config, "key", "value")
        return k, v

    def _projected(self, x: Array, weights: Weights, config: AttentionConfig, *names: str) -> list[Array]:
        """Projections of one input in one program, since none of them reads another."""
        heads = tuple(config.heads if name == "query" else config.kv_heads for name in names)
        made = _split(x, [layer(weights, name) for name in names], heads)
        return [self._tap(name, y) for name, y in zip(names, made, strict=True)]

    def _turned(self, name: str, x: Array, config: AttentionConfig, sight: Sight) -> Array:
        c = config.rotary
        if c is not None:
            p, R = sight.positions, c.rotary_dim
            x = self.rotate(x, p, base=c.base, layout=c.layout, rotary_dim=R, scaling=c.scaling)
            x = self._tap(name, x)
        return x

    def _mixed(self, q: Array, k: Array, v: Array, weights: Weights, config: AttentionConfig, sight: Sight) -> Array:
        s, scale = sight, config.scale
        mixed = self.attention(q, k, v, mask=s.mask, bias=s.bias, causal=s.causal, window=s.window, scale=scale)
        y: Array = self._tap("output", _joined(self._tap("mixed", mixed), *layer(weights, "output")))
        return y

    def _tap_columns(self, name: str, x: Array, axis: int, sight: Sight) -> None:
        """Note the filled columns of x, on the host, where another length compiles nothing."""
        if self._taps is None:
            return
        if sight.columns is not None:
            x = jax.device_put(np.take(np.asarray(x), np.arange(sight.columns), axis))
        self._tap(name, x)


def sides(window: Window | None) -> tuple[int, int]:
    """How far a window reaches to the left and to the right, None as further than any two positions lie apart."""
    left, right = window or (None, None)
    return LIMIT if left is None else min(left, LIMIT), LIMIT if right is None else min(right, LIMIT)


@partial(jax.jit, static_argnums=2)
def _split(x: Array, layers: list[tuple[Array, Array | None]], heads: tuple[int, ...]) -> list[Array]:
    """Projections, the columns of each dealt to its heads."""
    B, T, _ = x.shape
    made = [linear(x, *weights) for weights in layers]  # (B, T, n * D)
    return [y.reshape(B, T, n, y.shape[2] // n).swapaxes(1, 2) for y, n in zip(made, heads, strict=True)]


@jax.jit
def _joined(mixed: Array, weight: Array, bias: Array | None) -> Array:
    """The heads side by side, projected back."""
    B, H, T, E = mixed.shape
    return linear(mixed.swapaxes(1, 2).reshape(B, T, H * E), weight, bias)


@jax.jit
def _near(positions: Array, mask: Array | None, left: int, right: int) -> Array:
    """The mask without the keys that lie outside the window, by position."""
    p = jnp.atleast_2d(positions).astype(jnp.int32)  # unsigned ones would not go below zero
    distance = p[:, None, None, :] - p[:, None, :, None]  # (B|1, 1, T, T)
    near = (distance >= -left) & (distance <= right)
    return near if mask is None else near & mask


def shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
    """The shape of each weight."""
    return {name: w.shape for name, w in weights.items()}


def kinds(weights: Weights) -> dict[str, str]:
    """The name of the dtype of each weight."""
    return {name: w.dtype.name for name, w in weights.items()}
