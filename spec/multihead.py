"""Multi-head attention: its interface and its shape rules (source 3; Vaswani et al. 2017, section 3.2.2)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gaugeblock.spec import weights as names
from gaugeblock.spec.backend import Array
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError, refuse

Shape = Sequence[int]

# key and value as projected; where keys of earlier calls are cached, keys and values are all that attention reads
TAPS = ("query", "key", "value", "rotated_query", "rotated_key", "keys", "values", "bias", "mixed", "output")


class MultiHeadAttention(ABC):
    """Several attentions side by side, each on its own projections of the input (Vaswani et al. 2017)."""

    @abstractmethod
    def multi_head_attention(
        self,
        x: Array,
        weights: Mapping[str, Array],
        config: AttentionConfig,
        *,
        context: Array | None = None,
        positions: Array | None = None,
        mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        """Project to queries, keys and values, attend in every head, join the heads, project back.

            q = heads(x @ query.weight + query.bias),   k, v likewise from context, or from x where that is None
            q, k = rotated by their positions           where config.rotary is set and context is None
            y = join(attention(q, k, v, bias=ALiBi)) @ output.weight + output.bias

        x (B, T, M), context (B, S, M) or None, in which case S = T; weights as spec.weights.attention names them, all
        of x's dtype -> (B, T, M) of that dtype. Head h is made of the columns h * D to (h + 1) * D - 1 of the query
        projection; keys, values and the rows of the output projection likewise. positions (T,) or (B, T) integers,
        None is 0 to T - 1; rotation, ALiBi and window go by position, causal by column: j <= i. mask bool
        (B|1, H|1, T|1, S|1), True = may attend. With a context nothing rotates, and there is neither ALiBi nor window.
        Raises ShapeError, DTypeError, PositionError, ConfigError (MHA-ERRORS lists what for).
        Clauses: spec/clauses/multihead.md, all of them. Source: Vaswani et al. 2017, section 3.2.2.
        """


class Dims(NamedTuple):
    """The sizes of a multi-head attention call."""

    B: int
    T: int
    S: int
    M: int
    H: int
    K: int
    D: int
    E: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._asdict().items())


def dims(
    x: Shape,
    weights: Mapping[str, Shape],
    config: AttentionConfig,
    *,
    context: Shape | None = None,
    positions: Shape | None = None,
    mask: Shape | None = None,
) -> Dims:
    """Read the sizes off the shapes of a call, or refuse them or its weights; the arguments are shapes.

    Raises ShapeError, ConfigError. Clauses: MHA-SHAPES, MHA-WEIGHTS, MHA-ERRORS.
    """
    where = "multi_head_attention"
    c, other = config, x if context is None else context
    for name, shape in (("x", x), ("context", other)):
        _require(len(shape) == 3, f"{name} must have rank 3, got rank {len(shape)}", where)
        _require(shape[2] == c.width, f"{name} must have the width {c.width}, got {shape[2]}", where)
    d = Dims(x[0], x[1], other[1], c.width, c.heads, c.kv_heads, c.head_width, c.value_width)
    where = f"multi_head_attention({d})"
    _require(other[0] == d.B, f"context must have x's batch {d.B}, got {other[0]}", where)
    names.check(names.attention(c), weights, {}, dtype=None, rule="MHA-WEIGHTS", where=where)
    if positions is not None:
        wanted = ((d.T,), (d.B, d.T))
        _require(tuple(positions) in wanted, f"positions must be (T,) or (B, T), got {tuple(positions)}", where)
    if mask is not None:
        full = (d.B, d.H, d.T, d.S)
        fits = len(mask) == 4 and all(n in (1, m) for n, m in zip(mask, full, strict=True))
        _require(fits, f"mask must be (B|1, H|1, T|1, S|1) of {full}, got {tuple(mask)}", where)
    return d


def options(config: AttentionConfig, *, crosses: bool, causal: bool) -> None:
    """Refuse what has no meaning between two sequences: rotation, ALiBi, window and causality.

    Raises ConfigError. Clauses: MHA-ERRORS.
    """
    has = {"rotary": config.rotary, "alibi": config.alibi, "window": config.window is not None, "causal": causal}
    wrong = [name for name, there in has.items() if there]
    if crosses and wrong:
        problem = f"a call with a context must be without {', '.join(wrong)}"
        raise refuse(ConfigError, "MHA-ERRORS", problem, "multi_head_attention")


def dtypes(
    x: str,
    weights: Mapping[str, str],
    *,
    context: str | None = None,
    positions: str | None = None,
    mask: str | None = None,
) -> None:
    """Refuse a mixture of element types; the arguments are dtype names.

    Raises DTypeError. Clauses: MHA-DTYPE, MHA-ERRORS.
    """
    where = "multi_head_attention"
    floats = {"x": x, **({} if context is None else {"context": context}), **weights}
    names.check({}, {}, floats, dtype=None, rule="MHA-ERRORS", where=where)
    if mask not in (None, "bool"):
        raise refuse(DTypeError, "MHA-ERRORS", f"mask must be bool, got {mask}", where)
    if positions is not None and not positions.startswith(("int", "uint")):
        raise refuse(DTypeError, "MHA-ERRORS", f"positions must be integers, got {positions}", where)


def _require(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise refuse(ShapeError, "MHA-SHAPES", problem, where)
