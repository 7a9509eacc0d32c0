"""Names and shapes of every weight: one flat mapping of dotted names; a linear layer is y = x @ W + b, W (in, out)."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import AttentionConfig, BlockConfig, Layout, ModelConfig, Norm, RotaryConfig, StackConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError, refuse
from gaugeblock.spec.precision import FORMATS

W = TypeVar("W")

Axes = tuple[str, str]
Shapes = dict[str, tuple[int, ...]]

# layer -> the letters of its input and output width
FEED_FORWARD: Mapping[str, Axes] = {"up": ("M", "F"), "down": ("F", "M")}
SWIGLU: Mapping[str, Axes] = {"gate": ("M", "F"), "up": ("M", "F"), "down": ("F", "M")}


def feed_forward(M: int, F: int, bias: bool = True) -> Shapes:
    """The weights of a feed-forward network without a gate.

    up.weight (M, F), down.weight (F, M), and where bias is set up.bias (F,), down.bias (M,).
    Clauses: FFN-SHAPES. Source: Vaswani et al. 2017, eq. 2.
    """
    return _layers(FEED_FORWARD, {"M": M, "F": F}, bias)


def swiglu(M: int, F: int, bias: bool = False) -> Shapes:
    """The weights of a gated feed-forward network.

    gate.weight and up.weight (M, F), down.weight (F, M), and where bias is set gate.bias, up.bias (F,), down.bias (M,).
    Clauses: FFN-SHAPES. Source: Shazeer 2020, eq. 6.
    """
    return _layers(SWIGLU, {"M": M, "F": F}, bias)


def attention(config: AttentionConfig) -> Shapes:
    """The weights of a multi-head attention layer; the heads lie side by side in the columns, or rows of the output.

    query.weight (M, H * D), key.weight (M, K * D), value.weight (M, K * E), output.weight (H * E, M), and a bias of
    the output width for each projection that config.bias names.
    Clauses: MHA-WEIGHTS. Source: Vaswani et al. 2017, section 3.2.2.
    """
    c = config
    M, wide, keys, values = c.width, c.heads * c.head_width, c.kv_heads * c.head_width, c.kv_heads * c.value_width
    layers = {"query": (M, wide), "key": (M, keys), "value": (M, values), "output": (c.heads * c.value_width, M)}
    made: Shapes = {}
    for layer, (fan_in, fan_out) in layers.items():
        made[f"{layer}.weight"] = (fan_in, fan_out)
        if layer in c.bias:
            made[f"{layer}.bias"] = (fan_out,)
    return made


def norm(kind: Norm, M: int) -> Shapes:
    """The weights of a normalization: weight (M,), and for layer bias (M,).

    Clauses: BLOCK-WEIGHTS.
    """
    return {"weight": (M,)} if kind == "rms" else {"weight": (M,), "bias": (M,)}


def block(config: BlockConfig) -> Shapes:
    """The weights of a block: attention, cross where there is one, feed_forward, and a norm for each of them.

    attention.*, attention_norm.*, cross.*, cross_norm.*, feed_forward.*, feed_forward_norm.*
    Clauses: BLOCK-WEIGHTS.
    """
    M, network = config.width, swiglu if config.gated else feed_forward
    made = _under("attention", attention(config.attention)) | _under("attention_norm", norm(config.norm, M))
    if config.cross is not None:
        made |= _under("cross", attention(config.cross)) | _under("cross_norm", norm(config.norm, M))
    made |= _under("feed_forward", network(M, config.ffn_width, config.ffn_bias))
    return made | _under("feed_forward_norm", norm(config.norm, M))


def stack(config: StackConfig) -> Shapes:
    """The weights of a stack: embedding, positions, embedding_norm, layers.0 and so on, final_norm, as configured.

    embedding.weight (V, M), positions.weight (max_positions, M). Clauses: MODEL-WEIGHTS.
    """
    M, made = config.block.width, Shapes()
    if config.inputs == "ids":
        made["embedding.weight"] = (config.vocabulary, M)
    if config.positions == "learned":
        made["positions.weight"] = (config.max_positions, M)
    if config.embedding_norm:
        made |= _under("embedding_norm", norm(config.block.norm, M))
    for n in range(config.layers):
        made |= _under(f"layers.{n}", block(config.block))
    return made | (_under("final_norm", norm(config.block.norm, M)) if config.final_norm else {})


def shapes(config: ModelConfig) -> Shapes:
    """The weights of a model: encoder.* and decoder.* as there are, then the head.

    head.weight (M, V) unless it is tied to decoder.embedding.weight, head.bias (V,) where set. Clauses: MODEL-WEIGHTS.
    """
    made = Shapes()
    if config.encoder is not None:
        made |= _under("encoder", stack(config.encoder))
    if config.decoder is not None:
        made |= _under("decoder", stack(config.decoder))
        if not config.tied:
            made["head.weight"] = (config.decoder.block.width, config.decoder.vocabulary)
        if config.head_bias:
            made["head.bias"] = (config.decoder.vocabulary,)
    return made


def part(weights: Mapping[str, W], prefix: str) -> dict[str, W]:
    """The weights below a prefix, with the prefix removed."""
    return {n.removeprefix(f"{prefix}."): w for n, w in weights.items() if n.startswith(f"{prefix}.")}


def check(
    wanted: Mapping[str, tuple[int, ...]],
    got: Mapping[str, Sequence[int]],
    dtypes: Mapping[str, str],
    *,
    dtype: str | None,
    rule: str,
    where: str,
) -> None:
    """Refuse weights that are missing, unknown, of another shape, or of another dtype than dtype; name the first.

    got and dtypes are the shapes and the dtype names of what was handed over; dtype=None asks for one float format.
    Raises ConfigError, ShapeError, DTypeError. Clauses: MHA-ERRORS, BLOCK-ERRORS, MODEL-ERRORS.
    """
    missing, unknown = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
    if missing:
        raise refuse(ConfigError, rule, f"weights must hold {', '.join(missing)}", where)
    if unknown:
        raise refuse(ConfigError, rule, f"weights holds {', '.join(unknown)}, which the configuration has not", where)
    for name, shape in wanted.items():
        if tuple(got[name]) != shape:
            raise refuse(ShapeError, rule, f"{name} must be {shape}, got {tuple(got[name])}", where)
    for name, kind in dtypes.items():
        dtype = kind if dtype is None else dtype
        if kind not in FORMATS:
            raise refuse(DTypeError, rule, f"{name} must be one of {', '.join(FORMATS)}, got {kind}", where)
        if kind != dtype:
            raise refuse(DTypeError, rule, f"{name} must have the dtype {dtype} of the others, got {kind}", where)


def swiglu_width(M: int, multiple: int = 64) -> int:
    """The width of a gated network with as many weights as one without a gate that is four times as wide as the model.

        F = 8 M / 3, rounded up to a multiple:   0 <= 3 M F - 8 M ** 2 < 3 M multiple

    Raises ConfigError unless M and multiple are positive. Clauses: SWIGLU-WIDTH. Source: Shazeer 2020, section 2.
    """
    if M < 1 or multiple < 1:
        problem = f"M and multiple must be at least 1, got {M} and {multiple}"
        raise refuse(ConfigError, "SWIGLU-WIDTH", problem, "swiglu_width")
    return -(-8 * M // (3 * multiple)) * multiple


def count(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The number of parameters."""
    return sum(prod(shape) for shape in shapes.values())


