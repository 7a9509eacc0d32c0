"""The mistakes that are made with positions, as variations of the reference."""

from collections.abc import Iterator

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.spec.reference.bounded import Expected


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs; by the method that the case calls."""
    if case.method == "rotate":
        from gaugeblock.conformance.mistakes import rotary

        yield from rotary.mistakes(cell, case, inputs)
