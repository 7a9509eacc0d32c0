"""The reference's gradients of cases of multi-head attention, blocks and models, and laws of their own."""

from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws.gradients import (
    Found,
    Reference,
    certain,
    cotangent,
    gradients,
    orthogonal,
    right,
)
from gaugeblock.conformance.mistakes.gradients import explained
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ARRAYS, ModelCase
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference.bounded import Bounded
from gaugeblock.spec.reference.gradients import blocks, model, multihead


def layer(case: MultiHeadCase) -> Reference:
    """The gradients of x, context and the weights."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        (x, weights, config), keywords = case.arguments(inputs)
        return multihead.multi_head_attention(x, weights, config, dy, **keywords, contract=contract)

    return found


def block(case: BlockCase) -> Reference:
    """The gradients of x, context and the weights."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        (x, weights, config), keywords = case.arguments(inputs)
        return blocks.block(x, weights, config, dy, **keywords, contract=contract)

    return found


def called(case: ModelCase) -> Reference:
    """The gradients of the weights, and of the memory or vectors; weights of a stack that is not called get nothing."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        given: dict[str, Any] = {name: inputs[name] for name in ARRAYS if name in inputs}
        weights = weights_of(inputs)
        reference = model.encode if case.encodes else model.logits
        made = reference(weights, case.model, inputs[case.reads], dy, **given, contract=contract)
        return {**{n: Bounded(np.zeros(w.shape), np.zeros(w.shape)) for n, w in weights.items()}, **made}

    return found


def agree(cell: Cell, case: Any, reference: Reference, *, inputs: Inputs | None = None) -> None:
    """Every gradient within its bound."""
    inputs = case.inputs(cell.io) if inputs is None else inputs
    right(cell, case, reference, inputs=inputs, dy=at_real_tokens(cell, case, inputs))


def nothing_hidden(cell: Cell, case: Any, reference: Reference, law: str, *, kind: str = "row") -> None:
    """What is exactly zero in the reference is so here, with a cotangent at one token, or at every real one."""
    inputs = case.inputs(cell.io)
    certain(cell, case, reference, law, dy=at_real_tokens(cell, case, inputs, kind))


def at_real_tokens(cell: Cell, case: Any, inputs: Inputs, kind: str = "normal") -> Numpy:
    """A cotangent that is zero at pads, where results are unspecified."""
    dy = cotangent(cell, case, inputs, kind)
    return dy if "token_mask" not in inputs else dy * inputs["token_mask"][..., None].astype(dy.dtype)


def identity(cell: Cell, case: BlockCase) -> None:
    """The gradient of x is the cotangent itself, bit for bit, and the closed sublayers' inner weights get nothing."""
    inputs = case.inputs(cell.io)
    dy = cotangent(cell, case, inputs)
    got = gradients(cell, case, inputs, dy)
    cell.tally.judged += 1
    if not np.array_equal(got["x"].astype(np.float64), dy.astype(np.float64)):
        advice = explained(case, inputs, dy, got, block(case)(inputs, dy, EXACT))
        raise cell.fail("the gradient of x is not the cotangent of the result", case, inputs=inputs, advice=advice)
    certain(cell, case, block(case), "what stands before a projection of zeros gets nothing", dy=dy)


def norms_alone(cell: Cell, case: BlockCase) -> None:
    """With silent sublayers the gradient of x has no part along the ones, nor, at eps = 0, along the row."""
    agree(cell, case, block(case))
    orthogonal(cell, case, block(case), centres=True)
