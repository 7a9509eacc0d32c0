"""Activations and feed-forward networks: their interfaces and their rules (source 6.3)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Literal, NamedTuple, get_args

from gaugeblock.spec import weights as names
from gaugeblock.spec.backend import Array
from gaugeblock.spec.config import ACTIVATIONS as ACTIVATIONS
from gaugeblock.spec.config import Activation as Activation
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError, refuse
from gaugeblock.spec.precision import FORMATS

Approximation = Literal["none", "tanh"]
Shape = Sequence[int]

APPROXIMATIONS: tuple[Approximation, ...] = get_args(Approximation)


class Activations(ABC):
    """The elementwise nonlinearities (Hendrycks and Gimpel 2016; Ramachandran et al. 2017)."""

    @abstractmethod
    def relu(self, x: Array) -> Array:
        """The positive part of each element.

            y = max(x, 0)

        x of any shape and float dtype -> the same shape and dtype, without rounding.
        Raises DTypeError. Clauses: ACT-RELU and the other ACT-* of spec/clauses/feedforward.md.
        """

    @abstractmethod
    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        """Each element times the probability that a standard normal number is below it.

            none   y = x Phi(x) = x (1 + erf(x / sqrt(2))) / 2
            tanh   y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x ** 3))) / 2

        x of any shape and float dtype -> the same shape and dtype.
        Raises DTypeError, ConfigError for another approximation. Clauses: ACT-GELU, ACT-GELU-TANH and the other ACT-*
        of spec/clauses/feedforward.md. Source: Hendrycks and Gimpel 2016, section 2.
        """

    @abstractmethod
    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        """Each element times its own sigmoid; with beta also known as Swish.

            y = x sigmoid(beta x) = x / (1 + exp(-beta x))

        x of any shape and float dtype -> the same shape and dtype.
        Raises DTypeError, ConfigError for a beta that is not finite. Clauses: ACT-SILU, ACT-SILU-BETA and the other
        ACT-* of spec/clauses/feedforward.md. Source: Ramachandran et al. 2017, section 4.
        """


class FeedForward(ABC):
    """The networks that are applied to each position on its own (Vaswani et al. 2017, eq. 2; Shazeer 2020, eq. 6)."""

    @abstractmethod
    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        """Widen each row, apply the activation, narrow it again.

            y = activation(x @ up.weight + up.bias) @ down.weight + down.bias

        x (..., M); up.weight (M, F), down.weight (F, M), and where present up.bias (F,), down.bias (M,), all of x's
        dtype -> (..., M) of that dtype. activation is relu, gelu (by erf), gelu_tanh or silu (beta = 1).
        Raises ShapeError, DTypeError, ConfigError (FFN-ERRORS lists what for).
        Clauses: FFN-* of spec/clauses/feedforward.md. Source: Vaswani et al. 2017, eq. 2.
        """

    @abstractmethod
    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        """Widen each row twice, let the first gate the second, narrow the product.

            y = (silu(x @ gate.weight + gate.bias) * (x @ up.weight + up.bias)) @ down.weight + down.bias

        x (..., M); gate.weight and up.weight (M, F), down.weight (F, M), and where present gate.bias and up.bias (F,),
        down.bias (M,), all of x's dtype -> (..., M) of that dtype.
        Raises ShapeError, DTypeError, ConfigError (FFN-ERRORS lists what for).
        Clauses: SWIGLU-* and FFN-* of spec/clauses/feedforward.md. Source: Shazeer 2020, eq. 6.
        """


class Dims(NamedTuple):
    """The sizes of a feed-forward call: the axes before the last, the model's width, the width between."""

    lead: tuple[int, ...]
    M: int
    F: int

    def __str__(self) -> str:
        return f"x=({''.join(f'{n}, ' for n in self.lead)}M), M={self.M}, F={self.F}"


