"""The reference's gradients of a case of each component, as the laws of gradients take them, and laws of their own."""

from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws.attention import visible
from gaugeblock.conformance.laws.gradients import (
    Found,
    Reference,
    backward_contract,
    cotangent,
    gradients,
    judged,
    orthogonal,
    vanishes,
)
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase, RMSNormCase
from gaugeblock.conformance.strategies.positions import LookupCase
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import ROUTES
from gaugeblock.spec.precision import EXACT, HALF, Contract
from gaugeblock.spec.reference.gradients import attention as attention_reference
from gaugeblock.spec.reference.gradients import feedforward, normalization, positions


def attention(cell: Cell, case: AttentionCase) -> Reference:
    """The gradients of q, k, v and bias."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        given: dict[str, Any] = {**inputs, **case.options()}
        return attention_reference.attention(**given, dy=dy, contract=contract, conventions=cell.backend.conventions)

    return found


def keeps_empty_rows(cell: Cell, case: AttentionCase) -> bool:
    """Whether queries that see no key, if there are any, give zeros; no other convention says their gradient."""
    canonical = all(cell.backend.conventions.empty_row_by(route) == "zeros" for route in ROUTES)
    return canonical or bool(np.all(np.any(visible(cell, case, case.inputs(cell.io)), axis=-1)))


def jacobian(cell: Cell, case: AttentionCase) -> None:
    """With a value of one at key 0 and of zero elsewhere, the bias gets a row of the softmax's Jacobian.

    Its gradient is p_0 (delta_0j - p_j) in every row that has a cotangent, and its rows sum to zero.
    """
    inputs = case.inputs(cell.io)
    dy = cotangent(cell, case, inputs, "one")
    got = gradients(cell, case, inputs, dy)["bias"]
    reference = attention(cell, case)
    expected, own = (reference(inputs, dy, way)["bias"] for way in (backward_contract(cell), EXACT))
    if cell.dtype not in HALF:
        sums = np.sum(got.astype(np.float64), axis=-1)
        vanishes(
            cell, case, inputs, sums, np.sum(expected.err + own.err, axis=-1), "each row of the Jacobian sums to 0"
        )
    judged(cell, case, inputs, got, expected, own, "a row of the Jacobian, as the gradient of the bias")


def layer_norm(cell: Cell, case: LayerNormCase) -> Reference:
    """The gradients of x, weight and bias."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        given: dict[str, Any] = {"contract": contract, "conventions": cell.backend.conventions}
        weight, bias = inputs.get("weight"), inputs.get("bias")
        return normalization.layer_norm(inputs["x"], weight, bias, dy, eps=case.eps, **given)

    return found


def rms_norm(cell: Cell, case: RMSNormCase) -> Reference:
    """The gradients of x and weight."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        given: dict[str, Any] = {"contract": contract, "conventions": cell.backend.conventions}
        return normalization.rms_norm(inputs["x"], inputs.get("weight"), dy, eps=case.eps, **given)

    return found


def keeps_directions_out(cell: Cell, case: NormCase) -> None:
    """Each row of dx is orthogonal to what the norm takes away."""
    centres = isinstance(case, LayerNormCase)
    reference = layer_norm(cell, case) if isinstance(case, LayerNormCase) else rms_norm(cell, case)  # type: ignore[arg-type]
    orthogonal(cell, case, reference, centres=centres)


def activation(case: ActivationCase) -> Reference:
    """The gradient of x."""
    kind = "gelu_tanh" if case.function == "gelu" and case.approximate == "tanh" else case.function

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        return feedforward.activation(inputs["x"], dy, kind, beta=case.beta, contract=contract)

    return found


def feed_forward(case: FeedForwardCase) -> Reference:
    """The gradients of x and of every weight."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        (x, weights), options = case.arguments(inputs)
        made: Found = getattr(feedforward, case.called)(x, weights, dy, **options, contract=contract)
        return made

    return found


def rotate(cell: Cell, case: RotaryCase) -> Reference:
    """The gradient of x."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        given: dict[str, Any] = {**case.options(), "contract": contract, "conventions": cell.backend.conventions}
        return {"x": positions.rotate(inputs["positions"], dy, **given)}

    return found


def learned_positions(case: LookupCase) -> Reference:
    """The gradient of the table."""

    def found(inputs: Inputs, dy: Numpy, contract: Contract) -> Found:
        return {"table": positions.learned_positions((case.N, case.M), inputs["positions"], dy, contract)}

    return found
