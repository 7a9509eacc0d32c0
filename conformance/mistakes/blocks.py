"""The mistakes that are made with blocks, as variations of the reference."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws.blocks import visible, visible_context
from gaugeblock.conformance.mistakes.multihead import unseeing
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.spec.config import ACTIVATIONS
from gaugeblock.spec.reference.blocks import addition
from gaugeblock.spec.reference.bounded import Expected
from gaugeblock.spec.reference.program import Step, first_order

Wrong = Iterator[tuple[str, Expected]]


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Wrong:
    """Each likely mistake with what it would give for these inputs."""
    if isinstance(case, BlockCase):
        yield from _blind(cell, case, inputs)
        yield from _placement(cell, case, inputs)
        yield from _norms(cell, case, inputs)
        yield from _network(cell, case, inputs)
        yield from _sight(cell, case, inputs)


def _varied(cell: Cell, case: BlockCase, inputs: Inputs, **changed: Any) -> Expected:
    other = replace(case, **changed)
    return other.expected(inputs, cell.contract(), cell.backend.conventions)


def _blind(cell: Cell, case: BlockCase, inputs: Inputs) -> Wrong:
    sees = np.any(visible(case, inputs), axis=-1)  # (B, H, T)
    if case.cross:
        sees = sees & np.any(visible_context(case, inputs), axis=-1)
    yield from unseeing(cell.expected(case, inputs), sees)


def _placement(cell: Cell, case: BlockCase, inputs: Inputs) -> Wrong:
    other = "post" if case.placement == "pre" else "pre"
    yield f"the placement is {other} instead of {case.placement}", _varied(cell, case, inputs, placement=other)
    if case.placement == "pre":
        text = "the residual is the normalised stream, not the stream itself"
        steps = [_from_norm(step) for step in case.program(inputs)]
        yield text, _whole(cell, case, inputs, steps)


def _from_norm(step: Step) -> Step:
    name = step.name.removesuffix("_residual")
    return step if name == step.name else addition(step.name, f"{name}_norm", step.reads[1])


def _whole(cell: Cell, case: BlockCase, inputs: Inputs, steps: Sequence[Step]) -> Expected:
    made = first_order(steps, case.given(inputs), cell.contract())
    return Expected(made.value, made.err)


def _norms(cell: Cell, case: BlockCase, inputs: Inputs) -> Wrong:
    swapped = {name: inputs.get(_exchanged(name), x) for name, x in inputs.items()}
    yield "attention and feed-forward network have each other's norm", _varied(cell, case, swapped)
    if case.norm == "layer":
        rms = {name: x for name, x in inputs.items() if not name.endswith("_norm.bias")}
        yield "the norm is RMSNorm instead of LayerNorm", _varied(cell, case, rms, norm="rms")
    else:
        norms = (name.removesuffix(".weight") for name in inputs if name.endswith("_norm.weight"))
        zeros = {f"{name}.bias": np.zeros_like(inputs[f"{name}.weight"]) for name in norms}
        yield "the norm is LayerNorm instead of RMSNorm", _varied(cell, case, {**inputs, **zeros}, norm="layer")
    for eps in (1e-5, 1e-6, 1e-12):
        if eps != case.eps:
            yield f"eps is {eps:g} instead of {case.eps:g}", _varied(cell, case, inputs, eps=eps)


def _exchanged(name: str) -> str:
    layer, norm, kind = name.partition("_norm.")
    other = {"attention": "feed_forward", "feed_forward": "attention"}.get(layer, layer)
    return f"{other}{norm}{kind}"


def _network(cell: Cell, case: BlockCase, inputs: Inputs) -> Wrong:
    if case.gated:
        ungated = {name: x for name, x in inputs.items() if not name.startswith("feed_forward.gate.")}
        yield "the gate is ignored: the network is one without", _varied(cell, case, ungated, gated=False)
        return
    for activation in ACTIVATIONS:
        if activation != case.activation:
            text = f"the activation is {activation} instead of {case.activation}"
            yield text, _varied(cell, case, inputs, activation=activation)


def _sight(cell: Cell, case: BlockCase, inputs: Inputs) -> Wrong:
    text = "causal is ignored" if case.causal else "the block is causal and should not be"
    yield text, _varied(cell, case, inputs, causal=not case.causal)
    for name in ("mask", "context_mask", "positions"):
        if name in inputs:
            yield f"{name} is ignored", _varied(cell, case, {n: x for n, x in inputs.items() if n != name})
    for name, value in (("rotary", ""), ("alibi", False), ("window", None), ("scale", None)):
        if getattr(case, name) not in ("", False, None):
            yield f"{name} is ignored", _varied(cell, case, inputs, **{name: value})
