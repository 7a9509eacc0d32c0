"""The mistakes that are made with encoders and decoders, as variations of the reference."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.config import ACTIVATIONS
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.reference.bounded import Expected

Wrong = Iterator[tuple[str, Expected]]


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Wrong:
    """Each likely mistake with what it would give for these inputs; in half precision a model's bound tells nothing."""
    if not isinstance(case, ModelCase) or case.called not in ("encode", "logits") or "vectors" in inputs:
        return
    if cell.dtype in ("float64", "float32"):
        yield from _padding(cell, case, inputs)
        yield from _around(cell, case, inputs)
        yield from _positions(cell, case, inputs)
        yield from _blocks(cell, case, inputs)


def _padding(cell: Cell, case: ModelCase, inputs: Inputs) -> Wrong:
    fits = case.positions != "learned" or inputs["tokens"].shape[1] <= case.max_positions  # with every pad counted
    if fits and "token_mask" in inputs and not np.all(inputs["token_mask"]):
        ids = np.where(inputs["token_mask"], inputs["tokens"], inputs["tokens"] % case.V)
        everything = {name: x for name, x in inputs.items() if name != "token_mask"}
        yield "the token mask is ignored", _varied(cell, case, change(everything, tokens=ids))
        turned = change(inputs, tokens=ids, token_mask=~inputs["token_mask"])
        yield "the token mask is read the other way round: True is a real token", _varied(cell, case, turned)
    if "memory_mask" in inputs and not np.all(inputs["memory_mask"]):
        everything = {name: x for name, x in inputs.items() if name != "memory_mask"}
        yield "the mask of the memory is ignored", _varied(cell, case, everything)


def _around(cell: Cell, case: ModelCase, inputs: Inputs) -> Wrong:
    if case.embedding_scale != 1:
        yield "the embedding is not scaled", _varied(cell, case, inputs, embedding_scale=1.0)
        yield (
            "the embedding is divided by its scale",
            _varied(cell, case, inputs, embedding_scale=1 / case.embedding_scale),
        )
    if case.embedding_norm:
        yield "the norm before the first block is missing", _varied(cell, case, inputs, embedding_norm=False)
    if case.stack.final_norm:
        missing = not case.no_final_norm  # an encoder that is built otherwise turns it over
        yield "the norm behind the last block is missing", _varied(cell, case, inputs, no_final_norm=missing)
    if case.encodes:
        return
    table = np.ascontiguousarray(inputs["decoder.embedding.weight"].T)
    if not case.tied:
        yield (
            "the head is the embedding, though it is not tied",
            _varied(cell, case, change(inputs, **{"head.weight": table})),
        )
    if case.head_bias:
        zero = np.zeros_like(inputs["head.bias"])
        yield "the bias of the head is ignored", _varied(cell, case, change(inputs, **{"head.bias": zero}))


def _positions(cell: Cell, case: ModelCase, inputs: Inputs) -> Wrong:
    stack = "encoder" if case.encodes else "decoder"
    if case.positions:
        yield "positions are not added to the embedding", _varied(cell, case, inputs, positions="")
    if case.positions == "learned":
        name = f"{stack}.positions.weight"
        for n in (1, 2):
            moved = change(inputs, **{name: np.roll(inputs[name], -n, axis=0)})
            yield f"the first {n} rows of the table of positions are left out", _varied(cell, case, moved)
    if case.rotary:
        yield "queries and keys are not rotated", _varied(cell, case, inputs, rotary="", rotary_dim=None, scaling="")
        other = "half" if case.rotary == "interleaved" else "interleaved"
        yield (
            f"the layout of the rotation is {other} instead of {case.rotary}",
            _varied(cell, case, inputs, rotary=other),
        )
    if case.alibi:
        yield "the linear biases are missing", _varied(cell, case, inputs, alibi=False)


def _blocks(cell: Cell, case: ModelCase, inputs: Inputs) -> Wrong:
    if case.window is not None:
        yield "the window is ignored", _varied(cell, case, inputs, window=None)
    if case.scale is not None:
        yield "the scale of the scores is ignored", _varied(cell, case, inputs, scale=None)
    if not case.apart:
        before = "norms stand before the sublayers instead of behind the sums"
        behind = "norms stand behind the sums instead of before the sublayers"
        told, other = (behind, "post") if case.placement == "pre" else (before, "pre")
        yield told, _varied(cell, case, inputs, placement=other)
    for name in ACTIVATIONS:
        if not case.gated and name != case.activation:
            yield f"the activation is {name} instead of {case.activation}", _varied(cell, case, inputs, activation=name)


def _varied(cell: Cell, case: ModelCase, inputs: Inputs, **fields: Any) -> Expected:
    """The same call of another model; the weights that it has not are not looked at."""
    return replace(case, **fields).expected(inputs, cell.contract(), Conventions())
