"""The frequencies of a rotation under every rule of scaling, and what an implementation may lose on the way to them."""

from dataclasses import dataclass
from math import frexp, log, pi

import numpy as np

from gaugeblock.spec.config import NTK, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.precision import FLOAT32, FLOAT64, Contract, Format
from gaugeblock.spec.reference.bounded import Bounded, Real, compound, ulps


@dataclass(frozen=True)
class Units:
    """How finely frequencies and angles are computed: io's own format for float64, else float32, at every level.

    u is its unit roundoff, exp and log what these functions may lose in units of u; parameters are held in the
    format `scalars`.
    """

    u: float
    exp: float
    log: float
    scalars: Format

    def held(self, parameter: float) -> float:
        """The relative error with which a parameter is held (contract N1)."""
        return abs(float(np.asarray(parameter, self.scalars.dtype)) / parameter - 1.0)


def table_format(contract: Contract) -> Format:
    """The format of frequencies, angles, cosines and sines: positions are never rounded below float32 (N5)."""
    return FLOAT64 if contract.io is FLOAT64 else FLOAT32


def units(contract: Contract) -> Units:
    """The units that a contract implies."""
    held = FLOAT32 if contract.float32_scalars else table_format(contract)
    return Units(table_format(contract).u, contract.exp, contract.log, held)


def scaled(n: int, w: int, base: float, scaling: Scaling | None, f: Units) -> Bounded:
    """The frequencies of n pairs in radians per position, counted within the width w, scaled as asked.

    -> (n,). Clauses: ROPE-BASE, ROPE-LINEAR, ROPE-NTK, ROPE-YARN, ROPE-LLAMA3.
    """
    e = 2.0 * np.arange(n) / w
    plain = powers(e, base, f)
    match scaling:
        case None:
            return plain
        case Linear(factor):
            return divided(plain, factor, f)
        case NTK(alpha):
            return stretched(e, base, alpha, w, f)
        case YaRN():
            return blend(plain, yarn_share(n, w, base, scaling, f), scaling.factor, f)
        case Llama3():
            return blend(plain, llama3_share(plain, scaling, f), scaling.factor, f)


def powers(e: Real, base: float, f: Units) -> Bounded:
    """base ** -e, exactly 1 for e = 0.

        base ** -e = exp(-e ln base): the argument is off by e ln base (2 + log) u + e held(base), since exponent,
        logarithm and product are rounded; then the exponential and a reciprocal

    Source: the rules of Higham 2002, section 3.1; contract N5.
    """
    argument = e * log(base) * (2 + f.log) * f.u + e * f.held(base)
    relative = compound(np.expm1(argument), ulps(f.exp + 1, f.u))
    value = base**-e
    return Bounded(value, np.where(e == 0, 0.0, value * relative))


def divided(plain: Bounded, factor: float, f: Units) -> Bounded:
    """Frequencies over factor: a reciprocal and a product; nothing is rounded where factor is a power of two."""
    value = plain.value / factor
    if abs(frexp(factor)[0]) == 0.5:
        return Bounded(value, plain.err / factor)
    return Bounded(value, value * compound(plain.err / plain.value, f.held(factor), ulps(2, f.u)))


def stretched(e: Real, base: float, alpha: float, w: int, f: Units) -> Bounded:
    """Frequencies for the base times alpha ** q, q = W / (W - 2), or plain ones times alpha ** (-e q).

    Two powers either way, so twice what `powers` loses. A single frequency stays 1. Source: bloc97 2023.
    """
    if w == 2:
        return powers(e, base, f)
    q = w / (w - 2)
    argument = e * (log(base) + 2 * q * abs(log(alpha))) * (2 + f.log) * f.u
    argument = argument + e * (f.held(base) + q * f.held(alpha))
    value = base**-e * alpha ** (-e * q)
    return Bounded(value, np.where(e == 0, 0.0, value * compound(np.expm1(argument), ulps(2 * f.exp + 4, f.u))))


def blend(plain: Bounded, share: Bounded, factor: float, f: Units) -> Bounded:
    """Frequencies of which a share r is divided by factor.

        w ((1 - r) + r / factor),   or w (1 + r (1 / factor - 1)): an absolute error of 4 u r max(1, 1 / factor)

    share (R/2,) in [0, 1]. Where it is exactly zero the frequency stays as it is.
    """
    r, top = share.value, max(1.0, 1.0 / factor)
    kept = (1.0 - r) + r / factor
    relative = compound(plain.err / plain.value, f.held(factor), ulps(8, f.u))
    moved = r * top * ulps(4, f.u) + abs(1.0 - 1.0 / factor) * share.err
    err = plain.value * (kept * relative + (1.0 + relative) * moved)
    return Bounded(plain.value * kept, np.where((r == 0) & (share.err == 0), plain.err, err))


