"""What every composition is held to: each of its steps by itself, from what the implementation put into the step."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, Nonconformance
from gaugeblock.conformance.strategies.compositions import ProgramCase
from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import Contract
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected
from gaugeblock.spec.reference.program import Known, Step, local
from gaugeblock.spec.traced import Traced

# the clause that a step breaks, by the last part of its name
CLAUSES: Mapping[str, str] = {
    "query": "MHA-PROJECT",
    "key": "MHA-PROJECT",
    "value": "MHA-PROJECT",
    "rotated_query": "MHA-ROTARY",
    "rotated_key": "MHA-ROTARY",
    "bias": "MHA-ALIBI",
    "keys": "MODEL-CACHED",
    "values": "MODEL-CACHED",
    "mixed": "MHA-ATTEND",
    "output": "MHA-OUTPUT",
    "attention_norm": "BLOCK-NORM",
    "cross_norm": "BLOCK-NORM",
    "feed_forward_norm": "BLOCK-NORM",
    "attention_residual": "BLOCK-RESIDUAL",
    "cross_residual": "BLOCK-RESIDUAL",
    "feed_forward_residual": "BLOCK-RESIDUAL",
    "feed_forward": "BLOCK-FEED-FORWARD",
    "embedding": "MODEL-EMBEDDING",
    "positions": "MODEL-POSITIONS",
    "embedded": "MODEL-POSITIONS",
    "embedding_norm": "MODEL-NORMS",
    "final_norm": "MODEL-NORMS",
    "logits": "MODEL-LOGITS",
}


class Programmed(Protocol):
    """What is judged step by step: its program, the arrays that it reads, and what of a step nothing is promised of."""

    def program(self, inputs: Inputs) -> Sequence[Step]: ...

    def given(self, inputs: Inputs) -> Known: ...

    def free(self, inputs: Inputs, step: str, shape: tuple[int, ...]) -> Bits | None: ...


def traced(cell: Cell, case: ProgramCase, inputs: Inputs) -> tuple[Numpy, dict[str, Numpy]]:
    """The result of a case and copies of its taps, as NumPy arrays.

    Raises BackendRaised.
    """
    backend = cell.backend
    assert isinstance(backend, Traced)
    arrays = {n: backend.asarray(x.copy() if x.flags.c_contiguous else x) for n, x in inputs.items()}

    def call() -> tuple[Numpy, dict[str, Numpy]]:
        method, first, keywords = case.prepared(backend, arrays)
        result, taps = backend.traced(method, *first, **keywords)
        return _copied(cell, result), {name: _copied(cell, x) for name, x in taps.items()}

    made: tuple[Numpy, dict[str, Numpy]] = cell.guarded(case, call)
    return made


def holds(cell: Cell, case: ProgramCase, inputs: Inputs | None = None, *, whole: bool = True, **clauses: str) -> None:
    """The result is right: step by step where the backend shows its steps, else, and in float32 as well, whole.

    whole=False leaves that out for a backend that shows its steps: they add up to the result, and cost less to judge.
    clauses name the one that a step breaks in this check, by the last part of its name.
    Raises BackendRaised, Nonconformance.
    """
    inputs = case.inputs(cell.io) if inputs is None else inputs
    if isinstance(cell.backend, Traced):
        result, taps = traced(cell, case, inputs)
        shown = {**taps, case.program(inputs)[-1].name: result}
        try:
            steps_hold(cell, case, inputs, shown, {**CLAUSES, **clauses})
        except Nonconformance as wrong:
            wrong.got = result  # what a diagnosis looks at
            raise
    if not isinstance(cell.backend, Traced) or (whole and cell.dtype == "float32"):
        cell.judge(case, inputs)


def steps_hold(
    cell: Cell,
    case: ProgramCase,
    inputs: Inputs,
    taps: Mapping[str, Numpy],
    clauses: Mapping[str, str] = CLAUSES,
    part: Programmed | None = None,
) -> None:
    """Every step lies within its local bound, from the taps before it; part is what the case's call is a part of.

    What belongs to pads is unspecified: it is not compared, and zeros stand in where a later step reads it.
    Raises Nonconformance that names the step and its clause.
    """
    judged = part or case
    program = judged.program(inputs)
    known: dict[str, Any] = dict(judged.given(inputs))
    for step in program:
        clause = _blamed(step.name, clauses)
        if step.name not in taps:
            raise cell.fail(f"{step.name} is not among the taps: {', '.join(taps)}", case, clause=clause, inputs=inputs)
        made = cache(partial(local, step, dict(known), last=step is program[-1]))
        got = _of_shape(cell, case, step, taps[step.name], made(cell.contract()).value.shape, clause)
        free = judged.free(inputs, step.name, got.shape)
        if free is not None and got.shape[0] == 1:
            free = np.all(free, axis=0, keepdims=True)  # one tap for all rows: unspecified where it is for each of them
        cell.compare(
            case,
            got,
            partial(_expected, made, got.shape, free),
            f"{step.name} is not what its own inputs give",
            inputs,
            clause,
        )
        known[step.name] = got if free is None else np.where(free, np.zeros((), got.dtype), got)


def _blamed(step: str, clauses: Mapping[str, str]) -> str:
    """The clause of a step: by the last two parts of its name where these are told, else by the last."""
    *_, part, name = ("", *step.split("."))
    return clauses.get(f"{part}.{name}") or clauses[name]


def same_result(cell: Cell, case: ProgramCase) -> None:
    """A traced call gives the bits of the plain one; without tracing there is nothing to compare.

    Clauses: MHA-TAPS, BLOCK-TAPS, MODEL-TAPS.
    """
    if not isinstance(cell.backend, Traced):
        cell.note("shows no intermediates: results are held to the first-order bound")
        return
    inputs = case.inputs(cell.io)
    plain, (shown, _) = cell.call(case, inputs), traced(cell, case, inputs)
    cell.tally.judged += 1
    free = case.free(inputs, case.program(inputs)[-1].name, plain.shape)
    agree = same_bits(plain, shown) | (False if free is None else free)
    if not np.all(agree):
        raise cell.fail("the call gives another result when it is traced", case, inputs=inputs)


def _expected(
    made: Callable[[Contract], Bounded], shape: tuple[int, ...], free: Bits | None, contract: Contract
) -> Expected:
    value, err = (np.broadcast_to(x, shape) for x in (made(contract).value, made(contract).err))
    return Expected(value, err, free=np.zeros((), bool) if free is None else free)


def _of_shape(cell: Cell, case: ProgramCase, step: Step, got: Numpy, shape: tuple[int, ...], clause: str) -> Numpy:
    """The tap in the shape of its step; where all rows are alike the batch axis may be missing, or be full."""
    if got.shape == shape[1:] and shape[0] == 1:
        return got[None]
    if got.shape != shape and (shape[0] != 1 or got.shape[1:] != shape[1:]):
        raise cell.fail(f"{step.name} must have shape {shape}, got {got.shape}", case, clause=clause)
    return got


def _copied(cell: Cell, x: Any) -> Numpy:
    return np.array(cell.backend.asnumpy(x[0] if isinstance(x, tuple) else x))
