"""The laws of generation: how many columns, which id, and what comes after the end."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.decoding import memory_of
from gaugeblock.conformance.strategies.generation import GenerateCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference import model as reference
from gaugeblock.spec.reference.bounded import Bits


def generated(cell: Cell, case: GenerateCase) -> tuple[Inputs, Numpy]:
    """The inputs and what generate gives: the prompt's columns, then exactly as many more as were asked for.

    Raises BackendRaised, Nonconformance.
    """
    inputs = case.inputs(cell.io)
    got: Numpy = cell.guarded(case, lambda: np.array(cell.backend.asnumpy(cell.raw(case, inputs))))
    cell.tally.judged += 1
    prompt = inputs["tokens"]
    shape = (case.B, case.T + case.new)
    if got.shape != shape or got.dtype.kind not in "iu":
        problem = f"generate must give {shape} integers, got {got.shape} {got.dtype.name}"
        raise cell.fail(problem, case, clause="MODEL-GENERATE-LENGTH", inputs=inputs)
    kept = np.where(case.real, got[:, : case.T] == prompt, True)
    if not np.all(kept):
        raise cell.fail("generate must begin with the prompt", case, clause="MODEL-GENERATE-LENGTH", inputs=inputs)
    return inputs, got.astype(np.int64)


def continues(cell: Cell, case: GenerateCase) -> None:
    """In a chain every row goes on with the one successor of its last real token; after eos come pads."""
    _, got = generated(cell, case)
    _compare(cell, case, got[:, case.T :], expected_chain(case, got[:, : case.T]))


def expected_chain(case: GenerateCase, prompt: Numpy) -> Numpy:
    """The new columns of a chain, (B, new)."""
    after, real = case.successor, case.real
    filler = case.pad_id if case.pad_id is not None else case.eos_id
    wanted = np.zeros((case.B, case.new), np.int64)
    for b in range(case.B):
        last, done = int(prompt[b, np.flatnonzero(real[b])[-1]]), False
        for n in range(case.new):
            last = int(filler or 0) if done else after[last]
            wanted[b, n] = last
            done = done or last == case.eos_id
    return wanted


def takes_the_lowest(cell: Cell, case: GenerateCase) -> None:
    """Where the logits are one bias, the lowest id among its largest numbers comes every time."""
    _, got = generated(cell, case)
    _compare(cell, case, got[:, case.T :], np.full((case.B, case.new), int(np.argmax(case.scores(cell.io)))))


def with_a_tight_table(case: GenerateCase) -> GenerateCase:
    """The case with a row of its table for every token of the longest text, and no more."""
    return replace(case, max_positions=int(np.max(np.sum(case.real, axis=1))) + case.new)


def takes_the_likeliest(cell: Cell, case: GenerateCase) -> None:
    """Every new id is one that may have the largest logit, by the reference's logits of what stands before it.

    A logit lies within its bound of the reference's: an id that is chosen is wrong if another is larger by more than
    both bounds. The rows are those that the backend itself has made, so that one near-tie does not spoil the rest.
    """
    inputs, got = generated(cell, case)
    if not case.new:
        return
    real = np.concatenate([case.real, np.ones((case.B, case.new), bool)], axis=1)
    ids, judged = got[:, :-1], 0
    memory: dict[str, Any] = memory_of(inputs)
    made = reference.logits(
        weights_of(inputs), case.model, ids, token_mask=real[:, :-1], **memory, contract=cell.contract()
    )
    for b, column in np.ndindex(case.B, case.new):
        before = _last_real(real[b], case.T + column)
        value, err = made.value[b, before], made.err[b, before]
        chosen = int(got[b, case.T + column])
        if not np.all(np.isfinite(err)):
            continue
        judged += 1
        if not 0 <= chosen < case.V or value[chosen] + err[chosen] < np.max(value - err):
            problem = f"row {b} goes on with {chosen}, but {int(np.argmax(value))} is likelier"
            raise cell.fail(problem, case, clause="MODEL-GENERATE", inputs=inputs)
    cell.tally.judged += 1
    cell.tally.undetermined += judged == 0


def _last_real(real: Bits, column: int) -> int:
    """The column of the last real token before this one."""
    return int(np.flatnonzero(real[:column])[-1])


def _compare(cell: Cell, case: GenerateCase, got: Numpy, wanted: Numpy) -> None:
    if np.array_equal(got, wanted):
        return
    b = int(np.flatnonzero(np.any(got != wanted, axis=1))[0])
    raise cell.fail(f"row {b} must go on with {wanted[b].tolist()}, got {got[b].tolist()}", case)
