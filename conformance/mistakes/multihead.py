"""The mistakes that are made with multi-head attention, as variations of the reference."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.laws.multihead import visible
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.reference.bounded import Bits, Expected
from gaugeblock.spec.reference.formulas import join
from gaugeblock.spec.reference.program import Known, Step, run

Variation = tuple[str, MultiHeadCase, Inputs]


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs, within the bound of the right result.

    A mistake that the bound does not tell from the right result, or that makes no call at all, explains nothing.
    """
    if not isinstance(case, MultiHeadCase) or any(np.isnan(x).any() for x in inputs.values() if x.dtype.kind != "b"):
        return
    right = cell.expected(case, inputs)
    yield from unseeing(right, np.any(visible(case, inputs), axis=-1))
    for text, program, given in _programs(case, inputs):
        with suppress(ValueError):  # a mask of the context's length fits no other length
            value = run(program, given)["output"]
            if np.any(np.abs(value - right.value) > right.err):
                yield text, replace(right, value=value)


def unseeing(right: Expected, sees: Bits) -> Iterator[tuple[str, Expected]]:
    """NaN for each token that has a head which sees no key; sees (B, H, T)."""
    blind = ~np.all(sees, axis=1)[..., None]  # (B, T, 1)
    if np.any(blind):
        yield "a query that sees no key gives NaN", replace(right, value=np.where(blind, np.nan, right.value))


def _programs(case: MultiHeadCase, inputs: Inputs) -> Iterator[tuple[str, Sequence[Step], Known]]:
    for variations in (_options, _projections, _heads, _places):
        for text, varied, given in variations(case, inputs):
            with suppress(ConfigError, ValueError):
                yield text, varied.program(given), varied.given(given)
    for text, changed in _reshaped(case, inputs).items():
        program = [replace(step, value=changed.get(step.name, step.value)) for step in case.program(inputs)]
        yield text, program, case.given(inputs)


def _options(case: MultiHeadCase, inputs: Inputs) -> Iterator[Variation]:
    """Options that are ignored, or taken for others."""
    if case.causal and "mask" not in inputs:
        yield "causal is ignored", replace(case, causal=False), inputs
    if case.window is not None:
        yield "the window is ignored", replace(case, window=None), inputs
    if case.alibi:
        yield "the linear biases are ignored", replace(case, alibi=False), inputs
    if case.rotary:
        yield "nothing is rotated", replace(case, rotary=""), inputs
        other = "half" if case.rotary == "interleaved" else "interleaved"
        yield f"the rotation has the layout {other}", replace(case, rotary=other), inputs
    if "mask" in inputs:
        yield "the mask is ignored", case, _without(inputs, "mask")
        yield "the mask says what is hidden, not what is seen", case, change(inputs, mask=~inputs["mask"])
        if case.causal:
            yield "the mask replaces causality", replace(case, causal=False), inputs
    if case.context:
        itself = replace(case, context=False)
        yield "keys and values come from x, not from the context", itself, _without(inputs, "context")
    scales = {"1/sqrt(D)": case.D, "1/sqrt(M), the model's width": case.M, "1/sqrt(E)": case.E, "1/D": case.D**2}
    for text, width in scales.items():
        yield f"the scale is {text}", replace(case, scale=float(width**-0.5)), inputs
    yield "scores are not scaled", replace(case, scale=1.0), inputs


def _projections(case: MultiHeadCase, inputs: Inputs) -> Iterator[Variation]:
    """Weights that are read in another way, and biases that are lost."""
    for name in [name for name in inputs if name.endswith(".bias")]:
        yield f"{name} is ignored", case, change(inputs, **{name: np.zeros_like(inputs[name])})
    square = {n: w for n, w in inputs.items() if n.endswith(".weight") and w.shape[0] == w.shape[1]}
    for name, w in square.items():
        yield f"{name} is read as (out, in)", case, change(inputs, **{name: w.T})
    if len(square) > 1:
        yield "square weights are read as (out, in)", case, change(inputs, **{n: w.T for n, w in square.items()})
    if inputs["key.weight"].shape == inputs["value.weight"].shape:
        yield "the projections of keys and values are exchanged", case, _exchanged(inputs, "key", "value")
    if inputs["query.weight"].shape == inputs["key.weight"].shape:
        yield "the projections of queries and keys are exchanged", case, _exchanged(inputs, "query", "key")


