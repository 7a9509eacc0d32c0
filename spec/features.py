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
    "swiglu.bias": "biases in swiglu",
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
    "layers.apart": "layers that are not appended to in turn, so that their lengths differ for longer than one round",
    "reorder": "reorder",
    "reorder.repeat": "a row that stands several times in rows, or another number of rows than the cache has",
    "truncate": "truncate",
    "fork": "fork",
    "capacity.zero": "no room at all (capacity = 0)",
    "empty.batch": "no batch rows (batch = 0, or R = 0)",
    "empty.tokens": "no new tokens (T = 0)",
}
_TOGETHER = ("mask", "bias", "causal", "window")

FEATURES: Mapping[str, str] = {
    **{f"attention.{name}": meaning for name, meaning in _ATTENTION.items()},
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