def rotary_layout(projection: Numpy, heads: int, *, to: Layout, rotary_dim: int | None = None) -> Numpy:
    """A query or key projection of the other rotary layout with its output columns in the order of this one.

        interleaved[2 i] = half[i],  interleaved[2 i + 1] = half[i + R / 2]   within the first R columns of each head

    projection (M, H * D), or a bias (H * D,) -> a new array of the same shape. Apply it to queries and keys alike;
    values and the output projection stay. Raises ConfigError unless the columns are heads times an even number, or
    times at least an even rotary_dim, and for an unknown layout. Clauses: ROPE-WEIGHTS, ROPE-LAYOUT-PERMUTE.
    """
    RotaryConfig(layout=to, rotary_dim=rotary_dim)
    columns = projection.shape[-1]
    D = columns // heads if heads > 0 else 0
    R = D if rotary_dim is None else rotary_dim
    if D * heads != columns or R % 2 or not 0 < R <= D:
        problem = f"{columns} columns must be {heads} heads of an even width, or of at least rotary_dim {rotary_dim}"
        raise refuse(ConfigError, "ROPE-WEIGHTS", problem, "rotary_layout")
    halves = np.arange(R).reshape(2, R // 2)
    order = np.arange(D)
    order[:R] = halves.T.reshape(-1) if to == "interleaved" else halves.reshape(R // 2, 2).T.reshape(-1)
    by_head = projection.reshape(*projection.shape[:-1], heads, D)
    return np.ascontiguousarray(by_head[..., order].reshape(projection.shape))


def _under(prefix: str, inner: Shapes) -> Shapes:
    return {f"{prefix}.{name}": shape for name, shape in inner.items()}


def _layers(layers: Mapping[str, Axes], sizes: Mapping[str, int], bias: bool) -> Shapes:
    shapes: Shapes = {}
    for layer, (fan_in, fan_out) in layers.items():
        shapes[f"{layer}.weight"] = (sizes[fan_in], sizes[fan_out])
        if bias:
            shapes[f"{layer}.bias"] = (sizes[fan_out],)
    return shapes
