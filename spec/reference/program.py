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
    last, slopes = steps[-1], all_slopes(steps, known)
    value = np.asarray(known[last.name])
    err = local(last, known, contract, last=True).err
    own = local(last, known, EXACT, last=True).err
    for step in steps[:-1]:
        if step.name in slopes:
            b = local(step, known, contract).err + local(step, known, EXACT).err
            err = err + carried(slopes[step.name], np.broadcast_to(b, np.shape(known[step.name]))).reshape(value.shape)
    err = SECOND_ORDER * (err + own)
    small = err <= LINEAR * np.max(np.abs(value), initial=0.0)
    return Bounded(value, np.where(small | (err == 0), err, np.inf))


def carried(slopes: Real, b: Real) -> Real:
    """How far errors b of one step move the last step: sum over its elements of |d last / d element| b.

    slopes (R, m, s) as all_slopes gives them, b of R * s elements -> (R, m).
    """
    if not np.all(np.isfinite(b)):
        return np.full(slopes.shape[:2], np.inf)
    moved: Real = np.einsum("rms,rs->rm", np.abs(slopes), b.reshape(len(slopes), -1))
    return moved


def all_slopes(steps: Sequence[Step], known: Known) -> dict[str, Real]:
    """The derivative of the last step by every step that it depends on, by the chain rule from the last one back.

    A step of s elements and a last step of m have slopes (1, m, s); as long as no row of the batch depends on another
    only those within a row, and with R rows of s elements slopes are (R, m, s). A step without elements has none.
    """
    position = {step.name: n for n, step in enumerate(steps)}
    end = np.asarray(known[steps[-1].name])
    if not end.size:
        return {}
    slopes: dict[str, Real] = {steps[-1].name: np.eye(end[0].size)[None].repeat(len(end), axis=0)}
    for step in reversed(steps):
        for read in dict.fromkeys(step.reads) if step.name in slopes else ():
            if read in position and np.size(known[read]):
                one = _by(slopes[step.name], step, steps[position[read]], known)
                slopes[read] = _added(slopes[read], one) if read in slopes else one
    return slopes


def _by(slopes: Real, step: Step, read: Step, known: Known) -> Real:
    """The slopes of a step that another one reads, as far as they come by way of that one."""
    rows = len(slopes)
    if not (step.rows and np.shape(known[read.name])[:1] == np.shape(known[step.name])[:1] == (rows,)):
        slopes, rows = _whole(slopes), 1
    elements = np.arange(np.size(known[read.name]) // rows)
    chunks = _chunks(elements, np.size(known[step.name]))
    inner = np.concatenate([derivative((read, step), 0, known, chunk, rows) for chunk in chunks])
    product: Real = slopes @ np.moveaxis(inner.reshape(len(elements), rows, -1), 0, -1)
    return product


def _whole(slopes: Real) -> Real:
    """Slopes within rows as slopes of everything: (R, m, s) -> (1, R * m, R * s), zero from row to row."""
    rows, m, s = slopes.shape
    whole = np.zeros((rows, m, rows, s))
    whole[np.arange(rows), :, np.arange(rows)] = slopes
    return whole.reshape(1, rows * m, rows * s)


def _added(one: Real, other: Real) -> Real:
    alike = len(one) == len(other)
    return one + other if alike else _whole(one) + _whole(other)


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
