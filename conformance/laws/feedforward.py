"""The laws of activations and feed-forward networks that are more than one comparison with the reference."""

from dataclasses import replace

import numpy as np

from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase, RankedCase
from gaugeblock.spec.precision import FLOAT64
from gaugeblock.spec.reference.bounded import Bits


def reflects(cell: Cell, case: ActivationCase) -> None:
    """f(x) - f(-x) = x, within the bounds of both; bit for bit for relu, which has none.

    It holds since the gates of x and -x add up to one, and it needs no value from the reference.
    """
    inputs = case.inputs(cell.io)
    turned = change(inputs, x=-inputs["x"])
    left, right = (cell.call(case, given).astype(np.float64) for given in (inputs, turned))
    there, back = cell.expected(case, inputs), cell.expected(case, turned)
    err = there.err + back.err + cell.own(case, turned)
    err = err + np.where((left != 0) & (right != 0), FLOAT64.u * (np.abs(left) + np.abs(right)), 0.0)
    wanted = replace(there, value=inputs["x"].astype(np.float64), err=err, free=there.free | back.free)
    law = f"{case.function}(x) - {case.function}(-x) must be x"
    cell.against(case, left - right, wanted, inputs, law)


def depends_on_itself(cell: Cell, case: RankedCase, of: str) -> None:
    """Change all of x but one element of an activation, or one row of a network: its result must not move by a bit."""
    inputs = case.inputs(cell.io)
    kept = _kept(case)
    noise = 3 * case.random("others").normal(size=case.shape)
    x = np.where(kept, inputs["x"], noise.astype(cell.io.dtype))
    cell.same(case, inputs, change(inputs, x=x), f"another {of} must change nothing in this one", where=kept)


def nan_stays(cell: Cell, case: RankedCase, of: str) -> None:
    """A NaN in one element of x makes its element, or all of its row, NaN, and the rest stays within its bound."""
    inputs = case.inputs(cell.io)
    reached = np.broadcast_to(_kept(case), case.shape)
    where = np.argwhere(reached)
    poisoned = inputs["x"].copy()
    poisoned[tuple(where[case.at % len(where)])] = np.nan
    clean = cell.expected(case, inputs)
    wanted = replace(clean, value=np.where(reached, np.nan, clean.value), err=np.where(reached, 0.0, clean.err))
    law = f"a NaN must reach its {of}, and no other"
    cell.against(case, cell.call(case, change(inputs, x=poisoned)), wanted, inputs, law)


def mapping_intact(cell: Cell, case: FeedForwardCase) -> None:
    """After the call the mapping of weights holds the names and the arrays that it held before."""
    inputs = case.inputs(cell.io)
    (x, weights), options = case.arguments({name: cell.backend.asarray(a.copy()) for name, a in inputs.items()})
    before = dict(weights)
    cell.guarded(case, lambda: getattr(cell.backend, case.called)(x, weights, **options))
    cell.tally.judged += 1
    if set(weights) != set(before) or any(weights[name] is not a for name, a in before.items()):
        raise cell.fail("the call has changed the mapping of weights", case, inputs=inputs)


def _kept(case: RankedCase) -> Bits:
    """The element, or the row, that a case's at singles out; broadcasts to x."""
    rows = isinstance(case, FeedForwardCase)
    axes = case.shape[:-1] if rows else case.shape
    numbers = np.arange(int(np.prod(axes))).reshape(axes)
    chosen = np.asarray(numbers == case.at % max(numbers.size, 1))
    return chosen[..., None] if rows else chosen