def _heads(case: MultiHeadCase, inputs: Inputs) -> Iterator[Variation]:
    """Columns that are dealt to other heads, and groups that are made otherwise."""
    dealt = {"query": (case.H, case.D), "key": (case.K, case.D), "value": (case.K, case.E)}
    split = {n: _dealt(x, *dealt[n.partition(".")[0]]) for n, x in inputs.items() if n.partition(".")[0] in dealt}
    joined = {"output.weight": _dealt(inputs["output.weight"].T, case.H, case.E).T}
    yield "column c belongs to head c mod H when heads are split", case, change(inputs, **split)
    yield "heads are joined component by component", case, change(inputs, **joined)
    yield "heads are split and joined component by component", case, change(inputs, **split, **joined)
    if case.H != case.K:
        tiled = replace(case, K=case.H)
        shared = {n: (x, dealt[n.partition(".")[0]][1]) for n, x in inputs.items() if n[:4] in ("key.", "valu")}
        copies = {n: np.tile(x, case.H // case.K) for n, (x, _) in shared.items()}
        yield "shared heads are tiled, not repeated: head h reads h mod K", tiled, change(inputs, **copies)


def _reshaped(case: MultiHeadCase, inputs: Inputs) -> dict[str, dict[str, Callable[[Any], Any]]]:
    """Steps that split or join heads by a reshape alone, which makes a head, or a row, of several tokens."""
    steps = {step.name: step for step in case.program(inputs)}
    split = {name: _alone(steps[name]) for name in ("query", "key", "value")}
    output = steps["output"].value
    joined = {"output": lambda mixed: output(_swapped(mixed))}
    return {
        "heads are split by a reshape alone": split,
        "heads are joined by a reshape alone": joined,
        "heads are split and joined by a reshape alone": {**split, **joined},
    }


def _alone(step: Step) -> Callable[[Any], Any]:
    return lambda x: join(step.value(x)).reshape(step.value(x).shape)


def _swapped(mixed: Any) -> Any:
    """What the right join makes of it is what a reshape alone would: (B, H, T, E) read as (B, T, H, E)."""
    B, H, T, E = mixed.shape
    return np.swapaxes(mixed.reshape(B, T, H, E), 1, 2)


def _places(case: MultiHeadCase, inputs: Inputs) -> Iterator[Variation]:
    """Positions that are not looked at."""
    if "positions" in inputs:
        yield "positions are ignored", case, _without(inputs, "positions")
        positions = inputs["positions"]
        if positions.ndim == 2:
            yield "the first row's positions hold for all rows", case, change(inputs, positions=positions[0])
        start = positions - np.min(positions, axis=-1, keepdims=True, initial=2**24)
        yield "positions are counted from the first token", case, change(inputs, positions=start)


def _dealt(x: Numpy, heads: int, width: int) -> Numpy:
    """Columns in the order in which they would have to lie for the right split to read them dealt round."""
    return np.swapaxes(x.reshape(*x.shape[:-1], width, heads), -1, -2).reshape(x.shape)


def _exchanged(inputs: Inputs, one: str, other: str) -> dict[str, Any]:
    names = {one: other, other: one}
    parts = {name: name.partition(".") for name in inputs}
    return {f"{names.get(layer, layer)}{dot}{kind}": inputs[n] for n, (layer, dot, kind) in parts.items()}


def _without(inputs: Inputs, name: str) -> dict[str, Numpy]:
    return {n: x for n, x in inputs.items() if n != name}
