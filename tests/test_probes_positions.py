"""Probes of positions from the catalogue of public faults: rotation and its scalings, sinusoids, linear biases.

Right and wrong values are worked out here with many digits; test_probes.py says which probe is where.
"""

from collections.abc import Callable
from math import log
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from probing import TRIG, Ours, floats, gamma, number, told

from gaugeblock.spec.config import NTK, Llama3, Scaling, YaRN
from gaugeblock.spec.precision import FLOAT32, FORMATS, HALF

Frequencies = list[Any]
LOSS = 40  # roundings on the way to a frequency, counted in `bound`


def rotated(x: list[float], p: int, w: Frequencies, pairs: list[tuple[int, int]], sign: int = 1) -> list[float]:
    """Each pair turned by its angle, with many digits."""
    made = [mpmath.mpf(v) for v in x]
    for (a, b), f in zip(pairs, w, strict=True):
        z = mpmath.mpc(x[a], x[b]) * mpmath.expj(sign * p * f)
        made[a], made[b] = z.real, z.imag
    return list(map(float, made))


def powers(base: float, R: int) -> Frequencies:
    return [mpmath.power(base, -mpmath.mpf(2 * i) / R) for i in range(R // 2)]


def halves(R: int) -> list[tuple[int, int]]:
    return [(i, i + R // 2) for i in range(R // 2)]


def neighbours(R: int) -> list[tuple[int, int]]:
    return [(2 * i, 2 * i + 1) for i in range(R // 2)]


def bound(x: list[float], p: int, dtype: str = "float32") -> float:
    """How far a rotated component may be off, for frequencies of at most 1.

    A frequency is exp(-t) with t = e ln base. Exponent, logarithm (2 u) and product are rounded: t is off by 4 t u,
    the frequency by 4 u t exp(-t) < 2 u. Then come the exponential (8 u), a reciprocal, a second power of 10 u, and
    scaling in at most 16 roundings: less than 40 u. The angle is p times that, rounded. Cosine and sine are off by 8 u,
    two products and a sum round; in half precision the table, the products and the result are rounded to its format.
    """
    u, size = FLOAT32.u, 2 * max(map(abs, x))
    angle = p * gamma(LOSS + 1, u)
    return size * (angle + TRIG * u + gamma(3, u) + (gamma(3, FORMATS[dtype].u) if dtype in HALF else 0))


def turn(backend: Ours, x: list[float], p: int, dtype: str = "float32", **options: Any) -> Any:
    given = floats(backend, np.reshape(x, (1, 1, 1, -1)), dtype)
    return number(backend, backend.rotate(given, backend.asarray(np.array([p])), **options)).ravel()


def test_the_two_layouts_at_position_one(backend: Ours) -> None:
    w = powers(1e4, 4)
    assert [float(f) for f in w] == pytest.approx([1, 0.01], rel=1e-15)
    for x in ([1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]):
        half, interleaved = (rotated(x, 1, w, pairs) for pairs in (halves(4), neighbours(4)))
        flipped = rotated(x, 1, w, halves(4), sign=-1)
        told(turn(backend, x, 1), half, bound(x, 1), interleaved, flipped)
        told(turn(backend, x, 1, layout="interleaved"), interleaved, bound(x, 1), half)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_position_zero_changes_nothing(backend: Ours, layout: str, dtype: str) -> None:
    """Parts that are joined instead of interleaved would come out as 0, 2, 1, 3."""
    told(turn(backend, [0.0, 1.0, 2.0, 3.0], 0, dtype, layout=layout), [0, 1, 2, 3], 0, [0, 2, 1, 3])


def test_positions_are_not_rounded_to_bfloat16(backend: Ours) -> None:
    """bfloat16 has 8 bits: 257 would become 256."""
    x, w = [1.0, 0.0], powers(1e4, 2)
    assert int(np.asarray(257).astype(ml_dtypes.bfloat16)) == 256
    right, wrong = (rotated(x, p, w, halves(2)) for p in (257, 256))
    told(turn(backend, x, 257, "bfloat16"), right, bound(x, 257, "bfloat16"), wrong)


def test_angles_are_not_rounded_to_float16(backend: Ours) -> None:
    """At 1857 the second of sixteen pairs turns by 1044.27; frequency and product in float16 make 1045 of it."""
    w, x = powers(1e4, 32), [0.0, 1.0] + [0.0] * 30
    angle = np.float16(1857) * np.float16(float(w[1]))
    assert float(1857 * w[1]) == pytest.approx(1044.268, abs=1e-3) and float(angle) == 1045
    coarse = [*w[:1], mpmath.mpf(float(angle)) / 1857, *w[2:]]
    right, wrong = (rotated(x, 1857, f, halves(32)) for f in (w, coarse))
    told(turn(backend, x, 1857, "float16"), right, bound(x, 1857, "float16"), wrong)


@pytest.mark.parametrize(("p", "phase"), [(511, 0.09), (4095, 0.73)])
def test_frequencies_are_not_rounded_to_bfloat16(backend: Ours, p: int, phase: float) -> None:
    w, x = powers(1e4, 32), [1.0] * 16 + [0.0] * 16
    coarse = [mpmath.mpf(float(np.asarray(float(f)).astype(ml_dtypes.bfloat16))) for f in w]
    assert max(abs(p * (a - b)) for a, b in zip(w, coarse, strict=True)) >= phase
    right, wrong = (rotated(x, p, f, halves(32)) for f in (w, coarse))
    told(turn(backend, x, p, "bfloat16"), right, bound(x, p, "bfloat16"), wrong)


def test_four_of_eight_components_turn(backend: Ours) -> None:
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    right = rotated(x, 1, powers(1e4, 4), halves(4))
    spread = rotated(x, 1, powers(1e4, 8)[:2], [(0, 4), (1, 5)])
    got = turn(backend, x, 1, rotary_dim=4)
    told(got, right, bound(x, 1), spread)
    assert right[4:] == x[4:] and got[4:].tolist() == x[4:]


def test_a_large_base(backend: Ours) -> None:
    """At 100 the second pair turns by 0.1; by 1 if the base stayed at 10000."""
    x = [1.0, 2.0, 3.0, 4.0]
    right, wrong = (rotated(x, 100, powers(base, 4), halves(4)) for base in (1e6, 1e4))
    told(turn(backend, x, 100, base=1e6), right, bound(x, 100), wrong)


def shown(backend: Ours, w: Frequencies, *wrong: Frequencies, p: int = 1, base: float, scaling: Scaling) -> None:
    """Cosines and sines of every pair at position p, which tell its frequency."""
    x = [1.0] * len(w) + [0.0] * len(w)
    right, *others = (rotated(x, p, f, halves(2 * len(w))) for f in (w, *wrong))
    told(turn(backend, x, p, base=base, scaling=scaling), right, bound(x, p), *others)


def test_llama3_interpolates_its_middle_band(backend: Ours) -> None:
    """Turns within 64 tokens: 10.2, 1.81, 0.32 and 0.06, so that the second of four pairs lies between 1 and 4."""
    w = powers(1000, 8)
    turns = [64 * f / (2 * mpmath.pi) for f in w]
    s = (turns[1] - 1) / (4 - 1)

    def with_second(f: Any) -> Frequencies:
        return [w[0], f, w[2] / 8, w[3] / 8]

    assert turns[0] > 4 > turns[1] > 1 > turns[2]
    right = with_second((1 - s) * w[1] / 8 + s * w[1])
    t = (1 / turns[1] - 1 / 4) / (1 - 1 / 4)  # how far its period lies between those that turn 4 times and once
    by_period = with_second(1 / ((1 - t) / w[1] + t * 8 / w[1]))
    wrong = (with_second(w[1]), by_period, with_second(s * w[1] / 8 + (1 - s) * w[1]), [f / 8 for f in w])
    shown(backend, right, *wrong, base=1000.0, scaling=Llama3(8.0, 1.0, 4.0, 64))


@pytest.mark.parametrize("factor", [4.0, 64.0, 128.0])
def test_yarn_lengthens_once(backend: Ours, factor: float) -> None:
    """Scores grow by the square of 0.1 ln(factor) + 1; by its fourth power if it is applied twice."""
    x, m = [1.0, 2.0, 2.0, 4.0], 0.1 * log(factor) + 1  # of length 5
    length = float(np.linalg.norm(turn(backend, x, 7, scaling=YaRN(factor, 256))))
    off = (
        2 * m * (bound(x, 7) + 4 * gamma(8, FLOAT32.u))
    )  # four components; logarithm, product, sum and a product with it
    told([length], [5 * m], off, [5 * m**2], [5])
    told([length**2], [25 * m**2], off * (10 * m + off), [25 * m**4], [25])


def test_yarn_of_a_given_attention_factor(backend: Ours) -> None:
    """Two fields of 0.707 at factor 40 cancel to 1; the numerator alone is 1.2608."""
    x, wrong = [1.0, 2.0, 2.0, 4.0], 0.1 * 0.707 * log(40) + 1
    got = turn(backend, x, 7, scaling=YaRN(40.0, 256, attention_factor=1.0))
    told([float(np.linalg.norm(got))], [5], 2 * bound(x, 7), [5 * wrong], [5 * (0.1 * log(40) + 1)])


def ramped(w: Frequencies, low: float, high: float, factor: float, *, inverted: bool = False) -> Frequencies:
    share = [min(max((i - low) / (high - low), 0), 1) for i in range(len(w))]
    return [f * ((1 - r) + r / factor) for f, r in zip(w, (1 - r if inverted else r for r in share), strict=True)]


def test_yarn_table(backend: Ours) -> None:
    w = powers(1e4, 16)
    low, high = (16 * mpmath.log(256 / (2 * mpmath.pi * turns)) / (2 * mpmath.log(10000)) for turns in (32, 1))
    assert 0 < low < 1 and 3 < high < 4
    whole, raw, inverted = ramped(w, 0, 4, 4), ramped(w, low, high, 4), ramped(w, 0, 4, 4, inverted=True)
    for truncate, right, other in ((True, whole, raw), (False, raw, whole)):
        yarn = YaRN(4.0, 256, attention_factor=1.0, truncate=truncate)
        shown(backend, right, other, inverted, w, base=1e4, scaling=yarn)


@pytest.mark.parametrize("alpha", [2.0, 3.0])
def test_ntk_raises_the_base_by_a_power(backend: Ours, alpha: float) -> None:
    """D = 4: the base grows by the square. Factor 2 at twice the original length asks for 2 * 8 / 4 - 1 = 3."""
    right, linear, plain = (powers(base, 4) for base in (1e4 * alpha**2, 1e4 * alpha, 1e4))
    shown(backend, right, linear, plain, p=100, base=1e4, scaling=NTK(alpha))


def test_a_long_call_leaves_no_base_behind(backend: Ours) -> None:
    """Six tokens, sixteen with the base that twice the original length asks for and with none, and the six again."""
    x = np.random.default_rng(31).normal(size=(1, 1, 16, 4))

    def turned(T: int, scaling: Scaling | None = None) -> Any:
        return number(
            backend, backend.rotate(floats(backend, x[:, :, :T]), backend.asarray(np.arange(T)), scaling=scaling)
        )

    before = turned(6)
    assert not np.array_equal(turned(16, NTK(3.0)), turned(16))
    assert np.array_equal(turned(6), before)


def test_one_token_in_two_rows(backend: Ours) -> None:
    x = floats(backend, np.broadcast_to([1.0, 2.0, 3.0, 4.0], (2, 1, 1, 4)))
    got = number(backend, backend.rotate(x, backend.asarray(np.array([[5], [5]]))))[:, 0, 0]
    right = rotated([1, 2, 3, 4], 5, powers(1e4, 4), halves(4))
    told(got, [right, right], bound([4], 5), [right, [0] * 4], [right, [1, 2, 3, 4]])


def test_sinusoids_of_position_one(backend: Ours) -> None:
    def table(exponent: Callable[[int], float]) -> list[float]:
        angles = [mpmath.power(10000, -mpmath.mpf(exponent(c))) for c in range(4)]
        return [float(mpmath.cos(a) if c % 2 else mpmath.sin(a)) for c, a in enumerate(angles)]

    got = number(backend, backend.sinusoidal(backend.asarray(np.array([1])), 4))[0]
    told(got, table(lambda c: 2 * (c // 2) / 4), bound([1], 1) / 2, table(lambda c: 2 * c / 4))


@pytest.mark.parametrize("H", [6, 8, 12])
def test_slopes_of_linear_biases(backend: Ours, H: int) -> None:
    """Powers of two for eight heads; for others those of the power below, then every other one of the power above."""
    near = 8 if H >= 8 else 4
    exponents = [8 * (h + 1) / near for h in range(near)] + [4 * (2 * h + 1) / near for h in range(H - near)]
    right = [float(mpmath.power(2, -mpmath.mpf(e))) for e in exponents]
    geometric = [float(mpmath.power(2, -mpmath.mpf(8 * (h + 1)) / H)) for h in range(H)]
    late = [2.0 ** -(8 * h / H) for h in range(H)]
    got = number(backend, backend.alibi_slopes(H))
    told(got, right, np.array(right) * gamma(12, FLOAT32.u), late, *([geometric] if near != H else []))
