"""The laws of LayerNorm and RMSNorm that are more than one comparison with the reference."""

from dataclasses import replace

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase
from gaugeblock.conformance.verdict import PAD
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Expected, Real

POWERS = (3, -3, 6, -6, 1)


def shifted(cell: Cell, case: LayerNormCase) -> None:
    """One number added to all elements of a row, without rounding, changes nothing.

    The rows hold small integers; the largest shift leaves half of the accumulator's digits to them.
    """
    inputs = case.inputs(cell.io)
    most = 2.0 ** min(cell.io.p - 2, cell.contract().acc.p // 2)
    rows = case.random("shift").choice([most, -most, most / 16, 1.0], (*inputs["x"].shape[:-1], 1))
    moved = change(inputs, x=_exactly(inputs["x"].astype(np.float64) + rows, inputs["x"]))
    law = "the same number added to all elements of a row must change nothing"
    _equal(cell, case, moved, cell.expected(case, inputs), law)


def scaled(cell: Cell, case: NormCase, *, eps_too: bool) -> None:
    """A row times 2**k, with eps = 0 or with eps times 4**k, gives what the row gave.

    Where eps is added to the deviation itself, as may be declared, it is multiplied by 2**k.
    """
    inputs = case.inputs(cell.io)
    wide = inputs["x"].astype(np.float64)
    factor = 2.0 ** POWERS[case.at % len(POWERS)]
    if not np.array_equal((wide * factor).astype(cell.io.dtype).astype(np.float64), wide * factor):
        factor = 1 / factor  # what has become subnormal on the way down is exact on the way up
    moved = change(inputs, x=_exactly(wide * factor, inputs["x"]))
    outside = isinstance(case, LayerNormCase) and cell.backend.conventions.layer_norm_form == "sample_eps_outside"
    eps_by = factor if outside else factor**2
    other = replace(case, eps=case.eps * eps_by)
    law = f"a row times {factor:g}{f' with eps times {eps_by:g}' if eps_too else ''} must give what the row gave"
    _equal(cell, other, moved, cell.expected(case, inputs), law)


def _equal(cell: Cell, case: NormCase, inputs: Inputs, before: Expected, law: str) -> None:
    """Hold the result for these inputs to a value that was expected of others, by its own bound."""
    expected = cell.expected(case, inputs)
    cell.against(case, cell.call(case, inputs), replace(expected, value=before.value), inputs, law)


def _exactly(x: Real, like: Numpy) -> Numpy:
    """x in the format of another array, which must hold it without rounding."""
    narrow = x.astype(like.dtype)
    if not np.array_equal(narrow.astype(np.float64), x):
        raise AssertionError("the law's inputs must be exact")
    return narrow


def moments(cell: Cell, case: NormCase) -> None:
    """A row without weight and bias comes out with the mean square s / (s + eps); of LayerNorm, with mean zero.

    s is the variance of the row, or its mean square; the sums may be off by as much as their terms.
    """
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    allowed = expected.err + cell.own(case, inputs)
    got = cell.call(case, inputs).astype(np.float64)
    cell.tally.judged += 1
    if not np.all(np.isfinite(allowed)):
        cell.tally.undetermined += 1
        return
    size = np.abs(expected.value) + allowed
    square, slack = _mean_square_of(cell, case, inputs), np.mean((2 * size + allowed) * allowed, axis=-1)
    _hold(cell, case, "mean square", np.mean(got**2, axis=-1), square, slack)
    if isinstance(case, LayerNormCase):
        _hold(cell, case, "mean", np.mean(got, axis=-1), np.zeros_like(square), np.mean(allowed, axis=-1))


def _mean_square_of(cell: Cell, case: NormCase, inputs: Inputs) -> Real:
    x = inputs["x"].astype(np.float64)
    if not isinstance(case, LayerNormCase):
        s = np.mean(x**2, axis=-1)
        return np.asarray(s / (s + case.eps))
    s = np.var(x, axis=-1)
    if cell.backend.conventions.layer_norm_form == "population":
        return np.asarray(s / (s + case.eps))
    return np.asarray(s / (np.sqrt(s * case.M / (case.M - 1)) + case.eps) ** 2)


def _hold(cell: Cell, case: NormCase, what: str, got: Real, want: Real, slack: Real) -> None:
    off = np.abs(got - want) - slack * (1 + PAD) - PAD * np.abs(want)
    if np.all(off <= 0):
        return
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(off, nan=np.inf))), off.shape)
    law = f"a normalized row must have {what} {want[worst]:.6g} ± {slack[worst]:.2g}, got {got[worst]:.6g}"
    raise cell.fail(law, case, inputs=case.inputs(cell.io))


def independent_rows(cell: Cell, case: NormCase) -> None:
    """Change all rows but one, which must not move by a bit."""
    inputs = case.inputs(cell.io)
    x = inputs["x"]
    kept = np.zeros(x.shape[:-1], bool)
    kept.reshape(-1)[case.at % kept.size] = True
    rng = case.random("others")
    others = np.asarray(100 * rng.normal(size=x.shape) + rng.choice([0.0, 1000.0], x.shape[:-1])[..., None])
    changed = change(inputs, x=np.where(kept[..., None], x, others.astype(x.dtype)))
    cell.same(case, inputs, changed, "another row must change nothing in this one", where=kept[..., None])


def nan_propagates(cell: Cell, case: NormCase) -> None:
    """A NaN in x reaches its whole row, one in weight or bias its column, and the others stay within their bound."""
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    row = tuple(case.at % n for n in case.shape[:-1])
    element = case.at % case.M
    for name in inputs:
        poisoned = inputs[name].copy()
        poisoned[(*row, element) if name == "x" else (element,)] = np.nan
        reached = np.zeros(expected.value.shape, bool)
        if name == "x":
            reached[row] = True
        else:
            reached[..., element] = True
        value, err = np.where(reached, np.nan, expected.value), np.where(reached, 0.0, expected.err)
        law = f"a NaN in {name} must reach the {'row' if name == 'x' else 'column'} that depends on it, and no other"
        got = cell.call(case, change(inputs, **{name: poisoned}))
        cell.against(case, got, replace(expected, value=value, err=err), inputs, law)
