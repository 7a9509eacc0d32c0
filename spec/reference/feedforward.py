"""Activations and feed-forward networks as the specification defines them, and what may be lost on the way.

Every smooth activation is x times a gate in [0, 1]: y = x g(x). An error e of x becomes e sup|y'|, where
sup|y'| <= |y'(x)| + e sup|y''|; an error of the gate is multiplied by |x| + e.

Admitted at every level (contracts N1-N4): any order and blocking of the sums; FMA; a bias added before, within or
after its sum; the gates by erf or erfc, by tanh or by the exponential, by exp or exp2 with a folded constant; the
product with the gate in any order; flushed subnormals. At level stored each matrix product, its sum with the bias, the
activated row and the gated row may be rounded once to io.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import erfc, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.feedforward import feed_forward_dims, swiglu_dims
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract, Level
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Expected, Real, Uncertain, given, moved, rounded, ulps

ROOT_2_PI = sqrt(2 / pi)
CUBIC = 0.044715

# Suprema over all x, each rounded up: of the slopes and curvatures of the activations, the slopes of their gates, and
# of |x| g'(x), what a relative error of the gate's argument is multiplied by.
SLOPE_GELU, CURVE_GELU, GATE_GELU, TURN_GELU = 1.13, 0.8, 0.4, 0.242
SLOPE_SILU, CURVE_SILU, GATE_SILU, TURN_SILU = 1.1, 0.5, 0.25, 0.224

ERF_ARGUMENT = 2  # roundings of x / sqrt(2): the constant and the product
SILU_ARGUMENT = 4  # of beta x log2(e): both constants and both products
CUBIC_ARGUMENT = 9  # of sqrt(2 / pi) (x + 0.044715 x^3) log2(e): seven, and two for the folded exponential
FAR = 1000.0  # beyond this argument every gate is 0 or 1 in float64


def relu(x: ArrayLike, *, contract: Contract = EXACT) -> Expected:
    """max(x, 0), which rounds nothing; only a subnormal of a format that may flush is uncertain.

    x of any shape -> value and err of that shape. Clauses: ACT-RELU.
    """
    return _finished(activate(given(x, contract.acc), "relu", contract), contract)


def gelu(x: ArrayLike, *, approximate: str = "none", contract: Contract = EXACT) -> Expected:
    """x Phi(x), or its approximation by tanh.

    x of any shape -> value and err of that shape. Clauses: ACT-GELU, ACT-GELU-TANH.
    """
    kind = "gelu" if approximate == "none" else "gelu_tanh"
    return _smooth(x, activate(given(x, contract.acc), kind, contract), contract)


def silu(x: ArrayLike, *, beta: float = 1.0, contract: Contract = EXACT) -> Expected:
    """x sigmoid(beta x).

    x of any shape -> value and err of that shape. Clauses: ACT-SILU, ACT-SILU-BETA.
    """
    return _smooth(x, activate(given(x, contract.acc), "silu", contract, beta), contract)


def feed_forward(
    x: Uncertain, weights: Mapping[str, ArrayLike], *, activation: str, contract: Contract = EXACT
) -> Expected:
    """activation(x @ up.weight + up.bias) @ down.weight + down.bias.

    x (..., M), weights as spec.weights.feed_forward names them -> value and err (..., M).
    Raises ShapeError, ConfigError. Clauses: FFN-FORMULA, FFN-ACTIVATION, FFN-BIAS. Source: Vaswani et al. 2017, eq. 2.
    """
    feed_forward_dims(np.shape(x), {name: np.shape(w) for name, w in weights.items()}, activation)
    a = Arithmetic(contract)
    hidden = a.store(linear(rows_of(x, contract), weights, "up", contract), Level.STORED)
    activated = a.store(activate(hidden, activation, contract), Level.STORED)
    return _unfolded(a.result(linear(activated, weights, "down", contract)), x)


def swiglu(x: Uncertain, weights: Mapping[str, ArrayLike], *, contract: Contract = EXACT) -> Expected:
    """(silu(x @ gate.weight + gate.bias) * (x @ up.weight + up.bias)) @ down.weight + down.bias.

    x (..., M), weights as spec.weights.swiglu names them -> value and err (..., M).
    Raises ShapeError, ConfigError. Clauses: SWIGLU-FORMULA, SWIGLU-GATE, FFN-BIAS. Source: Shazeer 2020, eq. 6.
    """
    swiglu_dims(np.shape(x), {name: np.shape(w) for name, w in weights.items()})
    a, rows = Arithmetic(contract), rows_of(x, contract)
    gate = a.store(linear(rows, weights, "gate", contract), Level.STORED)
    up = a.store(linear(rows, weights, "up", contract), Level.STORED)
    activated = a.store(activate(gate, "silu", contract), Level.STORED)
    gated = a.store(_product(activated, up, gate, a), Level.STORED)
    return _unfolded(a.result(linear(gated, weights, "down", contract)), x)


def _product(activated: Bounded, up: Bounded, gate: Bounded, a: Arithmetic) -> Bounded:
    """activated up; where up meets the sigmoid before the gate does, what underflows is multiplied by the gate."""
    made = a.mul(activated, up)
    most = np.abs(gate.value) + gate.err
    lost = np.where((most > 0) & (np.abs(up.value) + up.err > 0), a.acc.eta * most, 0.0)
    return Bounded(made.value, made.err + lost)


def linear(x: Bounded, weights: Mapping[str, ArrayLike], layer: str, contract: Contract) -> Bounded:
    """x @ W, or x @ W + b as one inner product of length n + 1, since a kernel may begin its sum with the bias.

    At level stored the product may be rounded to io before the bias is added.
    x (rows, in), W (in, out), b (out,) -> (rows, out). Clauses: FFN-FORMULA, FFN-BIAS.
    """
    a = Arithmetic(contract)
    weight = given(weights[f"{layer}.weight"], contract.acc)
    product = a.matmul(x, weight)
    if f"{layer}.bias" not in weights:
        return product
    bias = given(np.asarray(weights[f"{layer}.bias"])[None], contract.acc)
    ones, nothing = np.ones((len(x.value), 1)), np.zeros((len(x.value), 1))
    longer = Bounded(np.concatenate([x.value, ones], axis=1), np.concatenate([x.err, nothing], axis=1))
    taller = Bounded(np.concatenate([weight.value, bias.value]), np.concatenate([weight.err, bias.err]))
    total = a.matmul(longer, taller)
    if not contract.rounds_at(Level.STORED):
        return total
    stored = a.store(product, Level.STORED)
    known = np.isfinite(stored.err)
    extra = np.where(known, stored.err, 0.0) - np.where(known, product.err, 0.0)
    return Bounded(total.value, np.where(known, total.err + extra * (1 + contract.acc.u), np.inf))


def activate(x: Bounded, kind: str, contract: Contract, beta: float = 1.0) -> Bounded:
    """An activation of uncertain numbers, in the accumulation format."""
    if kind == "relu":
        return Bounded(np.maximum(x.value, 0.0), np.clip(x.value + x.err, 0.0, x.err))
    if kind == "silu":
        return _silu(x, beta, contract)
    return _gelu(x, contract) if kind == "gelu" else _gelu_tanh(x, contract)


def _gelu(x: Bounded, contract: Contract) -> Bounded:
    """x Phi(x): |gate error| <= 2u |x| phi(x) + (c + 1) u / 2 + u Phi(x) + eta, c the freedom of erf.

    c is absolute: 1 - p(t) exp(-z^2), t = 1 / (1 + 0.3275911 z), near zero has the rounding errors of one (Abramowitz
    and Stegun 1964, 7.1.26). The product x erf + x instead of x (1 + erf) adds the 1 to c.
    """
    u, r = contract.acc.u, np.abs(x.value) + x.err
    gate, density = normal_cdf(x.value), normal_density(x.value)
    slope = np.minimum(SLOPE_GELU, np.abs(gate + x.value * density) + CURVE_GELU * x.err)
    lost = ulps(ERF_ARGUMENT, u) * np.minimum(TURN_GELU, GATE_GELU * r)
    lost = lost + (contract.erf + 1) * u / 2
    return _times_gate(x, gate, slope, lost, gate + GATE_GELU * x.err, 1, contract)


def _gelu_tanh(x: Bounded, contract: Contract) -> Bounded:
    """x (1 + tanh w) / 2 = x sigmoid(2 w) with w = sqrt(2 / pi) (x + 0.044715 x^3), whose terms have one sign."""
    near = np.clip(x.value, -FAR, FAR)
    argument = 2 * ROOT_2_PI * (near + CUBIC * near**3)
    gate = sigmoid(argument)
    turn = near * gate * (1 - gate) * 2 * ROOT_2_PI * (1 + 3 * CUBIC * near**2)
    slope = np.minimum(SLOPE_GELU, np.abs(gate + turn) + CURVE_GELU * x.err)
    r = np.minimum(np.abs(x.value) + x.err, FAR)
    size = 2 * ROOT_2_PI * (r + CUBIC * r**3)
    lost = sigmoid_error(size, ulps(CUBIC_ARGUMENT, contract.acc.u), contract)
    return _times_gate(x, gate, slope, lost, gate + GATE_GELU * x.err, 2, contract)


def _silu(x: Bounded, beta: float, contract: Contract) -> Bounded:
    """x sigmoid(beta x); beta may be rounded to the accumulation format, or to float32 where that is declared."""
    with np.errstate(over="ignore"):
        argument = np.clip(beta * x.value, -FAR, FAR)
    gate = sigmoid(argument)
    steep = abs(beta) * x.err
    slope = np.minimum(SLOPE_SILU, np.abs(gate * (1 + argument * (1 - gate))) + CURVE_SILU * steep)
    relative = ulps(SILU_ARGUMENT, contract.acc.u) + (FLOAT32.u if contract.float32_scalars else 0.0)
    lost = sigmoid_error(np.abs(argument) + steep, relative, contract)
    return _times_gate(x, gate, slope, lost, gate + GATE_SILU * steep, 2, contract)


def sigmoid_error(size: Real, relative: Real | float, contract: Contract) -> Real:
    """What a sigmoid may be off at an argument of this size that is off by this share of itself.

    |z| sigmoid'(z) <= min(0.224, |z| / 4); 1 / (1 + exp(-z)) suffers sigmoid'(z) c u <= c u / 4 from its exponential,
    (1 + tanh(z / 2)) / 2 at most (c + 1) u |tanh| / 2; an exponential that overflows stands for a gate below 1 / max.
    """
    u, acc = contract.acc.u, contract.acc
    by_exp = ulps(contract.exp, u) / 4
    by_tanh = (contract.tanh + 1) * u / 2 * np.minimum(1.0, size / 2)
    return relative * np.minimum(TURN_SILU, size * GATE_SILU) + np.maximum(by_exp, by_tanh) + 1 / acc.max


def _times_gate(
    x: Bounded, gate: Real, slope: Real, lost: Real, most: Real, roundings: int, contract: Contract
) -> Bounded:
    """x g(x), where the gate is off by lost and by its own roundings, and is at most most.

    Zero stays exact: whatever the gate, nothing times it is nothing.
    """
    acc = contract.acc
    r = np.abs(x.value) + x.err
    off = lost * (1 + roundings * acc.u) + ulps(roundings, acc.u) * most + acc.eta
    err = slope * x.err + np.where(r > 0, r * off + 2 * acc.eta, 0.0)
    with np.errstate(over="ignore"):
        return Bounded(x.value * gate, rounded(x.value * gate, err, acc))


def normal_cdf(x: Any) -> Any:
    """Phi(x) = erfc(-x / sqrt(2)) / 2, to a few units of the last place on either side.

    For a complex step, Phi(a + ih) = Phi(a) + ih phi(a), exact to first order in h.
    """
    if np.iscomplexobj(x):
        return normal_cdf(x.real) + 1j * x.imag * normal_density(x.real)
    scaled = np.asarray(x, np.float64) * -sqrt(0.5)
    return 0.5 * np.fromiter(map(erfc, scaled.ravel()), np.float64, scaled.size).reshape(scaled.shape)


def normal_density(x: Any) -> Any:
    """phi(x) = exp(-x^2 / 2) / sqrt(2 pi)."""
    near = np.clip(x, -FAR, FAR)
    return np.exp(-0.5 * near * near) / sqrt(2 * pi)


def sigmoid(z: Any) -> Any:
    """1 / (1 + exp(-z)) without overflow; z may be complex, its real part decides."""
    side = np.where(np.real(z) < 0, 1.0, -1.0)
    e = np.exp(side * z)
    return np.where(side < 0, 1.0, e) / (1.0 + e)


def rows_of(x: Uncertain, contract: Contract) -> Bounded:
    """The rows of an array of any number of axes: (..., M) -> (rows, M)."""
    wide = given(x, contract.acc)
    return moved(wide, lambda a: a.reshape(int(np.prod(a.shape[:-1])), a.shape[-1]))


def _unfolded(y: Bounded, x: Uncertain) -> Expected:
    return Expected(y.value.reshape(np.shape(x)), y.err.reshape(np.shape(x)))


def _finished(y: Bounded, contract: Contract) -> Expected:
    done = Arithmetic(contract).result(y)
    return Expected(done.value, done.err)


def _smooth(x: ArrayLike, y: Bounded, contract: Contract) -> Expected:
    """The result, with nothing promised where twice x overflows: x (1 + erf) / 2 may double before it halves."""
    done = _finished(y, contract)
    return replace(done, free=np.abs(np.asarray(x).astype(np.float64)) > contract.acc.max / 2)
