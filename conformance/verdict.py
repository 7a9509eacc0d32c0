"""A result against a bounded reference: no rtol, no atol."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Bits, Expected, Real

PAD = 1e-12  # the bound is itself computed in float64: relative room for its own roundings
VACUITY = 0.05  # a bound above this share of the values' magnitude tells nothing


class Status(Enum):
    """What a comparison showed; undetermined where the bound overflows and nothing else is wrong."""

    PASS = "pass"
    FAIL = "fail"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison and its worst element.

    ratio is error / allowed there (0 where both are zero, inf for a NaN that should be finite); vacuous says that the
    bounds are too wide to tell anything, in_empty_rows that every wrong element lies in a row that sees no key.
    """

    status: Status
    ratio: float
    index: tuple[int, ...]
    actual: float
    expected: float
    allowed: float
    wrong: int
    vacuous: bool = False
    in_empty_rows: bool = False


def judge(actual: Numpy, expected: Expected, *, own: Real | float = 0.0, size: float = 0.0) -> Verdict:
    """Compare elementwise: |actual - expected| <= err + own, where own is the reference's own float64 bound.

    actual and expected have one shape; size is the magnitude against which a bound is vacuous (0: never).
    Equality conforms: a single rounding attains its bound. Contract N8.
    """
    if actual.size == 0:
        return Verdict(Status.PASS, 0.0, (), 0.0, 0.0, 0.0, 0)
    got = actual.astype(np.float64)
    allowed = (expected.err + own) * (1 + PAD)
    promised = ~np.broadcast_to(expected.free, allowed.shape)
    judged = promised & np.isfinite(allowed)
    ratio = np.where(judged, _ratio(got, expected.value, allowed), 0.0)
    index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    wrong = ratio > 1
    undecided = bool(np.any(promised & ~judged))
    status = Status.FAIL if wrong.any() else Status.UNDETERMINED if undecided else Status.PASS
    return Verdict(
        status,
        float(ratio[index]),
        tuple(int(i) for i in index),
        float(got[index]),
        float(expected.value[index]),
        float(allowed[index]),
        int(np.sum(wrong)),
        vacuous=bool(size and np.max(np.where(judged, allowed, 0.0)) > VACUITY * size),
        in_empty_rows=bool(wrong.any() and not np.any(wrong & ~_rows(expected.empty, wrong))),
    )


def _ratio(actual: Real, value: Real, allowed: Real) -> Real:
    """Error over allowed; a NaN counts as right where NaN is expected and as infinitely wrong elsewhere."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.where(actual == value, 0.0, np.abs(actual - value))
        ratio = np.where(error == 0, 0.0, error / allowed)
    both = np.isnan(actual) & np.isnan(value)
    return np.where(both, 0.0, np.where(np.isnan(error), np.inf, ratio))


def _rows(empty: Bits, like: Bits) -> Bits:
    return np.broadcast_to(empty[..., None], like.shape)


def same_bits(a: Numpy, b: Numpy) -> Bits:
    """Where two results are equal, +0 and -0 alike, NaN equal to NaN."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return np.asarray((x == y) | (np.isnan(x) & np.isnan(y)))
