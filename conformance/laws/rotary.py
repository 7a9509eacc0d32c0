"""The laws of rotation that are more than one comparison with the reference."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.refusals import offers
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.conformance.verdict import PAD, VACUITY, same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference import rotary as reference
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, Real
from gaugeblock.spec.reference.rotary_scaling import Units, magnitude, units
from gaugeblock.spec.rotary import POSITIONS_END

SHIFTS = (1, 255, 4095, 65537, 999983, POSITIONS_END // 2)


def within(
    cell: Cell, case: RotaryCase, got: Real, want: Bounded, size: Real, inputs: Inputs, law: str, advice: str = ""
) -> None:
    """Require |got - want| <= err, elementwise, and keep the score; size is the magnitude that makes err vacuous."""
    allowed = want.err * (1 + PAD)
    off = np.abs(got - want.value)
    decided = np.isfinite(allowed)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(off == 0, 0.0, np.where(decided, off / allowed, 0.0))
    ratio = np.where(np.isnan(off), np.inf, ratio)
    cell.tally.judged += 1
    cell.tally.undetermined += not np.all(decided)
    cell.tally.vacuous += bool(np.size(allowed) and np.all(allowed > VACUITY * size))
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape) if ratio.size else ()
    if ratio.size and ratio[worst] > 1:
        place = f"at {tuple(map(int, worst))}: {want.value[worst]:.9g} ± {allowed[worst]:.2g}, got {got[worst]:.9g}"
        raise cell.fail(f"{law} {place}", case, inputs=inputs, advice=advice)
    cell.tally.headroom = max(cell.tally.headroom, float(np.max(ratio, initial=0.0)))


def unchanged(cell: Cell, case: RotaryCase, where: Bits, law: str) -> None:
    """Where it says so, the result is the input, bit for bit."""
    inputs = case.inputs(cell.io)
    got = cell.call(case, inputs)
    cell.tally.judged += 1
    wrong = np.broadcast_to(where, got.shape) & ~same_bits(got, inputs["x"])
    if np.any(wrong):
        index = tuple(int(n) for n in np.argwhere(wrong)[0])
        problem = f"{law}: at {index} {inputs['x'][index]:.9g} became {got[index]:.9g}"
        raise cell.fail(problem, case, inputs=inputs, got=got)


def at_zero(case: RotaryCase, inputs: Inputs) -> Bits:
    """The tokens at position 0, to be broadcast to (B, H, T, D)."""
    return np.asarray(np.atleast_2d(inputs["positions"])[:, None, :, None] == 0)


def rest(cell: Cell, case: RotaryCase) -> Bits:
    """The components that are not rotated, (D,)."""
    first, second = reference.pairs(case.dims, case.order, cell.backend.conventions)
    keep = np.ones(case.D, bool)
    keep[first] = keep[second] = False
    return keep


def norms_kept(cell: Cell, case: RotaryCase) -> None:
    """Every pair keeps its length, or gets YaRN's share of it, however far the angle is off."""
    inputs = case.inputs(cell.io)
    first, second = reference.pairs(case.dims, case.order, cell.backend.conventions)
    given: dict[str, Any] = {**inputs, **case.options(), "conventions": cell.backend.conventions}
    want, own = reference.norms(**given, contract=cell.contract()), reference.norms(**given)
    got = cell.call(case, inputs).astype(np.float64)
    lengths = np.hypot(got[..., first], got[..., second])
    size = np.max(np.abs(inputs["x"].astype(np.float64)), axis=-1, keepdims=True)
    times = "" if case.rule is None else f" times {float(magnitude(case.rule, _units()).value):.6g}"
    told = _ratio(lengths, np.hypot(*(inputs["x"].astype(np.float64)[..., part] for part in (first, second))))
    within(
        cell,
        case,
        lengths,
        Bounded(want.value, want.err + own.err),
        size,
        inputs,
        f"a rotated pair must have the length of the pair{times}",
        told,
    )


def _units() -> Units:
    return units(EXACT)


