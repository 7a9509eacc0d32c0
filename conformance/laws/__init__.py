"""The laws that are more than one comparison with the reference: here those of every component, then by component."""

from typing import Any

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import Cell


def inputs_intact(cell: Cell, case: Case) -> None:
    """After the call every input array holds what it held before."""
    inputs = case.inputs(cell.io)
    given = {name: cell.backend.asarray(x.copy()) for name, x in inputs.items()}
    cell.guarded(case, lambda: cell.invoke(case, given))
    cell.tally.judged += 1
    for name, x in inputs.items():
        held = cell.backend.asnumpy(given[name])
        held = held.astype(x.dtype) if x.dtype.kind == "i" else held  # a framework may hold narrower integers
        if held.tobytes() != x.tobytes():
            raise cell.fail(f"the call has written to {name}", case, inputs=inputs)


def whole_number(cell: Cell, case: Case, name: str, got: Any, clause: str) -> int:
    """What a backend gives for a number, which may be of its own kind, as an int."""
    try:
        number: int | None = int(got)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or bool(number != got):
        raise cell.fail(f"{name} must be a whole number, got {type(got).__name__} {got}", case, clause=clause)
    return number
