"""The bounds of activations and networks against adversaries: whatever form an implementation takes."""

from collections.abc import Callable
from itertools import pairwise
from math import erf
from typing import Any

import numpy as np
import pytest
from feedforward_digits import BETAS, numbers, some_networks

from gaugeblock.conformance.strategies.activations import GELU, GELU_TANH, SILU, ActivationCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.spec.precision import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, HALF, Contract, Level
from gaugeblock.spec.reference import feedforward as reference
from gaugeblock.spec.reference.bounded import is_held, rounded

Real = np.ndarray[Any, np.dtype[np.float64]]
Rounding = Callable[[Any], Real]
LEVELS = (Level.STRICT, Level.FUSED, Level.STORED)


def test_an_error_function_of_few_terms_is_within_its_freedom() -> None:
    """1 - p(t) exp(-z^2) in float32: the formula's own error, and every rounding at its worst, to first order."""
    a = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    z, size = np.concatenate([[0.0], np.geomspace(1e-4, 10, 2001)]), 0.3275911
    t, fading = 1 / (1 + size * z), np.exp(-z * z)
    formula = np.abs([erf(at) for at in z] - (1 - t * np.polyval(a, t) * fading))
    of_t = 2 * size * z * t + 2  # the constant and its product, the sum and the quotient; relative, in u like the rest
    total, lost = np.full_like(t, a[0]), np.full_like(t, a[0])
    for coefficient in a[1:]:
        lost = t * lost + np.abs(t * total) + abs(coefficient)
        total = coefficient + t * total
        lost = lost + np.abs(total)
    turn = np.abs(t * np.polyval(np.polyder([*a, 0.0]), t)) * of_t
    by_exp = Contract(FLOAT32).exp + 2 * z * z
    rounding = fading * (turn + t * lost + t * total * (2 + by_exp)) + 1
    assert np.max(formula) < 1.5e-7
    assert np.max(rounding) > 27 and np.max(rounding + formula / FLOAT32.u) < Contract(FLOAT32).erf


def to(dtype: np.dtype[Any]) -> Rounding:
    return lambda x: np.asarray(x, np.float64).astype(dtype).astype(np.float64)


class Adversary:
    """A correct implementation that rounds wherever the contract lets it, in a random admitted form."""

    def __init__(self, contract: Contract, seed: int) -> None:
        self.contract, self.rng = contract, np.random.default_rng(seed)
        self.rnd, self.io = to(contract.acc.dtype), to(contract.io.dtype)
        self.stored: Rounding = self.io if contract.rounds_at(Level.STORED) else lambda x: np.asarray(x)

    def wobbled(self, y: Real, freedom: float) -> Real:
        """A function value, off by nearly all that the contract admits, then rounded."""
        worst = self.rng.choice([-1.0, 1.0], y.shape) * (freedom - 1)
        return self.rnd(y * (1 + self.contract.acc.u * worst))

    def exponential(self, z: Real) -> Real:
        if self.rng.random() < 0.5:
            return self.wobbled(np.exp(z), self.contract.exp)
        return self.wobbled(np.exp2(self.rnd(z * self.rnd(np.log2(np.e)))), self.contract.exp)

    def gated_by_sigmoid(self, x: Real, z: Real) -> Real:
        form, rnd = self.rng.integers(3), self.rnd
        if form == 0:
            return rnd(x / rnd(1 + self.exponential(-z)))
        if form == 1:
            return rnd(x * rnd(1 / rnd(1 + self.exponential(-z))))
        return rnd(rnd(x / 2) * rnd(1 + self.wobbled(np.tanh(z / 2), self.contract.tanh)))

    def activate(self, x: Real, kind: str, beta: float = 1.0) -> Real:
        rnd, form = self.rnd, self.rng.integers(3)
        if kind == "relu":
            return np.maximum(x, 0)
        if kind == "silu":
            return self.gated_by_sigmoid(x, rnd(rnd(beta) * x))
        if kind == "gelu_tanh":
            cube = rnd(rnd(x * x) * x)
            a, c = rnd(0.044715), rnd(np.sqrt(2 / np.pi))
            inner = rnd(x + rnd(a * cube)) if form else rnd(x * rnd(1 + rnd(a * rnd(x * x))))
            return self.gated_by_sigmoid(x, 2 * rnd(c * inner))
        scaled = rnd(x * rnd(np.sqrt(0.5))) if form else rnd(x / rnd(np.sqrt(2)))
        e = self.wobbled(np.vectorize(erf, otypes=[float])(scaled), self.contract.erf)
        if form == 0:
            return rnd(rnd(x / 2) * rnd(1 + e))
        return rnd(x * rnd(0.5 + e / 2)) if form == 1 else rnd(rnd(x * e) + x) / 2

    def linear(self, x: Real, w: Real, bias: Real | None) -> Real:
        """The sum in a random order, products rounded or fused, the bias first, last, or anywhere."""
        terms = x[:, :, None] * w[None]
        terms = terms if self.rng.random() < 0.3 else self.rnd(terms)
        if bias is not None and self.rng.random() < 0.6:
            terms, bias = np.concatenate([terms, np.broadcast_to(bias, (len(x), 1, len(bias)))], axis=1), None
        total = np.zeros((len(x), w.shape[1]))
        for n in self.rng.permutation(terms.shape[1]):
            total = self.rnd(total + terms[:, n])
        return total if bias is None else self.rnd(self.stored(total) + bias)

    def network(self, case: FeedForwardCase, inputs: dict[str, Any]) -> Real:
        given = {name: x.astype(np.float64) for name, x in inputs.items()}
        x, stored = given["x"].reshape(-1, case.M), self.stored

        def layer(rows: Real, name: str) -> Real:
            return self.linear(rows, given[f"{name}.weight"], given.get(f"{name}.bias"))

        hidden = stored(layer(x, "up"))
        if case.gated:
            hidden = stored(self.rnd(stored(self.activate(stored(layer(x, "gate")), "silu")) * hidden))
        else:
            hidden = stored(self.activate(hidden, case.activation))
        return self.io(layer(hidden, "down")).reshape(case.shape)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "silu"])
