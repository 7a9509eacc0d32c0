"""Multi-head attention in NumPy (source 3; Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.attention import Attention, Window
from gaugeblock.spec.config import AttentionConfig, RotaryConfig
from gaugeblock.spec.multihead import Dims, MultiHeadAttention, dims, dtypes, options
from gaugeblock.spec.positions import LIMIT, Alibi, within
from gaugeblock.spec.rotary import Rotary
from gaugeblock.spec.traced import Recorder

Weights = Mapping[str, Array]
Remember = Callable[[Array, Array], tuple[Array, Array]]  # new keys and values -> all that attention reads


class View(NamedTuple):
    """What the queries of a layer may see, and where queries and keys stand.

    queries (T,) or (B, T) and keys (S,) or (B, S) are positions; mask (B|1, H|1, T|1, S|1), None where all are seen;
    causal goes by column, and the last query is in the column of the last key.
    """

    queries: Array
    keys: Array
    mask: Array | None = None
    causal: bool = False


class Memory(NamedTuple):
    """Another sequence as cross-attention reads it: keys (B, K, S, D), values (B, K, S, E), mask as in a view."""

    keys: Array
    values: Array
    mask: Array | None = None


class NumpyMultiHeadAttention(Recorder, MultiHeadAttention, Attention, Rotary, Alibi):
    """Project, split, attend, join, project."""

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
        d = self._check_multi_head(x, weights, config, context, positions, mask)
        options(config, crosses=context is not None, causal=causal)
        if context is not None:
            keys, values = self._project_memory(context, weights, config)
            return self._cross_attention(x, weights, config, Memory(keys, values, mask))
        at = counted(d.T, positions)
        return self._self_attention(x, weights, config, View(at, at, mask, causal))

    def _check_multi_head(
        self,
        x: Array,
        weights: Weights,
        config: AttentionConfig,
        context: Array | None,
        positions: Array | None,
        mask: Array | None,
    ) -> Dims:
        given = {"context": context, "positions": positions, "mask": mask}
        d = dims(x.shape, shapes(weights), config, **{name: shape(a) for name, a in given.items()})
        dtypes(x.dtype.name, kinds(weights), **{name: kind(a) for name, a in given.items()})
        within("positions", positions, LIMIT, f"multi_head_attention({d})", rule="MHA-ERRORS")
        return d

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        """Attention of a sequence on itself, and on the keys of earlier calls where these are remembered."""
        q = self._tap("query", self._split(self._project(x, weights, "query"), c.heads))
        k = self._tap("key", self._split(self._project(x, weights, "key"), c.kv_heads))
        v = self._tap("value", self._split(self._project(x, weights, "value"), c.kv_heads))
        if c.rotary is not None:
            q, k = self._rotated(q, k, view.queries, c.rotary)
        if remember is not None:
            k, v = remember(k, v)
        mask, bias = self._visible_keys(view, c.window), self._distance_bias(view, c, x.dtype.name)
        mixed = self._tap(
            "mixed", self.attention(q, k, v, mask=mask, bias=bias, causal=view.causal, scale=self._score_scale(c))
        )
        return self._output(mixed, weights)

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        """Attention of one sequence on another: neither has a place in the order of the other."""
        q = self._tap("query", self._split(self._project(x, weights, "query"), c.heads))
        k, v, mask = memory
        mixed = self._tap("mixed", self.attention(q, k, v, mask=mask, scale=self._score_scale(c)))
        return self._output(mixed, weights)

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        """The keys (B, K, S, D) and values (B, K, S, E) of another sequence."""
        k = self._tap("key", self._split(self._project(context, weights, "key"), c.kv_heads))
        v = self._tap("value", self._split(self._project(context, weights, "value"), c.kv_heads))
        return k, v

    def _output(self, mixed: Array, weights: Weights) -> Array:
        return self._tap("output", self._project(self._join(mixed), weights, "output"))

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        """x @ weight + bias, rounded once."""
        y = upcast(x) @ upcast(weights[f"{layer}.weight"])
        bias = weights.get(f"{layer}.bias")
        return round_once(y if bias is None else y + upcast(bias), x.dtype)

    def _split(self, x: Array, heads: int) -> Array:
        """The columns of each head by themselves."""
        B, T, width = x.shape
        return x.reshape(B, T, heads, width // heads).swapaxes(1, 2)  # (B, H, T, D)

    def _join(self, mixed: Array) -> Array:
        """The heads side by side."""
        B, H, T, E = mixed.shape
        return mixed.swapaxes(1, 2).reshape(B, T, H * E)

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        """Queries and keys turned by the positions of their tokens; values stay."""
        return (
            self._tap("rotated_query", self._rotate_heads(q, positions, rotary)),
            self._tap("rotated_key", self._rotate_heads(k, positions, rotary)),
        )

    def _rotate_heads(self, x: Array, positions: Array, c: RotaryConfig) -> Array:
        return np.asarray(
            self.rotate(x, positions, base=c.base, layout=c.layout, rotary_dim=c.rotary_dim, scaling=c.scaling)
        )

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        """What the mask and the window both let through; causality is left to attention."""
        if window is None:
            return view.mask
        near = self._near(view, window)
        return near if view.mask is None else near & view.mask

    def _near(self, view: View, window: Window) -> Array:
        """-left <= p_j - p_i <= right, where p are positions: bool (B|1, 1, T, S)."""
        away = np.atleast_2d(view.keys)[:, None, None, :] - np.atleast_2d(view.queries)[:, None, :, None]
        left, right = window
        near = np.ones(away.shape, bool)
        if left is not None:
            near = near & (away >= -left)
        if right is not None:
            near = near & (away <= right)
        return near

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        """ALiBi (B|1, H, T, S), where it is configured."""
        if not c.alibi:
            return None
        return np.asarray(self._tap("bias", self.alibi_bias(c.heads, view.queries, view.keys, dtype=dtype)))

    def _score_scale(self, c: AttentionConfig) -> float | None:
        return c.scale


def counted(T: int, positions: Array | None) -> Array:
    """Positions, 0 to T - 1 where none are given; signed, because they are subtracted."""
    return np.arange(T) if positions is None else positions.astype(np.int64)


def shape(x: Array | None) -> tuple[int, ...] | None:
    return None if x is None else x.shape


def kind(x: Array | None) -> str | None:
    return None if x is None else x.dtype.name


def shapes(weights: Weights) -> dict[str, tuple[int, ...]]:
    return {name: w.shape for name, w in weights.items()}


def kinds(weights: Weights) -> dict[str, str]:
    return {name: w.dtype.name for name, w in weights.items()}
