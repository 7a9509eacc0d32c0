"""The mistakes that are made with attention, as variations of the reference."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference import attention as reference
from gaugeblock.spec.reference.bounded import Expected


def mistakes(cell: Cell, case: AttentionCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs."""
    made = partial(_varied, cell, case)
    yield from ((text, made(inputs, scale=scale)) for text, scale in _scales(case))
    if case.softcap is not None:
        yield "the soft cap is ignored", made(inputs, softcap=None)
        yield "the soft cap is that of the unscaled scores", made(inputs, softcap=case.softcap * case.scaled_by)
    if "mask" in inputs:
        without = {name: x for name, x in inputs.items() if name != "mask"}
        yield "the mask is inverted: True must mean may attend", made(change(inputs, mask=~inputs["mask"]))
        yield "the mask is ignored", made(without)
        if case.causal:
            yield "causal is ignored where a mask is given", made(inputs, causal=False)
            yield "the mask is ignored where causal is set", made(without)
    if "bias" in inputs:
        without = {name: x for name, x in inputs.items() if name != "bias"}
        scaled = (inputs["bias"].astype(np.float64) * case.scaled_by).astype(inputs["bias"].dtype)
        yield "the bias is ignored", made(without)
        yield "the bias is added before scaling", made(change(inputs, bias=scaled))
        yield "the bias is subtracted", made(change(inputs, bias=_negated(inputs["bias"])))
    yield from ((text, made(inputs, **options)) for text, options in _diagonals(case))
    if case.H != case.K:
        heads = np.minimum(np.arange(case.H) // case.K, case.K - 1)
        read = {name: inputs[name][:, heads] for name in "kv"}
        yield "query head h reads key/value head h // K instead of h // (H // K)", made(change(inputs, **read))


def _varied(cell: Cell, case: AttentionCase, inputs: Inputs, **options: Any) -> Expected:
    given: dict[str, Any] = {**inputs, **case.options(), **options}
    conventions = cell.backend.conventions
    expected = reference.attention(**given, contract=cell.contract(), conventions=conventions)
    own = reference.attention(**given, conventions=conventions).err
    return replace(expected, err=expected.err + own)


def _negated(bias: Numpy) -> Numpy:
    """The bias with its sign flipped, but for -inf, which stays a mask."""
    return np.where(np.isfinite(bias.astype(np.float64)), -bias, bias)


def _scales(case: AttentionCase) -> Iterator[tuple[str, float]]:
    D, M = case.D, case.H * case.D
    if case.scale is not None:
        yield "the given scale is ignored", 1 / np.sqrt(D)
        yield "the given scale is used without its sign", abs(case.scale)
        yield "the given scale is applied on top of 1/sqrt(D)", case.scale / np.sqrt(D)
        return
    yield "the scale is missing", 1.0
    yield "the scale is 1/sqrt(H D), the model's width, instead of 1/sqrt(D)", 1 / np.sqrt(M)
    yield "the scale is 1/D instead of 1/sqrt(D)", 1 / D
    yield "the scale is inverted: sqrt(D) instead of 1/sqrt(D)", float(np.sqrt(D))


def _diagonals(case: AttentionCase) -> Iterator[tuple[str, dict[str, Any]]]:
    if case.causal:
        yield "causal is ignored", {"causal": False}
    if case.window is None:
        return
    left, right = case.window
    yield "the window is ignored", {"window": None}
    yield "the window's right side is ignored", {"window": (left, None)}
    yield "the window's left side is ignored", {"window": (None, right)}
    if left is not None:
        yield "the window sees one key too many on the left", {"window": (left + 1, right)}
        if left > 0:
            yield "the window sees one key too few on the left", {"window": (left - 1, right)}
    if right is not None:
        yield "the window sees one key too many on the right", {"window": (left, right + 1)}
    if case.causal:
        yield "causal is ignored where a window is given", {"causal": False}
