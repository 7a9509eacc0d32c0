"""Sinusoidal, learned and ALiBi positions as the specification defines them, and what an implementation may lose.

Admitted at every level but naive (contracts N2-N5): frequencies as powers of the base, as exponentials of a multiple of
its logarithm, or as reciprocals of either; an angle that is a product or a quotient; slopes as powers of two or as
powers of their common ratio; tables that were computed in a wider format. A position, an angle, a distance is no named
intermediate: none may be rounded to half precision. A slope is one, and may be at level stored.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract, Format, Level
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Expected, Real, compound, is_held, rounded, ulps


def sinusoidal(
    positions: ArrayLike,
    dim: int,
    *,
    base: float = 10000.0,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of a sinusoidal table and the error that the contract allows on it.

        sin(p w_i), cos(p w_i),  w_i = base ** (-2 i / dim)

    positions (T,) or (B, T), dim even -> value and err (T, dim) or (B, T, dim).
    Clauses: PE-* of spec/clauses/positions.md. Source: Vaswani et al. 2017, section 3.5.
    """
    return waves(angles(positions, frequencies(dim, base, contract), contract), contract, conventions)


def frequencies(dim: int, base: float, contract: Contract) -> Bounded:
    """The frequencies base ** (-2 i / dim), (dim / 2,); that of pair 0 is 1, without error.

        x_i = (2 i / dim) ln(base),  |error| <= w_i (exp(x_i ((1 + u)^(l + 2) - 1)) (1 + c u) (1 + u) (1 + b) - 1)

    The exponent x_i may be off by a logarithm (l = contract.log), its share of the width and the multiple of that, the
    exponential by c = contract.exp; once each a reciprocal and the base itself (b) are rounded. A power of zero is
    exact in every form. Clauses: PE-FREQUENCIES.
    """
    u = contract.acc.u
    share = 2 * np.arange(dim // 2) / dim
    value = np.asarray(float(base) ** -share)
    off = np.expm1(np.minimum(share * log(base) * ulps(contract.log + 2, u), 50.0))
    narrowed = FLOAT32.u if contract.float32_scalars else u
    relative = compound(off, contract.exp * u, u, narrowed)
    return Bounded(value, np.where(share > 0, value * relative, 0.0))


def angles(positions: ArrayLike, w: Bounded, contract: Contract) -> Bounded:
    """The angles p w_i: one rounding more; p itself is exact below 2**24, and so is the angle of pair 0.

    positions (...), w (M/2,) -> (..., M/2). Clauses: PE-FORMULA, PE-FAR. Source: contract N5.
    """
    p = held(positions, contract.acc)
    value = p.value[..., None] * w.value
    err = value * (compound(_relative(p)[..., None], _relative(w)))
    same = (err == 0) & is_held(value, contract.acc)
    return Bounded(value, np.where(same, 0.0, rounded(value, err, contract.acc)))


def waves(angle: Bounded, contract: Contract, conventions: Conventions) -> Expected:
    """Sine and cosine of each angle, in the declared order, rounded once.

        |error| <= min(e, |f'| e + e^2 / 2, 2) + c u,   e the angle's error, c = contract.trig

    by Taylor with |f''| <= 1, by |f'| <= 1, and because no two sines are further apart than 2.
    angle (..., M/2) -> (..., M). Clauses: PE-FORMULA, PE-ORDER. Source: contract N4.
    """
    sin, cos = np.sin(angle.value), np.cos(angle.value)
    made = [_wave(sin, cos, angle.err, contract), _wave(cos, sin, angle.err, contract)]
    shape = (*angle.value.shape[:-1], 2 * angle.value.shape[-1])
    if conventions.sinusoidal_order == "halves":
        return Expected(*(np.concatenate(x, axis=-1) for x in zip(*made, strict=True)))
    return Expected(*(np.stack(x, axis=-1).reshape(shape) for x in zip(*made, strict=True)))


def _wave(value: Real, slope: Real, e: Real, contract: Contract) -> tuple[Real, Real]:
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.fmin(np.minimum(e, 2.0), np.abs(slope) * e + e * e / 2)
    err = moved + contract.trig * contract.acc.u
    return value, once(Bounded(value, err), contract).err


def learned_positions(table: ArrayLike, positions: ArrayLike, *, conventions: Conventions = Conventions()) -> Expected:
    """The rows of a table, without error; where a position lies outside it, what is declared.

    table (N, M), positions (T,) or (B, T) -> (T, M) or (B, T, M). Where it is to be refused no number is right, and
    infinity stands in; undefined rows are free.
    Clauses: POS-LOOKUP, POS-LOOKUP-RANGE.
    """
    rows, p = np.asarray(table).astype(np.float64), np.asarray(positions)
    outside = (p < 0) | (p >= len(rows))
    inside = np.clip(p, 0, max(len(rows) - 1, 0))
    value = rows[inside] if len(rows) else np.zeros((*p.shape, rows.shape[1]))
    if conventions.out_of_range in ("nan", "raises"):
        value = np.where(outside[..., None], np.nan if conventions.out_of_range == "nan" else np.inf, value)
    free = outside[..., None] & (conventions.out_of_range == "undefined")
    return Expected(value, np.zeros_like(value), free=np.broadcast_to(free, value.shape))


def alibi_slopes(n_heads: int, *, contract: Contract = EXACT, conventions: Conventions = Conventions()) -> Expected:
    """The slope of each head, (H,), rounded once.

    Clauses: ALIBI-SLOPES, ALIBI-SLOPES-ANY. Source: Press et al. 2022, section 3.
    """
    made = once(slopes(n_heads, contract, conventions), contract)
    return Expected(made.value, made.err)


def slopes(n_heads: int, contract: Contract, conventions: Conventions) -> Bounded:
    """The slopes before they are stored, (H,).

        2 ** (-8 h / n),  h = 1 ... n
        |error| <= slope ((1 + u)^(2 h + 2) (1 + c u) exp(2 u x) - 1),  x = 8 h ln(2) / n

    where n is a power of two: a rounded ratio to the power h, by products or by a function (c = contract.exp), or a
    power of two of a rounded exponent. Where the ratio is itself a power of two, all are exact in every form.
    Other counts take the slopes of the next lower power of two, n, and then every other one of 2 n: the authors' rule.
    """
    n = 2 ** (n_heads.bit_length() - 1)
    if n == n_heads or conventions.alibi_slopes == "geometric":
        return _geometric(n_heads, np.arange(1, n_heads + 1), contract)
    lower = _geometric(n, np.arange(1, n + 1), contract)
    between = _geometric(2 * n, np.arange(1, 2 * (n_heads - n), 2), contract)
    return Bounded(np.concatenate([lower.value, between.value]), np.concatenate([lower.err, between.err]))


def _geometric(n: int, h: np.ndarray[tuple[int], np.dtype[np.intp]], contract: Contract) -> Bounded:
    u = contract.acc.u
    value = 2.0 ** (-8 * h / n)
    exponent = np.expm1(2 * u * 8 * h * log(2.0) / n)
    relative = compound(ulps(2 * h + 2, u), contract.exp * u, exponent)
    return Bounded(value, np.where(8 % n == 0, 0.0, value * relative))


def alibi_bias(
    n_heads: int,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of an ALiBi bias and the error that the contract allows on it.

        bias = -slope_h |i - j|     or, where key_only is declared, slope_h j

    query_positions (T,) or (B, T), key_positions (S,) or (B, S) -> (1, H, T, S) or (B, H, T, S). The distance is an
    exact integer; the product is exact for a slope that is a power of two, else rounded once; then comes the io format.
    Clauses: ALIBI-BIAS, ALIBI-DISTANCE. Source: Press et al. 2022, section 3.
    """
    i, j = (np.asarray(p, np.int64) for p in (query_positions, key_positions))
    i, j = (p if p.ndim == 2 else p[None] for p in (i, j))
    i, j = i[:, None, :, None], j[:, None, None, :]
    slope = slopes(n_heads, contract, conventions)
    if contract.rounds_at(Level.STORED):
        slope = once(slope, contract)
    m = Bounded(*(x[:, None, None] for x in (slope.value, slope.err)))  # (H, 1, 1)
    distance = held(np.abs(i - j) if conventions.alibi_bias == "symmetric" else j + 0 * i, contract.acc)
    sign = -1.0 if conventions.alibi_bias == "symmetric" else 1.0
    value = sign * m.value * distance.value
    err = np.abs(value) * compound(_relative(m), _relative(distance))
    exact = (err == 0) & is_held(value, contract.acc)
    bias = once(Bounded(value, np.where(exact, 0.0, rounded(value, err, contract.acc))), contract)
    return Expected(bias.value, bias.err)


def held(integers: ArrayLike, acc: Format) -> Bounded:
    """Integers as a format holds them: exact up to 2**p, rounded beyond, which only level naive knows."""
    value = np.asarray(integers, np.float64)
    return Bounded(value, np.where(np.abs(value) <= 2.0**acc.p, 0.0, acc.u * np.abs(value)))


def once(x: Bounded, contract: Contract) -> Bounded:
    """x, computed in the accumulation format, rounded to the io format, if that is another."""
    return x if contract.io == contract.acc else Arithmetic(contract).result(x)


def _relative(x: Bounded) -> Real:
    return np.where(x.value == 0, 0.0, x.err / np.where(x.value == 0, 1.0, np.abs(x.value)))
