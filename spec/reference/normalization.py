"""LayerNorm and RMSNorm as the specification defines them, and what an implementation may lose on the way.

Admitted at every level (contracts N1-N4): any order and blocking of the sums; FMA; a mean by division or by a rounded
1/M; a mean square of values scaled by their largest; variance in two passes, or updated value by value or block by
block (Welford 1962; Chan et al. 1983), but not E[x²] - E[x]²; one reciprocal root, or root and division; weight and
reciprocal root multiplied first; (x - mean) r or x r - mean r, with weight and bias folded in; flushed subnormals.
"""

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.normalization import dims, options
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract, Format, Level
from gaugeblock.spec.reference.arithmetic import Arithmetic, exact
from gaugeblock.spec.reference.bounded import (
    Bounded,
    Expected,
    Real,
    Uncertain,
    compound,
    given,
    is_held,
    rounded,
    ulps,
)

SQUARE_ROUNDINGS = 6  # beside the M of a sum: the value, scaled or centred, on both sides; the square; 1/M, its product
MEAN_ROUNDINGS = 3  # beside the M of a sum: 1/M, its product, and the last update of a running mean


def layer_norm(
    x: Uncertain,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    *,
    eps: float,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of a LayerNorm call and the error that the contract allows on it.

        y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias

    x (..., M), weight and bias (M,) or None -> value and err (..., M) float64, empty and free (...).
    Under layer_norm_form="sample_eps_outside" the divisor is sqrt(sum((x - mean)²) / (M - 1)) + eps, and a row of
    width 1 is free, since it has no sample deviation.
    Raises ShapeError, ConfigError. Clauses: those of spec/clauses/normalization.md that begin with LN.
    Source: Ba et al. 2016, eq. 4; Chan, Golub and LeVeque 1983, sections 2-3 (errors of the variance).
    """
    M = dims(np.shape(x), _shape(weight), _shape(bias), method="layer_norm").M
    options(eps, method="layer_norm")
    acc = contract.acc
    row = given(x, acc)
    mean = average(row, acc)
    spread = variance(row, mean, acc)
    population = conventions.layer_norm_form == "population"
    inverse = inverse_root(spread, eps, contract) if population else inverse_deviation(spread, eps, M, contract)
    normal = _times(deviations(row, mean, acc), inverse, contract)
    w, b = (None if a is None else given(a, acc) for a in (weight, bias))
    affine = _shifted(_scaled(normal, w, inverse, contract), b, contract)
    return _settled(affine, inverse, contract, free=M == 1 and not population)


def rms_norm(
    x: Uncertain,
    weight: ArrayLike | None,
    *,
    eps: float,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of an RMSNorm call and the error that the contract allows on it.

        y = x / sqrt(mean(x²) + eps) * weight

    x (..., M), weight (M,) or None -> value and err (..., M) float64, empty and free (...). Under rms_weight="1+w" a
    given weight stands for 1 + weight, added in the accumulation format.
    Raises ShapeError, ConfigError. Clauses: those of spec/clauses/normalization.md that begin with RMS.
    Source: Zhang and Sennrich 2019, eq. 4.
    """
    dims(np.shape(x), _shape(weight), method="rms_norm")
    options(eps, method="rms_norm")
    row = given(x, contract.acc)
    inverse = inverse_root(mean_square(row, contract.acc), eps, contract)
    gain = None if weight is None else given(weight, contract.acc)
    if gain is not None and conventions.rms_weight == "1+w":
        gain = Arithmetic(contract).add(exact(1.0), gain)
    return _settled(_scaled(_times(row, inverse, contract), gain, inverse, contract), inverse, contract)


def average(x: Bounded, acc: Format) -> Bounded:
    """The mean of each row.

        |error| <= mean(err) + ((1 + u)^n - 1) mean(|x| + err),   n = M + 3 + 3 ln M

    A sum in any order rounds each term at most M - 1 times. A running mean m_k = m_(k-1) + (x_k - m_(k-1)) / k loses
    u (|m_k| + 3 |x_k - m_(k-1)| / k) at step k, of which k / M survive: sum k |m_k| / M <= M mean|x|, and
    sum |x_k - m_(k-1)| / M <= (1 + ln M) mean|x|.
    x (..., M) -> (..., 1). Clauses: LN-FORMULA, LN-SHIFT.
    """
    size = np.abs(x.value) + x.err
    err = _mean(x.err) + _mean_loss(x.value.shape[-1], acc) * _mean(size) + _lost(size, 3 * acc.eta)
    return Bounded(_mean(x.value), np.where(np.sum(size, axis=-1, keepdims=True) <= acc.max, err, np.inf))


def deviations(x: Bounded, mean: Bounded, acc: Format) -> Bounded:
    """Each value less the mean of its row, as far as the result needs it.

        |error| <= err + err_mean + 2 u (|x| + |mean|) + u |x - mean|

    The third term admits x r - mean r, whose products round before they cancel.
    x (..., M), mean (..., 1) -> (..., M). Clauses: LN-FORMULA.
    """
    value = x.value - mean.value
    err = x.err + mean.err
    size = np.abs(x.value) + np.abs(mean.value) + err
    rounding = 2 * acc.u * size + acc.u * (np.abs(value) + err) + np.where(size > 0, 2 * acc.eta, 0.0)
    return Bounded(value, err + rounding)


def mean_square(x: Bounded, acc: Format) -> Bounded:
    """The mean of the squares of each row; nothing cancels.

        |error| <= mean(2 |x| err + err²) + ((1 + u)^(M + 6) - 1) mean((|x| + err)²)

    x (..., M) -> (..., 1); nothing is promised where the sum of squares may overflow. Clauses: RMS-FORMULA, RMS-LARGE.
    """
    squares = (np.abs(x.value) + x.err) ** 2
    err = _mean(2 * np.abs(x.value) * x.err + x.err**2) + _square_loss(x.value.shape[-1], acc) * _mean(squares)
    return Bounded(_mean(x.value**2), _unless_overflow(squares, err + _lost(squares, 4 * acc.eta), acc))


def variance(x: Bounded, mean: Bounded, acc: Format) -> Bounded:
    """The population variance of each row.

        |error| <= A + B + ((1 + u)^(M + 6) - 1) (variance + A + B)
        A = mean(2 |d| err + err²) + err_mean² + 2 err_mean mean(err),   d = x - mean
        B = 2 w deviation + w²,   w = ((1 + u)^n - 1) rms(x),   n = M + 3 + 3 ln M

    In two passes the deviations sum to zero, so that the error of the mean, common to all, enters squared only: A.
    An updated variance compares each value with the mean of those before it, off by at most u n times their mean size:
    sum 2 |err_k| |d_k|, with sum k d_k² / (k + 1) <= M variance and Cauchy-Schwarz (twice), is B.
    x (..., M), mean (..., 1) -> (..., 1). Clauses: LN-POPULATION, LN-LARGE-MEAN.
    """
    M = x.value.shape[-1]
    d = np.abs(x.value - mean.value)
    value = _mean(d**2)
    with np.errstate(invalid="ignore"):  # an error that is not known, times none
        two_pass = _mean(2 * d * x.err + x.err**2) + mean.err**2 + 2 * mean.err * _mean(x.err)
    w = _mean_loss(M, acc) * np.sqrt(_mean((np.abs(x.value) + x.err) ** 2))
    inherited = two_pass + 2 * w * np.sqrt(value) + w**2
    err = inherited + _square_loss(M, acc) * (value + inherited) + _lost(d + x.err + mean.err, 4 * acc.eta)
    return Bounded(value, _unless_overflow((d + x.err + mean.err + w) ** 2, err, acc))


def inverse_root(square: Bounded, eps: float, contract: Contract) -> Bounded:
    """1 / sqrt(square + eps), in one function or in two.

    Neither a mean square nor a variance is ever computed below zero, so that the sum is at least what eps became.
    square (..., 1) -> (..., 1). Clauses: LN-EPS-INSIDE, RMS-EPS-INSIDE.
    """
    small = held(eps, contract)
    total = Arithmetic(contract).add(square, small)
    return reciprocal(total, _floor(small, contract.acc), 0.5, contract)


def inverse_deviation(square: Bounded, eps: float, M: int, contract: Contract) -> Bounded:
    """1 / (sqrt(M / (M - 1) variance) + eps), for layer_norm_form="sample_eps_outside".

    square (..., 1) -> (..., 1). Clauses: LN-EPS-INSIDE, LN-POPULATION.
    """
    small = held(eps, contract)
    total = Arithmetic(contract).add(sample_deviation(square, M, contract), small)
    return reciprocal(total, _floor(small, contract.acc), 1.0, contract)


def sample_deviation(square: Bounded, M: int, contract: Contract) -> Bounded:
    """sqrt(M / (M - 1) variance); of a row of one, which has none, the root of the variance.

    The root of a value in [v - E, v + E] lies between the roots of both ends, of which the lower is at least zero.
    square (..., 1) -> (..., 1). Clauses: LN-POPULATION.
    """
    acc = contract.acc
    bessel = M / max(M - 1, 1)
    v, E = square.value * bessel, bessel * (square.err + (square.value + square.err) * ulps(2, acc.u))
    root, low = np.sqrt(v), np.sqrt(np.maximum(v - E, 0.0))
    with np.errstate(invalid="ignore"):
        below = np.where(v > 0, np.minimum(v, E) / np.where(v > 0, root + low, 1.0), 0.0)
        above = np.where(E > 0, E / np.where(E > 0, np.sqrt(v + E) + root, 1.0), 0.0)
    err = np.where(np.isfinite(E), np.maximum(above, below), np.inf)
    return Bounded(root, err + np.where(v > 0, contract.rsqrt * acc.u * (root + err), 0.0))


def held(eps: float, contract: Contract) -> Bounded:
    """eps as the implementation holds it: rounded once to the accumulation format, or to float32 before that."""
    value, err = np.asarray(float(eps)), np.zeros(())
    for narrow in (FLOAT32, contract.acc) if contract.float32_scalars else (contract.acc,):
        err = np.where(is_held(value, narrow) & (err == 0), 0.0, rounded(value, err, narrow))
    return Bounded(value, err)


def reciprocal(x: Bounded, floor: Real, power: float, contract: Contract) -> Bounded:
    """x to the power -1/2 or -1, where what is computed for x lies in [max(x - err, floor), x + err].

    Both ends are evaluated: the upper end alone bounds too little where err is as large as x, and where floor is 0
    nothing is promised. A zero without error has no inverse: the value is inf, its error 0.
    """
    below = np.minimum(x.err, x.value - np.minimum(floor, x.value))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = x.value**-power
        slight = np.expm1(-power * np.log1p(-below / x.value))
        large = (x.value / np.maximum(x.value - x.err, floor)) ** power - 1  # 1 - below / x would be lost in float64
        more = np.where(2 * below < x.value, slight, large)
        less = -np.expm1(-power * np.log1p(x.err / x.value))
        relative = compound(np.maximum(more, less), contract.rsqrt * contract.acc.u)
        err = np.where(np.isfinite(x.err), value * relative, np.inf)
    never = x.value == 0
    return Bounded(value, np.where(never, np.where(x.err == 0, 0.0, np.inf), err))


def _floor(eps: Bounded, acc: Format) -> Real:
    """The least that a sum of something not negative and eps can be computed as."""
    least = (eps.value - eps.err) * (1 - acc.u) - np.where(eps.err > 0, acc.eta, 0.0)
    return np.maximum(least, 0.0)


def _times(x: Bounded, inverse: Bounded, contract: Contract) -> Bounded:
    """The normalized row; NaN, and whatever its error is, where a zero meets an infinite inverse."""
    with np.errstate(invalid="ignore"):
        return Arithmetic(contract).mul(x, inverse)


def _scaled(normal: Bounded, weight: Bounded | None, inverse: Bounded, contract: Contract) -> Bounded:
    """The normalized row times the weight; what underflows in another order of the factors is lost as well.

    At level fused the normalized row may be stored in io before that.
    """
    if weight is None:
        return normal
    with np.errstate(invalid="ignore"):
        stored = Arithmetic(contract).store(normal, Level.FUSED)
        product = Arithmetic(contract).mul(stored, weight)
        lost = contract.acc.eta * (np.abs(weight.value) + np.abs(inverse.value) + np.abs(normal.value))
        touched = (np.abs(stored.value) + stored.err) * (np.abs(weight.value) + weight.err) > 0
    return Bounded(product.value, product.err + np.where(touched, lost, 0.0))


def _shifted(scaled: Bounded, bias: Bounded | None, contract: Contract) -> Bounded:
    """The scaled row plus the bias; b - mean r w, where it is formed first, rounds b once more.

    At level fused the scaled row may be stored in io before that.
    """
    if bias is None:
        return scaled
    stored = Arithmetic(contract).store(scaled, Level.FUSED)
    again = np.where(stored.err > 0, contract.acc.u * (np.abs(bias.value) + bias.err), 0.0)
    return Arithmetic(contract).add(stored, Bounded(bias.value, bias.err + again))


def _settled(y: Bounded, inverse: Bounded, contract: Contract, free: bool = False) -> Expected:
    """Round the result; NaN in a row whose divisor is exactly zero, nothing promised where an error is not known."""
    done = Arithmetic(contract).result(y)
    nothing = np.isinf(inverse.value) & (inverse.err == 0)
    value = np.where(nothing, np.nan, done.value)
    err = np.where(nothing, 0.0, np.nan_to_num(done.err, nan=np.inf, posinf=np.inf))
    return Expected(value, err, np.zeros(value.shape[:-1], bool), np.full((), free))


def _mean_loss(M: int, acc: Format) -> Real:
    return ulps(M + MEAN_ROUNDINGS + 3 * np.log(M), acc.u)


def _square_loss(M: int, acc: Format) -> Real:
    return ulps(M + SQUARE_ROUNDINGS, acc.u)


def _mean(x: Real) -> Real:
    return np.asarray(np.mean(x, axis=-1, keepdims=True))


def _lost(size: Real, amount: float) -> Real:
    """What underflow takes from a mean: amount, nothing where all terms are exactly zero."""
    return np.where(np.any(size > 0, axis=-1, keepdims=True), amount, 0.0)


def _unless_overflow(squares: Real, err: Real, acc: Format) -> Real:
    return np.where(np.sum(squares, axis=-1, keepdims=True) * (1 + acc.u) <= acc.max, err, np.inf)


def _shape(x: ArrayLike | None) -> tuple[int, ...] | None:
    return None if x is None else np.shape(x)
