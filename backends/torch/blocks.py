"""Transformer blocks in PyTorch (source 6.1; Vaswani et al. 2017; Xiong et al. 2020)."""

from collections.abc import Callable, Mapping

from torch import Tensor

from gaugeblock.backends.torch.arrays import name_of
from gaugeblock.backends.torch.feedforward import TorchFeedForward
from gaugeblock.backends.torch.multihead import Extend, Pair, Sight, TorchMultiHeadAttention, Weights
from gaugeblock.backends.torch.normalization import TorchLayerNorm, TorchRMSNorm
from gaugeblock.spec import blocks as rules
from gaugeblock.spec import weights as names
from gaugeblock.spec.blocks import Block
from gaugeblock.spec.config import BlockConfig

Parts = Mapping[str, Weights]  # the weights of each sublayer and norm
Sublayer = Callable[[Tensor], Tensor]


class TorchBlock(TorchMultiHeadAttention, TorchFeedForward, TorchLayerNorm, TorchRMSNorm, Block):
    """The stream stays in x's own dtype: half precision is rounded at each residual."""

    def block(
        self,
        x: Tensor,
        weights: Weights,
        config: BlockConfig,
        *,
        context: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        others = {"context": context, "positions": positions, "mask": mask, "context_mask": context_mask}
        given = {name: other for name, other in others.items() if other is not None}
        shapes = {name: other.shape for name, other in given.items()}
        rules.dims(x.shape, {name: w.shape for name, w in weights.items()}, config, **shapes)
        kinds = {name: name_of(other) for name, other in given.items()}
        rules.dtypes(name_of(x), {name: name_of(w) for name, w in weights.items()}, **kinds)
        self._check_range(positions, "block", "BLOCK-ERRORS")
        parts = block_parts(weights, config)
        T = x.shape[1]
        sight = self._sight(config.attention, x.dtype, positions, mask, config.causal, T=T, S=T, device=x.device)
        attend, cross = self._attends(parts, config, sight), self._crosses(parts, config, context, context_mask)
        return self._block(x, parts, config, attend, cross)

    def _block(
        self, x: Tensor, parts: Parts, config: BlockConfig, attend: Sublayer, cross: Sublayer | None = None
    ) -> Tensor:
        """The sublayers in turn; attend and cross are the attentions, which know their keys."""
        x = self._sublayer("attention", x, parts, config, self._under("attention", attend))
        if cross is not None:
            x = self._sublayer("cross", x, parts, config, self._under("cross", cross))

        def feed_forward(h: Tensor) -> Tensor:
            return self._tap("feed_forward", self._network(h, parts["feed_forward"], config))

        return self._sublayer("feed_forward", x, parts, config, feed_forward)

    def _sublayer(self, name: str, x: Tensor, parts: Parts, config: BlockConfig, f: Sublayer) -> Tensor:
        def norm(h: Tensor) -> Tensor:
            return self._tap(f"{name}_norm", self._norm(h, parts[f"{name}_norm"], config))

        if config.placement == "pre":
            return self._tap(f"{name}_residual", x + f(norm(x)))
        return norm(self._tap(f"{name}_residual", x + f(x)))

    def _attends(self, parts: Parts, config: BlockConfig, sight: Sight, extend: Extend | None = None) -> Sublayer:
        def attend(h: Tensor) -> Tensor:
            return self._attend_self(h, parts["attention"], config.attention, sight, extend)

        return attend

    def _crosses(
        self,
        parts: Parts,
        config: BlockConfig,
        context: Tensor | Pair | None,
        context_mask: Tensor | None,
    ) -> Sublayer | None:
        """Cross-attention to a context, or to its keys and values where they have been projected before."""
        cross = config.cross
        if cross is None or context is None:
            return None

        def attend(h: Tensor) -> Tensor:
            pair = self._project(context, parts["cross"], cross) if isinstance(context, Tensor) else context
            return self._attend_context(h, parts["cross"], cross, pair, context_mask)

        return attend

    def _norm(self, x: Tensor, weights: Weights, config: BlockConfig) -> Tensor:
        if config.norm == "rms":
            return self.rms_norm(x, weights["weight"], eps=config.eps)
        return self.layer_norm(x, weights["weight"], weights["bias"], eps=config.eps)

    def _network(self, x: Tensor, weights: Weights, config: BlockConfig) -> Tensor:
        if config.gated:
            return self.swiglu(x, weights)
        return self.feed_forward(x, weights, activation=config.activation)

    def _under(self, name: str, f: Sublayer) -> Sublayer:
        """f, with its taps below this name."""

        def named(h: Tensor) -> Tensor:
            with self._within(name):
                return f(h)

        return named


def block_parts(weights: Weights, config: BlockConfig) -> Parts:
    """The weights of a block by the sublayer or norm that they belong to."""
    layers = ("attention", "feed_forward") if config.cross is None else ("attention", "cross", "feed_forward")
    return {part: names.part(weights, part) for layer in layers for part in (layer, f"{layer}_norm")}
