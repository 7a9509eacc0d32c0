"""Transformer blocks in NumPy (source 6.1; Vaswani et al. 2017; Xiong et al. 2020)."""

from collections.abc import Callable

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import (
    Memory,
    NumpyMultiHeadAttention,
    Remember,
    View,
    Weights,
    counted,
    kind,
    kinds,
    shape,
    shapes,
)
from gaugeblock.spec.blocks import Block, Dims, dims, dtypes
from gaugeblock.spec.config import AttentionConfig, BlockConfig
from gaugeblock.spec.feedforward import FeedForward
from gaugeblock.spec.normalization import LayerNorm, RMSNorm
from gaugeblock.spec.positions import LIMIT, within
from gaugeblock.spec.weights import part

Function = Callable[[Array], Array]
Sum = Callable[[Array, Array], Array]


class NumpyBlock(NumpyMultiHeadAttention, Block, FeedForward, LayerNorm, RMSNorm):
    """The stream passes the sublayers one after another; each adds to it."""

    def block(
        self,
        x: Array,
        weights: Weights,
        config: BlockConfig,
        *,
        context: Array | None = None,
        positions: Array | None = None,
        mask: Array | None = None,
        context_mask: Array | None = None,
    ) -> Array:
        d = self._check_block(x, weights, config, context, positions, mask, context_mask)
        at = counted(d.T, positions)
        memory = None
        if context is not None and config.cross is not None:
            with self._within("cross"):
                keys, values = self._project_memory(context, part(weights, "cross"), config.cross)
            memory = Memory(keys, values, context_mask)
        return self._sublayers(x, weights, config, View(at, at, mask, config.causal), memory)

    def _check_block(
        self,
        x: Array,
        weights: Weights,
        config: BlockConfig,
        context: Array | None,
        positions: Array | None,
        mask: Array | None,
        context_mask: Array | None,
    ) -> Dims:
        given = {"context": context, "positions": positions, "mask": mask, "context_mask": context_mask}
        d = dims(x.shape, shapes(weights), config, **{name: shape(a) for name, a in given.items()})
        dtypes(x.dtype.name, kinds(weights), **{name: kind(a) for name, a in given.items()})
        within("positions", positions, LIMIT, f"block({d})", rule="BLOCK-ERRORS")
        return d

    def _sublayers(
        self,
        x: Array,
        weights: Weights,
        c: BlockConfig,
        view: View,
        memory: Memory | None = None,
        remember: Remember | None = None,
    ) -> Array:
        """Self-attention, cross-attention where there is a memory, feed-forward."""

        def attention(y: Array) -> Array:
            with self._within("attention"):
                return self._self_attention(y, part(weights, "attention"), c.attention, view, remember)

        def feed_forward(y: Array) -> Array:
            return self._tap("feed_forward", self._network(y, part(weights, "feed_forward"), c))

        x = self._sublayer(x, weights, c, "attention", attention)
        if memory is not None and c.cross is not None:
            x = self._cross_sublayer(x, weights, c, c.cross, memory)
        return self._sublayer(x, weights, c, "feed_forward", feed_forward)

    def _cross_sublayer(
        self, x: Array, weights: Weights, c: BlockConfig, inner: AttentionConfig, memory: Memory
    ) -> Array:
        def cross(y: Array) -> Array:
            with self._within("cross"):
                return self._cross_attention(y, part(weights, "cross"), inner, memory)

        return self._sublayer(x, weights, c, "cross", cross)

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        """Add f to the stream, and normalise what f reads (pre) or the sum (post)."""

        def norm(y: Array) -> Array:
            return self._tap(f"{name}_norm", self._normed(y, part(weights, f"{name}_norm"), c))

        def add(stream: Array, y: Array) -> Array:
            return self._tap(f"{name}_residual", self._residual(stream, y))

        return self._pre(x, f, norm, add) if c.placement == "pre" else self._post(x, f, norm, add)

    def _pre(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        """x + f(norm(x))"""
        return add(x, f(norm(x)))

    def _post(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        """norm(x + f(x))"""
        return norm(add(x, f(x)))

    def _residual(self, x: Array, y: Array) -> Array:
        """x + y, rounded once."""
        return round_once(upcast(x) + upcast(y), x.dtype)

    def _normed(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        if c.norm == "rms":
            return np.asarray(self.rms_norm(x, weights["weight"], eps=c.eps))
        return np.asarray(self.layer_norm(x, weights["weight"], weights["bias"], eps=c.eps))

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        if c.gated:
            return np.asarray(self.swiglu(x, weights))
        return np.asarray(self.feed_forward(x, weights, activation=c.activation))
