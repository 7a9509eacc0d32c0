"""Transformer blocks in JAX (source 6.1; Vaswani et al. 2017; Xiong et al. 2020, figure 1)."""

from collections.abc import Callable

from jax import Array

from gaugeblock.backends.jax.arrays import on_host
from gaugeblock.backends.jax.multihead import JaxMultiHeadAttention, Weights, kinds, shapes
from gaugeblock.spec.blocks import Block, dims, dtypes
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.feedforward import FeedForward
from gaugeblock.spec.normalization import LayerNorm, RMSNorm
from gaugeblock.spec.positions import LIMIT, within
from gaugeblock.spec.weights import part

Sublayer = Callable[[Array, Weights], Array]


class JaxBlock(JaxMultiHeadAttention, Block, LayerNorm, RMSNorm, FeedForward):
    """The sublayers in turn; how a sublayer attends is handed in, so that blocks and cached steps are one code."""

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
        arrays = {"context": context, "positions": positions, "mask": mask, "context_mask": context_mask}
        given = {name: array for name, array in arrays.items() if array is not None}
        dims(x.shape, shapes(weights), config, **{name: array.shape for name, array in given.items()})
        dtypes(x.dtype.name, kinds(weights), **{name: array.dtype.name for name, array in given.items()})
        if positions is not None:
            within("positions", on_host(positions), LIMIT, "block", rule="BLOCK-ERRORS")
        sight = self._sight(x, config.attention, positions, mask, config.causal)

        def attend(h: Array, w: Weights) -> Array:
            return self._self_attention(h, w, config.attention, sight)

        if context is None or config.cross is None:
            return self._through(x, weights, config, attend)
        outside, c = context, config.cross

        def cross(h: Array, w: Weights) -> Array:
            return self._cross_attention(h, w, c, self._keys_values(outside, w, c), context_mask)

        return self._through(x, weights, config, attend, cross)

    def _through(
        self, x: Array, weights: Weights, config: BlockConfig, attend: Sublayer, cross: Sublayer | None = None
    ) -> Array:
        """Pass the stream through the sublayers; attend and cross get their input and their own weights."""

        def below(name: str, attends: Sublayer) -> Callable[[Array], Array]:
            def call(h: Array) -> Array:
                with self._within(name):
                    return attends(h, part(weights, name))

            return call

        def network(h: Array) -> Array:
            w = part(weights, "feed_forward")
            y: Array = self.swiglu(h, w) if config.gated else self.feed_forward(h, w, activation=config.activation)
            y = self._tap("feed_forward", y)
            return y

        x = self._sublayer("attention", x, weights, config, below("attention", attend))
        if cross is not None:
            x = self._sublayer("cross", x, weights, config, below("cross", cross))
        return self._sublayer("feed_forward", x, weights, config, network)

    def _sublayer(
        self, name: str, x: Array, weights: Weights, config: BlockConfig, f: Callable[[Array], Array]
    ) -> Array:
        """The residual around one sublayer, which stays free of the norm where the norm stands before it."""
        norm = f"{name}_norm"
        if config.placement == "pre":
            h = self._tap(norm, self._normalized(x, part(weights, norm), config))
            x = self._tap(f"{name}_residual", x + f(h))
            return x
        x = self._tap(f"{name}_residual", x + f(x))
        x = self._tap(norm, self._normalized(x, part(weights, norm), config))
        return x

    def _normalized(self, x: Array, weights: Weights, config: BlockConfig) -> Array:
        eps = config.eps
        y: Array = (
            self.rms_norm(x, weights["weight"], eps=eps)
            if config.norm == "rms"
            else self.layer_norm(x, weights["weight"], weights["bias"], eps=eps)
        )
        return y
