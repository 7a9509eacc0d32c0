"""The closed list of optional features: what a backend may declare that it does not offer.

A name is offer.option, or offer.option+option for a combination of options that work alone.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations

from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS

_ATTENTION = {
    "mask": "a boolean mask",
    "mask.heads": "a mask that differs between heads",
    "bias": "an additive bias",
    "bias.infinite": "a bias that holds -inf",
    "causal": "causal=True",
    "window": "a sliding window",
    "scale": "an explicit scale",
    "scale.nonpositive": "an explicit scale that is zero or negative",
    "rectangular": "a number of queries other than the number of keys",
    "grouped": "fewer key/value heads than query heads",
    "value_width": "values of another width than the keys",
    "empty.batch": "no batch rows (B = 0)",
    "empty.queries": "no queries (T = 0)",
    "empty.keys": "no keys (S = 0)",
}
_SINUSOIDAL = {
    "base": "a base other than 10000",
    "positions.rows": "positions of their own for each batch row, (B, T)",
    "positions.far": "positions of 4096 and beyond",
    "empty.positions": "no positions (T = 0)",
}
_LEARNED_POSITIONS = {
    "positions.rows": "positions of their own for each batch row, (B, T)",
    "empty.positions": "no positions (T = 0)",
}
_ALIBI = {
    "heads": "a number of heads that is no power of two",
    "positions": "positions other than keys 0 to S - 1 and the last T of them as queries",
    "positions.rows": "positions of their own for each batch row, (B, T) or (B, S)",
    "positions.far": "positions of 4096 and beyond",
    "empty.positions": "no queries or no keys (T = 0 or S = 0)",
}
_ROTARY = {
    "half": "the layout half",
    "interleaved": "the layout interleaved",
    "layout": "the keyword layout, where half is the only one",
    "base": "a base other than 10000",
    "rotary_dim": "a rotation of the first components only",
    "odd_width": "an odd width, of which an even rotary_dim is rotated",
    "scaling": "scaled frequencies, by any rule",
    "scaling.linear": "frequencies divided by a factor",
    "scaling.ntk": "a base grown by the NTK rule",
    "scaling.yarn": "the YaRN rule",
    "scaling.yarn.untruncated": "the YaRN rule without rounding the ends of its ramp",
    "scaling.yarn.attention_factor": "the YaRN rule with an explicit attention_factor",
    "scaling.llama3": "the rule of Llama 3",
    "rotary_dim+scaling": "a partial rotation with scaled frequencies",
    "positions.rows": "positions of their own for each batch row, (B, T)",
    "positions.offset": "positions that do not start at 0",
    "positions.gaps": "positions that are not consecutive",
    "positions.far": "positions of 4096 and beyond",
    "empty.batch": "no batch rows (B = 0)",
    "empty.tokens": "no tokens (T = 0)",
}
_ACTIVATIONS = {
    "gelu": "GELU by the error function",
    "approximate": "the keyword approximate, and GELU by tanh with it",
    "silu": "SiLU",
    "beta": "a beta other than 1",
    "empty": "an array without elements",
}
_FEED_FORWARD = {
    "plain": "feed_forward, the network without a gate",
    "swiglu": "swiglu, the network with a gate",
    "activation.relu": 'activation="relu"',
    "activation.gelu": 'activation="gelu", by the error function',
    "activation.gelu_tanh": 'activation="gelu_tanh"',
    "activation.silu": 'activation="silu"',
    "bias": "biases in feed_forward",
    "bias.some": "a bias of one of its layers only",
    "bias.none": "feed_forward without biases",
    "swiglu.bias": "biases in swiglu",
    "swiglu.bias.some": "biases of some of its layers only",
    "swiglu.bias.none": "swiglu without biases",
    "rank": "an x of another rank than 3",
    "empty": "no positions (an axis of length 0)",
}
_RMS_NORM = {
    "weightless": "no weight (None)",
    "eps.zero": "eps = 0",
    "empty.rows": "no rows at all",
}
_LAYER_NORM = {**_RMS_NORM, "biasless": "no bias (None)"}
_KV_CACHE = {
    "value_width": "values of another width than the keys",
    "layers.apart": "layers whose lengths differ for longer than one round of appends",
    "reorder": "reorder",
    "reorder.repeat": "a row that stands several times in rows, or another number of rows than the cache has",
    "truncate": "truncate",
    "fork": "fork",
    "capacity.zero": "no room at all (capacity = 0)",
    "empty.batch": "no batch rows (batch = 0, or R = 0)",
    "empty.tokens": "no new tokens (T = 0)",
}
_MULTIHEAD = {
    "context": "attention on another sequence",
    "rectangular": "a context of another length than x",
    "rotary": "rotary position embedding",
    "rotary.interleaved": "its layout interleaved",
    "rotary.partial": "a rotation of the first components of each head only",
    "rotary.scaling": "scaled frequencies, by any rule",
    "alibi": "linear biases",
    "alibi.heads": "linear biases of a number of heads that is no power of two",
    "window": "a sliding window",
    "causal": "causal=True",
    "mask": "a boolean mask",
    "mask.heads": "a mask that differs between heads",
    "positions": "explicit positions",
    "positions.rows": "positions of their own for each batch row, (B, T)",
    "bias": "biases of the projections",
    "bias.some": "biases of some of them only",
    "bias.none": "projections without biases",
    "grouped": "fewer key/value heads than query heads",
    "value_width": "values of another width than the keys",
    "inner_width": "heads whose widths do not add up to the model's",
    "scale": "an explicit scale of the scores",
    "empty.batch": "no batch rows (B = 0)",
    "empty.queries": "no tokens in x (T = 0)",
    "empty.keys": "no tokens in the context (S = 0)",
}
_BLOCK = {
    "context": "cross-attention to a context",
    "context_mask": "a mask of the context",
    "rms": "RMSNorm",
    "layer": "LayerNorm",
    "pre": "norms before the sublayers",
    "post": "norms behind the residual sums",
    "gated": "a gated feed-forward network",
    "ungated": "a feed-forward network without a gate",
    **{
        f"activation.{name}": f"a network without a gate, with {name}" for name in ("relu", "gelu", "gelu_tanh", "silu")
    },
    "ffn_bias": "biases of the feed-forward network",
    "ffn_bias.none": "a feed-forward network without biases",
    "causal": "causal self-attention",
    "bidirectional": "self-attention that is not causal",
    "mask": "a boolean mask",
    "mask.heads": "a mask that differs between heads",
    "positions": "explicit positions",
    "positions.rows": "positions of their own for each batch row, (B, T)",
    "rotary": "rotary position embedding",
    "rotary.interleaved": "its layout interleaved",
    "alibi": "linear biases",
    "window": "a sliding window",
    "scale": "an explicit scale of the scores",
    "bias": "biases of the attention's projections",
    "bias.some": "biases of some of them only",
    "bias.none": "attention without biases",
    "grouped": "fewer key/value heads than query heads",
    "value_width": "values of another width than the keys",
    "inner_width": "heads whose widths do not add up to the model's",
    "eps.zero": "eps = 0",
    "empty.batch": "no batch rows (B = 0)",
    "empty.tokens": "no tokens in x (T = 0)",
    "empty.context": "no tokens in the context (S = 0)",
}
_STACK = {
    "token_mask": "padding",
    "padding.left": "pads before a row's first real token",
    "padding.right": "pads behind a row's last real token",
    "padding.middle": "pads between real tokens",
    "padding.rows": "a row that is all pads",
    "padding.ids": "ids at pads that the vocabulary has not",
    "learned": "a learned table of positions",
    "sinusoidal": "sinusoids as positions",
    "rotary": "rotary position embedding",
    "rotary.interleaved": "its layout interleaved",
    "rotary.partial": "a rotation of the first components of each head only",
    "rotary.scaling": "scaled frequencies, by any rule",
    "alibi": "linear biases",
    "positionless": "neither of these four",
    "window": "a sliding window",
    "scale": "an explicit scale of the scores",
    "grouped": "fewer key/value heads than query heads",
    "value_width": "values of another width than the keys",
    "inner_width": "heads whose widths do not add up to the model's",
    "bias": "biases of the attention's projections",
    "bias.some": "biases of some of them only",
    "bias.none": "attention without biases",
    "pre": "norms before the sublayers",
    "post": "norms behind the residual sums",
    "rms": "RMSNorm",
    "layer": "LayerNorm",
    "gated": "gated feed-forward networks",
    "plain": "feed-forward networks without a gate",
    **{f"activation.{name}": f"networks without a gate, with {name}" for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "feed_forward.bias": "biases of the feed-forward networks",
    "feed_forward.bias.none": "feed-forward networks without biases",
    "embedding_scale": "an embedding that is scaled",
    "embedding_norm": "a norm before the first block",
    "embedding_norm.none": "no norm before the first block",
    "final_norm": "a norm behind the last block",
    "final_norm.none": "no norm behind the last block",
    "layers.none": "no blocks at all (layers = 0)",
    "empty.batch": "no batch rows (B = 0)",
    "empty.tokens": "no tokens (T = 0)",
}
_ENCODER = {
    **_STACK,
    "ids": "an encoder of ids",
    "vectors": "an encoder of vectors",
    "beside_decoder": "a model that has a decoder as well",
}
_DECODER = {
    **_STACK,
    "memory": "cross-attention to a memory, beside an encoder",
    "memory_mask": "a memory with pads",
    "memory_mask.rows": "a row whose memory is all pads",
    "tied": "a head that is the transposed embedding",
    "untied": "a head of its own",
    "head_bias": "a head with a bias",
    "last_only": "last_only=True",
    "step": "decoding with a cache",
    "step.chunk": "a step of several tokens behind others",
    "step.padding": "steps with a token_mask",
    "reorder": "rows of a cache in another order",
    "reorder.batch": "more or fewer rows after a reordering",
    "truncate": "a cache that is cut",
    "fork": "a cache that is copied",
    "bytes": "cache_nbytes, where keys and values are what is kept",
    "generate": "generate, by taking the likeliest id",
    "generate.eos": "generate with an eos_id",
    "generate.pad": "generate with a pad_id",
    "generate.uncached": "generate with use_cache=False",
    "empty.memory": "a memory without rows (S = 0)",
}
_TOGETHER = ("mask", "bias", "causal", "window")
_TOGETHER_IN_HEADS = ("rotary", "alibi", "window", "causal", "mask")

FEATURES: Mapping[str, str] = {
    **{f"attention.{name}": meaning for name, meaning in _ATTENTION.items()},
    **{f"multihead.{name}": meaning for name, meaning in _MULTIHEAD.items()},
    **{f"multihead.{a}+{b}": f"{a} and {b} in one call" for a, b in combinations(_TOGETHER_IN_HEADS, 2)},
    **{f"sinusoidal.{name}": meaning for name, meaning in _SINUSOIDAL.items()},
    **{f"learned_positions.{name}": meaning for name, meaning in _LEARNED_POSITIONS.items()},
    **{f"alibi.{name}": meaning for name, meaning in _ALIBI.items()},
    **{f"rotary.{name}": meaning for name, meaning in _ROTARY.items()},
    **{f"activations.{name}": meaning for name, meaning in _ACTIVATIONS.items()},
    **{f"feed_forward.{name}": meaning for name, meaning in _FEED_FORWARD.items()},
    **{f"attention.{a}+{b}": f"{a} and {b} in one call" for a, b in combinations(_TOGETHER, 2)},
    **{f"layer_norm.{name}": meaning for name, meaning in _LAYER_NORM.items()},
    **{f"rms_norm.{name}": meaning for name, meaning in _RMS_NORM.items()},
    **{f"kv_cache.{name}": meaning for name, meaning in _KV_CACHE.items()},
    **{f"block.{name}": meaning for name, meaning in _BLOCK.items()},
    **{f"encoder.{name}": meaning for name, meaning in _ENCODER.items()},
    **{f"decoder.{name}": meaning for name, meaning in _DECODER.items()},
}


def validate(unsupported: Mapping[str, str]) -> None:
    """Refuse a declaration whose keys are not feature or feature@dtype, or that gives no reason.

    Raises ConfigError that names every wrong key.
    """
    wrong = [key for key in unsupported if not _known(key)]
    if wrong:
        raise ConfigError(
            f"features: unknown key {', '.join(map(repr, wrong))} in unsupported; "
            "expected offer.feature or offer.feature@dtype as `gaugeblock list --features` prints them"
        )
    silent = [key for key, reason in unsupported.items() if not reason]
    if silent:
        raise ConfigError(f"features: unsupported needs a reason for {', '.join(map(repr, silent))}")


def _known(key: str) -> bool:
    name, at, dtype = key.partition("@")
    return name in FEATURES and (not at or dtype in FORMATS)


def unsupported_by(unsupported: Mapping[str, str], offer: str, dtype: str, used: Iterable[str]) -> list[str]:
    """The declared-unsupported features, without prefix and dtype, that a call with these options would use.

    used holds option names ("mask", "causal"); "mask+causal" counts as used when both are.
    """
    used = frozenset(used)
    hit = []
    for key in unsupported:
        name, _, only = key.partition("@")
        owner, _, option = name.partition(".")
        if owner == offer and only in ("", dtype) and used.issuperset(option.split("+")):
            hit.append(option)
    return hit
