"""Rotary position embedding as the specification defines it, and what an implementation may lose on the way.

Admitted at every level (contracts N1-N5): frequencies by a power, an exponential or exp2, reciprocal or negative
exponent; position times frequency in float32 (float64 for float64); cosine and sine of the same rounded angle; FMA or a
complex product. At level fused and below the entries of the table and the products may be rounded once to io.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.config import Layout, Scaling, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, Contract, Level
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, Uncertain, compound, given, rounded, ulps
from gaugeblock.spec.reference.rotary_scaling import magnitude, scaled, table_format, units
from gaugeblock.spec.rotary import POSITIONS_END, Dims, dims

Indices = np.ndarray[tuple[int], np.dtype[np.intp]]


@dataclass(frozen=True)
class Table:
    """Cosine and sine of every angle, (B|1, 1, T, R/2), and where the angle is exactly zero."""

    cos: Bounded
    sin: Bounded
    still: Bits


def rotate(
    x: Uncertain,
    positions: ArrayLike,
    *,
    base: float = 10000.0,
    layout: Layout = "half",
    rotary_dim: int | None = None,
    scaling: Scaling | None = None,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of a rotation and the error that the contract allows on it.

        a' = a cos(p w_i) - b sin(p w_i),   b' = b cos(p w_i) + a sin(p w_i)

    x (B, H, T, D), positions (T,) or (B, T) -> value and err (B, H, T, D) float64. Two products and a sum, each
    rounded in the accumulation format, then the result; where the angle is exactly zero nothing is rounded at all.
    Raises ShapeError. Clauses: those of spec/clauses/positions.md that begin with ROPE. Source: Su et al. 2021, eq. 34.
    """
    d = dims(np.shape(x), np.shape(positions), rotary_dim=rotary_dim)
    table = entries(frequencies(d, base, scaling, contract, conventions), positions, scaling, contract)
    made = turned(x, table, pairs(d, layout, conventions), contract)
    return replace(made, free=np.full((d.B, d.H, d.T, 1), unsaid(d, scaling, conventions)))


def turned(x: Uncertain, table: Table, at: tuple[Indices, Indices], contract: Contract) -> Expected:
    """Each pair of components, at (R/2,) and (R/2,), turned by its entries of the table; the others as they are."""
    first, second = at
    whole = given(x, contract.acc)
    a, b = _at(whole, first), _at(whole, second)
    minus = Bounded(-b.value, b.err)
    parts = [_turn(a, minus, table, contract), _turn(b, a, table, contract)]
    value, err = whole.value.copy(), whole.err.copy()
    for where, part in zip(at, parts, strict=True):
        value[..., where], err[..., where] = part.value, part.err
    return Expected(value, err)


def unsaid(d: Dims, scaling: Scaling | None, conventions: Conventions) -> bool:
    """Whether no convention says what comes out: YaRN's ramp over a proportional partial rotation."""
    return isinstance(scaling, YaRN) and conventions.rotary_partial == "proportional" and d.R < d.D


