"""The laws of encoders and decoders that have a bound."""

from dataclasses import replace

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.laws.compositions import holds
from gaugeblock.conformance.laws.model import others, promised, replaced, visible
from gaugeblock.conformance.refusals import offers
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Expected
from gaugeblock.spec.traced import Traced

FULL = ("float64", "float32")  # where the first-order bound is always a number


def by_its_result(cell: Cell) -> bool:
    """Whether a result is held to a bound of its own: in full precision, of which one will do where steps are shown."""
    return cell.dtype == "float32" or (cell.dtype == "float64" and not isinstance(cell.backend, Traced))


def is_as_if_alone(cell: Cell, case: ModelCase) -> None:
    """Each row gives what its real tokens give alone and without pads, within the bound.

    In half precision, where the bound of a whole model tells nothing, each step is held to what it should be.
    """
    if not by_its_result(cell):
        is_right(cell, case)
        return
    inputs = case.inputs(cell.io)
    got = cell.call(case, inputs)
    value, err = np.zeros(got.shape), np.zeros(got.shape)
    for b in range(case.B):
        real = case.real[b]
        if not real.any():
            continue
        alone = replace(case, B=1, T=int(real.sum()), pads="", outside=False, memory_pads="")
        made = cell.expected(alone, _row(inputs, case, b))
        place = (b, slice(None)) if case.last_only and not case.encodes else (b, real)
        value[place], err[place] = made.value[0], made.err[0]
    expected = Expected(value, err, free=~promised(case))
    cell.against(case, got, expected, inputs, "a row must give what its real tokens give alone, without pads")


def is_right(cell: Cell, case: ModelCase, inputs: Inputs | None = None, *, whole: bool = False, **clauses: str) -> None:
    """Each step is right, or the result where no steps are shown.

    In half precision the bound on the result is mostly too wide to tell anything; a model without layers is then asked
    for as well, whose bound is not.
    """
    holds(cell, case, inputs, whole=whole, **clauses)
    if cell.dtype not in FULL and not isinstance(cell.backend, Traced) and offers(cell, "layers.none"):
        cell.judge(case.changed(L=0))


def is_right_as_a_whole(cell: Cell, case: ModelCase) -> None:
    """The result alone lies within the first-order bound; in half precision each step, as far as steps are shown."""
    if by_its_result(cell):
        cell.judge(case)
    else:
        is_right(cell, case)


def with_a_tight_table(case: ModelCase) -> ModelCase:
    """The case with as many rows in its table of positions as its real tokens need."""
    return replace(case, max_positions=max(1, int(np.max(np.sum(case.real, axis=1), initial=0))))


def is_equivariant(cell: Cell, case: ModelCase) -> None:
    """An encoder that knows no positions gives the rows of permuted tokens permuted, within the bound."""
    inputs = case.inputs(cell.io)
    order = case.random("order").permutation(case.T)
    moved = _permuted(case, inputs, order)
    if not by_its_result(cell):
        is_right(cell, case, moved)
        return
    got = cell.call(case, moved)
    expected = cell.expected(case, inputs)
    wanted = Expected(expected.value[:, order], expected.err[:, order], free=~case.real[:, order, None])
    cell.against(case, got, wanted, moved, "permuted tokens must give the permuted rows")


def knows_the_order(cell: Cell, case: ModelCase) -> None:
    """The same tokens in another order give other rows, wherever the specification's differ by more than the bounds."""
    order = np.roll(np.arange(case.T)[::-1], case.at)
    inputs = case.inputs(cell.io)
    _differs(cell, case, inputs, _permuted(case, inputs, order), order, "the order of the tokens must be known")


def reaches_the_first(cell: Cell, case: ModelCase) -> None:
    """The last token reaches the first row in one layer."""
    inputs = case.inputs(cell.io)
    name = case.reads
    last = np.arange(case.T) == case.T - 1
    if name == "tokens":
        other = np.where(last, others(case, inputs[name]), inputs[name])
    else:
        other = replaced(cell, case, name, inputs, np.broadcast_to(~last, (case.B, case.T)))
    changed = change(inputs, **{name: other})
    _differs(cell, case, inputs, changed, np.arange(case.T)[:1], "the last token must reach the first row")


def _differs(cell: Cell, case: ModelCase, before: Inputs, after: Inputs, rows: Numpy, law: str) -> None:
    """The first rows after a change are not these rows before it, where they cannot be the same; and all is right."""
    if by_its_result(cell):
        here, there = cell.expected(case, after), cell.expected(case, before)
        n = len(rows)
        apart = np.abs(here.value[:, :n] - there.value[:, rows]) > here.err[:, :n] + there.err[:, rows]
        got = cell.call(case, after)
        cell.tally.judged += 1
        if np.any(apart & same_bits(got[:, :n], cell.call(case, before)[:, rows])):
            raise cell.fail(law, case, inputs=after, got=got)
    is_right(cell, case, after)


def _permuted(case: ModelCase, inputs: Inputs, order: Numpy) -> Inputs:
    """The call on the tokens and their mask in another order."""
    moved = {name: inputs[name][:, order] for name in (case.reads, "token_mask") if name in inputs}
    return change(inputs, **moved)


def _row(inputs: Inputs, case: ModelCase, b: int) -> Inputs:
    """The call on the real tokens of one row alone, with what is real of its memory."""
    made = {name: x for name, x in inputs.items() if "." in name}
    made[case.reads] = inputs[case.reads][b : b + 1, case.real[b]]
    if "memory" in inputs:
        made["memory"] = inputs["memory"][b : b + 1, visible(case, inputs, "memory")[b]]
    return made
