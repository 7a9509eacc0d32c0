"""Names and shapes of every weight: one flat mapping of dotted names; a linear layer is y = x @ W + b, W (in, out)."""

from collections.abc import Mapping
from math import prod

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import Layout, RotaryConfig
from gaugeblock.spec.errors import ConfigError, refuse

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


def _layers(layers: Mapping[str, Axes], sizes: Mapping[str, int], bias: bool) -> Shapes:
    shapes: Shapes = {}
    for layer, (fan_in, fan_out) in layers.items():
        shapes[f"{layer}.weight"] = (sizes[fan_in], sizes[fan_out])
        if bias:
            shapes[f"{layer}.bias"] = (sizes[fan_out],)
    return shapes
