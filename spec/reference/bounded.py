"""Values with the error that a correct implementation may make, and the few rules by which such errors grow.

A bound is absolute and elementwise: a conforming result lies within err of value. No rule is probabilistic, none is
tuned; u is the unit roundoff of a format and eta its largest underflow error (spec.precision).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaugeblock.spec.precision import Format

Real = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Bounded:
    """A float64 value and the largest error that is allowed on it; err = inf where nothing can be promised."""

    value: Real
    err: Real

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the value."""
        return self.value.shape


Uncertain: TypeAlias = ArrayLike | Bounded  # an input of a call, or what an earlier step may have made of one


@dataclass(frozen=True)
class Expected(Bounded):
    """What a call should give.

    empty marks the output rows that depend on no key (they are exact) and has the shape of value without its last
    axis; free marks the elements on which nothing is promised, and broadcasts to value.
    """

    empty: Bits = field(default_factory=lambda: np.zeros((), bool))
    free: Bits = field(default_factory=lambda: np.zeros((), bool))


def given(x: Uncertain, acc: Format) -> Bounded:
    """An input, taken as the exact real number that it is (contract N1); one that is uncertain stays as it is.

    Only a subnormal of a format that may flush is uncertain by itself: it may be read as zero.
    """
    if isinstance(x, Bounded):
        return x
    value = np.asarray(x).astype(np.float64)
    size = np.abs(value)
    return Bounded(value, np.where((size < acc.tiny) & acc.flush, size, 0.0))


def moved(x: Bounded, f: Callable[[Real], Real]) -> Bounded:
    """Value and error in another arrangement: f reshapes, transposes or selects."""
    return Bounded(f(x.value), f(x.err))


def rounded(value: Real | float, err: Real | float, to: Format) -> Real:
    """The error after one rounding to a format: err + u (|value| + err) + eta, inf where that may overflow.

    A zero without error stays exact.
    """
    size = np.abs(value) + err
    after = np.asarray(err + to.u * size + np.where(size > 0, to.eta, 0.0))
    return np.where(size < to.limit, after, np.inf)


def is_held(value: Real | float, by: Format) -> Bits:
    """Whether a format holds the number exactly, in a range in which it does not flush."""
    size = np.abs(np.asarray(value, np.float64))
    with np.errstate(over="ignore"):
        same = np.asarray(value, np.float64).astype(by.dtype).astype(np.float64) == value
    return np.asarray(same & ((size >= by.tiny) | (size == 0) | (not by.flush)))


def compound(*relative: Any) -> Any:
    """The relative error of a product of factors 1 + r_i with |r_i| <= relative_i: prod(1 + relative_i) - 1."""
    product: Any = 1.0
    for r in relative:
        product = product * (1.0 + r)
    return product - 1.0


def ulps(count: ArrayLike, u: float) -> Real:
    """The relative error of count roundings on top of one another, quotients included: exp(n u / (1 - n u)) - 1.

    (1 + u)**n <= exp(n u) and 1 / (1 - n u) <= exp(n u / (1 - n u)); n u is capped at 0.9, where it says nothing.
    """
    nu = np.minimum(np.asarray(count, np.float64) * u, 0.9)
    return np.asarray(np.expm1(nu / (1.0 - nu)))


def matmul_size(a: Bounded, b: Bounded) -> Real:
    """What multiplies the roundings of an inner product: sum (|a| + err_a)(|b| + err_b).

    a (..., T, D), b (..., D, S) -> (..., T, S).
    """
    return np.asarray((np.abs(a.value) + a.err) @ (np.abs(b.value) + b.err))


def inherited(a: Bounded, b: Bounded) -> Real:
    """What the errors of the operands do to an inner product: sum err_a |b| + |a| err_b + err_a err_b.

    a (..., T, D), b (..., D, S) -> (..., T, S).
    """
    return np.asarray(a.err @ (np.abs(b.value) + b.err) + np.abs(a.value) @ b.err)


def is_exact_sum(a: Bounded, b: Bounded, size: Real, acc: Format) -> Bits:
    """The exactness certificate: where every partial sum of the inner product, in any order, is representable.

    If a holds multiples of 2**g, b multiples of 2**h, both without error, and sum |a||b| <= 2**(g + h + p), then
    every partial sum is a multiple of 2**(g + h) below 2**(g + h + p): no rounding happens.
    """
    if a.err.any() or b.err.any():
        return np.zeros(size.shape, bool)
    unit = _grid(a.value) * _grid(b.value)
    return np.asarray((size <= unit * 2.0**acc.p) & (unit >= acc.tiny))


def _grid(x: Real) -> float:
    """The largest power of two of which every element is a multiple."""
    mantissa, exponent = np.frexp(x[x != 0])
    if mantissa.size == 0:
        return 1.0
    whole = (mantissa * 2.0**53).astype(np.int64)
    trailing = np.log2((whole & -whole).astype(np.float64))
    return float(2.0 ** np.min(exponent - 53 + trailing))


def others(x: Real) -> Real:
    """The sum over the last axis without the element itself; from both ends, so that nothing cancels."""
    zero = np.zeros_like(x[..., :1])
    before = np.concatenate([zero, np.cumsum(x, axis=-1)[..., :-1]], axis=-1)
    after = np.concatenate([zero, np.cumsum(x[..., ::-1], axis=-1)[..., :-1]], axis=-1)
    return np.asarray(before + after[..., ::-1])