def _ratio(after: Real, before: Real) -> str:
    """What a length is multiplied by, where all pairs agree."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = after[before > 0] / before[before > 0]
    if ratio.size and np.ptp(ratio) < 0.02 * abs(np.median(ratio)):
        return f"every pair is {np.median(ratio):.6g} times as long as it was"
    return ""


def relative_only(cell: Cell, case: RotaryCase) -> None:
    """The products of rotated queries and keys do not change when all positions grow by the same number."""
    inputs = case.inputs(cell.io)
    far = _shifted(cell, case, inputs["positions"])
    if far is None:
        return
    key = np.asarray(case.random("key").normal(size=inputs["x"].shape)).astype(cell.io.dtype)
    here, there = (_products(cell, case, inputs, key, p) for p in (inputs["positions"], far))
    size = np.linalg.norm(inputs["x"].astype(np.float64), axis=-1)[..., :, None]
    size = size * np.linalg.norm(key.astype(np.float64), axis=-1)[..., None, :]
    law = "the product of a rotated query and key must depend on the difference of their positions alone"
    within(cell, case, there.value, Bounded(here.value, here.err + there.err), size, inputs, law)


def _products(cell: Cell, case: RotaryCase, inputs: Inputs, key: Numpy, p: Numpy) -> Bounded:
    """The score of every query with every key, as computed from the backend's vectors, (B, H, T, T)."""
    query = change(inputs, positions=p)
    keys = change(inputs, x=key, positions=p)
    (q, e), (k, f) = (_vectors(cell, case, side) for side in (query, keys))
    across = k.swapaxes(-1, -2), f.swapaxes(-1, -2)
    err = e @ np.abs(across[0]) + (np.abs(q) + e) @ across[1] + 1e-15 * case.D * (np.abs(q) @ np.abs(across[0]))
    return Bounded(q @ across[0], err)


def _vectors(cell: Cell, case: RotaryCase, inputs: Inputs) -> tuple[Real, Real]:
    """What the backend gives, and how far it may be off."""
    err = cell.expected(case, inputs).err + cell.own(case, inputs)
    return cell.call(case, inputs).astype(np.float64), err


def _shifted(cell: Cell, case: RotaryCase, positions: Numpy) -> Numpy | None:
    """The positions further on by one of SHIFTS; None where that leaves their range or the backend's features."""
    if not (offers(cell, "positions.offset") and offers(cell, "positions.far")):
        return None
    shift = SHIFTS[case.at % len(SHIFTS)]
    return positions + shift if np.max(positions, initial=0) + shift < POSITIONS_END else None


def composed(cell: Cell, case: RotaryCase) -> None:
    """Rotating by n and the result by m is rotating by m + n, from the error of either call."""
    inputs = case.inputs(cell.io)
    n = inputs["positions"]
    total = _shifted(cell, case, n)
    if total is None:
        return
    m = np.full_like(n, SHIFTS[case.at % len(SHIFTS)])
    once, lost = _vectors(cell, case, inputs)
    again = change(inputs, x=once.astype(cell.io.dtype), positions=m)
    twice, more = _vectors(cell, case, again)
    w = reference.frequencies(case.dims, case.base, None, EXACT, cell.backend.conventions)
    table = reference.entries(w, m, None, EXACT)
    first, second = reference.pairs(case.dims, case.order, cell.backend.conventions)
    carried = lost.copy()
    cos, sin = (np.abs(entry.value) + entry.err for entry in (table.cos, table.sin))
    carried[..., first] = cos * lost[..., first] + sin * lost[..., second]
    carried[..., second] = cos * lost[..., second] + sin * lost[..., first]
    exact = case.expected(change(inputs, positions=total), EXACT, cell.backend.conventions)
    want = Bounded(exact.value, exact.err + carried + more)
    size = np.max(np.abs(inputs["x"].astype(np.float64)), axis=-1, keepdims=True)
    within(cell, case, twice, want, size, inputs, "rotating by n and then by m must be rotating by m + n,")
    cell.judge(case, change(inputs, positions=total))


def layouts_agree(cell: Cell, case: RotaryCase) -> None:
    """The other layout, on components that are reordered to it, gives the same components reordered."""
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    other = replace(case, layout="interleaved" if case.layout == "half" else "half")
    to = order(cell, case, other)
    got = cell.call(other, change(inputs, x=inputs["x"][..., to].copy()))
    back = np.argsort(to)
    cell.against(case, got[..., back], expected, inputs, "both layouts must give the same, reordered")


def order(cell: Cell, case: RotaryCase, other: RotaryCase) -> Numpy:
    """Which component of a case's layout stands where in the other's: (D,)."""
    own, theirs = (reference.pairs(c.dims, c.order, cell.backend.conventions) for c in (case, other))
    to = np.arange(case.D)
    kept, free = rest(cell, case), rest(cell, other)
    to[free] = np.flatnonzero(kept)
    for mine, its in zip(own, theirs, strict=True):
        to[its] = mine
    return to


