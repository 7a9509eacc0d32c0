"""The gradients of activations and feed-forward networks (source 6.3), and what may be lost on the way to them.

Every slope is formed from the gate g of y = x g(x) and from what turns it: y' = g + x g'. Admitted beside what the
forward pass may do: 1 - g or 1 - t² by subtraction, whose error is that of g or t itself; the slope as a sum of two
products with the cotangent; activated values kept or computed again.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.feedforward import feed_forward_dims, swiglu_dims
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Uncertain, given, moved, rounded, ulps
from gaugeblock.spec.reference.feedforward import (
    CUBIC,
    CUBIC_ARGUMENT,
    CURVE_GELU,
    CURVE_SILU,
    ERF_ARGUMENT,
    FAR,
    GATE_GELU,
    ROOT_2_PI,
    SILU_ARGUMENT,
    TURN_GELU,
    activate,
    linear,
    normal_cdf,
    normal_density,
    rows_of,
    sigmoid,
    sigmoid_error,
)

ROUNDINGS = 8  # of a slope's own sums and products, and of those with the cotangent


def activation(
    x: ArrayLike, dy: ArrayLike, kind: str, *, beta: float = 1.0, contract: Contract = EXACT
) -> dict[str, Bounded]:
    """The gradient of x through relu, gelu (by erf), gelu_tanh or silu, for the cotangent dy: dx = dy y'(x).

    At zero the slope of relu is any number from 0 to 1; elsewhere nothing of it is rounded.
    x, dy of one shape -> value and error of that shape.
    Clauses: ACT-GRADIENT-RELU, ACT-GRADIENT. Source: Hendrycks and Gimpel 2016; Ramachandran et al. 2017.
    """
    dx = _through(given(x, contract.acc), given(dy, contract.acc), kind, contract, beta)
    return {"x": Bounded(dx.value, rounded(dx.value, dx.err, contract.io) if kind != "relu" else dx.err)}


def feed_forward(
    x: Uncertain, weights: Mapping[str, ArrayLike], dy: Uncertain, *, activation: str, contract: Contract = EXACT
) -> dict[str, Bounded]:
    """The gradients of x and of every weight of a network without a gate, for the cotangent dy of its result.

        h = x W_up + b_up,   a = activation(h),   da = dy W_down^T,   dh = da activation'(h)
        dx = dh W_up^T,   dW_up = x^T dh,   db_up = sum dh,   dW_down = a^T dy,   db_down = sum dy

    x, dy (..., M) -> values and errors in the shapes of the inputs, weights by their names. The sums of weights and
    biases run over all positions. Raises ShapeError, ConfigError. Clauses: FFN-GRADIENT.
    Source: Vaswani et al. 2017, eq. 2, differentiated.
    """
    feed_forward_dims(np.shape(x), {name: np.shape(w) for name, w in weights.items()}, activation)
    rows, g = rows_of(x, contract), rows_of(dy, contract)
    hidden = linear(rows, weights, "up", contract)
    dh = _through(hidden, _back(g, weights, "down", contract), activation, contract)
    found = {
        "x": _back(dh, weights, "up", contract),
        **linear_weights(rows, dh, weights, "up", contract),
        **linear_weights(activate(hidden, activation, contract), g, weights, "down", contract),
    }
    return _finished(found, x, contract)


def swiglu(
    x: Uncertain, weights: Mapping[str, ArrayLike], dy: Uncertain, *, contract: Contract = EXACT
) -> dict[str, Bounded]:
    """The gradients of x and of every weight of a gated network, for the cotangent dy of its result.

        z = x W_gate + b_gate,   h = x W_up + b_up,   a = silu(z) h,   da = dy W_down^T
        dh = da silu(z),   dz = da h silu'(z),   dx = dz W_gate^T + dh W_up^T

    x, dy (..., M) -> values and errors in the shapes of the inputs, weights by their names.
    Raises ShapeError, ConfigError. Clauses: SWIGLU-GRADIENT. Source: Shazeer 2020, eq. 6, differentiated.
    """
    swiglu_dims(np.shape(x), {name: np.shape(w) for name, w in weights.items()})
    a, rows, g = Arithmetic(contract), rows_of(x, contract), rows_of(dy, contract)
    gate, up = (linear(rows, weights, layer, contract) for layer in ("gate", "up"))
    activated, da = activate(gate, "silu", contract), _back(g, weights, "down", contract)
    dh = a.mul(da, activated)
    dz = _through(gate, a.mul(da, up), "silu", contract)
    found = {
        "x": a.add(_back(dz, weights, "gate", contract), _back(dh, weights, "up", contract)),
        **linear_weights(rows, dz, weights, "gate", contract),
        **linear_weights(rows, dh, weights, "up", contract),
        **linear_weights(a.mul(activated, up), g, weights, "down", contract),
    }
    return _finished(found, x, contract)


def _through(x: Bounded, dy: Bounded, kind: str, contract: Contract, beta: float = 1.0) -> Bounded:
    """dy times the slope of an activation at uncertain numbers."""
    if kind == "relu":
        return _through_relu(x, dy)
    made = Arithmetic(contract).mul(dy, _slope(x, kind, contract, beta))
    most = np.abs(dy.value) + dy.err
    lost = np.where(most > 0, contract.acc.eta * (2 + most) * (2 + np.abs(x.value)), 0.0)
    return Bounded(made.value, made.err + lost)


def _through_relu(x: Bounded, dy: Bounded) -> Bounded:
    """dy where x is above zero, zero below; anything between where x may be either, half of dy if it is zero."""
    value = dy.value * np.where(x.value > 0, 1.0, np.where(x.value == 0, 0.5, 0.0))
    unsure = np.abs(x.value) <= x.err
    other = np.where(x.value == 0, 0.5, 1.0) * np.abs(dy.value) + dy.err
    return Bounded(value, np.where(unsure, other, np.where(x.value > 0, dy.err, 0.0)))


def _slope(x: Bounded, kind: str, contract: Contract, beta: float) -> Bounded:
    if kind == "silu":
        return _slope_silu(x, beta, contract)
    return _slope_gelu(x, contract) if kind == "gelu" else _slope_gelu_tanh(x, contract)


def _slope_gelu(x: Bounded, contract: Contract) -> Bounded:
    """Phi(x) + x phi(x), whose own slope is below 0.8; phi loses 3 u x² in its argument, beside its exponential."""
    u, r = contract.acc.u, np.minimum(np.abs(x.value) + x.err, FAR)
    near = np.clip(x.value, -FAR, FAR)
    gate, turn = normal_cdf(near), near * normal_density(near)
    lost = ulps(ERF_ARGUMENT, u) * np.minimum(TURN_GELU, GATE_GELU * r)
    lost = lost + (contract.erf + 1) * u / 2
    lost = lost + ulps(contract.exp + ROUNDINGS + 3 * near**2, u) * np.abs(turn) + ulps(ROUNDINGS, u) * gate
    return Bounded(gate + turn, lost + CURVE_GELU * x.err + contract.acc.eta * (1 + r))


def _slope_gelu_tanh(x: Bounded, contract: Contract) -> Bounded:
    """(1 + t) / 2 + x / 2 (1 - t²) w',   t = tanh w,   w = sqrt(2 / pi) (x + 0.044715 x³).

    1 - t² is as far off as 2 t, even where t has become 1.
    """
    u = contract.acc.u
    near = np.clip(x.value, -FAR, FAR)
    w = ROOT_2_PI * (near + CUBIC * near**3)
    turn = ROOT_2_PI * (1 + 3 * CUBIC * near**2)
    gate = sigmoid(2 * w)
    flat = 4 * gate * sigmoid(-2 * w)  # 1 - t², which does not cancel in this form
    shift = ulps(CUBIC_ARGUMENT, u) * np.abs(w)
    off = contract.tanh * u * np.abs(np.tanh(w)) + np.minimum(1.0, flat * np.exp(2 * shift)) * shift
    lost = off / 2 + np.abs(near) / 2 * turn * (2 * off + off**2 + ulps(ROUNDINGS, u) * (1 + flat))
    lost = lost + ulps(ROUNDINGS, u) * gate
    return Bounded(gate + near / 2 * flat * turn, lost + CURVE_GELU * x.err + contract.acc.eta * (1 + np.abs(near)))


def _slope_silu(x: Bounded, beta: float, contract: Contract) -> Bounded:
    """g (1 + z (1 - g)),   g = sigmoid(z),   z = beta x; an error of g counts 1 + 2 |z| times."""
    u = contract.acc.u
    with np.errstate(over="ignore"):
        z = np.clip(beta * x.value, -FAR, FAR)
    gate, other = sigmoid(z), sigmoid(-z)
    relative = ulps(SILU_ARGUMENT, u) + (FLOAT32.u if contract.float32_scalars else 0.0)
    steep = abs(beta) * x.err
    lost = sigmoid_error(np.abs(z) + steep, relative, contract) * (1 + 2 * np.abs(z))
    lost = lost + (ulps(ROUNDINGS, u) + relative) * gate * (1 + np.abs(z))
    return Bounded(gate * (1 + z * other), lost + CURVE_SILU * steep + contract.acc.eta * (1 + np.abs(z)))


def _back(dy: Bounded, weights: Mapping[str, ArrayLike], layer: str, contract: Contract) -> Bounded:
    """The cotangent of a linear layer's input: dy W^T, (rows, out) -> (rows, in)."""
    return Arithmetic(contract).matmul(dy, given(np.asarray(weights[f"{layer}.weight"]).T, contract.acc))


def linear_weights(
    x: Bounded, dy: Bounded, weights: Mapping[str, ArrayLike], layer: str, contract: Contract
) -> dict[str, Bounded]:
    """The gradients of a linear layer's weight, x^T dy, and of its bias, the sum of dy over all rows."""
    a = Arithmetic(contract)
    found = {f"{layer}.weight": a.matmul(Bounded(x.value.T, x.err.T), dy)}
    if f"{layer}.bias" in weights:
        ones = Bounded(np.ones((1, len(dy.value))), np.zeros((1, len(dy.value))))
        total = a.matmul(ones, dy)
        found[f"{layer}.bias"] = Bounded(total.value[0], total.err[0])
    return found


def _finished(found: dict[str, Bounded], x: Uncertain, contract: Contract) -> dict[str, Bounded]:
    """Every gradient rounded to io, that of x in x's shape."""
    done = {name: Arithmetic(contract).result(g) for name, g in found.items()}
    return {**done, "x": moved(done["x"], lambda a: a.reshape(np.shape(x)))}
