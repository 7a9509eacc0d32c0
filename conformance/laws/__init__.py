"""The laws that are more than one comparison with the reference: here those of every component, then by component."""

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