def pairs(d: Dims, layout: Layout, conventions: Conventions = Conventions()) -> tuple[Indices, Indices]:
    """The components of each of the R/2 pairs, (R/2,) and (R/2,): (i, i + W/2) in half, (2i, 2i + 1) in interleaved.

    W is R, or D where a partial rotation is declared proportional. Clauses: ROPE-LAYOUT, ROPE-PARTIAL.
    """
    i = np.arange(d.R // 2)
    if layout == "interleaved":
        return 2 * i, 2 * i + 1
    return i, i + width(d, conventions) // 2


def width(d: Dims, conventions: Conventions) -> int:
    """The width inside which frequencies and pairs are counted: R, or D where that is declared."""
    return d.R if conventions.rotary_partial == "compact" else d.D


def frequencies(
    d: Dims, base: float, scaling: Scaling | None, contract: Contract, conventions: Conventions = Conventions()
) -> Bounded:
    """The R/2 frequencies in radians per position, scaled as asked, by the declared conventions. -> (R/2,)."""
    return scaled(d.R // 2, width(d, conventions), base, scaling, units(contract))


def angles(w: Bounded, positions: ArrayLike, contract: Contract) -> Bounded:
    """Position times frequency: p err_w, then one rounding; none where the frequency is an exact power of two.

    w (R/2,), positions (T,) or (B, T) -> (B|1, 1, T, R/2). Clauses: ROPE-ANGLE, ROPE-PAIR-ZERO. Contract N5.
    """
    p = np.atleast_2d(np.asarray(positions)).astype(np.float64)[:, None, :, None]
    value, err = p * w.value, np.abs(p) * w.err
    whole = (w.err == 0) & (np.abs(np.frexp(w.value)[0]) == 0.5)
    return Bounded(value, np.where(whole, 0.0, err + table_format(contract).u * (np.abs(value) + err)))


def entries(w: Bounded, positions: ArrayLike, scaling: Scaling | None, contract: Contract) -> Table:
    """The table of cosines and sines, times YaRN's magnitude.

        |cos(t + e) - cos(t)| <= min(|sin t| e + e^2 / 2, e, 1 + |cos t|),   then trig u (contract N4)

    An angle beyond 2**24 tells nothing. -> (B|1, 1, T, R/2). Clauses: ROPE-ANGLE, ROPE-YARN-MAGNITUDE.
    """
    turn, wide = angles(w, positions, contract), table_format(contract)
    still = (turn.value == 0) & (turn.err == 0)
    cos, sin = np.cos(turn.value), np.sin(turn.value)
    lost = contract.trig * wide.u
    far = np.abs(turn.value) + turn.err >= POSITIONS_END
    stretch = magnitude(scaling, units(contract))
    exact = still & (stretch.value == 1) & (stretch.err == 0)
    made = []
    for value, slope in ((cos, sin), (sin, cos)):
        err = np.minimum(np.abs(slope) * turn.err + turn.err**2 / 2, np.minimum(turn.err, 1 + np.abs(value)))
        entry = Bounded(value, np.where(still, 0.0, np.where(far, 1 + np.abs(value), err) + lost))
        if stretch.value != 1 or stretch.err != 0:
            entry = Arithmetic(replace(contract, io=wide, level=Level.STRICT)).mul(entry, stretch)
        stored = Arithmetic(contract).store(entry, Level.FUSED)
        made.append(Bounded(stored.value, np.where(exact, 0.0, stored.err)))
    return Table(made[0], made[1], exact)


def norms(
    x: Uncertain,
    positions: ArrayLike,
    *,
    base: float = 10000.0,
    layout: Layout = "half",
    rotary_dim: int | None = None,
    scaling: Scaling | None = None,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Bounded:
    """The length of each rotated pair, and how far it may be off however wrong the angle is.

        computed pair = m R(t) (a, b) + error,   so | |computed| - m |(a, b)| | <= |error| <= sqrt(2) e

    where t is the angle that was used, and e what entries of size m, off by trig u, and the roundings of a pair may
    lose: the angle's own error does not enter. -> (B, H, T, R/2). Clauses: ROPE-NORM, ROPE-YARN-MAGNITUDE.
    """
    d = dims(np.shape(x), np.shape(positions), rotary_dim=rotary_dim)
    first, second = pairs(d, layout, conventions)
    whole = given(x, contract.acc)
    m, lost = magnitude(scaling, units(contract)), contract.trig * table_format(contract).u
    one = Bounded(m.value, np.asarray(m.err + (m.value + m.err) * compound(lost, ulps(1, table_format(contract).u))))
    one = Arithmetic(contract).store(one, Level.FUSED)
    a, b = (Bounded(np.abs(part.value), part.err) for part in (_at(whole, first), _at(whole, second)))
    most = _turn(a, b, Table(one, one, np.zeros((), bool)), contract)
    return Bounded(m.value * np.hypot(a.value, b.value), np.sqrt(2.0) * most.err)


def _turn(a: Bounded, b: Bounded, table: Table, contract: Contract) -> Bounded:
    """a cos + b sin, rounded to io; a itself where the angle is zero."""
    acc = Arithmetic(contract)
    products = [acc.store(acc.mul(a, table.cos), Level.FUSED), acc.store(acc.mul(b, table.sin), Level.FUSED)]
    value = products[0].value + products[1].value
    err = rounded(value, products[0].err + products[1].err, contract.acc)
    err = err if contract.acc == contract.io else rounded(value, err, contract.io)
    return Bounded(value, np.where(table.still, a.err, err))


def _at(x: Bounded, where: Indices) -> Bounded:
    return Bounded(x.value[..., where], x.err[..., where])
