"""Blocks that show nothing, keep the stream wider, work row by row, or know one kind of block only."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import Weights
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.blocks import Block
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.precision import HALF, Level


class Closed(Backend, Block):
    """A block that shows no intermediates."""

    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self._inner = NumpyBackend()

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        return self._inner.block(x, weights, config, **given)


@correct
class BlockWithoutTaps(Closed):
    """Shows no intermediates, and rounds each of them to half precision."""


@correct
class BlockInFloat32(Closed):
    """Half precision is widened when it comes in and rounded when it goes out, and by nothing between."""

    level = {dtype: Level.STRICT for dtype in HALF}

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        if x.dtype == np.float64 or any(w.dtype != x.dtype for w in weights.values()):
            return super().block(x, weights, config, **given)
        context = given.get("context")
        if context is not None and context.dtype == x.dtype:
            given["context"] = upcast(context)
        wide = {name: upcast(w) for name, w in weights.items()}
        return round_once(super().block(upcast(x), wide, config, **given), x.dtype)


@correct
class RowByRow(Closed):
    """Every batch row passes the block alone."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        whole = super().block(x, weights, config, **given)  # refuses what is to be refused
        rows = (self._inner.block(x[b : b + 1], weights, config, **self._row(given, b)) for b in range(len(x)))
        return np.concatenate(list(rows)) if len(x) else whole

    def _row(self, given: Mapping[str, Any], b: int) -> dict[str, Any]:
        own = {n: a if a is None or len(a) == 1 or n == "positions" else a[b : b + 1] for n, a in given.items()}
        at = given.get("positions")
        return own if at is None or at.ndim == 1 else {**own, "positions": at[b : b + 1]}


@correct
class StreamWider(NumpyBackend):
    """Sums are done in float64 and rounded once."""

    def _residual(self, x: Array, y: Array) -> Array:
        return (x.astype(np.float64) + y.astype(np.float64)).astype(x.dtype)


@correct
class ProjectionsInOne(NumpyBackend):
    """Queries, keys and values are one product."""

    def _self_attention(self, x: Array, weights: Weights, *rest: Any, **more: Any) -> Array:
        layers = ("query", "key", "value")
        widths = np.cumsum([weights[f"{layer}.weight"].shape[1] for layer in layers])
        together = np.concatenate([upcast(weights[f"{layer}.weight"]) for layer in layers], axis=1)
        self._parts = dict(zip(layers, np.split(upcast(x) @ together, widths[:-1], axis=-1), strict=True))
        try:
            return super()._self_attention(x, weights, *rest, **more)
        finally:
            self._parts = {}

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        if layer not in self._parts:
            return super()._project(x, weights, layer)
        bias = weights.get(f"{layer}.bias")
        y = self._parts[layer]
        return round_once(y if bias is None else y + upcast(bias), x.dtype)

    _parts: Mapping[str, Array] = {}


class OneKind(Closed):
    """A block of one kind only; all else is declared and refused."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        if not self._known(x, config, given):
            raise Unsupported("blocks: of one kind only")
        return super().block(x, weights, config, **given)

    def _known(self, x: Array, config: BlockConfig, given: Mapping[str, Any]) -> bool:
        raise NotImplementedError


@correct
class LlamaBlocksOnly(OneKind):
    """Causal blocks with RMSNorm before gated networks, without biases, masks or a context."""

    unsupported = {
        f"block.{name}": "blocks as Llama has them"
        for name in (
            *("context", "context_mask", "layer", "post", "ungated", "ffn_bias", "bidirectional", "mask", "mask.heads"),
            *("rotary.interleaved", "alibi", "window", "scale", "bias", "bias.some", "value_width", "inner_width"),
            *("eps.zero", "empty.batch", "empty.tokens", "empty.context"),
        )
    }

    def block(  # type: ignore[override]  # the other keywords are declared unsupported
        self, x: Array, weights: Weights, config: BlockConfig, *, positions: Array | None = None
    ) -> Array:
        return super().block(x, weights, config, positions=positions)

    def _known(self, x: Array, config: BlockConfig, given: Mapping[str, Any]) -> bool:
        c = config.attention
        wanted = (config.norm, config.placement, config.gated, config.causal, config.cross)
        plain = not (c.bias or c.alibi or c.window or c.scale or config.ffn_bias) and c.head_width == c.value_width
        turns = c.rotary is None or c.rotary.layout == "half"
        sizes = bool(config.eps and x.size) and c.width == c.heads * c.head_width
        return wanted == ("rms", "pre", True, True, None) and plain and turns and sizes


@correct
class BertBlocksOnly(OneKind):
    """Blocks with LayerNorm behind networks of GELU with biases, not causal, with a mask and no positions."""

    unsupported = {
        f"block.{name}": "blocks as BERT has them"
        for name in (
            *("context", "context_mask", "rms", "pre", "gated", "causal", "mask.heads", "positions", "positions.rows"),
            *("rotary", "rotary.interleaved", "alibi", "window", "scale", "bias.some", "grouped", "value_width"),
            *("inner_width", "empty.context", "activation.relu", "activation.gelu_tanh", "activation.silu"),
            *("bias.none", "ffn_bias.none"),
        )
    }

    def block(  # type: ignore[override]  # the other keywords are declared unsupported
        self, x: Array, weights: Weights, config: BlockConfig, *, mask: Array | None = None
    ) -> Array:
        return super().block(x, weights, config, mask=mask)

    def _known(self, x: Array, config: BlockConfig, given: Mapping[str, Any]) -> bool:
        c = config.attention
        wanted = (config.norm, config.placement, config.activation, config.causal, config.cross)
        plain = not (c.alibi or c.window or c.scale or c.rotary) and c.head_width == c.value_width
        sizes = c.kv_heads == c.heads and c.width == c.heads * c.head_width
        biased = len(c.bias) == 4 and config.ffn_bias
        mask = given.get("mask")
        shared = mask is None or mask.shape[1] == 1
        return wanted == ("layer", "post", "gelu", False, None) and plain and sizes and biased and shared
