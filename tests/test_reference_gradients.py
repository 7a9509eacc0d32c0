"""The reference's gradients: the complex step of its formulas gives the same, within both writings' errors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec.config import RotaryConfig, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract
from gaugeblock.spec.reference import formulas
from gaugeblock.spec.reference.bounded import Bounded, Real
from gaugeblock.spec.reference.feedforward import sigmoid
from gaugeblock.spec.reference.gradients import attention as attention_gradients
from gaugeblock.spec.reference.gradients import feedforward, normalization, positions

H = 1e-100
Arrays = Mapping[str, Any]
SAMPLE = Conventions(layer_norm_form="sample_eps_outside")
STATED = {"layer": (1e-5, 0.5), "rms": (0.0, 1e-5, 0.5)}


def step(f: Callable[..., Any], arrays: Arrays, name: str, dy: Real) -> Real:
    """dy . d f / d arrays[name] by the complex step, one element of the array after the other."""
    x = arrays[name]
    pushed = np.broadcast_to(x, (x.size, *x.shape)).astype(complex).reshape(x.size, x.size)
    pushed = pushed + 1j * H * np.eye(x.size)
    axes = (1,) * (dy.ndim - x.ndim)
    value = f(**{**arrays, name: pushed.reshape(x.size, *axes, *x.shape)})
    return np.asarray(np.sum(np.imag(value) / H * dy, axis=tuple(range(1, dy.ndim + 1))).reshape(x.shape))


def agree(f: Callable[..., Any], arrays: Arrays, found: Mapping[str, Bounded], dy: Real) -> None:
    """Every gradient is the complex step's within both writings' float64 errors; what is certain agrees exactly."""
    for name, got in found.items():
        want = step(f, arrays, name, dy)
        assert got.value.shape == np.shape(arrays[name])
        assert np.all(np.abs(got.value - want) <= 2 * got.err), (name, np.abs(got.value - want) / got.err)
        assert np.all(got.err <= 1e-9 * (1 + np.max(np.abs(got.value)))), (name, np.max(got.err))


def normal(*shape: int, seed: int = 0) -> Real:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (3, 1)])
@pytest.mark.parametrize("bias", [None, (1, 1, 3, 5), (2, 1, 1, 5), "full"])
@pytest.mark.parametrize("scale", [None, 0.3, -1.0, 0.0])
def test_attention(heads: tuple[int, int], bias: Any, scale: float | None) -> None:
    (h, g), rng = heads, np.random.default_rng(3)
    arrays = {"q": 2 * normal(2, h, 3, 4), "k": normal(2, g, 5, 4), "v": normal(2, g, 5, 3)}
    mask = rng.random((2, 1, 3, 5)) < 0.6
    mask[0, :, 1] = False
    if bias is not None:
        arrays["bias"] = normal(*((2, h, 3, 5) if bias == "full" else bias), seed=1)
    dy = normal(2, h, 3, 3)
    found = attention_gradients.attention(**arrays, dy=dy, mask=mask, scale=scale)
    agree(lambda **a: formulas.attention(**a, visible=mask, scale=scale), arrays, found, dy)


def test_attention_gives_hidden_keys_and_empty_rows_nothing() -> None:
    q, k, v, dy = normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 3), normal(1, 2, 3, 3)
    bias = np.where(np.arange(5) < 2, 0.0, -np.inf)[None, None, None]
    mask = np.array([True, False, True])[None, None, :, None]
    found = attention_gradients.attention(q, k, v, dy, mask=mask, bias=bias, contract=Contract(FLOAT32))
    for name, hidden in (("q", np.s_[:, :, 1]), ("k", np.s_[:, :, 2:]), ("v", np.s_[:, :, 2:])):
        assert not found[name].value[hidden].any() and not found[name].err[hidden].any()
    assert not found["bias"].value[..., 2:].any() and not found["bias"].err[..., 2:].any()


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("affine", [True, False])
def test_norms(kind: Any, affine: bool) -> None:
    arrays = {"x": 3 + normal(2, 3, 7), "weight": normal(7), "bias": normal(7, seed=2)}
    dy = normal(2, 3, 7, seed=5)
    for eps in STATED[kind]:
        weight, bias = (arrays["weight"], arrays["bias"]) if affine else (None, None)

        def value(x: Any, weight: Any = 1.0, bias: Any = 0.0, eps: float = eps) -> Any:
            return formulas.norm(x, {"weight": weight, "bias": bias}, kind, eps)

        if kind == "layer":
            found = normalization.layer_norm(arrays["x"], weight, bias, dy, eps=eps)
        else:
            found = normalization.rms_norm(arrays["x"], weight, dy, eps=eps)
        given = {name: arrays[name] for name in ("x", *(("weight", "bias") if affine else ()))}
        agree(value, {**given} if kind == "layer" else {n: a for n, a in given.items() if n != "bias"}, found, dy)


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.5])
def test_layer_norm_of_samples(eps: float) -> None:
    arrays = {"x": 3 + normal(2, 3, 7), "weight": normal(7), "bias": normal(7, seed=2)}
    dy = normal(2, 3, 7, seed=5)

    def value(x: Any, weight: Any, bias: Any) -> Any:
        d = x - np.mean(x, axis=-1, keepdims=True)
        return d / (np.sqrt(np.sum(d * d, axis=-1, keepdims=True) / 6) + eps) * weight + bias

    found = normalization.layer_norm(**arrays, dy=dy, eps=eps, conventions=SAMPLE)
    agree(value, arrays, found, dy)


def test_nothing_is_promised_where_a_sample_has_no_deviation() -> None:
    given: dict[str, Any] = {"eps": 1e-5, "conventions": SAMPLE, "contract": Contract(FLOAT32)}
    constant = normalization.layer_norm(np.ones((2, 4)), np.ones(4), None, normal(2, 4), **given)
    assert np.all(np.isinf(constant["x"].err)) and np.all(np.isfinite(constant["weight"].err))
    alone = normalization.layer_norm(np.ones((2, 1)), np.ones(1), np.ones(1), normal(2, 1), **given)
    assert {name: bool(getattr(g, "free", False)) for name, g in alone.items()} == {
        "x": True,
        "weight": True,
        "bias": False,
    }


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations(kind: str) -> None:
    x, dy = np.linspace(-12, 12, 101) + 1e-3, normal(101)
    found = feedforward.activation(x, dy, kind)
    agree(lambda x: formulas.activation(x, kind), {"x": x}, found, dy)


def test_silu_of_any_beta() -> None:
    x, dy = np.linspace(-9, 9, 61), normal(61)
    for beta in (1.702, -0.5, 0.0, 20.0):
        found = feedforward.activation(x, dy, "silu", beta=beta)
        agree(lambda x, beta=beta: x * sigmoid(beta * x), {"x": x}, found, dy)


def test_relu_at_zero_is_free_between_its_slopes() -> None:
    found = feedforward.activation(np.zeros(2), np.array([2.0, -3.0]), "relu", contract=Contract(FLOAT32))["x"]
    assert np.array_equal(found.value, [1.0, -1.5]) and np.array_equal(found.err, [1.0, 1.5])


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "silu", "swiglu"])
@pytest.mark.parametrize("biased", [True, False])
def test_networks(kind: str, biased: bool) -> None:
    layers = {"up": (4, 6), "down": (6, 4)} | ({"gate": (4, 6)} if kind == "swiglu" else {})
    weights = {f"{layer}.weight": normal(*shape, seed=len(layer)) for layer, shape in layers.items()}
    if biased:
        weights |= {f"{layer}.bias": normal(shape[1], seed=len(layer)) for layer, shape in layers.items()}
    x, dy = normal(5, 4), normal(5, 4, seed=9)

    def value(**arrays: Any) -> Any:
        return formulas.feed_forward(arrays["x"], arrays, kind, gated=kind == "swiglu")

    gated = feedforward.swiglu(x, weights, dy) if kind == "swiglu" else None
    found = gated or feedforward.feed_forward(x, weights, dy, activation=kind)
    assert set(found) == {"x", *weights}
    agree(value, {"x": x, **weights}, found, dy)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("scaling", [None, YaRN(4.0, 32)])
def test_rotation(layout: Any, scaling: Any) -> None:
    config = RotaryConfig(layout=layout, rotary_dim=4, scaling=scaling)
    x, dy, at = normal(2, 2, 3, 6), normal(2, 2, 3, 6, seed=1), np.array([[0, 5, 9], [1, 2, 70]])
    found = positions.rotate(at, dy, layout=layout, rotary_dim=4, scaling=scaling)
    want = step(lambda x: formulas.rotate(x, at, config), {"x": x}, "x", dy)
    assert np.all(np.abs(found.value - want) <= 2 * found.err)


def test_learned_positions() -> None:
    at, dy = np.array([[0, 2, 2], [2, 0, 4]]), normal(2, 3, 5)
    found = positions.learned_positions((6, 5), at, dy, EXACT)
    assert np.array_equal(found.value[4], dy[1, 2]) and not found.err[4].any()
    assert np.array_equal(found.value[0], dy[0, 0] + dy[1, 1]) and found.err[0].all()
    assert not found.value[[1, 3, 5]].any() and not found.err[[1, 3, 5]].any()
