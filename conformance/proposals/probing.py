"""What the probes of all components share: what a call raises, whether a case holds, the tightest level that does."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.ignored import ignored
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import Level
from gaugeblock.spec.reference.bounded import Expected

C = TypeVar("C", bound=Case)

IGNORED = "ignored, and must raise"


def raised(cell: Cell, case: Case) -> str:
    """Kind and first line of the error that a call raises; empty where it raises none."""
    try:
        cell.call(case)
    except BackendRaised as error:
        return f"{type(error.cause).__name__}: {str(error.cause).strip().splitlines()[0][:80]}"
    except Nonconformance:
        return ""
    return ""


def known(cell: Cell, families: Sequence[C]) -> C:
    """The first of these cases that the backend takes, to vary from there; the first of all where it takes none."""
    return next((case for case in families if not raised(cell, case)), families[0])


def lacking(cell: Cell, case: Case, feature: str) -> str:
    """Why the feature that a call uses seems not to be offered: the error that it raises, or that it is ignored."""
    error = raised(cell, case)
    if error or not case.used().issuperset(feature.split("+")):
        return error
    inputs = case.inputs(cell.io)
    try:
        blamed = ignored(cell, case, inputs, cell.call(case, inputs))
    except (BackendRaised, Nonconformance):
        return ""
    return IGNORED if blamed is not None and blamed[0] == f"{cell.offer}.{feature}" else ""


def fits(cell: Cell, case: Case, conventions: Conventions) -> bool:
    """Whether the backend knows this case and conforms in it under these conventions, at any level."""
    if cell.fit(case) != case:
        return False
    inputs = case.inputs(cell.io)
    try:
        got = cell.call(case, inputs)
    except (BackendRaised, Nonconformance):
        return False
    contract = replace(cell.contract(Level.STORED), float32_scalars=conventions.scalars == "float32")
    return within(got, case.expected(inputs, contract, conventions))


def tightest(cell: Cell, cases: Iterable[Case], held: Level = Level.STRICT) -> Level | None:
    """The tightest level, from held on, at which every case holds; None where one holds at none."""
    for case in map(cell.fit, cases):
        inputs = case.inputs(cell.io)
        try:
            got = cell.call(case, inputs)
        except (BackendRaised, Nonconformance):
            return None
        while not within(got, cell.expected(case, inputs, held)):
            if held is Level.NAIVE:
                return None
            held = Level(held.value - 1)
    return held


def within(got: Numpy, expected: Expected) -> bool:
    """Whether no value is beyond its bound."""
    return judge(got, expected).status is not Status.FAIL
