"""The gradients of LayerNorm and RMSNorm (source 6.1, 6.2), and what an implementation may lose on the way to them.

Admitted beside what the forward pass may do: sums over the row of h x̂, or of h x from which mean(x) times the sum of h
is taken; the result as r h + b x + c with factors b and c for the row; the cube of the reciprocal root from its square,
from the mean square or by division; sums over the rows in any order. Of a deviation to which eps is added the
reciprocal stands beside that of the sum, with M / (M - 1) or its parts multiplied or divided by.
"""

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.normalization import dims, options
from gaugeblock.spec.precision import EXACT, Contract, Format
from gaugeblock.spec.reference.arithmetic import Arithmetic, exact
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, Real, Uncertain, compound, given, rounded, ulps
from gaugeblock.spec.reference.normalization import (
    average,
    deviations,
    inverse_deviation,
    inverse_root,
    mean_square,
    reciprocal,
    sample_deviation,
    variance,
)

ROUNDINGS = 12  # beside the M of a sum: 1/M, the cube of the root, the products and sums of r h + b x + c


def layer_norm(
    x: Uncertain,
    weight: ArrayLike | None,
    bias: ArrayLike | None,
    dy: Uncertain,
    *,
    eps: float,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> dict[str, Bounded]:
    """The gradients of x, and of weight and bias where they are given, for the cotangent dy of the result.

        h = dy w,   dx = r (h - mean(h) - x̂ mean(h x̂)),   dweight = sum dy x̂,   dbias = sum dy

    r is the reciprocal root, x̂ the normalized row; the last two sums run over all rows.
    x, dy (..., M), weight, bias (M,) or None -> values and errors in the shapes of the inputs.
    Under layer_norm_form="sample_eps_outside" r = 1 / (s + eps) with the sample deviation s, the last term of dx is
    x̂ sum(h x̂) / (M - 1) (s + eps) / s, and of rows of width 1 only dbias is not free.
    Raises ShapeError, ConfigError. Clauses: LN-GRADIENT, LN-GRADIENT-ORTHOGONAL.
    Source: Ba et al. 2016, eq. 4, differentiated.
    """
    M = dims(np.shape(x), *(None if a is None else np.shape(a) for a in (weight, bias)), method="layer_norm").M
    options(eps, method="layer_norm")
    acc = contract.acc
    row, g = given(x, acc), given(dy, acc)
    mean = average(row, acc)
    spread, d = variance(row, mean, acc), deviations(row, mean, acc)
    population = conventions.layer_norm_form == "population"
    r = inverse_root(spread, eps, contract) if population else inverse_deviation(spread, eps, M, contract)
    steep = r if population else _steepness(spread, M, contract)
    h = g if weight is None else Arithmetic(contract).mul(g, given(weight, acc))
    size = np.abs(row.value) + row.err + np.abs(mean.value) + mean.err
    found = {"x": _input(h, d, size, r, steep, contract, centred=True)}
    if weight is not None:
        found["weight"] = _over_rows(g, _normal(d, r, contract), contract)
    if M == 1 and not population:
        found = {name: Expected(made.value, made.err, free=np.ones((), bool)) for name, made in found.items()}
    if bias is not None:
        found["bias"] = _over_rows(g, exact(np.ones(row.value.shape)), contract)
    return found


def rms_norm(
    x: Uncertain,
    weight: ArrayLike | None,
    dy: Uncertain,
    *,
    eps: float,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> dict[str, Bounded]:
    """The gradients of x, and of weight where it is given, for the cotangent dy of the result.

        h = dy w,   dx = r (h - x̂ mean(h x̂)),   dweight = sum over the rows of dy x̂

    x, dy (..., M), weight (M,) or None -> values and errors in the shapes of the inputs. Under rms_weight="1+w" the
    weight of the first formula is 1 + w. Raises ShapeError, ConfigError.
    Clauses: RMS-GRADIENT, RMS-GRADIENT-ORTHOGONAL. Source: Zhang and Sennrich 2019, eq. 4, differentiated.
    """
    dims(np.shape(x), None if weight is None else np.shape(weight), method="rms_norm")
    options(eps, method="rms_norm")
    acc, a = contract.acc, Arithmetic(contract)
    row, g = given(x, acc), given(dy, acc)
    r = inverse_root(mean_square(row, acc), eps, contract)
    if weight is None:
        return {"x": _input(g, row, np.abs(row.value) + row.err, r, r, contract, centred=False)}
    w = given(weight, acc)
    h = a.mul(g, a.add(exact(1.0), w) if conventions.rms_weight == "1+w" else w)
    found = {"x": _input(h, row, np.abs(row.value) + row.err, r, r, contract, centred=False)}
    return {**found, "weight": _over_rows(g, _normal(row, r, contract), contract)}


def _steepness(square: Bounded, M: int, contract: Contract) -> Bounded:
    """M / (M - 1) over the sample deviation: what the mean of h d is multiplied by. (..., 1) -> (..., 1)."""
    bessel = M / max(M - 1, 1)
    one = reciprocal(sample_deviation(square, M, contract), np.zeros(()), 1.0, contract)
    with np.errstate(invalid="ignore"):  # a constant row is steeper than any number
        return Bounded(bessel * one.value, bessel * (one.err + ulps(2, contract.acc.u) * (one.value + one.err)))


def _input(
    h: Bounded, d: Bounded, size: Real, r: Bounded, steep: Bounded, contract: Contract, *, centred: bool
) -> Bounded:
    """dx = r (h - mean(h)) - b d,   b = r² steep mean(h d), where a norm that does not centre has no mean(h).

        |b computed - b| <= r² steep (mean(err_h |d| + |h| err_d) + ((1 + u)^n (1 + rho)³ - 1) mean(|h| size))

    n = M + 12; size is |d| before it cancels, |x| + |mean|: what the sums lose where they run over h x. steep is r, but
    where eps is added to a deviation. rho is the relative error of r, and of steep; it stands for that of the root's
    argument as well, since t = r^-2.
    h, d, size (..., M), r and steep (..., 1) -> (..., M).
    """
    acc, M = contract.acc, h.value.shape[-1]
    most = np.abs(h.value) + h.err
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rho = r.err / r.value
        root, cube = compound(rho, ulps(M + ROUNDINGS, acc.u)), _cube(rho, steep, M, contract)
        mean_h = _mean(h.value) if centred else np.zeros(r.value.shape)
        size_h = _mean(most) if centred else np.zeros(r.value.shape)
        pull = r.value**2 * steep.value
        b = pull * _mean(h.value * d.value)
        off_b = pull * (_mean(h.err * np.abs(d.value) + most * d.err) * (1 + cube) + cube * _mean(most * size))
        off_h = h.err + (_mean(h.err) if centred else 0.0)
        err = r.value * (off_h * (1 + root) + root * (most + size_h))
        err = err + np.abs(d.value) * off_b + (np.abs(b) + off_b) * (d.err + ulps(4, acc.u) * size)
        value = r.value * (h.value - mean_h) - b * d.value
        err = np.where(_some(most), err + _lost(most, size, np.maximum(r.value, steep.value), acc), 0.0)
    known = np.isfinite(value) & np.isfinite(err) & (np.sum(most * size, axis=-1, keepdims=True) <= acc.max)
    known = known & _is_in_range(r, contract, 3) & _is_in_range(steep, contract, 3)
    value = np.where(np.isfinite(value), value, 0.0)
    return Bounded(value, rounded(value, np.where(known, err, np.inf), contract.io))


def _cube(rho: Real, steep: Bounded, M: int, contract: Contract) -> Real:
    """The relative error of r² steep and of a sum over the row: r three times, or r and twice its argument's root."""
    roundings = ulps(M + ROUNDINGS + 2 * contract.rsqrt, contract.acc.u)
    return np.asarray(compound(rho, rho, steep.err / steep.value, roundings))


def _lost(h: Real, size: Real, r: Real, acc: Format) -> Real:
    """What underflows: any of the factors of r³ h d d, multiplied by all that may come after it."""
    sums = 1 + _mean(h) + _mean(h * size)
    return np.asarray(8 * acc.eta * (1 + size) * (1 + r) ** 3 * sums)


def _is_in_range(r: Bounded, contract: Contract, power: int) -> Bits:
    """Whether the io format has room for r to a power: kernels keep it for the way back, and zero times inf is NaN."""
    with np.errstate(over="ignore"):
        return np.asarray((r.value + r.err) ** power < contract.io.limit)


def _normal(d: Bounded, r: Bounded, contract: Contract) -> Bounded:
    with np.errstate(invalid="ignore"):
        x = Arithmetic(contract).mul(d, r)
    return Bounded(x.value, np.where(_is_in_range(r, contract, 1), x.err, np.inf))


def _over_rows(g: Bounded, factor: Bounded, contract: Contract) -> Bounded:
    """The sum over all rows of g times a factor, in any order: (..., M) -> (M,)."""
    M = g.value.shape[-1]
    a, b = (Bounded(x.value.reshape(-1, M), x.err.reshape(-1, M)) for x in (g, factor))
    n, u = len(a.value), contract.acc.u
    size = np.sum((np.abs(a.value) + a.err) * (np.abs(b.value) + b.err), axis=0)
    with np.errstate(invalid="ignore"):
        value = np.sum(a.value * b.value, axis=0)
        err = np.sum(a.err * np.abs(b.value) + (np.abs(a.value) + a.err) * b.err, axis=0) + ulps(n + 4, u) * size
    err = err + np.where(size > 0, 2 * n * contract.acc.eta, 0.0)
    known = np.isfinite(value) & np.isfinite(err)
    value = np.where(known, value, 0.0)
    return Bounded(value, rounded(value, np.where(known, err, np.inf), contract.io))


def _mean(x: Real) -> Real:
    return np.asarray(np.mean(x, axis=-1, keepdims=True))


def _some(x: Real) -> Real:
    return np.asarray(np.any(x > 0, axis=-1, keepdims=True))
