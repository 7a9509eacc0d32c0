"""The mistakes that are made with activations and feed-forward networks, as variations of the reference."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.feedforward import ACTIVATIONS
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference import feedforward as reference
from gaugeblock.spec.reference.bounded import Expected

Wrong = Iterator[tuple[str, Expected]]


def mistakes(cell: Cell, case: Case, inputs: Inputs) -> Wrong:
    """Each likely mistake with what it would give for these inputs."""
    if isinstance(case, ActivationCase):
        yield from _activations(cell, case, inputs)
    elif isinstance(case, FeedForwardCase):
        yield from (_gated if case.gated else _plain)(cell, case, inputs)
        yield from _biases(cell, case, inputs)


def _activations(cell: Cell, case: ActivationCase, inputs: Inputs) -> Wrong:
    def made(**changed: Any) -> Expected:
        return _varied(cell, replace(case, **changed), inputs)

    if case.function == "gelu":
        exact = case.approximate != "tanh"
        text = "GELU is approximated by tanh, not exact" if exact else "GELU is exact, not approximated by tanh"
        yield text, made(approximate="tanh" if exact else "none")
        yield "GELU is approximated by x sigmoid(1.702 x)", made(function="silu", beta=1.702)
        yield "SiLU stands for GELU", made(function="silu", beta=1.0)
    if case.function == "silu":
        if case.beta != 1.0:
            yield "beta is ignored", made(beta=1.0)
        if case.beta != 0.0 and case.beta != 1.0:
            yield "x is divided by beta instead of multiplied", made(beta=1 / case.beta)
        yield "GELU stands for SiLU", made(function="gelu")
        yield "the leading x is missing: this is the sigmoid", _gate(cell, case, inputs)
    if case.function != "relu":
        yield "ReLU stands for it", made(function="relu")


def _gate(cell: Cell, case: ActivationCase, inputs: Inputs) -> Expected:
    """The activation without its leading x; its bound is that of the product."""
    expected, x = _varied(cell, case, inputs), inputs["x"].astype(np.float64)
    with np.errstate(over="ignore"):
        gate = reference.sigmoid(np.clip(case.beta * x, -reference.FAR, reference.FAR))
    err = expected.err / np.where(x == 0, 1.0, np.abs(x)) + cell.io.u * gate
    return replace(expected, value=gate, err=err, free=expected.free | (x == 0))


def _plain(cell: Cell, case: FeedForwardCase, inputs: Inputs) -> Wrong:
    for activation in ACTIVATIONS:
        if activation != case.activation:
            text = f"the activation is {activation} instead of {case.activation}"
            yield text, _varied(cell, replace(case, activation=activation), inputs)


def _gated(cell: Cell, case: FeedForwardCase, inputs: Inputs) -> Wrong:
    swapped = {"gate": "up", "up": "gate", "down": "down"}
    moved = {name: _renamed(inputs, name, swapped) for name in inputs}
    yield "gate and up are swapped: SiLU belongs on the gate", _varied(cell, case, moved)
    ungated = {name: x for name, x in inputs.items() if not name.startswith("gate.")}
    plain = replace(case, gated=False, activation="silu")
    yield "the gate is ignored: this is the network without one, with SiLU", _varied(cell, plain, ungated)


def _biases(cell: Cell, case: FeedForwardCase, inputs: Inputs) -> Wrong:
    for layer in case.biased:
        without = {name: x for name, x in inputs.items() if name != f"{layer}.bias"}
        yield f"the bias of {layer} is ignored", _varied(cell, case, without)
        doubled = np.asarray(2 * inputs[f"{layer}.bias"].astype(np.float64)).astype(cell.io.dtype)
        yield f"the bias of {layer} is added twice", _varied(cell, case, change(inputs, **{f"{layer}.bias": doubled}))
    if case.biased:
        yield "all biases are ignored", _varied(cell, case, {n: x for n, x in inputs.items() if "bias" not in n})


def _renamed(inputs: Inputs, name: str, layers: dict[str, str]) -> Numpy:
    layer, dot, kind = name.partition(".")
    other = inputs.get(f"{layers[layer]}{dot}{kind}") if dot else inputs[name]
    return np.zeros_like(inputs[name]) if other is None else other


def _varied(cell: Cell, case: Case, inputs: Inputs) -> Expected:
    expected = case.expected(inputs, cell.contract(), Conventions())
    return replace(expected, err=expected.err + case.expected(inputs, EXACT, Conventions()).err)
