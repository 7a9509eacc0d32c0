"""Compositions as a list of named steps, of which each can be judged by itself or all of them together.

A bound that is handed from layer to layer tells nothing after one block: it forgets that errors cancel. So a
composition is not judged by one. Where an implementation shows its intermediates (spec.traced), every step is held to
its local bound, computed from what the implementation itself put into the step. Where it does not, its result is held
to the first-order bound: every step's local bound, carried to the result by the derivative there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.spec.precision import EXACT, Contract, Level
from gaugeblock.spec.reference.bounded import Bounded, Real

H = 1e-100  # of the complex step: the error is of order H squared, and nothing is subtracted
AT_ONCE = 2**18  # complex numbers of one array while derivatives are taken
SECOND_ORDER = 2.0  # the first-order bound is doubled for what the linearization leaves out ...
LINEAR = 0.1  # ... and holds only where it is below this share of the result; beyond it nothing is promised

Known = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One named intermediate: the formula, and the bounded form of it.

    value takes the arrays that it reads, with any leading axes, float64 or complex; bounded takes the contract and the
    same arrays, as exact numbers, and gives the value with the local error bound. rows says that the first axis is the
    batch, and that no row of it depends on another: their derivatives are then taken together.
    """

    name: str
    reads: tuple[str, ...]
    value: Callable[..., Any]
    bounded: Callable[..., Bounded]
    rows: bool = False


def run(steps: Sequence[Step], given: Known) -> dict[str, Any]:
    """Every intermediate by its formula, in float64; given are the inputs by name."""
    known = {name: np.asarray(x, np.float64) for name, x in given.items()}
    for step in steps:
        known[step.name] = step.value(*(known[name] for name in step.reads))
    return known


def local(step: Step, known: Known, contract: Contract, *, last: bool = False) -> Bounded:
    """What one step should give, from these arrays as exact inputs, and how far off it may be.

    The last step's result is rounded to the io format; that of any other only at level stored and below.
    """
    return step.bounded(contract if last else within(contract), *(known[name] for name in step.reads))


def within(contract: Contract) -> Contract:
    """The contract of an intermediate: a level above stored keeps it in the accumulation format."""
    return contract if contract.rounds_at(Level.STORED) else replace(contract, io=contract.acc)


def first_order(steps: Sequence[Step], given: Known, contract: Contract) -> Bounded:
    """The value of the last step, and the first-order bound on it.

        |error| <= b_last + sum over the other steps of |d last / d step| b_step,   doubled

    b are the local bounds at the reference's own intermediates. What the linearization leaves out is of the order of
    the bound squared; it is covered by the factor while the bound is small, and where it is not, err is inf: half of
    it, the linear part, is then at most LINEAR / 2 of the result, and the second order stays below the first unless
    the result bends 40 times within its own magnitude.
    Source: Higham 2002, section 3.8 (linearized backward error of a composition).
    """
    known = run(steps, given)
    last = steps[-1]
    value = np.asarray(known[last.name])
    err = local(last, known, contract, last=True).err
    own = local(last, known, EXACT, last=True).err
    for n, step in enumerate(steps[:-1]):
        b = local(step, known, contract).err + local(step, known, EXACT).err
        err = err + carried(steps, n, known, b)
    err = SECOND_ORDER * (err + own)
    small = err <= LINEAR * np.max(np.abs(value), initial=0.0)
    return Bounded(value, np.where(small | (err == 0), err, np.inf))


def carried(steps: Sequence[Step], at: int, known: Known, b: Real) -> Real:
    """How far errors b of one step move the last step: sum over its elements of |d last / d element| b."""
    total = np.zeros_like(np.asarray(known[steps[-1].name]))
    wide = np.broadcast_to(b, np.shape(known[steps[at].name]))
    if not np.all(np.isfinite(wide)):
        return np.full_like(total, np.inf)
    if not wide.size:
        return total
    rows = wide.shape[0] if all(step.rows for step in steps[at:]) else 1
    by_row = wide.reshape(rows, -1)
    for chunk in _chunks(np.flatnonzero(np.any(by_row, axis=0)), total.size):
        slopes = np.abs(derivative(steps, at, known, chunk, rows)).reshape(len(chunk), rows, -1)
        total = total + np.einsum("rn,nrm->rm", by_row[:, chunk], slopes).reshape(total.shape)
    return total


def derivative(steps: Sequence[Step], at: int, known: Known, elements: Any, rows: int = 1) -> Real:
    """The derivative of the last step by some elements of another, by the complex step.

    elements (n,) are flat indices into step at, or into each of its rows where these are independent, and the
    derivative of a row of the last step is then the one by the element of the same row -> (n, ...) where the dots are
    the last step's shape. An element that the last step does not depend on has the derivative 0.
    """
    shape = np.shape(known[steps[at].name])
    pushed = np.broadcast_to(known[steps[at].name], (len(elements), *shape)).reshape(len(elements), rows, -1)
    pushed = pushed.astype(complex)
    pushed[np.arange(len(elements)), :, elements] += 1j * H
    changed = {steps[at].name: pushed.reshape(len(elements), *shape)}
    for step in steps[at + 1 :]:
        if any(name in changed for name in step.reads):
            changed[step.name] = step.value(*(changed.get(name, known[name]) for name in step.reads))
    last = changed.get(steps[-1].name)
    if last is None:
        return np.zeros((len(elements), *np.shape(known[steps[-1].name])))
    return np.imag(last) / H


def _chunks(elements: Any, size: int) -> Iterator[Any]:
    length = max(1, AT_ONCE // max(1, 16 * size))
    for start in range(0, len(elements), length):
        yield elements[start : start + length]
