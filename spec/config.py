"""Configurations: frozen records of what a call or a model is built from; each refuses what has no meaning."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, get_args

from gaugeblock.spec.attention import Window
from gaugeblock.spec.attention import options as attention_options
from gaugeblock.spec.errors import ConfigError, refuse

Layout = Literal["half", "interleaved"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Projection = Literal["query", "key", "value", "output"]
Norm = Literal["rms", "layer"]
Placement = Literal["pre", "post"]
Inputs = Literal["ids", "vectors"]
Positions = Literal["learned", "sinusoidal"]

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
PROJECTIONS: tuple[Projection, ...] = get_args(Projection)
NORMS: tuple[Norm, ...] = get_args(Norm)
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
INPUTS: tuple[Inputs, ...] = get_args(Inputs)
POSITIONS: tuple[Positions, ...] = get_args(Positions)


@dataclass(frozen=True)
class Linear:
    """Every frequency is divided by factor, as if positions stood closer together (Chen et al. 2023, eq. 2).

    Raises ConfigError unless factor is positive and finite. Clauses: ROPE-LINEAR.
    """

    factor: float

    def __post_init__(self) -> None:
        _positive("Linear", factor=self.factor)


@dataclass(frozen=True)
class NTK:
    """The base grows by alpha ** (R / (R - 2)), so that the slowest pair turns alpha times slower (bloc97 2023).

    Raises ConfigError unless alpha is positive and finite. Clauses: ROPE-NTK.
    """

    alpha: float

    def __post_init__(self) -> None:
        _positive("NTK", alpha=self.alpha)


@dataclass(frozen=True)
class YaRN:
    """Fast pairs keep their frequency, slow ones are divided by factor, and a ramp lies between (Peng et al. 2024).

    original is the context length before scaling, fast and slow the turns within it at which the ramp begins and
    ends; attention_factor multiplies the rotated vector, None is 0.1 ln(factor) + 1 (1 for factor <= 1); truncate
    says whether the ends of the ramp are rounded outwards to whole pairs.
    Raises ConfigError. Clauses: ROPE-YARN, ROPE-YARN-MAGNITUDE.
    """

    factor: float
    original: float
    fast: float = 32
    slow: float = 1
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        _positive("YaRN", factor=self.factor, original=self.original, fast=self.fast, slow=self.slow)
        if self.attention_factor is not None:
            _positive("YaRN", attention_factor=self.attention_factor)
        if self.fast <= self.slow:
            raise refuse(ConfigError, "ROPE-ERRORS", f"fast must be above slow {self.slow}, got {self.fast}", "YaRN")


@dataclass(frozen=True)
class Llama3:
    """Pairs that turn more than high times within original keep their frequency, those below low are divided.

    Between them the frequency is interpolated (the rule of Llama 3.1, section 3.4.2 and its released code).
    Raises ConfigError. Clauses: ROPE-LLAMA3.
    """

    factor: float
    low: float
    high: float
    original: float

    def __post_init__(self) -> None:
        _positive("Llama3", factor=self.factor, low=self.low, high=self.high, original=self.original)
        if self.high <= self.low:
            raise refuse(ConfigError, "ROPE-ERRORS", f"high must be above low {self.low}, got {self.high}", "Llama3")


Scaling: TypeAlias = Linear | NTK | YaRN | Llama3


@dataclass(frozen=True)
class RotaryConfig:
    """How queries and keys are rotated; the parameters are those of Rotary.rotate.

    Raises ConfigError for a base that is not above 1, an unknown layout, an odd rotary_dim, or a scaling that is none.
    Clauses: ROPE-ERRORS.
    """

    base: float = 10000.0
    layout: Layout = "half"
    rotary_dim: int | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        _number("RotaryConfig", "base", self.base)
        if not (isfinite(self.base) and self.base > 1):
            problem = f"base must be finite and above 1, got {self.base}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        if self.layout not in LAYOUTS:
            problem = f"layout must be one of {', '.join(LAYOUTS)}, got {self.layout!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        R: object = self.rotary_dim
        if R is not None and (isinstance(R, bool) or not isinstance(R, int) or R < 2 or R % 2):
            problem = f"rotary_dim must be an even integer of at least 2, got {R!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        rule: object = self.scaling
        if rule is not None and not isinstance(rule, Scaling):
            problem = f"scaling must be None, Linear, NTK, YaRN or Llama3, got {rule!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """A multi-head attention layer: M = width, H = heads, K = kv_heads, D = head_width, E = value_width.

    bias names the projections that have one; rotary, alibi and window act on self-attention; scale=None is 1/sqrt(D).
    Raises ConfigError for sizes below 1, heads that are no multiple of kv_heads, an unknown projection, a rotation of
    an odd or too narrow head, and what attention itself refuses. Clauses: MHA-CONFIG.
    """

    width: int
    heads: int
    kv_heads: int
    head_width: int
    value_width: int
    bias: frozenset[Projection] = frozenset()
    rotary: RotaryConfig | None = None
    alibi: bool = False
    window: Window | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        where = "AttentionConfig"
        for name in ("width", "heads", "kv_heads", "head_width", "value_width"):
            _count("MHA-CONFIG", where, name, getattr(self, name))
        if self.heads % self.kv_heads:
            problem = f"heads must be a multiple of the {self.kv_heads} kv_heads, got {self.heads}"
            raise refuse(ConfigError, "MHA-CONFIG", problem, where)
        for name in self.bias:
            _one_of("MHA-CONFIG", where, "bias", name, PROJECTIONS)
        attention_options(self.window, self.scale)
        if self.rotary is not None:
            R = self.head_width if self.rotary.rotary_dim is None else self.rotary.rotary_dim
            if R % 2 or self.head_width < R:
                problem = f"an even number of at most head_width {self.head_width} components can turn, got {R}"
                raise refuse(ConfigError, "MHA-CONFIG", problem, where)


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """A Transformer block: self-attention, cross-attention where cross is given, feed-forward.

    causal binds the self-attention; norm and eps are of every normalization; placement says whether a sublayer's input
    (pre) or the residual sum behind it (post) is normalised; gated=True is SwiGLU and needs activation="silu".
    Raises ConfigError. Clauses: BLOCK-CONFIG.
    """

    attention: AttentionConfig
    cross: AttentionConfig | None = None
    causal: bool = False
    norm: Norm = "rms"
    eps: float = 1e-5
    placement: Placement = "pre"
    activation: Activation = "silu"
    gated: bool = True
    ffn_width: int = 1
    ffn_bias: bool = False

    def __post_init__(self) -> None:
        where = "BlockConfig"
        _one_of("BLOCK-CONFIG", where, "norm", self.norm, NORMS)
        _one_of("BLOCK-CONFIG", where, "placement", self.placement, PLACEMENTS)
        _one_of("BLOCK-CONFIG", where, "activation", self.activation, ACTIVATIONS)
        _count("BLOCK-CONFIG", where, "ffn_width", self.ffn_width)
        if not (isfinite(self.eps) and self.eps >= 0):
            raise refuse(ConfigError, "BLOCK-CONFIG", f"eps must be finite and not negative, got {self.eps!r}", where)
        if self.gated and self.activation != "silu":
            problem = f'gated=True needs activation="silu", got {self.activation!r}'
            raise refuse(ConfigError, "BLOCK-CONFIG", problem, where)
        if self.cross is not None:
            self._check_cross(self.cross, where)

    def _check_cross(self, cross: AttentionConfig, where: str) -> None:
        if cross.rotary is not None or cross.alibi or cross.window is not None:
            problem = "cross must have no rotary, alibi or window: its keys are not in the queries' order"
            raise refuse(ConfigError, "BLOCK-CONFIG", problem, where)
        if cross.width != self.attention.width:
            problem = f"cross must have the width {self.attention.width} of attention, got {cross.width}"
            raise refuse(ConfigError, "BLOCK-CONFIG", problem, where)

    @property
    def width(self) -> int:
        """The model's width M."""
        return self.attention.width


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """A stack of equal blocks with what goes before and after: inputs, positions, the outer norms.

    inputs are ids that an embedding of vocabulary rows looks up, times embedding_scale, or vectors as they are;
    positions adds rows of a learned table of max_positions rows, or sinusoids, to them; embedding_norm normalises the
    sum, final_norm what leaves the last block.
    Raises ConfigError. Clauses: MODEL-CONFIG.
    """

    block: BlockConfig
    layers: int
    inputs: Inputs = "ids"
    vocabulary: int = 0
    positions: Positions | None = None
    max_positions: int = 0
    embedding_scale: float = 1.0
    embedding_norm: bool = False
    final_norm: bool = True

    def __post_init__(self) -> None:
        where, rule = "StackConfig", "MODEL-CONFIG"
        _count(rule, where, "layers", self.layers, least=0)
        _one_of(rule, where, "inputs", self.inputs, INPUTS)
        _one_of(rule, where, "positions", self.positions, (None, *POSITIONS))
        _count(rule, where, "vocabulary", self.vocabulary, least=1 if self.inputs == "ids" else 0)
        _count(rule, where, "max_positions", self.max_positions, least=1 if self.positions == "learned" else 0)
        if not isfinite(self.embedding_scale):
            problem = f"embedding_scale must be finite, got {self.embedding_scale!r}"
            raise refuse(ConfigError, rule, problem, where)
        if self.inputs == "vectors" and (self.vocabulary or self.embedding_scale != 1.0):
            problem = "vectors are not looked up: vocabulary must be 0 and embedding_scale 1"
            raise refuse(ConfigError, rule, problem, where)
        if self.positions == "sinusoidal" and self.block.width % 2:
            problem = f"sinusoids need an even width, got {self.block.width}"
            raise refuse(ConfigError, rule, problem, where)

    @property
    def has_weights(self) -> bool:
        """Whether there is anything to load: vectors may pass a stack without layers as they are."""
        norms = self.embedding_norm or self.final_norm
        return self.inputs == "ids" or self.layers > 0 or self.positions == "learned" or norms


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model: an encoder, a decoder, or both, in which case the decoder's blocks have cross-attention.

    tied=True takes the logits from the transposed embedding of the decoder; head_bias adds a bias to them.
    Raises ConfigError for no stack at all, an encoder that is causal or has cross-attention, a decoder that is not
    causal or takes vectors, cross-attention without an encoder to look at or the reverse, widths that differ, a head
    without a decoder, and a model without weights. Clauses: MODEL-CONFIG.
    """

    encoder: StackConfig | None = None
    decoder: StackConfig | None = None
    tied: bool = False
    head_bias: bool = False

    def __post_init__(self) -> None:
        if self.encoder is None and self.decoder is None:
            raise _no_model("a model must have an encoder, a decoder or both")
        if self.encoder is not None and (self.encoder.block.causal or self.encoder.block.cross is not None):
            raise _no_model("an encoder must be neither causal nor have cross-attention")
        if self.decoder is None:
            if self.tied or self.head_bias:
                raise _no_model("tied and head_bias must be False without a decoder")
            if self.encoder is not None and not self.encoder.has_weights:
                raise _no_model("a model must have weights, whose dtype is its own")
            return
        if not self.decoder.block.causal or self.decoder.inputs != "ids":
            raise _no_model("a decoder must be causal and take ids")
        if (self.decoder.block.cross is None) != (self.encoder is None):
            raise _no_model("a decoder must have cross-attention if and only if there is an encoder")
        if self.encoder is not None and self.encoder.block.width != self.decoder.block.width:
            widths = f"{self.encoder.block.width} and {self.decoder.block.width}"
            raise _no_model(f"encoder and decoder must have one width, got {widths}")


def _positive(where: str, **numbers: object) -> None:
    for name, number in numbers.items():
        value = _number(where, name, number)
        if not (isfinite(value) and value > 0):
            raise refuse(ConfigError, "ROPE-ERRORS", f"{name} must be finite and above 0, got {number!r}", where)


def _number(where: str, name: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise refuse(ConfigError, "ROPE-ERRORS", f"{name} must be a number, got {number!r}", where)
    return float(number)


def _no_model(problem: str) -> ConfigError:
    return ConfigError(f"MODEL-CONFIG: {problem} [ModelConfig]")


def _count(rule: str, where: str, name: str, number: object, least: int = 1) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise refuse(ConfigError, rule, f"{name} must be an integer of at least {least}, got {number!r}", where)


def _one_of(rule: str, where: str, name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise refuse(ConfigError, rule, f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}", where)
