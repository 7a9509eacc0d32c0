"""Models of one family only, which declare and refuse the rest."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.model import UnseenEncoder
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, StackConfig
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.model import Decoder


@correct
class BertLike(UnseenEncoder):
    """Encoders of one family only, with pads on the right; the rest is declared and refused."""

    unsupported = {
        f"encoder.{name}": "another family"
        for name in (
            *("vectors", "beside_decoder", "pre", "rms", "gated", "activation.relu", "activation.gelu_tanh"),
            *("activation.silu", "sinusoidal", "rotary", "alibi", "positionless", "window", "scale", "grouped"),
            *("value_width", "inner_width", "bias.some", "bias.none", "feed_forward.bias.none", "final_norm"),
            *("embedding_scale", "embedding_norm.none", "padding.left", "padding.middle", "padding.rows"),
        )
    }

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Any:
        stack = config.encoder
        if stack is None or config.decoder is not None:
            raise Unsupported("models: encoders only")
        block, c = stack.block, stack.block.attention
        found = {
            "norms": (block.norm, block.placement, stack.final_norm) == ("layer", "post", False)
            and stack.embedding_norm,
            "networks": (block.activation, block.gated, block.ffn_bias) == ("gelu", False, True),
            "positions": stack.positions == "learned" and c.rotary is None and not c.alibi,
            "inputs": stack.inputs == "ids" and stack.embedding_scale == 1,
            "heads": _alike(c),
            "biases": len(c.bias) == 4,
            "scores": c.window is None and c.scale is None,
        }
        _refuse(found)
        return self.inner.load(weights, config)

    def encode(self, model: Any, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        made = super().encode(model, tokens_or_vectors, token_mask=token_mask)
        if token_mask is not None and token_mask.size:
            before = np.logical_and.accumulate(token_mask, axis=1)
            if np.any(token_mask != before) or not np.all(token_mask[:, 0]):
                raise Unsupported("models: pads on the right only")
        return made


class OneFamily(Decoder, Backend):
    """Decodes as another backend does; a model of another family and pads are refused."""

    dtypes = NumpyBackend.dtypes

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.inner = NumpyBackend()

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Any:
        stack = config.decoder
        if stack is None or config.encoder is not None:
            raise Unsupported("models: decoders only")
        block, c = stack.block, stack.block.attention
        around = (block.placement, stack.final_norm, stack.embedding_norm) == ("pre", True, False)
        head = stack.embedding_scale == 1 and not config.head_bias
        plain = {"around": around, "head": head, "scores": c.window is None and c.scale is None}
        _refuse({**plain, **self._found(stack, block, c)})
        return self.inner.load(weights, config)

    def _found(self, stack: StackConfig, block: BlockConfig, c: AttentionConfig) -> dict[str, bool]:
        raise NotImplementedError

    def logits(self, model: Any, tokens: Array, *, last_only: bool = False) -> Array:  # type: ignore[override]
        return self.inner.logits(model, tokens, last_only=last_only)

    def start(self, model: Any, batch: int, capacity: int) -> Any:  # type: ignore[override]
        return self.inner.start(model, batch, capacity)

    def step(self, model: Any, tokens: Array, cache: Any, *, last_only: bool = False) -> Any:  # type: ignore[override]
        return self.inner.step(model, tokens, cache, last_only=last_only)

    def reorder(self, cache: Any, rows: Array) -> Any:
        return self.inner.reorder(cache, rows)

    def truncate(self, cache: Any, length: int) -> Any:
        return self.inner.truncate(cache, length)

    def fork(self, cache: Any) -> Any:
        return self.inner.fork(cache)

    def cache_nbytes(self, cache: Any) -> int:
        return self.inner.cache_nbytes(cache)

    def cache_length(self, cache: Any) -> int:
        return self.inner.cache_length(cache)

    def generate(self, model: Any, tokens: Array, **options: Any) -> Array:
        return self.inner.generate(model, tokens, **options)


@correct
class LlamaLike(OneFamily):
    """Rotated decoders with RMSNorm before gated networks, without biases; the rest is declared and refused."""

    unsupported = {
        f"decoder.{name}": "another family"
        for name in (
            *("memory", "memory_mask", "post", "layer", "learned", "sinusoidal", "alibi", "positionless", "window"),
            *("scale", "bias", "feed_forward.bias", "embedding_norm", "embedding_scale", "final_norm.none"),
            *("head_bias", "token_mask", "plain"),
        )
    }

    def _found(self, stack: StackConfig, block: BlockConfig, c: AttentionConfig) -> dict[str, bool]:
        return {
            "networks": (block.norm, block.gated, block.ffn_bias) == ("rms", True, False),
            "positions": stack.positions is None and c.rotary is not None and not c.alibi,
            "biases": not c.bias,
        }


@correct
class GPTLike(OneFamily):
    """Decoders with a table of positions, LayerNorm before plain networks, and biases everywhere but in the head."""

    unsupported = {
        f"decoder.{name}": "another family"
        for name in (
            *("memory", "memory_mask", "post", "rms", "sinusoidal", "rotary", "alibi", "positionless", "window"),
            *("scale", "grouped", "value_width", "inner_width", "bias.some", "bias.none", "feed_forward.bias.none"),
            *("gated", "activation.relu", "activation.gelu", "activation.silu", "embedding_norm", "embedding_scale"),
            *("final_norm.none", "head_bias", "token_mask"),
        )
    }

    def _found(self, stack: StackConfig, block: BlockConfig, c: AttentionConfig) -> dict[str, bool]:
        network = (block.norm, block.activation, block.gated, block.ffn_bias)
        return {
            "networks": network == ("layer", "gelu_tanh", False, True),
            "positions": stack.positions == "learned" and c.rotary is None and not c.alibi,
            "heads": _alike(c),
            "biases": len(c.bias) == 4,
        }


def _alike(c: AttentionConfig) -> bool:
    """Whether every head has keys and values of its own, all of one width, which add up to the model's."""
    return c.heads == c.kv_heads and c.head_width == c.value_width and c.heads * c.head_width == c.width


def _refuse(found: Mapping[str, bool]) -> None:
    wrong = [name for name, fits in found.items() if not fits]
    if wrong:
        raise Unsupported(f"models: {', '.join(wrong)}")
