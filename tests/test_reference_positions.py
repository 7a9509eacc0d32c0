"""The reference of tables and linear biases against many-digit arithmetic, and its bounds against adversaries."""

from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from gaugeblock.conformance.strategies.alibi import OTHER_HEADS, BiasCase
from gaugeblock.conformance.strategies.positions import BASES, SinusoidalCase
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.positions import LIMIT
from gaugeblock.spec.positions import alibi_bias as alibi_rules
from gaugeblock.spec.positions import learned as learned_rules
from gaugeblock.spec.positions import sinusoidal as sinusoidal_rules
from gaugeblock.spec.precision import EXACT, FLOAT16, FLOAT32, FORMATS, HALF, Contract, Format, Level
from gaugeblock.spec.reference.positions import (
    alibi_bias,
    alibi_slopes,
    angles,
    frequencies,
    learned_positions,
    sinusoidal,
    slopes,
)

Real = np.ndarray[Any, np.dtype[np.float64]]
LEVELS = [level for level in Level if level is not Level.NAIVE]
HEADS = (1, 2, 4, 8, 16, 32, *OTHER_HEADS)
FAR = np.array([0, 1, 2, 257, 4095, 100_003, 1_000_003, 8_000_009, LIMIT - 2, LIMIT - 1])


def digits(positions: Real, dim: int, base: float) -> Real:
    """sin and cos of p base ** (-2 i / dim) with 60 digits."""
    with mpmath.workdps(60):
        rows = []
        for p in positions.tolist():
            turns = [p * mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]
            rows.append([float(f(t)) for t in turns for f in (mpmath.sin, mpmath.cos)])
    return np.array(rows)


@pytest.mark.parametrize("dim", [2, 4, 10, 64, 130])
@pytest.mark.parametrize("base", [*BASES, 1.5, 1e9])
def test_sinusoidal_agrees_with_many_digits(dim: int, base: float) -> None:
    got = sinusoidal(FAR, dim, base=base)
    assert np.all(np.abs(got.value - digits(FAR, dim, base)) <= got.err)


def test_golden_numbers() -> None:
    """Made with mpmath, 60 digits: width 4, base 10000."""
    golden = {
        1: [0.841470984807896507, 0.540302305868139717, 0.00999983333416666468, 0.999950000416665278],
        257: [-0.573357174815542639, 0.8193055291449822, 0.54097222037698845, -0.841040460846201526],
        LIMIT - 1: [-0.948232667768748187, -0.31757645973239708, -0.994310395514190449, 0.106521534782475591],
    }
    for p, numbers in golden.items():
        got = sinusoidal([p], 4)
        assert np.all(np.abs(got.value[0] - numbers) <= got.err[0])


def test_the_longest_wavelength_is_not_the_base() -> None:
    for dim, longest in ((2, 1.0), (4, 100.0), (64, 7498.942), (512, 9646.616)):
        assert 1 / frequencies(dim, 10000.0, EXACT).value[-1] == pytest.approx(longest, rel=1e-6)


def to(form: Format) -> Any:
    return lambda x: np.asarray(x, np.float64).astype(form.dtype).astype(np.float64)