def yarn_share(n: int, w: int, base: float, s: YaRN, f: Units) -> Bounded:
    """The share of each pair that YaRN divides by factor: 0 up to the end of the fast pairs, 1 from the slow ones on.

        end(turns) = W ln(original / (2 pi turns)) / (2 ln base)      the pair that turns so often within original

    An end that truncation may round either way gives both ramps. -> (n,). Source: Peng et al. 2024, section 3.2, and
    the authors' code, whose ramp is linear in the index of the pair.
    """
    ends = [_yarn_end(turns, w, base, s, f) for turns in (s.fast, s.slow)]
    low, high = (Bounded(np.clip(x.value, 0.0, w - 1.0), x.err) for x in ends)
    if not s.truncate:
        return _ramp(n, low, high, f)
    lows = {max(np.floor(ends[0].value + t * ends[0].err), 0.0) for t in (0.0, -1.0, 1.0)}
    highs = {min(np.ceil(ends[1].value + t * ends[1].err), w - 1.0) for t in (0.0, -1.0, 1.0)}
    zero = np.zeros(())
    ramps = [_ramp(n, Bounded(np.asarray(a), zero), Bounded(np.asarray(b), zero), f) for a in lows for b in highs]
    middle = _ramp(
        n,
        Bounded(np.maximum(np.floor(ends[0].value), 0.0), zero),
        Bounded(np.minimum(np.ceil(ends[1].value), w - 1.0), zero),
        f,
    )
    return Bounded(middle.value, np.max([np.abs(r.value - middle.value) + r.err for r in ramps], axis=0))


def _yarn_end(turns: float, w: int, base: float, s: YaRN, f: Units) -> Bounded:
    ratio = log(s.original / (2 * pi * turns))
    value = w * ratio / (2 * log(base))
    argument = -np.log1p(-compound(f.held(s.original), f.held(turns), ulps(3, f.u)))
    relative = compound(f.log * f.u, f.log * f.u, f.held(base) / log(base), ulps(2, f.u))
    err = w / (2 * log(base)) * argument * (1 + relative) + abs(value) * relative
    return Bounded(np.asarray(value), np.asarray(err))


def _ramp(n: int, low: Bounded, high: Bounded, f: Units) -> Bounded:
    """(i - low) / (high - low) within [0, 1] for i = 0 ... n - 1; a step of width 0.001 where the ends meet."""
    end = float(high.value) if high.value > low.value else float(low.value) + 0.001
    i = np.arange(float(n))
    return clipped_quotient(
        Bounded(i - low.value, low.err + f.u * np.abs(i - low.value)),
        Bounded(np.asarray(end - low.value), low.err + high.err + f.u * (end - low.value)),
        f,
    )


def llama3_share(plain: Bounded, s: Llama3, f: Units) -> Bounded:
    """The share that Llama 3 divides by factor: 1 below low turns within original, 0 above high, linear between.

    turns = original w / (2 pi). (R/2,) -> (R/2,). Source: the code released with Llama 3.1.
    """
    turns = s.original * plain.value / (2 * pi)
    off = turns * compound(plain.err / plain.value, f.held(s.original), ulps(5, f.u))
    above = s.high - turns
    span = s.high - s.low
    held = s.high * f.held(s.high)
    return clipped_quotient(
        Bounded(above, off + held + f.u * np.abs(above)),
        Bounded(np.asarray(span), np.asarray(held + s.low * f.held(s.low) + f.u * span)),
        f,
    )


def clipped_quotient(a: Bounded, b: Bounded, f: Units) -> Bounded:
    """a / b within [0, 1], b > 0; exact where a is exactly zero or the error does not reach into the interval.

    The share may be computed as one minus this: two roundings more.
    """
    q = a.value / b.value
    err = np.ones_like(q)
    if np.all(b.value > b.err):
        err = (a.err + np.abs(q) * b.err) / (b.value - b.err) * (1 + f.u) + 3 * f.u * np.maximum(np.abs(q), 1.0)
    sure = (q + err <= 0) | (q - err >= 1) | ((q == 0) & (a.err == 0))
    return Bounded(np.clip(q, 0.0, 1.0), np.where(sure, 0.0, np.minimum(err, 1.0)))


def magnitude(scaling: Scaling | None, f: Units) -> Bounded:
    """What the rotated components are multiplied by: YaRN's attention_factor, or 0.1 ln(factor) + 1; 1 without YaRN.

    Clauses: ROPE-YARN-MAGNITUDE. Source: Peng et al. 2024, section 3.3.
    """
    if not isinstance(scaling, YaRN) or (scaling.attention_factor is None and scaling.factor <= 1):
        return Bounded(np.ones(()), np.zeros(()))
    if scaling.attention_factor is not None:
        given_factor = float(scaling.attention_factor)
        return Bounded(np.asarray(given_factor), np.asarray(given_factor * f.held(given_factor)))
    grown = 0.1 * log(scaling.factor)
    off = grown * compound(f.log * f.u, ulps(2, f.u)) + 0.1 * f.held(scaling.factor)
    return Bounded(np.asarray(grown + 1), np.asarray(off + f.u * (grown + 1 + off)))
