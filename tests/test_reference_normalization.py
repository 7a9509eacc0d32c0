"""LayerNorm and RMSNorm of the reference against many-digit arithmetic, and their bounds against adversaries."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from gaugeblock.conformance.strategies.normalization import (
    ANY_X,
    EPS,
    POOL,
    WIDTHS,
    LayerNormCase,
    NormCase,
    RMSNormCase,
)
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError, ShapeError
from gaugeblock.spec.precision import EXACT, FLOAT16, FLOAT32, FLOAT64, Contract, Level
from gaugeblock.spec.reference.normalization import held, layer_norm, rms_norm

Real = np.ndarray[Any, np.dtype[np.float64]]
Rounding = Callable[[Real], Real]

RECIPES = (
    *ANY_X,
    "root-eps",
    "deviation-root-eps",
    "mean-100",
    "mean-1000",
    "mean-10000",
    "constant",
    "large",
    "all-large",
    "small",
)
SIZES = [size for size in (*POOL, *WIDTHS[:2]) if size.M <= 100]
SAMPLE, ONE_PLUS = Conventions(layer_norm_form="sample_eps_outside"), Conventions(rms_weight="1+w")


def some_cases(recipes: tuple[str, ...] = RECIPES) -> Iterator[NormCase]:
    for seed, x in enumerate(recipes):
        for n, size in enumerate(SIZES):
            eps = (*EPS, 0.0)[(seed + n) % 6]
            weight = ("normal", "", "scaled", "index")[(seed + n) % 4]
            given: dict[str, Any] = {**size._asdict(), "x": x, "eps": eps, "seed": seed, "weight": weight}
            yield LayerNormCase(**given, bias=("normal", "", "scaled")[n % 3])
            yield RMSNormCase(**given)


def many_digits(case: NormCase, inputs: dict[str, Any], conventions: Conventions) -> Real:
    """The same definitions, row by row, with 60 digits."""
    out = np.empty(case.shape)
    with mpmath.workdps(60):
        for row in np.ndindex(case.shape[:-1]):
            x = [mpmath.mpf(float(v)) for v in inputs["x"][row]]
            mean = mpmath.fsum(x) / case.M if isinstance(case, LayerNormCase) else mpmath.mpf(0)
            d = [v - mean for v in x]
            square = mpmath.fsum(v**2 for v in d) / case.M
            divisor = mpmath.sqrt(square + mpmath.mpf(case.eps))
            if isinstance(case, LayerNormCase) and conventions.layer_norm_form != "population":
                divisor = mpmath.sqrt(square * case.M / (case.M - 1)) + mpmath.mpf(case.eps)
            for i in range(case.M):
                y = d[i] / divisor if divisor else mpmath.nan
                if "weight" in inputs:
                    w = mpmath.mpf(float(inputs["weight"][i]))
                    plus = conventions.rms_weight == "1+w" and not isinstance(case, LayerNormCase)
                    y = y * (1 + w if plus else w)
                out[(*row, i)] = y + mpmath.mpf(float(inputs["bias"][i]) if "bias" in inputs else 0)
    return out


@pytest.mark.parametrize("conventions", [Conventions(), SAMPLE, ONE_PLUS], ids=["canonical", "sample", "1+w"])
def test_reference_agrees_with_many_digits(conventions: Conventions) -> None:
    worst, undecided, total = 0.0, 0, 0
    with np.errstate(all="ignore"):
        for case in some_cases():
            if case.M == 1 and conventions is SAMPLE:
                continue
            inputs = dict(case.inputs(FLOAT64))
            got = case.expected(inputs, EXACT, conventions)
            want = many_digits(case, inputs, conventions)
            both_nan = np.isnan(got.value) & np.isnan(want)
            error = np.where(both_nan | ~np.isfinite(got.err), 0.0, np.abs(got.value - want))
            assert np.all(error <= got.err), case
            worst = max(worst, float(np.max(error / np.where(got.err > 0, got.err, 1), initial=0)))
            undecided, total = undecided + int(np.sum(~np.isfinite(got.err))), total + got.err.size
    assert worst > 0.01, "a bound that is never approached was not tested"
    assert undecided < 0.02 * total, "only constant rows without eps are undecided"


THIRD = -0.57733487379826029
FOUR = [1000 + i * 2.0**-10 for i in range(4)]

# Computed with mpmath, 30 digits, from the definitions.
GOLDEN_LAYER: list[tuple[list[float], float, Conventions, list[float]]] = [
    ([1, 0, 0, 0], 1e-5, Conventions(), [1.7320046213947809, THIRD, THIRD, THIRD]),
    ([1, 0, 0, 0], 1e-5, SAMPLE, [1.499970000599988, -0.499990000199996, -0.499990000199996, -0.499990000199996]),
    ([1, 2], 1e-12, Conventions(), [-0.999999999998, 0.999999999998]),
    ([0.5, 1.5, 4], 1e-3, Conventions(), [-1.0188142468720202, -0.33960474895734008, 1.3584189958293603]),
    ([0.5, 1.5, 4], 1e-3, SAMPLE, [-0.8315890117498473, -0.2771963372499491, 1.1087853489997964]),
    (FOUR, 1e-5, Conventions(), [-0.43786037968792282, -0.14595345989597427, 0.14595345989597427, 0.43786037968792282]),
]
GOLDEN_RMS: list[tuple[list[float], float, list[float]]] = [
    ([0.001] * 4, 1e-5, [0.30151134457776362] * 4),
    ([0] * 15 + [100], 1e-5, [0] * 15 + [3.9999999680000004]),
    ([3, 4], 0, [0.84852813742385703, 1.131370849898476]),
    ([1, -2, 3, -4], 1e-5, [0.36514812823810639, -0.73029625647621279, 1.0954443847143192, -1.4605925129524256]),
]


@pytest.mark.parametrize(("x", "eps", "conventions", "want"), GOLDEN_LAYER)
def test_golden_rows_of_layer_norm(x: list[float], eps: float, conventions: Conventions, want: list[float]) -> None:
    got = layer_norm(np.array(x, float), None, None, eps=eps, conventions=conventions)
    assert np.all(np.abs(got.value - want) <= got.err + 1e-16)
    affine = layer_norm(np.array(x, float), np.full(len(x), -2.0), np.ones(len(x)), eps=eps, conventions=conventions)
    assert np.all(np.abs(affine.value - (1 - 2 * np.array(want))) <= affine.err + 1e-15)


@pytest.mark.parametrize(("x", "eps", "want"), GOLDEN_RMS)
def test_golden_rows_of_rms_norm(x: list[float], eps: float, want: list[float]) -> None:
    row, y = np.array(x, float), np.array(want)
    got = rms_norm(row, None, eps=eps)
    assert np.all(np.abs(got.value - y) <= got.err + 1e-16)
    for conventions, gain in ((Conventions(), 0.5), (ONE_PLUS, 1.5)):
        scaled = rms_norm(row, np.full(len(x), 0.5), eps=eps, conventions=conventions)
        assert np.all(np.abs(scaled.value - gain * y) <= scaled.err + 1e-15)


def test_zero_rows() -> None:
    zero, w, b = np.zeros((2, 3)), np.array([1.0, 2.0, 3.0]), np.array([0.1, -0.2, 0.3])
    for contract in (EXACT, Contract(FLOAT32), Contract(FLOAT16, Level.FUSED)):
        bias = b.astype(contract.io.dtype).astype(np.float64)
        got = layer_norm(zero, w, bias, eps=1e-5, contract=contract)
        assert np.array_equal(got.value, np.stack([bias, bias]))
        assert not np.any(got.err)
        got = rms_norm(zero, w, eps=1e-5, contract=contract)
        assert not np.any(got.value) and not np.any(got.err)
        for got in (layer_norm(zero, w, b, eps=0, contract=contract), rms_norm(zero, w, eps=0, contract=contract)):
            assert np.all(np.isnan(got.value)) and not np.any(got.err)


def test_a_constant_row_without_eps_is_undetermined() -> None:
    row = np.full((1, 3), 0.1)
    assert np.all(np.isinf(layer_norm(row, None, None, eps=0.0).err))
    assert np.all(np.isfinite(layer_norm(row, None, None, eps=1e-12).err))


def test_overflow_of_the_sum_of_squares_is_undetermined() -> None:
    for norm in (lambda x, c: rms_norm(x, None, eps=1e-5, contract=c), _plain):
        row = np.array([[-1.0, 2.0, 3.0, -4.0]])
        assert np.all(np.isinf(norm(row * 1e19, Contract(FLOAT32)).err))
        assert np.all(np.isfinite(norm(row * 1e18, Contract(FLOAT32)).err))
        assert np.all(np.isfinite(norm(row * 1e4, Contract(FLOAT16)).err))
        assert np.all(np.isinf(norm(row * 1e4, Contract(FLOAT16, Level.NAIVE)).err))


def _plain(x: Real, contract: Contract) -> Any:
    return layer_norm(x, None, None, eps=1e-5, contract=contract)


def test_eps_is_held_in_the_accumulator_or_in_float32() -> None:
    assert held(0.5, EXACT).err == 0
    assert held(1e-5, EXACT).err == 0
    assert 0 < held(1e-5, replace(EXACT, float32_scalars=True)).err < 1e-12
    assert 0 < held(1e-5, Contract(FLOAT32)).err < 1e-12
    assert held(1e-60, Contract(FLOAT32)).err >= 1e-60


def test_a_row_of_one_has_no_sample_deviation() -> None:
    got = layer_norm(np.ones((2, 1)), None, None, eps=1e-5, conventions=SAMPLE)
    assert np.all(got.free)


def test_malformed_calls() -> None:
    with pytest.raises(ShapeError, match=r"LN-SHAPES: bias must have shape \(3,\), got \(2,\)"):
        layer_norm(np.zeros((2, 3)), None, np.zeros(2), eps=1e-5)
    with pytest.raises(ShapeError, match="RMS-SHAPES: x must have rank 1 or more"):
        rms_norm(np.zeros(()), None, eps=1e-5)
    with pytest.raises(ShapeError, match="width of at least 1"):
        rms_norm(np.zeros((2, 0)), None, eps=1e-5)
    for eps in (-1e-9, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="eps must be a finite number >= 0"):
            rms_norm(np.zeros((2, 3)), None, eps=eps)
