"""The laws of sinusoidal and learned positions that are more than one comparison with the reference."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.positions import LookupCase, SinusoidalCase
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, Real
from gaugeblock.spec.reference.positions import angles, frequencies, waves


def hold(
    cell: Cell,
    case: Case,
    inputs: Inputs,
    measured: Real,
    want: Bounded,
    law: str,
    *,
    got: Numpy | None,
    advice: str = "",
) -> None:
    """Require that what was computed from a result lies within the error that the result's own bounds leave it."""
    verdict = judge(measured, Expected(want.value, want.err))
    cell.tally.judged += 1
    if verdict.status is Status.FAIL:
        raise cell.fail(law, case, verdict=verdict, inputs=inputs, got=got, advice=advice)
    cell.tally.headroom = max(cell.tally.headroom, verdict.ratio)


def pairs(cell: Cell, x: Real) -> tuple[Real, Real]:
    """The sines and the cosines of a table (..., M), each (..., M/2), by the declared order."""
    if cell.backend.conventions.sinusoidal_order == "halves":
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]
    return x[..., 0::2], x[..., 1::2]


def _table(cell: Cell, case: SinusoidalCase, inputs: Inputs) -> tuple[Numpy, Real, Real]:
    """What the backend gives, the same as float64, and how far it may be off."""
    got = cell.call(case, inputs)
    return got, got.astype(np.float64), cell.expected(case, inputs).err + cell.own(case, inputs)


def recovered_frequencies(cell: Cell, case: SinusoidalCase) -> None:
    """Recover each frequency from position 1, where the angle is the frequency: w = atan2(sin, cos).

    A unit vector that is off by at most r is turned by at most asin(r).
    """
    inputs = case.inputs(cell.io)
    got, table, allowed = _table(cell, case, inputs)
    off = np.hypot(*pairs(cell, allowed))
    want = frequencies(case.M, case.base, EXACT)
    used = np.arctan2(*pairs(cell, table))
    value = np.broadcast_to(want.value, used.shape)
    err = np.arcsin(np.minimum(off, 1.0)) + want.err
    advice = _name(used, value, err, case)
    law = f"pair i must turn by base ** (-2 i / {case.M}) from one position to the next"
    hold(cell, case, inputs, used, Bounded(value, err), law, got=None if advice else got, advice=advice)


