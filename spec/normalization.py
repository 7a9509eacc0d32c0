"""LayerNorm and RMSNorm: their interfaces and their shape rules (source 6.2; Ba et al. 2016; Zhang & Sennrich 2019)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite
from typing import Literal, NamedTuple

from gaugeblock.spec.backend import Array
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, ShapeError, refuse
from gaugeblock.spec.precision import FORMATS

Shape = Sequence[int]
Method = Literal["layer_norm", "rms_norm"]


class LayerNorm(ABC):
    """Normalization by mean and standard deviation (Ba et al. 2016)."""

    @abstractmethod
    def layer_norm(self, x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
        """Centre each row, divide by its standard deviation, then apply weight and bias.

            y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias

        x (..., M), weight and bias (M,) or None, one float dtype -> (..., M) of that dtype. Rows run along the last
        axis; x has at least that one. eps >= 0 is added to the variance, inside the root. A row of zeros gives the
        bias, with eps = 0 it gives NaN.
        Raises ShapeError, DTypeError, ConfigError (LN-ERRORS lists what for).
        Clauses: those of spec/clauses/normalization.md that begin with LN. Source: Ba et al. 2016, eq. 4.
        """


class RMSNorm(ABC):
    """Normalization by the root mean square (Zhang & Sennrich 2019)."""

    @abstractmethod
    def rms_norm(self, x: Array, weight: Array | None, *, eps: float) -> Array:
        """Divide each row by its root mean square, then multiply by the weight.

            y = x / sqrt(mean(x²) + eps) * weight

        x (..., M), weight (M,) or None, one float dtype -> (..., M) of that dtype. Rows run along the last axis; x
        has at least that one. eps >= 0 is added to the mean square, inside the root. A row of zeros gives zeros,
        with eps = 0 it gives NaN.
        Raises ShapeError, DTypeError, ConfigError (RMS-ERRORS lists what for).
        Clauses: those of spec/clauses/normalization.md that begin with RMS. Source: Zhang & Sennrich 2019, eq. 4.
        """


class Dims(NamedTuple):
    """The sizes of a normalization: how many rows, and how wide they are."""

    rows: int
    M: int

    def __str__(self) -> str:
        return f"rows={self.rows}, M={self.M}"


def dims(x: Shape, weight: Shape | None = None, bias: Shape | None = None, *, method: Method) -> Dims:
    """Read the sizes off the shapes of a normalization call, or refuse them.

    x (..., M), weight and bias (M,) are shapes; the result names the number of rows and their width.
    Raises ShapeError that names the rule, the sizes expected and got. Clauses: LN-SHAPES, RMS-SHAPES.
    """
    if len(x) == 0:
        raise _refusal(ShapeError, "SHAPES", "x must have rank 1 or more, got rank 0", method, "x=()")
    M = x[-1]
    where = f"x={tuple(x)}"
    if M < 1:
        raise _refusal(ShapeError, "SHAPES", f"x must have a width of at least 1, got {M}", method, where)
    for name, shape in (("weight", weight), ("bias", bias)):
        if shape is not None and tuple(shape) != (M,):
            problem = f"{name} must have shape ({M},), got {tuple(shape)}"
            raise _refusal(ShapeError, "SHAPES", problem, method, where)
    rows = 1
    for size in x[:-1]:
        rows *= size
    return Dims(rows, M)


def dtypes(x: str, weight: str | None = None, bias: str | None = None, *, method: Method) -> None:
    """Refuse a mixture of element types, or one that is not floating; the arguments are dtype names.

    Raises DTypeError. Clauses: LN-ERRORS, RMS-ERRORS.
    """
    if x not in FORMATS:
        raise _refusal(DTypeError, "ERRORS", f"x must have a dtype of {', '.join(FORMATS)}, got {x}", method)
    for name, dtype in (("weight", weight), ("bias", bias)):
        if dtype is not None and dtype != x:
            raise _refusal(DTypeError, "ERRORS", f"{name} must have x's dtype {x}, got {dtype}", method)


def options(eps: float, *, method: Method) -> None:
    """Refuse an eps that is negative or not finite.

    Raises ConfigError. Clauses: LN-ERRORS, RMS-ERRORS.
    """
    if not (isfinite(eps) and eps >= 0):
        raise _refusal(ConfigError, "ERRORS", f"eps must be a finite number >= 0, got {eps!r}", method)


def _refusal(kind: type[GaugeblockError], rule: str, problem: str, method: Method, detail: str = "") -> GaugeblockError:
    prefix = "LN" if method == "layer_norm" else "RMS"
    return refuse(kind, f"{prefix}-{rule}", problem, f"{method}({detail})" if detail else method)
