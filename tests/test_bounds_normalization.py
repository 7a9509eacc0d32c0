"""The bounds of LayerNorm and RMSNorm against adversaries that round on purpose, in every admitted form."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_reference_normalization import ONE_PLUS, SAMPLE, Real, some_cases

from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, FORMATS, HALF, Contract, Format, Level
from gaugeblock.spec.reference.bounded import Bounded
from gaugeblock.spec.reference.normalization import inverse_deviation, inverse_root

Rounding = Callable[[Real], Real]


def to(io: Format, flush: bool = False) -> Rounding:
    """Round to a format; perhaps to zero below its normal range."""

    def rounding(x: Real) -> Real:
        y = np.asarray(x).astype(io.dtype).astype(np.float64)
        return np.where(np.abs(y) < io.tiny, 0.0, y) if flush and io.flush else y

    return rounding


class Adversary:
    """A correct implementation that rounds wherever the contract lets it, in a random admitted form."""

    def __init__(self, case: NormCase, inputs: dict[str, Any], contract: Contract, seed: int) -> None:
        self.case, self.contract, self.rng = case, contract, np.random.default_rng(seed)
        self.io = to(contract.io)
        self.rnd = to(contract.acc, flush=self.rng.random() < 0.3)
        self.x = inputs["x"].astype(np.float64)[..., self.rng.permutation(case.M)]  # sums in any order
        self.row = inputs["x"].astype(np.float64)
        self.weight, self.bias = (inputs[n].astype(np.float64) if n in inputs else None for n in ("weight", "bias"))
        self.form = int(self.rng.integers(4))

    def __call__(self, conventions: Conventions) -> Real:
        layer = isinstance(self.case, LayerNormCase)
        mean, square = self.statistics() if layer else (None, self.mean_square(self.x))
        eps = self.rnd(np.float64(self.case.eps))
        if layer and conventions.layer_norm_form != "population":
            M = self.case.M
            deviation = self.wobbled(np.sqrt(self.rnd(square * self.rnd(np.float64(M / (M - 1))))))
            r = self.rnd(1 / self.rnd(deviation + eps))
        else:
            r = self.wobbled(1 / np.sqrt(self.rnd(square + eps)))
        weight = self.weight
        if weight is not None and not layer and conventions.rms_weight == "1+w":
            weight = self.rnd(1 + weight)
        return self.io(self.product(mean, r, weight))

    def wobbled(self, x: Real) -> Real:
        return self.rnd(x * (1 + self.contract.acc.u * self.rng.uniform(-2.9, 2.9, x.shape)))

    def divided(self, total: Real) -> Real:
        """A sum over its number of terms, by division or by a rounded reciprocal."""
        M = float(self.case.M)
        return self.rnd(total / M) if self.rng.random() < 0.5 else self.rnd(total * self.rnd(np.float64(1 / M)))

    def summed(self, terms: Real) -> Real:
        rnd = self.rnd
        if self.rng.random() < 0.5:
            while terms.shape[-1] > 1:
                odd = terms[..., terms.shape[-1] // 2 * 2 :]
                terms = np.concatenate([rnd(terms[..., :-1:2] + terms[..., 1::2]), odd], axis=-1)
            return terms
        total = np.zeros((*terms.shape[:-1], 1))
        for i in range(terms.shape[-1]):
            total = rnd(total + terms[..., i : i + 1])
        return total

    def mean_square(self, x: Real) -> Real:
        rnd = self.rnd
        if self.rng.random() < 0.3:
            largest = np.max(np.abs(x), axis=-1, keepdims=True)
            part = rnd(x / np.where(largest > 0, largest, 1))
            return rnd(rnd(largest * largest) * self.divided(self.summed(rnd(part * part))))
        return self.divided(self.summed(rnd(x * x)))

    def statistics(self) -> tuple[Real, Real]:
        """Mean and variance: in two passes, value by value (Welford), or by blocks (Chan et al.)."""
        if self.form in (0, 1):
            mean = self.divided(self.summed(self.x))
            d = self.rnd(self.x - mean)
            return mean, self.divided(self.summed(self.rnd(d * d)))
        zero = np.zeros((*self.x.shape[:-1], 1))
        values = [(1.0, self.x[..., i : i + 1], zero) for i in range(self.case.M)]
        while len(values) > 1:
            first = self.joined(values[0], values[1])
            values = [first, *values[2:]] if self.form == 2 else [*values[2:], first]
        _, mean, square = values[0]
        return mean, self.divided(square)

    def joined(self, a: tuple[float, Real, Real], b: tuple[float, Real, Real]) -> tuple[float, Real, Real]:
        rnd, ((n, mean_a, square_a), (m, mean_b, square_b)) = self.rnd, (a, b)
        share = rnd(np.float64(m / (n + m)))
        delta = rnd(mean_b - mean_a)
        mean = rnd(mean_a + rnd(delta * share))
        if m == 1:
            return n + m, mean, rnd(square_a + rnd(delta * rnd(mean_b - mean)))
        return n + m, mean, rnd(rnd(square_a + square_b) + rnd(rnd(delta * delta) * rnd(np.float64(n * m / (n + m)))))

    def product(self, mean: Real | None, r: Real, weight: Real | None) -> Real:
        rnd, x = self.rnd, self.row
        fused = self.contract.rounds_at(Level.FUSED)
        store = self.io if fused else (lambda y: y)
        gain = rnd(r * weight) if weight is not None else r
        turn = self.rng.integers(3)
        if turn == 0 and mean is not None:  # x s + (b - mean s)
            shift = rnd((0.0 if self.bias is None else self.bias) - rnd(mean * gain))
            return rnd(rnd(x * gain) + shift)
        d = x if mean is None else rnd(x - mean)
        if turn == 1:
            y = rnd(d * gain)
        else:
            y = rnd(d * r)
            y = y if weight is None else rnd(store(y) * weight)
        return y if self.bias is None else rnd(store(y) + self.bias)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", [Level.STRICT, Level.STORED])
def test_bound_holds_for_any_order_and_form(dtype: str, level: Level) -> None:
    contract = Contract(FORMATS[dtype], level)
    worst: dict[str, float] = {}
    with np.errstate(all="ignore"):
        for seed, case in enumerate(some_cases()):
            conventions = [Conventions(), SAMPLE if case.M > 1 else ONE_PLUS, ONE_PLUS][seed // 2 % 3]
            inputs = dict(case.inputs(contract.io))
            want, own = (case.expected(inputs, c, conventions) for c in (contract, EXACT))
            for turn in range(4):
                got = Adversary(case, inputs, contract, 1000 * seed + turn)(conventions)
                allowed = want.err + own.err
                decided = np.isfinite(allowed) & ~(np.isnan(got) & np.isnan(want.value))
                error = np.where(decided, np.abs(got - want.value), 0.0)
                ratio = float(np.max(np.where(error > 0, error / allowed, 0), initial=0))
                assert ratio <= 1, (case, turn, conventions, ratio)
                worst[case.method] = max(worst.get(case.method, 0.0), ratio)
    assert min(worst.values()) > 0.1, "the adversary does not come near the bound"


@pytest.mark.parametrize("mean", [10.0, 1e3, 1e5])
def test_updated_variance_stays_within_its_bound(mean: float) -> None:
    """Many values, the order that hurts most: a large one first, or a mean that drifts."""
    rng = np.random.default_rng(0)
    for M in (16, 257, 1024):
        spread = rng.normal(size=(8, M))
        spread[0, 0], spread[1], spread[2, -1] = 1e4, np.sort(spread[1]), 1e4
        x = (mean + spread).astype(np.float32)
        case = LayerNormCase(T=8, rank=2, M=M, eps=1e-6)
        want, own = (case.expected({"x": x}, contract, Conventions()) for contract in (Contract(FLOAT32), EXACT))
        for seed in range(8):
            one = Adversary(case, {"x": x}, Contract(FLOAT32), seed)
            one.form, one.x = 2, one.row  # in the order of the row
            ratio = np.abs(one(Conventions()) - want.value) / (want.err + own.err)
            assert np.max(ratio) <= 1, (M, seed)


class InOrder(Adversary):
    """Sums from the first value to the last: where the values are equal, all roundings go one way."""

    def summed(self, terms: Real) -> Real:
        return np.asarray(np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1:], np.float64)


@pytest.mark.parametrize("conventions", [Conventions(), SAMPLE], ids=["population", "sample"])
@pytest.mark.parametrize("M", [257, 1024, 4096])
def test_long_rows_of_equal_values_summed_in_order(conventions: Conventions, M: int) -> None:
    x = np.zeros((3, M), np.float32)
    x[0, M // 2], x[1, -1], x[2, ::3] = 100.0, 1.0, 0.3
    case = LayerNormCase(T=3, rank=2, M=M, eps=1e-12)
    want, own = (case.expected({"x": x}, contract, conventions) for contract in (Contract(FLOAT32), EXACT))
    one = InOrder(case, {"x": x}, Contract(FLOAT32), 0)
    one.form, one.x = 0, one.row
    ratio = np.abs(one(conventions) - want.value) / (want.err + own.err)
    assert 0.005 < np.max(ratio) <= 1


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 1.0])
def test_the_inverse_of_whatever_a_variance_may_be(spread: float, eps: float) -> None:
    """Both ends of the interval of the variance, and the middle of either side."""
    v = np.geomspace(1e-3, 1e4, 40)[:, None]
    square, M = Bounded(v, spread * v), 8
    below = np.maximum(v - spread * v, 0.0)
    small = np.float64(np.float32(eps))
    root, deviation = inverse_root(square, eps, Contract(FLOAT32)), inverse_deviation(square, eps, M, Contract(FLOAT32))
    for x in (below, (below + v) / 2, v, v + spread * v / 2, v + spread * v):
        assert np.all(np.abs(1 / np.sqrt(x + small) - root.value) <= root.err)
        assert np.all(np.abs(1 / (np.sqrt(x * M / (M - 1)) + small) - deviation.value) <= deviation.err)
    nearly = np.abs(1 / (np.sqrt((v + spread * v) * M / (M - 1)) + small) - deviation.value)
    assert np.all(deviation.err < 20 * nearly + 30 * FLOAT32.u * deviation.value) or spread >= 1


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    with np.errstate(all="ignore"):
        for case in some_cases(("normal", "outlier", "mean-100")):
            for name in HALF:
                inputs = dict(case.inputs(FORMATS[name]))
                contracts = [Contract(FORMATS[name], level) for level in sorted(Level)]
                bounds = [case.expected(inputs, contract, Conventions()).err for contract in contracts]
                for looser, tighter in pairwise(bounds):
                    assert np.all(tighter <= looser * (1 + 1e-12))
