"""What a wrong result looks like: the sibling convention, the looser level or the mistake that would give it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import INPUTS_ROUNDED, Cell, Nonconformance
from gaugeblock.conformance.ignored import gives, ignored
from gaugeblock.spec.conventions import CHOICES, CHOICES_EMPTY_ROW, Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, HALF, Level
from gaugeblock.spec.reference.bounded import Expected

MOST = 3
MUST_RAISE = "and raise where it is asked for"
BROKEN = "the suite could not explain this"


@dataclass(frozen=True)
class Hint:
    """A likely mistake, and the declaration that would make it honest ("" where none can)."""

    text: str
    declare: str = ""


Explained = tuple[Hint, Expected]  # and what it would give


def likely(cell: Cell, failure: Nonconformance) -> list[Hint]:
    """The explanations that give exactly the result that was got, within their own bounds."""
    hints = [Hint(failure.advice, failure.declare)] if failure.advice else []
    case, inputs, got = failure.case, failure.inputs, failure.got
    if case is None or inputs is None or got is None:
        return hints
    try:
        size = case.size(inputs)
        found = list(
            islice(((h, e) for h, e in _explanations(cell, case, inputs) if gives(got, e, size)), MOST - len(hints))
        )
        found = found or [(h, e) for h, e in _narrow(cell, case, inputs) if gives(got, e, size)]
        feature = ignored(cell, case, inputs, got)
        hints += [hint for hint, _ in (found if feature is None else _declarable(found, *feature))]
    except Exception as error:  # whatever it is, the failure that was to be explained must not be lost with it
        hints.append(Hint(broken(error)))
    return hints


def _declarable(found: list[Explained], name: str, expected: Expected) -> list[Explained]:
    """The hints, with the line for a feature that is ignored, beside the words that already say so where some do."""
    line = f'unsupported = {{"{name}": "why"}}  # {MUST_RAISE}'
    for n, (hint, told) in enumerate(found):
        if not hint.declare and np.array_equal(told.value, expected.value, equal_nan=True):
            return [*found[:n], (replace(hint, declare=line), told), *found[n + 1 :]]
    return [*found, (Hint(f"{name} is ignored", line), expected)]


def broken(error: Exception) -> str:
    """What stands in the place of an explanation that could not be made."""
    return f"{BROKEN}: {type(error).__name__}: {error}"


def _explanations(cell: Cell, case: Case, inputs: Inputs) -> Iterator[Explained]:
    declared = cell.expected(case, inputs)
    for conventions, name, value in _siblings(cell.backend.conventions) if case.conventional else ():
        changed = f"conventions = Conventions({spelled(conventions)})"
        expected = case.expected(inputs, cell.contract(), conventions)
        if np.array_equal(expected.value, declared.value, equal_nan=True):
            continue  # a convention that says nothing of this call explains nothing
        yield (
            Hint(f"{name} is {value.replace('_', ' ')}", changed),
            _with_own(cell, case, inputs, expected, conventions),
        )
    yield from _narrow_scalars(cell, case, inputs)
    yield from _levels(cell, case, inputs)
    mistakes = f"gaugeblock.conformance.mistakes.{case.component}"
    if find_spec(mistakes):
        for text, expected in import_module(mistakes).mistakes(cell, case, inputs):
            yield Hint(text), expected


def _with_own(cell: Cell, case: Case, inputs: Inputs, expected: Expected, conventions: Conventions) -> Expected:
    own = case.expected(inputs, EXACT, conventions).err
    return replace(expected, err=expected.err + own)


def _siblings(declared: Conventions) -> Iterator[tuple[Conventions, str, str]]:
    for name, values in (*CHOICES.items(), ("empty_row", CHOICES_EMPTY_ROW)):
        for value in values:
            if value != getattr(declared, name):
                changed: dict[str, Any] = {name: value}
                yield replace(declared, **changed), name.replace("_", " "), value


def _narrow_scalars(cell: Cell, case: Case, inputs: Inputs) -> Iterator[Explained]:
    """What the numbers among the arguments give once they have been rounded to float32."""
    conventions, narrow = cell.backend.conventions, _narrowed(case)
    if cell.dtype == "float64" and conventions.scalars == "float64" and narrow != case:
        expected = cell.expected(narrow, inputs)
        declare = f"conventions = Conventions({spelled(replace(conventions, scalars='float32'))})"
        text = "scale, eps and base are rounded to float32"
        yield Hint(text, declare), replace(expected, err=expected.err + cell.own(narrow, inputs))


def _narrow(cell: Cell, case: Case, inputs: Inputs) -> Iterator[Explained]:
    """What all of it gives in float32."""
    if cell.dtype == "float64":
        in_float32 = case.expected(inputs, replace(cell.contract(), io=FLOAT32), cell.backend.conventions)
        hint = Hint(cell.in_float32["advice"], cell.in_float32["declare"])
        yield hint, replace(in_float32, err=INPUTS_ROUNDED * in_float32.err)


def _narrowed(case: Any) -> Any:
    """The case with scale, eps and base as float32 holds them; the default of a scale is a number as well."""
    given = {f.name: getattr(case, f.name) for f in fields(case)}
    if "scale" in given and given["scale"] is None:
        given["scale"] = case.D**-0.5
    with np.errstate(over="ignore"):
        floats = {name: float(np.float32(x)) for name, x in given.items() if isinstance(x, float)}
    return replace(case, **{name: x for name, x in floats.items() if x != given[name] and isfinite(x)})


def spelled(conventions: Conventions) -> str:
    """The arguments that make them."""
    changed = (
        (f.name, getattr(conventions, f.name)) for f in fields(conventions) if getattr(conventions, f.name) != f.default
    )
    return ", ".join(f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}" for name, value in changed)


def _levels(cell: Cell, case: Case, inputs: Inputs) -> Iterator[Explained]:
    if cell.dtype not in HALF:
        return
    own = cell.own(case, inputs)
    for level in sorted((x for x in Level if x < cell.level), reverse=True):
        declare = f'level = {{"{cell.dtype}": Level.{level.name}}}' if level is not Level.NAIVE else ""
        text = f"rounds as level {level} allows" + ("" if declare else ", which no implementation may declare")
        expected = cell.expected(case, inputs, level)
        yield Hint(text, declare), replace(expected, err=expected.err + own)