def elementwise(dtype: str, *, approximate: str = "none", beta: float = 1.0) -> None:
    """Refuse an activation's element type or options that have no meaning; dtype is a name such as "float32".

    Raises DTypeError, ConfigError. Clauses: ACT-REFUSES, ACT-ERRORS.
    """
    if dtype not in FORMATS:
        problem = f"x must be one of {', '.join(FORMATS)}, got {dtype}"
        raise refuse(DTypeError, "ACT-ERRORS", problem, "activations")
    if approximate not in APPROXIMATIONS:
        problem = f"approximate must be one of {', '.join(APPROXIMATIONS)}, got {approximate!r}"
        raise refuse(ConfigError, "ACT-REFUSES", problem, "gelu")
    if not isfinite(beta):
        raise refuse(ConfigError, "ACT-ERRORS", f"beta must be finite, got {beta!r}", "silu")


def feed_forward_dims(x: Shape, weights: Mapping[str, Shape], activation: str) -> Dims:
    """Read the sizes off the shapes of a feed_forward call, or refuse them, its weights' names or its activation.

    Raises ShapeError, ConfigError. Clauses: FFN-SHAPES, FFN-REFUSES, FFN-ERRORS.
    """
    if activation not in ACTIVATIONS:
        problem = f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}"
        raise refuse(ConfigError, "FFN-REFUSES", problem, "feed_forward")
    return _dims("feed_forward", x, weights, "up.weight", names.FEED_FORWARD)


def swiglu_dims(x: Shape, weights: Mapping[str, Shape]) -> Dims:
    """Read the sizes off the shapes of a swiglu call, or refuse them or its weights' names.

    Raises ShapeError, ConfigError. Clauses: FFN-SHAPES, FFN-REFUSES, FFN-ERRORS.
    """
    return _dims("swiglu", x, weights, "gate.weight", names.SWIGLU)


def dtypes(x: str, weights: Mapping[str, str], where: str) -> None:
    """Refuse a mixture of element types, or one that is no float format; the arguments are dtype names.

    Raises DTypeError. Clauses: FFN-DTYPE, FFN-ERRORS.
    """
    if x not in FORMATS:
        raise refuse(DTypeError, "FFN-ERRORS", f"x must be one of {', '.join(FORMATS)}, got {x}", where)
    for name, dtype in weights.items():
        if dtype != x:
            raise refuse(DTypeError, "FFN-ERRORS", f"{name} must have x's dtype {x}, got {dtype}", where)


def _dims(where: str, x: Shape, weights: Mapping[str, Shape], first: str, layers: Mapping[str, names.Axes]) -> Dims:
    missing = [f"{layer}.weight" for layer in layers if f"{layer}.weight" not in weights]
    known = {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    if missing:
        raise refuse(ConfigError, "FFN-REFUSES", f"weights must hold {', '.join(missing)}", where)
    if set(weights) - known:
        unknown = ", ".join(sorted(set(weights) - known))
        raise refuse(ConfigError, "FFN-ERRORS", f"weights holds {unknown}, which is no weight of it", where)
    _require(len(x) >= 1, "x must have at least one axis", where)
    _require(len(weights[first]) == 2, f"{first} must have rank 2, got rank {len(weights[first])}", where)
    sizes = {"M": x[-1], "F": weights[first][1]}
    d = Dims(tuple(x[:-1]), sizes["M"], sizes["F"])
    where = f"{where}({d})"
    _require(d.M > 0 and d.F > 0, "M and F must be at least 1", where)
    for layer, (fan_in, fan_out) in layers.items():
        wanted = {f"{layer}.weight": (sizes[fan_in], sizes[fan_out]), f"{layer}.bias": (sizes[fan_out],)}
        for name, shape in wanted.items():
            got = tuple(weights.get(name, shape))
            _require(got == shape, f"{name} must be {shape}, got {got}", where)
    return d


def _require(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise refuse(ShapeError, "FFN-SHAPES", problem, where)
