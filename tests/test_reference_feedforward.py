"""The reference of activations and networks against many-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from feedforward_digits import BETAS, exact, many_digits, numbers, some_networks

from gaugeblock.spec import weights
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.feedforward import ACTIVATIONS
from gaugeblock.spec.precision import FLOAT64, Contract
from gaugeblock.spec.reference import feedforward as reference
from gaugeblock.spec.reference.bounded import Bounded, ulps


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_agree_with_many_digits(kind: str) -> None:
    x = numbers(0)
    for beta in BETAS if kind == "silu" else (1.0,):
        got = reference.activate(Bounded(x, np.zeros_like(x)), kind, Contract(FLOAT64), beta)
        with mpmath.workdps(80):
            want = np.array([float(exact(v, kind, beta)) for v in x.tolist()])
        assert np.all(np.abs(got.value - want) <= got.err)


@pytest.mark.parametrize("gated", [False, True])
def test_networks_agree_with_many_digits(gated: bool) -> None:
    for case in some_networks(gated):
        inputs = dict(case.inputs(FLOAT64))
        got = case.expected(inputs, Contract(FLOAT64), None)  # type: ignore[arg-type]
        want = many_digits(case, inputs)
        assert np.all(np.abs(got.value - want) <= got.err), case


def test_golden_numbers() -> None:
    """By mpmath 1.3 with 30 digits: x = 1, -2, 3, -2.699; and a gate of 2 on 3."""
    x = np.array([1.0, -2.0, 3.0, -2.699])
    golden = {
        "gelu": [0.841344746068542949, -0.0455002638963584144, 2.99595030590510972, -0.00938552639720913607],
        "gelu_tanh": [0.841191990608276705, -0.0454023059122249812, 2.99636260791822698, -0.00891229087925734054],
        "silu": [0.731058578630004879, -0.238405844044235112, 2.85772238046729966, -0.170124419432632218],
    }
    for kind, want in golden.items():
        got = reference.activate(Bounded(x, np.zeros(4)), kind, Contract(FLOAT64))
        assert np.all(np.abs(got.value - want) <= got.err)
    one = np.ones((1, 1))
    for gate, up, result in ((2, 3, 5.28478246786729466), (3, 2, 5.71544476093459931)):
        got = reference.swiglu(one, {"gate.weight": gate * one, "up.weight": up * one, "down.weight": one})
        assert abs(got.value.item() - result) <= got.err.item()


def test_suprema_are_above_the_curves() -> None:
    """The slopes, curvatures, gate slopes and turns that the bounds use, on a fine grid."""
    x = np.linspace(-12, 12, 240001)
    gate, density = reference.normal_cdf(x), reference.normal_density(x)
    assert np.max(np.abs(gate + x * density)) <= reference.SLOPE_GELU
    assert np.max(np.abs((2 - x * x) * density)) <= reference.CURVE_GELU
    assert np.max(density) <= reference.GATE_GELU
    assert np.max(np.abs(x) * density) <= reference.TURN_GELU
    s = reference.sigmoid(x)
    assert np.max(np.abs(s + x * s * (1 - s))) <= reference.SLOPE_SILU
    assert np.max(np.abs(s * (1 - s) * (2 + x * (1 - 2 * s)))) <= reference.CURVE_SILU
    assert np.max(s * (1 - s)) <= reference.GATE_SILU
    assert np.max(np.abs(x) * s * (1 - s)) <= reference.TURN_SILU
    c, a = reference.ROOT_2_PI, reference.CUBIC
    t, first, second = np.tanh(c * (x + a * x**3)), c * (1 + 3 * a * x * x), 6 * c * a * x
    steep = 1 - t * t
    assert np.max(np.abs((1 + t) / 2 + x * steep * first / 2)) <= reference.SLOPE_GELU
    curve = steep * first + x / 2 * steep * (second - 2 * t * first**2)
    assert np.max(np.abs(curve)) <= reference.CURVE_GELU
    assert np.max(steep * first / 2) <= reference.GATE_GELU


def test_complex_step_gives_the_derivatives() -> None:
    """Both sides within their roundings; the quotient of the sigmoid cancels to no less than a third of its terms."""
    x, h = np.linspace(-6, 6, 241), 1e-40
    step = ((x + 1j * h) * reference.normal_cdf(x + 1j * h)).imag / h
    gate, turn = reference.normal_cdf(x), x * reference.normal_density(x)
    assert np.all(np.abs(step - (gate + turn)) <= ulps(4, FLOAT64.u) * (gate + np.abs(turn)))
    slope = reference.sigmoid(x) * reference.sigmoid(-x)
    roundings = 3 * (8 + 2 * Contract(FLOAT64).exp)
    step = reference.sigmoid(x + 1j * h).imag / h
    assert np.all(np.abs(step - slope) <= ulps(roundings, FLOAT64.u) * slope)


def test_width_of_a_gated_network() -> None:
    for M in range(1, 200):
        for multiple in (1, 8, 64, 256):
            F = weights.swiglu_width(M, multiple)
            gated, plain = (weights.count(s) for s in (weights.swiglu(M, F), weights.feed_forward(M, 4 * M, False)))
            assert F % multiple == 0
            assert 0 <= gated - plain < 3 * M * multiple
    assert weights.swiglu_width(4096, 256) == 11008  # LLaMA with 7 billion parameters
    with pytest.raises(ConfigError, match="SWIGLU-WIDTH"):
        weights.swiglu_width(0)


def test_names_and_shapes_of_weights() -> None:
    assert weights.feed_forward(3, 12) == {
        "up.weight": (3, 12),
        "up.bias": (12,),
        "down.weight": (12, 3),
        "down.bias": (3,),
    }
    assert weights.swiglu(3, 8) == {"gate.weight": (3, 8), "up.weight": (3, 8), "down.weight": (8, 3)}


def test_error_function_of_the_numpy_backend() -> None:
    from gaugeblock.backends.numpy.feedforward import erf as ours

    x = np.concatenate([np.linspace(-7, 7, 1401), [2.0, -2.0, 1e-300, -1e-9, 50.0, 0.0]])
    with mpmath.workdps(40):
        want = np.array([float(mpmath.erf(v)) for v in x.tolist()])
    assert np.all(np.abs(ours(x) - want) <= 16 * FLOAT64.u * np.abs(want))
    assert np.isnan(ours(np.array([np.nan]))).all()