def test_bound_of_activations_holds_for_any_form(dtype: str, kind: str) -> None:
    io, worst = FORMATS[dtype], 0.0
    functions = {"gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU}
    for turn in range(12):
        beta = BETAS[turn % len(BETAS)] if kind == "silu" else 1.0
        name, approximate = functions[kind]
        case = ActivationCase(function=name, approximate=approximate, beta=beta, x="every", seed=turn)
        x = case.inputs(io)["x"][turn :: 1 if dtype in HALF and turn == 0 else 7]
        want, own = (case.expected({"x": x}, Contract(f), None) for f in (io, FLOAT64))  # type: ignore[arg-type]
        adversary = Adversary(Contract(io), turn)
        with np.errstate(all="ignore"):
            got = adversary.io(adversary.activate(x.astype(np.float64), kind, beta))
            allowed = (want.err + own.err) * (1 + 1e-12)
            judged = np.isfinite(allowed) & ~want.free
            error = np.where(judged, np.abs(got - want.value), 0.0)
        assert np.all(error <= allowed), (kind, dtype, turn, float(x[np.argmax(error / allowed)]))
        worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1))))
    assert worst > 0.3, "the adversary does not come near the bound"


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_bound_of_networks_holds_for_any_order_and_form(dtype: str, level: Level) -> None:
    contract, worst, checked = Contract(FORMATS[dtype], level), 0.0, 0
    for gated in (False, True):
        for seed, case in enumerate(some_networks(gated)):
            inputs = dict(case.inputs(contract.io))
            with np.errstate(all="ignore"):
                want, own = (case.expected(inputs, c, None) for c in (contract, Contract(FLOAT64)))  # type: ignore[arg-type]
            allowed = (want.err + own.err) * (1 + 1e-12)
            for turn in range(4):
                with np.errstate(all="ignore"):
                    got = Adversary(contract, 100 * seed + turn).network(case, inputs)
                    error = np.where(np.isfinite(allowed), np.abs(got - want.value), 0.0)
                assert np.all(error <= allowed), (case, turn)
                worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1), initial=0)))
                checked += 1
    assert worst > 0.03, "the adversary does not come near the bound"
    assert checked > 100


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for name in HALF:
        for gated in (False, True):
            for case in some_networks(gated):
                inputs = dict(case.inputs(FORMATS[name]))
                levels = (Contract(FORMATS[name], level) for level in sorted(Level))
                bounds = [case.expected(inputs, contract, None).err for contract in levels]  # type: ignore[arg-type]
                for looser, tighter in pairwise(bounds):
                    assert np.all(tighter <= looser * (1 + 1e-12))


def test_integers_with_relu_are_exact() -> None:
    for case in some_networks(False, x=("integers",), w=("integers",)):
        case = FeedForwardCase(**{**vars(case), "activation": "relu"})
        for contract in (Contract(FLOAT32), Contract(FLOAT64), Contract(FLOAT16, Level.STORED)):
            expected = case.expected(case.inputs(contract.io), contract, None)  # type: ignore[arg-type]
            small = np.abs(expected.value) <= 2.0**contract.io.p
            assert not np.any(expected.err[small]), case


def test_relu_rounds_nothing() -> None:
    x = numbers(3).astype(np.float32)
    assert not np.any(reference.relu(x, contract=Contract(FLOAT32)).err)
    assert reference.relu([-1e-40, 2e-40], contract=Contract(FLOAT32)).err.tolist()[1] > 0


def test_nothing_is_promised_where_a_double_overflows() -> None:
    x = np.array([1e38, 2e38, -2e38], np.float32)
    assert reference.gelu(x, contract=Contract(FLOAT32)).free.tolist() == [False, True, True]
    assert not np.any(reference.silu(x.astype(np.float64), contract=Contract(FLOAT64)).free)


def test_a_number_that_a_format_holds_is_not_rounded() -> None:
    assert is_held(np.array([256.0, 257.0, 0.0, 1e-40]), BFLOAT16).tolist() == [True, False, True, False]
    assert is_held(2.0**-24, FLOAT16)
    assert np.isfinite(rounded(65519.0, 0.0, FLOAT16))
    assert np.isinf(rounded(65520.0, 0.0, FLOAT16))
