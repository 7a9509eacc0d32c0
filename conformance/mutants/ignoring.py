"""Backends that ignore an option: the call is made as if it had not been asked for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import Activation, AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.features import FEATURES

C = TypeVar("C")
Weights = Mapping[str, Array]
Change = Callable[[C], C]


def fixed(**fields: Any) -> Change[Any]:
    """A change of a configuration: these fields are as given."""
    return lambda config: replace(config, **fields)


def turned(**fields: Any) -> Change[AttentionConfig]:
    """A change of how queries and keys are rotated, where they are."""

    def change(config: AttentionConfig) -> AttentionConfig:
        rotary: RotaryConfig | None = config.rotary
        return config if rotary is None else replace(config, rotary=replace(rotary, **fields))

    return change


def of_attention(change: Change[AttentionConfig]) -> Change[BlockConfig]:
    """A change of a block's self-attention."""
    return lambda config: replace(config, attention=change(config.attention))


def of_blocks(change: Change[BlockConfig]) -> Change[StackConfig]:
    """A change of each block of a stack."""
    return lambda config: replace(config, block=change(config.block))


def of_stack(name: str, change: Change[StackConfig]) -> Change[ModelConfig]:
    """A change of a model's encoder or decoder, where it has one."""

    def made(config: ModelConfig) -> ModelConfig:
        stack = getattr(config, name)
        changed: dict[str, Any] = {} if stack is None else {name: change(stack)}
        return replace(config, **changed)

    return made


GELU: Mapping[Activation, Activation] = {"relu": "relu", "silu": "silu", "gelu": "gelu_tanh", "gelu_tanh": "gelu_tanh"}
HEADS: Mapping[str, Change[AttentionConfig]] = {
    "rotary.interleaved": turned(layout="half"),
    "rotary.partial": turned(rotary_dim=None),
    "rotary.scaling": turned(scaling=None),
    "alibi": fixed(alibi=False),
    "window": fixed(window=None),
    "scale": fixed(scale=None),
    "bias": fixed(bias=frozenset()),
}
BLOCKS: Mapping[str, Change[BlockConfig]] = {
    **{name: of_attention(change) for name, change in HEADS.items() if f"block.{name}" in FEATURES},
    "post": fixed(placement="pre"),
    "eps.zero": lambda config: replace(config, eps=config.eps or 1e-5),
    "ffn_bias": fixed(ffn_bias=False),
    "activation.gelu": lambda config: config if config.gated else replace(config, activation=GELU[config.activation]),
}
STACKS: Mapping[str, Change[StackConfig]] = {
    **{name: of_blocks(of_attention(change)) for name, change in HEADS.items()},
    "post": of_blocks(fixed(placement="pre")),
    "embedding_scale": fixed(embedding_scale=1.0),
    "embedding_norm": fixed(embedding_norm=False),
    "learned": fixed(positions=None),
    "feed_forward.bias": of_blocks(fixed(ffn_bias=False)),
}


class IgnoresInCalls(NumpyBackend):
    """Attention that drops a keyword."""

    change: Callable[[Any], Any]

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, k, v, **self.change(options))


class IgnoresInHeads(NumpyBackend):
    """Multi-head attention of another configuration."""

    change: Callable[[Any], Any]

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **given: Any) -> Array:
        config = self.change(config)
        return super().multi_head_attention(x, _fitting(weights, names.attention(config)), config, **given)


class IgnoresInBlocks(NumpyBackend):
    """A block of another configuration."""

    change: Callable[[Any], Any]

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        config = self.change(config)
        return super().block(x, _fitting(weights, names.block(config)), config, **given)


class IgnoresInModels(NumpyBackend):
    """A model of another configuration."""

    change: Callable[[Any], Any]

    def load(self, weights: Weights, config: ModelConfig) -> Any:
        config = self.change(config)
        return super().load(_fitting(weights, names.shapes(config)), config)


class IgnoresPads(NumpyBackend):
    """Encoders and decoders that take every column for a token; change says which mask they have not read."""

    change: Callable[[Any], Any]

    def encode(self, model: Any, tokens_or_vectors: Array, **given: Any) -> Array:
        return super().encode(model, tokens_or_vectors, **self.change(given))

    def logits(self, model: Any, tokens: Array, **given: Any) -> Array:
        return super().logits(model, tokens, **self.change(given))


def dropped(name: str) -> Change[Mapping[str, Any]]:
    """A change of keywords: one is missing."""
    return lambda given: {key: x for key, x in given.items() if key != name}


def _fitting(weights: Weights, shapes: Mapping[str, Any]) -> Weights:
    """The weights that the configuration still has, or all of them where some are missing."""
    return {name: weights[name] for name in shapes} if set(shapes) <= set(weights) else weights