def reordered(cell: Cell, case: RotaryCase) -> None:
    """Tokens in another order, with their positions, give the same rotated tokens in that order."""
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    to = case.random("order").permutation(case.T)
    moved = change(inputs, x=inputs["x"][:, :, to].copy(), positions=inputs["positions"][..., to].copy())
    want = Expected(expected.value[:, :, to], expected.err[:, :, to], free=expected.free[:, :, to])
    cell.against(case, cell.call(case, moved), want, moved, "a token's rotation must depend on its own position alone")


def rows_spread(cell: Cell, case: RotaryCase) -> None:
    """Positions (T,) mean the same as (B, T) with that row for every batch row."""
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    spread = change(inputs, positions=np.broadcast_to(inputs["positions"], (case.B, case.T)).copy())
    law = "positions (T,) must mean the same for every batch row"
    cell.against(case, cell.call(case, inputs), expected, inputs, law)
    cell.against(case, cell.call(case, spread), expected, inputs, law)


def only_itself(cell: Cell, case: RotaryCase, axis: int) -> None:
    """Other contents in the other batch rows, heads or tokens change no bit of one."""
    inputs = case.inputs(cell.io)
    kept = np.arange(inputs["x"].shape[axis]) == case.at % max(inputs["x"].shape[axis], 1)
    where = kept.reshape([-1 if a == axis else 1 for a in range(4)])
    new = np.asarray(2 * case.random("others").normal(size=inputs["x"].shape)).astype(cell.io.dtype)
    thing = ("batch row", "head", "token")[axis]
    changed = change(inputs, x=np.where(where, inputs["x"], new))
    cell.same(case, inputs, changed, f"another {thing} must change nothing in this one", where=where)


def nan_stays_in_its_pair(cell: Cell, case: RotaryCase) -> None:
    """A NaN reaches both components of its pair, if it is rotated, and nothing else."""
    inputs = case.inputs(cell.io)
    turned = np.flatnonzero(np.broadcast_to(inputs["positions"], (case.B, case.T)).min(axis=0))
    if turned.size == 0:
        return
    expected = cell.expected(case, inputs)
    first, second = reference.pairs(case.dims, case.order, cell.backend.conventions)
    b, h, c = (case.at % n for n in (case.B, case.H, case.D))
    t = turned[case.at % turned.size]
    poisoned = inputs["x"].copy()
    poisoned[b, h, t, c] = np.nan
    pair = next((i for i in range(len(first)) if c in (first[i], second[i])), None)
    reached = np.zeros(expected.value.shape, bool)
    reached[b, h, t, [c] if pair is None else [first[pair], second[pair]]] = True
    value, err = np.where(reached, np.nan, expected.value), np.where(reached, 0.0, expected.err)
    law = "a NaN must reach both components of its pair, and nothing else"
    got = cell.call(case, change(inputs, x=poisoned))
    cell.against(case, got, Expected(value, err, free=expected.free), inputs, law)


def no_memory(cell: Cell, case: RotaryCase) -> None:
    """Calls of another base, width, length, layout, rule or dtype in between are right themselves, and change no bit.

    A backend that does not repeat itself anyway is recorded, and judged by the bound.
    """
    inputs = case.inputs(cell.io)
    before = cell.judge(case, inputs)
    repeats = bool(np.all(same_bits(before, cell.call(case, inputs))))
    cell.tally.nondeterministic += not repeats
    for other, made in _others(cell, case):
        fitted = other.fit(made)
        other.judge(fitted)
        after = cell.judge(case, inputs)
        if repeats and not np.all(same_bits(before, after)):
            raise cell.fail(f"the same call gives something else after the call {fitted}", case, inputs=inputs)


def _others(cell: Cell, case: RotaryCase) -> Iterator[tuple[Cell, RotaryCase]]:
    wide, narrow = replace(case, D=case.D + 4), replace(case, D=max(case.D // 4 * 2, 2))
    changes = [replace(case, base=case.base * 3), replace(case, scaling="ntk7.5"), replace(case, scaling="yarn8")]
    sizes = [wide, narrow, replace(case, T=2 * case.T + 1), replace(case, T=1, B=case.B + 1)]
    layout = [replace(case, layout="interleaved" if case.layout == "half" else "half")]
    for made in [*changes, *sizes, *layout]:
        yield cell, made
    for dtype in sorted(cell.backend.dtypes - {cell.dtype}):
        other = Cell(cell.backend, cell.component, dtype, cell.needs, cell.offer)
        yield other, replace(case, base=case.base * 2)
