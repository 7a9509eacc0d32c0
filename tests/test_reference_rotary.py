"""The reference of rotation against many-digit arithmetic, and its bounds against adversaries that round on purpose."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from gaugeblock.conformance.recipes.rotary import SCALINGS
from gaugeblock.conformance.strategies.rotary import PARTIAL, POOL, SLIM, RotaryCase
from gaugeblock.spec.config import LAYOUTS, NTK, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, FLOAT64, FORMATS, Contract, Level
from gaugeblock.spec.reference.rotary import frequencies, pairs, rotate
from gaugeblock.spec.reference.rotary_scaling import units, yarn_share
from gaugeblock.spec.rotary import Dims

Real = np.ndarray[Any, np.dtype[np.float64]]

BASES = (10000.0, 500000.0, 100.0, 10000.3)
RECIPES = ("edges", "odd-2048", "thousands", "far", "anywhere", "last", "rows")


def some_cases() -> Iterator[RotaryCase]:
    for n, (d, scaling) in enumerate(product([*POOL, *SLIM, *PARTIAL], ("", *SCALINGS))):
        yield RotaryCase(
            B=d.B,
            H=d.H,
            T=d.T,
            D=d.D,
            rotary_dim=d.R,
            positions=RECIPES[n % len(RECIPES)],
            base=BASES[n % len(BASES)] if not scaling.startswith("yarn") else BASES[n % 3],
            layout=LAYOUTS[n % 2],
            scaling=scaling,
            seed=n,
        )


def many_digit_frequencies(R: int, base: float, scaling: Scaling | None) -> list[mpf]:
    """The rules once more, as they are published."""
    plain = [mpf(base) ** (-mpf(2 * i) / R) for i in range(R // 2)]
    match scaling:
        case None:
            return plain
        case Linear(factor):
            return [w / mpf(factor) for w in plain]
        case NTK(alpha):
            if R == 2:
                return plain
            grown = mpf(base) * mpf(alpha) ** (mpf(R) / (R - 2))
            return [grown ** (-mpf(2 * i) / R) for i in range(R // 2)]
        case YaRN(factor, original):
            ends = [
                R * mpmath.log(original / (2 * mpmath.pi * turns)) / (2 * mpmath.log(base))
                for turns in (scaling.fast, scaling.slow)
            ]
            low, high = (mpmath.floor(ends[0]), mpmath.ceil(ends[1])) if scaling.truncate else ends
            low, high = max(low, mpf(0)), min(high, mpf(R - 1))
            high = high if high > low else low + mpf("0.001")
            shares = [min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in range(R // 2)]
            return [w / mpf(factor) * r + w * (1 - r) for w, r in zip(plain, shares, strict=True)]
        case Llama3(factor, low, high, original):
            return [llama3(w, mpf(factor), mpf(low), mpf(high), mpf(original)) for w in plain]


def llama3(w: mpf, factor: mpf, low: mpf, high: mpf, original: mpf) -> mpf:
    period = 2 * mpmath.pi / w
    if period < original / high:
        return w
    if period > original / low:
        return w / factor
    smooth = (original / period - low) / (high - low)
    return (1 - smooth) * w / factor + smooth * w


def stretch(scaling: Scaling | None) -> mpf:
    if not isinstance(scaling, YaRN):
        return mpf(1)
    if scaling.attention_factor is not None:
        return mpf(scaling.attention_factor)
    return mpf(1) / 10 * mpmath.log(scaling.factor) + 1 if scaling.factor > 1 else mpf(1)


def many_digits(case: RotaryCase, x: Real, positions: Any) -> Real:
    """The definition with 60 digits, one token of one head and batch row after the other."""
    d, out = case.dims, x.copy()
    with mpmath.workdps(60):
        w, m = many_digit_frequencies(d.R, case.base, case.rule), stretch(case.rule)
        first, second = pairs(d, case.order)
        for b, h, t in np.ndindex(d.B, min(d.H, 2), d.T):
            p = int(np.broadcast_to(positions, (d.B, d.T))[b, t])
            for i, (f, s) in enumerate(zip(first, second, strict=True)):
                cos, sin = m * mpmath.cos(p * w[i]), m * mpmath.sin(p * w[i])
                one, two = mpf(float(x[b, h, t, f])), mpf(float(x[b, h, t, s]))
                out[b, h, t, f], out[b, h, t, s] = one * cos - two * sin, two * cos + one * sin
    return out


def test_reference_agrees_with_many_digits() -> None:
    worst = 0.0
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        got = case.expected(inputs, EXACT, Conventions())
        heads = slice(min(case.H, 2))
        error = np.abs(got.value - many_digits(case, inputs["x"], inputs["positions"]))[:, heads]
        assert np.all(error <= got.err[:, heads]), case
        worst = max(worst, float(np.max(error / np.where(got.err > 0, got.err, 1)[:, heads], initial=0)))
    assert 1e-3 < worst < 1, "a bound that is never approached was not tested"


def dims(R: int) -> Dims:
    return Dims(1, 1, 1, R, R)


GOLDEN: list[tuple[int, float, Scaling | None, list[float]]] = [
    (8, 5e5, None, [1.0, 0.037606030930863936, 0.001414213562373095, 5.3182958969449886e-5]),
    (8, 1e4, NTK(7.5), [1.0, 0.05108729549290354, 0.0026099117607792424, 0.00013333333333333333]),
    (4, 1e4, NTK(2.0), [1.0, 0.005]),
    (2, 1e4, NTK(7.5), [1.0]),
    (4, 1e4, Linear(2.5), [0.4, 0.004]),
    (
        16,
        1e4,
        YaRN(4, 256),
        [
            1.0,
            0.25693505988868082,
            0.0625,
            0.01383496476323666,
            0.0025,
            7.9056941504209483e-4,
            2.5e-4,
            7.9056941504209483e-5,
        ],
    ),
    (
        16,
        1e4,
        YaRN(4, 256, truncate=False),
        [1.0, 0.25397231355700635, 0.055398636634604783, 0.0096399428509786197, 0.0025, 7.9056941504209483e-4, 2.5e-4],
    ),
    (8, 5e5, YaRN(16, 163840), [1.0, 0.037606030930863936, 0.001414213562373095, 2.8253446952520252e-5]),
    (8, 1e3, Llama3(8, 1, 4, 64), [1.0, 0.064309872427727085, 0.0039528470752104742, 0.00070292665648793635]),
    (
        16,
        5e5,
        Llama3(8, 1, 4, 8192),
        [1.0, 0.19392274474868577, 0.037606030930863936, 0.007292664737217109, 0.00052484616099295467],
    ),
]


@pytest.mark.parametrize(("R", "base", "scaling", "expected"), GOLDEN)
def test_golden_frequencies(R: int, base: float, scaling: Scaling | None, expected: list[float]) -> None:
    got = frequencies(dims(R), base, scaling, EXACT)
    assert lies_within(got.value[: len(expected)], expected, got.err[: len(expected)])


def lies_within(got: Real, digits: list[float], err: Real) -> bool:
    """Whether numbers lie within their bounds of others that are known to the last digit of float64."""
    return bool(np.all(np.abs(got - digits) <= err + np.spacing(np.abs(digits))))


def test_golden_vectors() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    half = [-1.98411064855555, 1.959900667496664, 2.462377902412316, 4.019799668334994]
    neighbours = [-1.142639663747653, 1.922075596544176, 2.959850667913329, 4.029799501669161]
    for layout, expected in zip(LAYOUTS, (half, neighbours), strict=True):
        got = rotate(x, [1], layout=layout)
        assert lies_within(got.value.ravel(), expected, got.err.ravel())


@pytest.mark.parametrize(
    ("p", "cos", "sin"),
    [
        (257, 0.8193055291449822, -0.57335717481554264),
        (2049, 0.77657204392088638, 0.63002846015123549),
        (2**24 - 1, -0.31757645973239708, -0.94823266776874819),
    ],
)
def test_first_pair_is_the_position_itself(p: int, cos: float, sin: float) -> None:
    got = rotate(np.array([1.0, 0.0]).reshape(1, 1, 1, 2), [p], contract=Contract(FLOAT32))
    assert lies_within(got.value.ravel(), [cos, sin], EXACT.trig * FLOAT64.u * np.ones(2))
    assert np.all(got.err <= 11 * FLOAT32.u), "the angle of pair 0 has no error"


def test_nothing_is_rounded_at_position_zero_and_in_the_rest() -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 8)).astype(np.float32)
    for name, level in product(FORMATS, Level):
        contract = Contract(FORMATS[name], level)
        assert not np.any(rotate(x, [0, 0, 0], contract=contract).err)
        assert not np.any(rotate(x, [5, 6, 7], rotary_dim=4, contract=contract).err[..., 4:])


def test_a_position_beyond_the_range_of_trigonometry_tells_nothing() -> None:
    got = rotate(np.ones((1, 1, 1, 2)), [2**24 - 1], scaling=Linear(0.5), contract=Contract(FLOAT32))
    assert np.all(got.err >= 1)


def test_an_end_of_the_ramp_that_may_round_either_way_admits_both() -> None:
    R, base, slow = 16, 10000.0, 1.0
    original = float(2 * np.pi * slow * base ** (2 * 5 / R))  # the slow end lies on pair 5, up to rounding
    share = yarn_share(R // 2, R, base, YaRN(4, original, fast=32, slow=slow), units(Contract(FLOAT32)))
    assert np.max(share.err) > 0.1
    assert np.max(yarn_share(R // 2, R, base, YaRN(4, 256), units(Contract(FLOAT32))).err) < 1e-6


def test_proportional_rotation_counts_over_the_whole_width() -> None:
    x = np.arange(1.0, 9).reshape(1, 1, 1, 8)
    made = rotate(x, [1], rotary_dim=4, conventions=Conventions(rotary_partial="proportional"))
    got, err = made.value.ravel(), made.err.ravel()
    w = [1.0, 0.1]
    for i in (0, 1):
        a, b = i + 1, i + 5
        turned = [a * np.cos(w[i]) - b * np.sin(w[i]), b * np.cos(w[i]) + a * np.sin(w[i])]
        assert lies_within(got[[i, i + 4]], turned, err[[i, i + 4]])
    assert got[[2, 3, 6, 7]].tolist() == [3, 4, 7, 8]


def far_arguments() -> Real:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.integers(0, 2**24, 40000), 2**24 - 1 - np.arange(1000), rng.uniform(0, 2**24, 20000)])


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_sine_and_cosine_are_admitted_up_to_the_last_position(framework: str) -> None:
    x = far_arguments().astype(np.float32)
    wide = x.astype(np.float64)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        sin, cos = (f(torch.from_numpy(x)).numpy() for f in (torch.sin, torch.cos))
    elif framework == "jax":
        jnp = pytest.importorskip("jax.numpy")
        sin, cos = (np.asarray(f(x)) for f in (jnp.sin, jnp.cos))
    else:
        sin, cos = np.sin(x), np.cos(x)
    off = max(np.max(np.abs(sin - np.sin(wide))), np.max(np.abs(cos - np.cos(wide))))
    assert off <= Contract(FLOAT32).trig * FLOAT32.u / 4
