"""Multi-head attention in PyTorch (source 3; Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gaugeblock.backends.torch.arrays import name_of, on_host
from gaugeblock.backends.torch.attention import TorchAttention
from gaugeblock.backends.torch.positions import TorchAlibi
from gaugeblock.backends.torch.products import linear
from gaugeblock.backends.torch.rotary import TorchRotary, Turns
from gaugeblock.spec import multihead as rules
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.multihead import MultiHeadAttention
from gaugeblock.spec.positions import LIMIT, within
from gaugeblock.spec.traced import Recorder

Weights = Mapping[str, Tensor]
Pair = tuple[Tensor, Tensor]
Extend = Callable[[Tensor, Tensor], Pair]  # new keys and values -> all that are attended to


@dataclass(frozen=True)
class Sight:
    """What queries see of keys, for attention to take as it stands; the layers of a stack share one.

    positions (T,) or (B, T) are those of the queries, turns what they turn by where heads turn;
    mask (B|1, H|1, T|1, S|1) bool, bias (B|1, H, T, S).
    """

    positions: Tensor | None = None
    turns: Turns | None = None
    mask: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    window: Window | None = None


class TorchMultiHeadAttention(TorchAttention, TorchRotary, TorchAlibi, MultiHeadAttention, Recorder):
    """Projections in x's own dtype, accumulated in at least float32 and rounded once; heads are views of them."""

    def multi_head_attention(
        self,
        x: Tensor,
        weights: Weights,
        config: AttentionConfig,
        *,
        context: Tensor | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        rules.options(config, crosses=context is not None, causal=causal)
        others = {"context": context, "positions": positions, "mask": mask}
        given = {name: other for name, other in others.items() if other is not None}
        shapes = {name: other.shape for name, other in given.items()}
        rules.dims(x.shape, {name: w.shape for name, w in weights.items()}, config, **shapes)
        kinds = {name: name_of(other) for name, other in given.items()}
        rules.dtypes(name_of(x), {name: name_of(w) for name, w in weights.items()}, **kinds)
        self._check_range(positions, "multi_head_attention", "MHA-ERRORS")
        if context is not None:
            return self._attend_context(x, weights, config, self._project(context, weights, config), mask)
        sight = self._sight(config, x.dtype, positions, mask, causal, T=x.shape[1], S=x.shape[1], device=x.device)
        return self._attend_self(x, weights, config, sight)

    def _check_range(self, positions: Tensor | None, where: str, rule: str) -> None:
        """Refuse positions outside [0, 2**24), whether or not anything goes by them."""
        within("positions", None if positions is None else on_host(positions), LIMIT, where, rule=rule)

    def _sight(
        self,
        config: AttentionConfig,
        dtype: torch.dtype,
        positions: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        *,
        T: int,
        S: int,
        device: torch.device,
    ) -> Sight:
        """What the last T of S tokens see of all of them; positions (S,) or (B, S), None is 0 to S - 1."""
        window = config.window
        if window is not None and positions is not None:
            near = _near(positions, T, window)
            mask, window = near if mask is None else mask & near, None
        if positions is None:
            positions = torch.arange(S, device=device)
        queries = positions[..., S - T :]  # (T,) or (B, T)
        bias = None
        if config.alibi:
            bias = self.alibi_bias(config.heads, queries, positions, dtype=name_of(dtype))
        turns, c = None, config.rotary
        if c is not None:
            turns = self._turns(queries, c.rotary_dim or config.head_width, c.base, c.scaling, dtype)
        return Sight(
            queries, turns, mask, bias, causal and T > 1, window
        )  # a single query is the last: it sees every key

    def _attend_self(
        self,
        x: Tensor,
        weights: Weights,
        config: AttentionConfig,
        sight: Sight,
        extend: Extend | None = None,
    ) -> Tensor:
        """Self-attention; without extend to x alone."""
        q = self._tap("query", _heads(x, weights, "query", config.heads))
        k, v = self._project(x, weights, config)
        if config.rotary is not None and sight.turns is not None:
            q = self._tap("rotated_query", self._turned(q, sight.turns, config.rotary.layout))
            k = self._tap("rotated_key", self._turned(k, sight.turns, config.rotary.layout))
        if extend is not None:
            k, v = extend(k, v)
            if self._taps is not None:
                self._tap("keys", k.clone())  # the buffers behind them are written to again
                self._tap("values", v.clone())
        return self._mix(q, k, v, weights, config, sight)

    def _attend_context(
        self, x: Tensor, weights: Weights, config: AttentionConfig, context: Pair, mask: Tensor | None
    ) -> Tensor:
        """Cross-attention to keys and values that have been projected before."""
        q = self._tap("query", _heads(x, weights, "query", config.heads))
        return self._mix(q, *context, weights, config, Sight(mask=mask))

    def _project(self, context: Tensor, weights: Weights, config: AttentionConfig) -> Pair:
        """Keys (B, K, S, D) and values (B, K, S, E)."""
        k = self._tap("key", _heads(context, weights, "key", config.kv_heads))
        return k, self._tap("value", _heads(context, weights, "value", config.kv_heads))

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, weights: Weights, config: AttentionConfig, sight: Sight) -> Tensor:
        if sight.bias is not None:
            self._tap("bias", sight.bias)
        mixed = self.attention(
            q,
            k,
            v,
            mask=sight.mask,
            bias=sight.bias,
            causal=sight.causal,
            window=sight.window,
            scale=config.scale,
        )
        joined = self._tap("mixed", mixed).transpose(1, 2).flatten(2)  # (B, H, T, E) -> (B, T, H * E)
        return self._tap("output", linear(joined, weights, "output"))


def _heads(x: Tensor, weights: Weights, layer: str, heads: int) -> Tensor:
    flat = linear(x, weights, layer)
    B, T, wide = flat.shape
    return flat.view(B, T, heads, wide // heads).transpose(1, 2)  # (B, T, H * D) -> (B, H, T, D)


def _near(positions: Tensor, T: int, window: Window) -> Tensor:
    """Which of S keys lie in the windows of the last T of them, by position: (B|1, 1, T, S)."""
    left, right = window
    places = torch.atleast_2d(positions.long())  # (S,) or (B, S) -> (B|1, S)
    queries = places[:, places.shape[1] - T :]
    ahead = (places.unsqueeze(-2) - queries.unsqueeze(-1)).unsqueeze(1)  # (B|1, 1, T, S)
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if left is not None:
        seen = seen & (ahead >= -left)
    return seen if right is None else seen & (ahead <= right)