def _name(used: Real, right: Real, err: Real, case: SinusoidalCase) -> str:
    """What wrong frequencies look like, where they lie within the error of the right ones around something known."""
    i, half = np.arange(case.M // 2), case.M // 2
    known = {
        "the exponent is i / dim instead of 2 i / dim": case.base ** (-i / case.M),
        "the frequencies end at 1 / base: i / (dim / 2 - 1) instead of 2 i / dim": case.base ** (-i / max(half - 1, 1)),
        "the base is ignored": 10000.0 ** (-2 * i / case.M),
        "the frequencies begin at pair 1": case.base ** (-2 * (i + 1) / case.M),
        "the slowest pair comes first": right[..., ::-1],
        "the pairs turn the other way": -right,
    }
    if np.all(np.abs(used - right) <= err):
        return ""
    return next((name for name, w in known.items() if np.all(np.abs(used - w) <= err)), "")


def unit_norm(cell: Cell, case: SinusoidalCase) -> None:
    """Sine and cosine of a pair lie on the unit circle: sin^2 + cos^2 = 1."""
    inputs = case.inputs(cell.io)
    got, table, allowed = _table(cell, case, inputs)
    measured = sum(x**2 for x in pairs(cell, table))
    err = sum(2 * np.abs(x) * e + e * e for x, e in zip(pairs(cell, table), pairs(cell, allowed), strict=True))
    want = Bounded(np.ones_like(measured), np.asarray(err) + 4 * EXACT.acc.u)
    hold(cell, case, inputs, np.asarray(measured), want, "sin^2 + cos^2 of a pair must be 1", got=got)


def linear_shift(cell: Cell, case: SinusoidalCase) -> None:
    """Position p + k is position p turned by M_k, the same block rotation for every p."""
    inputs = case.inputs(cell.io)
    k = np.asarray(case.at)
    moved = change(inputs, positions=inputs["positions"] + k)
    _, table, allowed = _table(cell, case, inputs)
    turn = waves(angles(k, frequencies(case.M, case.base, EXACT), EXACT), EXACT, cell.backend.conventions)
    (s, c), (es, ec) = pairs(cell, table), pairs(cell, allowed)
    (ks, kc), (kes, kec) = pairs(cell, turn.value), pairs(cell, turn.err)
    value = kc * s + ks * c, kc * c - ks * s
    own = kes + kec + 4 * EXACT.acc.u  # of the rotation itself, whose entries meet numbers of at most 1
    err = np.abs(kc) * es + np.abs(ks) * ec + own, np.abs(kc) * ec + np.abs(ks) * es + own
    later, turned, reach = _table(cell, case, moved)
    want = zip(value, (e + r for e, r in zip(err, pairs(cell, reach), strict=True)), strict=True)
    law = f"position p + {case.at} must be position p turned by the angles {case.at} w_i"
    for measured, (expected, bound) in zip(pairs(cell, turned), want, strict=True):
        hold(cell, case, moved, measured, Bounded(expected, bound), law, got=later)


def offset_only(cell: Cell, case: SinusoidalCase) -> None:
    """The product of two positions is the sum of cos((p - q) w_i): it depends on their distance alone."""
    inputs = case.inputs(cell.io)
    got, table, e = _table(cell, case, inputs)
    size = np.abs(table)
    measured = table @ table.swapaxes(-1, -2)
    p = inputs["positions"]
    distance = np.abs(p[..., :, None] - p[..., None, :])
    turn = angles(distance, frequencies(case.M, case.base, EXACT), EXACT)
    err = size @ e.swapaxes(-1, -2) + e @ size.swapaxes(-1, -2) + e @ e.swapaxes(-1, -2)
    own = np.sum(turn.err + EXACT.trig * EXACT.acc.u, axis=-1) + case.M * EXACT.acc.u * case.M
    want = Bounded(np.sum(np.cos(turn.value), axis=-1), err + own)
    hold(cell, case, inputs, measured, want, "PE(p) PE(q) must depend on p - q only: sum of cos((p - q) w_i)", got=got)


def stateless(cell: Cell, case: Case, others: Iterable[Case]) -> None:
    """Calls with another base, width, length, number of heads or dtype in between change no result."""
    cell.judge(case)
    for other in map(cell.fit, others):
        cell.judge(other)
        cell.judge(case)
    for dtype in sorted(cell.backend.dtypes - {cell.dtype}):
        neighbour = Cell(cell.backend, cell.component, dtype, cell.needs, cell.offer)
        neighbour.call(neighbour.fit(case))
        cell.judge(case)


def neighbours(case: SinusoidalCase) -> list[SinusoidalCase]:
    """Calls that a table which is kept between calls would confuse with this one."""
    base = 500000.0 if case.base == 10000.0 else 10000.0
    return [replace(case, base=base), replace(case, M=case.M + 2), replace(case, T=case.T + 3, seed=case.seed + 1)]


def outside(cell: Cell, case: LookupCase) -> None:
    """A position in front of or behind the table is refused, or gives what the backend declares."""
    rule = cell.backend.conventions.out_of_range
    inputs = case.inputs(cell.io)
    p = inputs["positions"].copy()
    p[..., case.at % case.T] = (-1, case.N, -case.N, case.N + 1, -case.N - 1, 1000)[case.at % 6]
    changed = change(inputs, positions=p)
    cell.tally.judged += 1
    if rule == "undefined":
        cell.note('out_of_range is declared "undefined": positions outside the table are not judged')
    elif rule != "raises":
        cell.judge(case, changed)
    else:
        got = _given(cell, case, changed)
        if got is not None:
            problem = f"a position outside the table of {case.N} rows was not refused: {p.tolist()}"
            raise cell.fail(problem, case, inputs=changed, got=got)


def _given(cell: Cell, case: Case, inputs: Inputs) -> Numpy | None:
    try:
        return np.asarray(cell.backend.asnumpy(cell.raw(case, inputs)))
    except Exception:
        return None


def nan_in_a_row(cell: Cell, case: LookupCase) -> None:
    """A NaN in the table reaches the result where its row is read, and nothing else changes."""
    inputs = case.inputs(cell.io)
    row, column = case.at % case.N, case.at % case.M
    table = inputs["table"].copy()
    table[row, column] = np.nan
    reached: Bits = (inputs["positions"] == row)[..., None] & (np.arange(case.M) == column)
    clean = cell.expected(case, inputs)
    want = Expected(np.where(reached, np.nan, clean.value), clean.err)
    got = cell.call(case, change(inputs, table=table))
    cell.against(case, got, want, inputs, "a NaN in the table must be where its row is read, and nowhere else")
