"""The mistakes that are made with positions, as variations of the reference."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.strategies.alibi import BiasCase, SlopesCase
from gaugeblock.conformance.strategies.positions import LookupCase, SinusoidalCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import BFLOAT16, EXACT, Contract
from gaugeblock.spec.reference import positions as reference
from gaugeblock.spec.reference.bounded import Bounded, Expected, Real


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs, where that differs from what is right."""
    right = case.expected(inputs, cell.contract(), cell.backend.conventions)
    for text, wrong in _by_method(cell, case, inputs):
        with np.errstate(invalid="ignore"):
            if np.any(np.abs(wrong.value - right.value) > right.err):
                yield text, wrong


def _by_method(cell: Cell, case: Case, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    if isinstance(case, SinusoidalCase):
        yield from _sinusoidal(cell, case, inputs)
    elif isinstance(case, LookupCase):
        yield from _lookup(case, inputs)
    elif isinstance(case, SlopesCase):
        yield from _slopes(cell, case)
    elif isinstance(case, BiasCase):
        yield from _bias(cell, case, inputs)
    else:
        yield from import_module("gaugeblock.conformance.mistakes.rotary").mistakes(cell, case, inputs)


def _sinusoidal(cell: Cell, case: SinusoidalCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    i, half, p = np.arange(case.M // 2), case.M // 2, inputs["positions"]

    def table(w: Real, at: Any = p) -> Expected:
        return _both(cell, lambda contract: _table(cell, case, w, at, contract))

    own = case.base ** (-2 * i / case.M)
    ending = case.base ** (-i / max(half - 1, 1))
    yield "the exponent is 2 j / dim with j the column: sine and cosine differ in frequency", _split(cell, case, p)
    yield "the frequencies end at 1 / base: i / (dim / 2 - 1) instead of 2 i / dim", table(ending)
    yield "the exponent is i / dim instead of 2 i / dim", table(case.base ** (-i / case.M))
    yield "the frequencies begin at pair 1", table(case.base ** (-2 * (i + 1) / case.M))
    for name, rounded in _rounded(cell, p):
        yield f"positions are rounded to {name}", table(own, rounded)
    yield "the slowest pair comes first", table(own[::-1])
    yield "positions begin at 1", table(own, p + 1)
    yield "positions begin at 0 in every call, whatever was given", table(own, _counted(p))
    if case.base != 10000.0:
        yield "the given base is ignored", table(10000.0 ** (-2 * i / case.M))
    right = table(own)
    shape = (*right.value.shape[:-1], half, 2)
    value, err = (x.reshape(shape)[..., ::-1].reshape(x.shape) for x in (right.value, right.err))
    yield "the cosine comes before the sine", Expected(value, err)
    yield "the pairs turn the other way", _turned(cell, right, half)
    yield "the table is scaled by sqrt(2 / dim)", Expected(right.value * (2 / case.M) ** 0.5, right.err)


def _turned(cell: Cell, right: Expected, half: int) -> Expected:
    columns = np.arange(2 * half)
    sine = columns < half if cell.backend.conventions.sinusoidal_order == "halves" else columns % 2 == 0
    return replace(right, value=np.where(sine, -right.value, right.value))


def _table(cell: Cell, case: SinusoidalCase, w: Real, p: Any, contract: Contract) -> Expected:
    plain = reference.frequencies(case.M, case.base, contract)
    loose = Bounded(w, w * np.max(plain.err / plain.value))
    return reference.waves(reference.angles(p, loose, contract), contract, cell.backend.conventions)


def _split(cell: Cell, case: SinusoidalCase, p: Any) -> Expected:
    """Sine of p base ** (-4 i / dim), cosine of p base ** (-2 (2 i + 1) / dim): the exponent runs over all columns."""
    column = case.base ** (-2 * np.arange(case.M) / case.M)
    even, odd = (_both(cell, lambda c, w=column[k::2]: _table(cell, case, w, p, c)) for k in (0, 1))
    halves = cell.backend.conventions.sinusoidal_order == "halves"
    sine = np.arange(case.M) < case.M // 2 if halves else np.arange(case.M) % 2 == 0
    return Expected(np.where(sine, even.value, odd.value), np.where(sine, even.err, odd.err))


def _lookup(case: LookupCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    table, p = inputs["table"], inputs["positions"]
    for text, at in (
        ("positions are counted from 1", p - 1),
        ("positions are off by one", p + 1),
        ("positions begin at 0 in every call, whatever was given", _counted(p)),
        ("rows begin at 2", p + 2),
        ("positions outside the table begin at its first row again", p),
        *([("every batch row uses the positions of the first", _first(p))] if p.ndim == 2 else []),
    ):
        yield text, reference.learned_positions(table, at % case.N)


def _slopes(cell: Cell, case: SlopesCase) -> Iterator[tuple[str, Expected]]:
    for text, value in _other_slopes(case.H):
        made = reference.once(Bounded(value, 40 * cell.contract().acc.u * value), cell.contract())
        yield text, Expected(made.value, made.err)


def _other_slopes(H: int) -> Iterator[tuple[str, Real]]:
    h = np.arange(H)
    yield "the slopes begin at 1: 2 ** (-8 h / H) from h = 0", 2.0 ** (-8 * h / H)
    yield "the slopes come in the opposite order", reference.slopes(H, EXACT, Conventions()).value[::-1]
    for n, text in ((2 ** H.bit_length(), "next"), (2 ** (H.bit_length() - 1), "last")):
        yield f"the sequence of the {text} power of two is used for all heads", 2.0 ** (-8 * (h + 1) / n)


def _bias(cell: Cell, case: BiasCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    q, k = inputs["query_positions"], inputs["key_positions"]
    if cell.backend.conventions.alibi_bias == "symmetric":
        yield from ((text, _of(cell, case, distance)) for text, distance in _distances(cell, q, k))
    yield "the query's position is taken to be 0", _moved(cell, case, np.zeros_like(q), k)
    yield "queries are counted from 0, whatever their positions", _moved(cell, case, _counted(q), k)
    yield "queries and keys are counted from 0, whatever their positions", _moved(cell, case, _counted(q), _counted(k))
    if case.rows:
        yield "every batch row uses the positions of the first", _moved(cell, case, _first(q), _first(k))


def _distances(cell: Cell, q: Numpy, k: Numpy) -> Iterator[tuple[str, Real]]:
    i, j = (np.atleast_2d(p).astype(np.float64) for p in (q, k))
    behind = i[:, None, :, None] - j[:, None, None, :]
    for name, rounded in _rounded(cell, np.abs(behind)):
        yield f"distances are rounded to {name}", rounded
    yield "the bias is -m (i - j), which rewards later keys", behind
    yield "later keys have no bias", np.maximum(behind, 0.0)
    yield "the sign is wrong: the bias must be negative", -np.abs(behind)
    yield "the bias is lost: all zeros", 0.0 * behind
    yield "distances are one too large", np.abs(behind) + 1.0


def _of(cell: Cell, case: BiasCase, distance: Real) -> Expected:
    """A bias of the right slopes and these distances (B, 1, T, S), which may be no integers."""

    def made(contract: Contract) -> Expected:
        m = reference.slopes(case.H, contract, cell.backend.conventions)
        value = -m.value[:, None, None] * distance
        err = m.err[:, None, None] * np.abs(distance) + contract.acc.u * np.abs(value)
        bias = reference.once(Bounded(value, err), contract)
        return Expected(bias.value, bias.err)

    return _both(cell, made)


def _moved(cell: Cell, case: BiasCase, q: Any, k: Any) -> Expected:
    conventions = cell.backend.conventions
    return _both(cell, lambda c: reference.alibi_bias(case.H, q, k, contract=c, conventions=conventions))


def _counted(p: Any) -> Any:
    return np.broadcast_to(np.arange(p.shape[-1]), p.shape)


def _rounded(cell: Cell, integers: Numpy) -> Iterator[tuple[str, Real]]:
    """Integers as the cell's format and bfloat16 hold them, where neither overflows."""
    for form in dict.fromkeys((cell.io, BFLOAT16)):
        if np.max(integers, initial=0) < form.limit:
            yield form.name, integers.astype(form.dtype).astype(np.float64)


def _first(p: Any) -> Any:
    return np.broadcast_to(p[:1], p.shape) if p.ndim == 2 else p


def _both(cell: Cell, made: Any) -> Expected:
    """An expectation at the cell's contract, with the reference's own error added."""
    expected: Expected = made(cell.contract())
    return replace(expected, err=expected.err + made(EXACT).err)
