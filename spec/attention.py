"""Scaled dot-product attention: its interface and its shape rules (source 2.1-2.2, 5.2-5.3; Vaswani et al. 2017)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from gaugeblock.spec.backend import Array
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError, refuse

Window = tuple[int | None, int | None]
Shape = Sequence[int]


class Attention(ABC):
    """Scaled dot-product attention (Vaswani et al. 2017, eq. 1; grouped heads: Ainslie et al. 2023)."""

    @abstractmethod
    def attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        """Mix the values of the visible keys, each weighted by the softmax of its score.

            weights = softmax(scale * q @ k.T + bias)  over the visible keys
            output  = weights @ v

        q (B, H, T, D), k (B, K, S, D), v (B, K, S, E), one float dtype -> (B, H, T, E) of that dtype. H is a
        multiple of K, query head h reads key/value head h // (H // K). mask bool and bias (q's dtype) are
        (B|1, H|1, T|1, S|1); mask True = may attend; -inf in bias = may not. With o = S - T, key j is visible to
        query i under causal iff j <= i + o, under window = (left, right) iff -left <= j - (i + o) <= right, where
        None leaves a side open. mask, bias, causal and window intersect. scale=None is 1 / sqrt(D). A query that
        sees no key gives zeros.
        Raises ShapeError, DTypeError, ConfigError (ATTN-REFUSES lists what for).
        Clauses: spec/clauses/attention.md, all of them.
        """


class SoftCapped(ABC):
    """Attention whose scores are capped softly (Gemma Team 2024, section 2); nobody has to offer it."""

    @abstractmethod
    def soft_capped_attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        *,
        softcap: float,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Array:
        """Attention with its scores held between -softcap and softcap, before bias and masks.

            weights = softmax(softcap * tanh(scale * q @ k.T / softcap) + bias)  over the visible keys
            output  = weights @ v

        softcap is positive and finite; all else is as in Attention.attention.
        Raises ShapeError, DTypeError, ConfigError.
        Clauses: ATTN-SOFTCAP.
        """


class Dims(NamedTuple):
    """The sizes of an attention call."""

    B: int
    H: int
    K: int
    T: int
    S: int
    D: int
    E: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._asdict().items())


class _Shapes(NamedTuple):
    """The shapes of a call that has no sizes yet."""

    q: Shape
    k: Shape
    v: Shape

    def __str__(self) -> str:
        return ", ".join(f"{name}={tuple(shape)}" for name, shape in self._asdict().items())


def dims(q: Shape, k: Shape, v: Shape, *, mask: Shape | None = None, bias: Shape | None = None) -> Dims:
    """Read the sizes off the shapes of an attention call, or refuse them.

    q, k, v, mask, bias are shapes; the result names their extents.
    Raises ShapeError that names the rule, the sizes expected and got. Clauses: ATTN-SHAPES, ATTN-REFUSES.
    """
    for name, shape in (("q", q), ("k", k), ("v", v)):
        _require(len(shape) == 4, "{} must have rank 4, got rank {}", name, len(shape), where=_Shapes(q, k, v))
    (B, H, T, D), (_, K, S, _), E = q, k, v[3]
    d = Dims(B, H, K, T, S, D, E)
    _require(D > 0, "q must have a width of at least 1, got 0", where=d)
    _require(k[0] == B and v[0] == B, "k and v must have q's batch {}, got {} and {}", B, k[0], v[0], where=d)
    _require(k[3] == D, "k must have q's width {}, got {}", D, k[3], where=d)
    _require(v[1] == K, "v must have k's {} heads, got {}", K, v[1], where=d)
    _require(v[2] == S, "v must have k's length {}, got {}", S, v[2], where=d)
    _require(K > 0 and H % K == 0, "k has {} heads, but q's {} heads must be a multiple of them", K, H, where=d)
    axes = "{} must be (B|1, H|1, T|1, S|1) of {}, got {}"
    for name, extra in (("mask", mask), ("bias", bias)):
        if extra is not None:
            _require(_broadcasts(extra, (B, H, T, S)), axes, name, (B, H, T, S), tuple(extra), where=d)
    return d


def dtypes(q: str, k: str, v: str, *, mask: str | None = None, bias: str | None = None) -> None:
    """Refuse a mixture of element types; the arguments are dtype names such as "float32" and "bool".

    Raises DTypeError. Clauses: ATTN-DTYPE, ATTN-ERRORS.
    """
    for name, dtype in (("k", k), ("v", v), ("bias", bias)):
        if dtype is not None and dtype != q:
            raise refuse(DTypeError, "ATTN-ERRORS", f"{name} must have q's dtype {q}, got {dtype}", "attention")
    if mask not in (None, "bool"):
        raise refuse(DTypeError, "ATTN-ERRORS", f"mask must be bool, got {mask}", "attention")


def options(window: Window | None, scale: float | None) -> None:
    """Refuse a window or a scale that has no meaning.

    Raises ConfigError. Clauses: ATTN-ERRORS.
    """
    if window is not None:
        sides = tuple(window)
        if len(sides) != 2 or any(not _side(side) for side in sides):
            problem = f"window must be (left, right), each None or an integer >= 0, got {window!r}"
            raise refuse(ConfigError, "ATTN-ERRORS", problem, "attention")
    if scale is not None and not isfinite(scale):
        raise refuse(ConfigError, "ATTN-ERRORS", f"scale must be finite, got {scale!r}", "attention")


def cap(softcap: float) -> None:
    """Refuse a soft cap that has no meaning.

    Raises ConfigError. Clauses: ATTN-ERRORS.
    """
    if not (isfinite(softcap) and softcap > 0):
        problem = f"softcap must be positive and finite, got {softcap!r}"
        raise refuse(ConfigError, "ATTN-ERRORS", problem, "soft_capped_attention")


def _side(side: object) -> bool:
    return side is None or (isinstance(side, int) and side >= 0)


def _broadcasts(shape: Shape, full: Shape) -> bool:
    return len(shape) == 4 and all(n in (1, m) for n, m in zip(shape, full, strict=True))


def _require(holds: bool, problem: str, *given: object, where: Dims | _Shapes) -> None:
    """Words are put together only for a refusal: they would cost more than the check, and fix the sizes of a graph."""
    if not holds:
        raise refuse(ShapeError, "ATTN-SHAPES", problem.format(*given), f"attention({where})")