def tables(case: SinusoidalCase, p: Real, io: Format, rng: np.random.Generator) -> Real:
    """A correct table that rounds wherever the contract lets it, in a random admitted form, as far as it may."""
    acc = Contract(io).acc
    rnd = to(acc)
    nudge = lambda x, n: rnd(x * (1 + acc.u * rng.uniform(-n, n, np.shape(x))))  # noqa: E731
    i, form = np.arange(case.M // 2), rng.integers(4)
    base = rnd(case.base)
    if form == 0:
        w = np.where(i == 0, 1.0, nudge(np.exp(rnd(rnd(-nudge(np.log(base), 1) / case.M) * 2 * i)), 7))
    elif form == 1:
        w = rnd(1 / np.where(i == 0, 1.0, nudge(base ** rnd(2 * i / case.M), 7)))
    elif form == 2:
        w = np.where(i == 0, 1.0, nudge(np.exp2(rnd(rnd(nudge(np.log2(base), 1) * (-2 * i)) / case.M)), 7))
    else:
        w = rnd(case.base ** (-2 * i / case.M))
    angle = rnd(p[..., None] * w)
    pairs = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(*p.shape, case.M)
    wobbled = pairs + acc.u * rng.uniform(-7, 7, pairs.shape)
    return np.asarray(to(io)(rnd(wobbled)))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_bound_of_tables_holds_for_any_form(dtype: str, level: Level) -> None:
    io, worst = FORMATS[dtype], 0.0
    contract = Contract(io, level)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = SinusoidalCase(M=int(rng.choice([2, 4, 10, 64, 512])), base=float(rng.choice([*BASES, 1e6, 1234.5])))
        p = np.concatenate([FAR, rng.integers(0, LIMIT, 20)]).astype(np.float64)
        want, own = (sinusoidal(p, case.M, base=case.base, contract=c) for c in (contract, EXACT))
        error = np.abs(tables(case, p, io, rng) - want.value)
        assert np.all(error <= want.err + own.err), (seed, case)
        worst = max(worst, float(np.max(error / want.err)))
    assert worst > 0.3, "the adversary does not come near the bound"


def test_the_first_angle_is_exact() -> None:
    for dtype in FORMATS:
        contract = Contract(FORMATS[dtype])
        angle = angles(FAR, frequencies(64, 10000.0, contract), contract)
        assert not np.any(angle.err[:, 0]) and np.array_equal(angle.value[:, 0], FAR)
        assert np.all(angle.err[1:, 1:] > 0)


def test_halves_are_a_permutation() -> None:
    plain, halves = (
        sinusoidal(FAR, 10, contract=Contract(FLOAT32), conventions=Conventions(sinusoidal_order=order))
        for order in ("interleaved", "halves")
    )
    order = np.concatenate([np.arange(0, 10, 2), np.arange(1, 10, 2)])
    assert np.array_equal(plain.value[:, order], halves.value) and np.array_equal(plain.err[:, order], halves.err)


def authors(n: int) -> list[Any]:
    """The recursion on the number of heads, in many digits."""
    lower = 2 ** (n.bit_length() - 1)
    if n == lower:
        return [mpmath.mpf(2) ** (-mpmath.mpf(8 * h) / n) for h in range(1, n + 1)]
    return authors(lower) + authors(2 * lower)[::2][: n - lower]


@pytest.mark.parametrize("H", HEADS)
def test_slopes_agree_with_many_digits(H: int) -> None:
    got = alibi_slopes(H)
    with mpmath.workdps(60):
        exact = authors(H)
        assert all(abs(mpmath.mpf(g) - e) <= err for g, e, err in zip(got.value, exact, got.err, strict=True))
    assert np.array_equal(got.err == 0, np.frexp(got.value)[0] == 0.5) or H > 8


def test_golden_slopes() -> None:
    assert alibi_slopes(6).value.tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert alibi_slopes(3).value.tolist() == [1 / 16, 1 / 256, 1 / 4]
    assert np.round(alibi_slopes(12).value[8:], 5).tolist() == [0.70711, 0.35355, 0.17678, 0.08839]
    plain = alibi_slopes(6, conventions=Conventions(alibi_slopes="geometric"))
    assert np.round(plain.value, 5).tolist() == [0.39685, 0.15749, 0.0625, 0.0248, 0.00984, 0.00391]
    for n in (1, 2, 4, 8):
        assert not np.any(alibi_slopes(n, contract=Contract(FLOAT16)).err)


def biases(case: BiasCase, q: Real, k: Real, contract: Contract, rng: np.random.Generator) -> Real:
    """A correct bias that rounds wherever the contract lets it."""
    acc, io = contract.acc, contract.io
    rnd, last = to(acc), to(io)
    m = slopes(case.H, contract, Conventions())
    used = np.where(m.err == 0, m.value, rnd(m.value + m.err * rng.uniform(-0.95, 0.95, m.value.shape)))
    if contract.rounds_at(Level.STORED) and rng.random() < 0.5:
        used = last(used)
    distance = np.abs(q[:, None] - k[None, :])
    return np.asarray(last(rnd(-used[:, None, None] * distance)))[None]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_bound_of_biases_holds(dtype: str, level: Level) -> None:
    contract, worst = Contract(FORMATS[dtype], level), 0.0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        case = BiasCase(H=int(rng.choice(HEADS)))
        q, k = (rng.integers(0, int(rng.choice([60, 5000, LIMIT])), 9).astype(np.float64) for _ in range(2))
        want, own = (alibi_bias(case.H, q, k, contract=c) for c in (contract, EXACT))
        allowed = want.err + own.err
        decided = np.isfinite(allowed)
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.where(decided, np.abs(biases(case, q, k, contract, rng) - want.value), 0.0)
        assert np.all(error <= allowed), (seed, case)
        ratio = error / np.where(decided & (allowed > 0), allowed, 1.0)
        worst = max(worst, float(np.max(ratio)))
    assert worst > 0.3, "the adversary does not come near the bound"


def test_bias_by_hand() -> None:
    slope = alibi_slopes(2).value  # 1/16, 1/256
    got = alibi_bias(2, [3], [0, 1, 2, 3, 5]).value
    assert got.tolist() == [[[(-m * np.array([3, 2, 1, 0, 2])).tolist()] for m in slope]]
    rows = alibi_bias(1, [[0, 1], [4, 5]], [0, 4])
    assert rows.value.shape == (2, 1, 2, 2)
    assert (256 * rows.value[1, 0]).tolist() == [[-4, 0], [-5, -1]]
    key = alibi_bias(1, [2, 9], [0, 4], conventions=Conventions(alibi_bias="key_only"))
    assert (256 * key.value[0, 0]).tolist() == [[0, 4], [0, 4]]


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for dtype in HALF:
        bounds = [alibi_bias(12, [1000, 7], FAR[:5], contract=Contract(FORMATS[dtype], x)).err for x in sorted(Level)]
        tables = [sinusoidal(FAR, 10, contract=Contract(FORMATS[dtype], x)).err for x in sorted(Level)]
        for looser, tighter in (*pairwise(bounds), *pairwise(tables)):
            assert np.all(tighter <= looser * (1 + 1e-12))


def test_overflow_in_float16_is_undetermined() -> None:
    got = alibi_bias(1, [LIMIT - 1], [0, LIMIT - 5], contract=Contract(FLOAT16))
    assert np.isinf(got.err[0, 0, 0, 0]) and np.isfinite(got.err[0, 0, 0, 1])


def test_rows_outside_the_table_follow_the_convention() -> None:
    table, p = np.arange(1.0, 4)[:, None], np.array([-1, 0, 2, 3])
    assert np.isinf(learned_positions(table, p).value.ravel()).tolist() == [True, False, False, True]
    undefined = learned_positions(table, p, conventions=Conventions(out_of_range="undefined"))
    assert undefined.free.ravel().tolist() == [True, False, False, True]
    nan = learned_positions(table, p, conventions=Conventions(out_of_range="nan"))
    assert np.isnan(nan.value.ravel()).tolist() == [True, False, False, True] and not nan.free.any()
    clamped = learned_positions(table, p, conventions=Conventions(out_of_range="clamps"))
    assert clamped.value.ravel().tolist() == [1, 1, 3, 3]


P = np.arange(3)


@pytest.mark.parametrize(
    ("error", "told", "call"),
    [
        (ConfigError, "PE-EVEN: dim must be an even", lambda: sinusoidal_rules((3,), "int64", P, 5, 1e4, "float32")),
        (ConfigError, "base must be finite", lambda: sinusoidal_rules((3,), "int64", P, 4, 0.5, "float32")),
        (DTypeError, "dtype must be one of", lambda: sinusoidal_rules((3,), "int64", P, 4, 1e4, "float8")),
        (DTypeError, "must be integers, got float32", lambda: sinusoidal_rules((3,), "float32", P, 4, 1e4, "float32")),
        (ShapeError, "must be (T,) or (B, T)", lambda: sinusoidal_rules((), "int64", P, 4, 1e4, "float32")),
        (PositionError, "[0, 16777216), got -1", lambda: sinusoidal_rules((3,), "int64", P - 1, 4, 1e4, "float32")),
        (PositionError, "got 16777216", lambda: sinusoidal_rules((3,), "int64", P + LIMIT - 2, 4, 1e4, "float32")),
        (PositionError, "POS-LOOKUP-RANGE", lambda: learned_rules((2, 4), "float32", (3,), "int64", P)),
        (ShapeError, "table must have rank 2", lambda: learned_rules((2,), "float32", (3,), "int64", P)),
        (DTypeError, "table must be one of", lambda: learned_rules((9, 4), "int64", (3,), "int64", P)),
        (ConfigError, "n_heads", lambda: alibi_rules(0, ((3,), "int64", P), ((3,), "int64", P), "float32")),
        (
            ShapeError,
            "must have the 2 rows of query_positions, got 3",
            lambda: alibi_rules(2, ((2, 4), "int64", None), ((3, 4), "int64", None), "float32"),
        ),
    ],
)
def test_refusals_say_rule_expected_got_and_where(error: type[GaugeblockError], told: str, call: Any) -> None:
    with pytest.raises(error) as refused:
        call()
    assert told in str(refused.value)
    assert str(refused.value).endswith(")]")


def test_shapes_are_told() -> None:
    assert sinusoidal_rules((2, 3), "int32", None, 4, 1e4, "bfloat16") == (2, 3, 4)
    assert learned_rules((9, 4), "float16", (3,), "int64", P) == (3, 4)
    assert alibi_rules(6, ((2,), "int64", None), ((5,), "int64", None), "float32") == (1, 6, 2, 5)
    assert alibi_rules(6, ((2,), "int64", None), ((3, 5), "int64", None), "float32") == (3, 6, 2, 5)
