"""The mistakes that are made on the way back through activations, networks, rotations and tables."""

from collections.abc import Iterator, Mapping

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.conformance.strategies.positions import LookupCase
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference import formulas
from gaugeblock.spec.reference.bounded import Real
from gaugeblock.spec.reference.feedforward import normal_cdf, sigmoid
from gaugeblock.spec.reference.gradients import feedforward, positions

Varied = Iterator[tuple[str, Mapping[str, Real]]]


def activation(case: ActivationCase, inputs: Inputs, dy: Numpy) -> Varied:
    """Mistakes with the slope: of another function, or of a gate that is held constant."""
    x, g = inputs["x"].astype(np.float64), dy.astype(np.float64)
    if case.function == "gelu":
        other = "gelu" if case.approximate == "tanh" else "gelu_tanh"
        form = "by erf" if other == "gelu" else "by tanh"
        yield f"the slope is that of gelu {form}", {"x": feedforward.activation(x, g, other)["x"].value}
        yield "the gate is held constant", {"x": g * normal_cdf(x)}
    if case.function == "silu":
        yield "beta is ignored on the way back", {"x": feedforward.activation(x, g, "silu")["x"].value}
        yield "the gate is held constant", {"x": g * sigmoid(np.clip(case.beta * x, -700, 700))}
    if case.function == "relu":
        yield "the cotangent is cut below zero as well", {"x": np.maximum(g, 0) * (x > 0)}
    yield "the slope is one everywhere", {"x": g}


def network(case: FeedForwardCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with the sums over the positions, and with the two ways through a gate."""
    n = max(inputs["x"].size // max(inputs["x"].shape[-1], 1), 1)
    biases = {name: g for name, g in right.items() if name.endswith(".bias")}
    if biases:
        yield "biases have the mean over the positions, not the sum", {name: g / n for name, g in biases.items()}
    if case.called == "swiglu":
        x, g = (a.astype(np.float64) for a in (inputs["x"], dy))
        w = {name: a.astype(np.float64) for name, a in inputs.items() if name in right and "." in name}
        z, da = formulas.linear(x, w, "gate"), g @ w["down.weight"].T
        by_up = (da * z * sigmoid(z)) @ w["up.weight"].T
        yield "the gradient of x comes back through the gate alone", {"x": right["x"] - by_up}
        yield "the gradient of x comes back past the gate alone", {"x": by_up}


def rotary(case: RotaryCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with the direction and with the magnitude."""
    on = positions.rotate(-inputs["positions"].astype(np.int64), dy, **case.options())
    yield "the cotangent is rotated on, not back", {"x": on.value}
    turned, given = (float(np.linalg.norm(a)) for a in (right["x"], dy.astype(np.float64)))
    if case.rotary_dim is None and turned > 0:
        yield "the magnitude of the scaling is missing on the way back", {"x": right["x"] * (given / turned)}


def lookup(case: LookupCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with rows that have several readers."""
    read, g = inputs["positions"].reshape(-1), dy.astype(np.float64).reshape(-1, case.M)
    last = np.zeros(right["table"].shape)
    last[read] = g
    count = np.maximum(np.bincount(read, minlength=case.N), 1)[:, None]
    yield "a row has the gradient of its last reader, not the sum", {"table": last}
    yield "a row has the mean over its readers, not the sum", {"table": right["table"] / count}
