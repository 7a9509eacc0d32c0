"""The eight components in the order of the source document, and the interfaces of each; and the document's sections."""

from collections.abc import Mapping

from gaugeblock.spec.attention import Attention, SoftCapped
from gaugeblock.spec.blocks import Block
from gaugeblock.spec.cache import KVCache
from gaugeblock.spec.feedforward import Activations, FeedForward
from gaugeblock.spec.gradients import Gradients
from gaugeblock.spec.model import Decoder, Encoder
from gaugeblock.spec.multihead import MultiHeadAttention
from gaugeblock.spec.normalization import LayerNorm, RMSNorm
from gaugeblock.spec.placement import Placement
from gaugeblock.spec.positions import Alibi, LearnedPositions, Sinusoidal
from gaugeblock.spec.rotary import Rotary

COMPONENTS = (
    "attention",
    "multihead",
    "positions",
    "normalization",
    "feedforward",
    "blocks",
    "cache",
    "model",
)

# component -> what a backend may offer of it, by the prefix that its features have -> the interface to subclass
INTERFACES: Mapping[str, Mapping[str, type]] = {
    "attention": {"attention": Attention},
    "multihead": {"multihead": MultiHeadAttention},
    "positions": {
        "sinusoidal": Sinusoidal,
        "learned_positions": LearnedPositions,
        "alibi": Alibi,
        "rotary": Rotary,
    },
    "feedforward": {"activations": Activations, "feed_forward": FeedForward},
    "normalization": {"layer_norm": LayerNorm, "rms_norm": RMSNorm},
    "cache": {"kv_cache": KVCache},
    "blocks": {"block": Block},
    "model": {"encoder": Encoder, "decoder": Decoder},
}

# what a backend may offer beside components, of all that it offers: the interface to subclass
CAPABILITIES: Mapping[str, type] = {"gradients": Gradients, "softcap": SoftCapped, "placement": Placement}

# the prefix of the features that a capability shares with what it is beside
SHARES: Mapping[str, str] = {"softcap": "attention"}

# what a backend may promise beside what everybody must: the attributes that say so
PROMISES = frozenset({"nan_safe"})

SECTIONS: Mapping[str, str] = {
    "1": "The big picture",
    "2.1": "Query, key, value",
    "2.2": "Variance scaling",
    "3.1": "Motivation of several heads",
    "3.2": "Multi-head attention",
    "3.3": "Complexity",
    "4.1": "Permutation equivariance",
    "4.2": "Sinusoidal encodings",
    "4.3": "Rotary position embedding",
    "4.4": "Linear biases",
    "5.1": "Bidirectional attention",
    "5.2": "Causal masking",
    "5.3": "Cross-attention",
    "6.1": "Post-LN and Pre-LN",
    "6.2": "RMSNorm",
    "6.3": "Feed-forward networks",
    "7": "The key/value cache",
    "8": "The implementation from scratch",
    "9": "Common errors",
    "10": "Questions",
}


def offered(backend: object) -> tuple[str, ...]:
    """The components that a backend offers: those of which it subclasses an interface."""
    return tuple(name for name in COMPONENTS if any(isinstance(backend, i) for i in INTERFACES.get(name, {}).values()))


def offers(backend: object, component: str, offer: str, capability: str = "") -> bool:
    """Whether a backend offers one of the interfaces of a component, named by its prefix, and a capability if named.

    capability is one of CAPABILITIES or of PROMISES.
    """
    if capability in PROMISES:
        able = bool(getattr(backend, capability, False))
    else:
        able = not capability or isinstance(backend, CAPABILITIES[capability])
    return able and isinstance(backend, INTERFACES[component][offer])
