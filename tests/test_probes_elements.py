"""Probes of norms, activations, networks and blocks from the catalogue of public faults.

Right and wrong values are worked out here with many digits; test_probes.py says which probe is where.
"""

from fractions import Fraction
from math import inf, log
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from probing import EXP, Ours, floats, gamma, number, told

from gaugeblock.spec import weights as names
from gaugeblock.spec.config import AttentionConfig, BlockConfig
from gaugeblock.spec.precision import FLOAT32, FORMATS, HALF

EPS = 1e-5
ERF, TANH = 32, 12  # what contract N4 admits, in units of the roundoff


def layer(row: list[float], *, sample: bool = False) -> list[float]:
    """LayerNorm with many digits; or by the sample's deviation, with eps beside the root."""
    x = [mpmath.mpf(v) for v in row]
    d = [v - sum(x) / len(x) for v in x]
    total = sum(v * v for v in d)
    divisor = mpmath.sqrt(total / (len(x) - 1)) + EPS if sample else mpmath.sqrt(total / len(x) + EPS)
    return [float(v / divisor) for v in d]


def layer_bound(row: list[float]) -> float:
    """How far any value of a LayerNorm in float32 may be off.

    A running mean loses M + 3 + 3 ln M roundings of the largest magnitude (step k three of the k-th part of it), and
    x r - mean r three more, so that a deviation d is off by e = (M + 6 + 3 ln M) u max|x|. The mean square of d is then
    off by 2 mean|d| e + e^2 and M + 4 roundings of itself, half of which relative error the root passes on; root,
    quotient and product round 6 times.
    """
    M, u = len(row), FLOAT32.u
    d = [abs(v - sum(row) / M) for v in row]
    e = gamma(M + 6 + 3 * log(M), u) * max(map(abs, row))
    square = sum(v * v for v in d) / M
    lost = (2 * e * sum(d) / M + e * e + gamma(M + 4, u) * square) / (square + EPS)
    if lost >= 1:
        return inf
    root = 1 / (1 - lost) ** 0.5 - 1
    return float((e * (1 + root) + max(d) * (root + gamma(6, u))) / (square + EPS) ** 0.5)


def rms(row: list[float], eps: float, *, outside: bool = False) -> list[float]:
    x = [mpmath.mpf(v) for v in row]
    square = sum(v * v for v in x) / len(x)
    divisor = mpmath.sqrt(square) + eps if outside else mpmath.sqrt(square + eps)
    return [float(v / divisor) for v in x]


def rms_bound(M: int, dtype: str = "float32") -> float:
    """The relative error of an RMSNorm: half of the sum's M + 4 roundings, and 8 of the root and the products.

    In half precision the normalised row and the result are rounded to its format.
    """
    return gamma((M + 4) / 2 + 8, FLOAT32.u) + (gamma(2, FORMATS[dtype].u) if dtype in HALF else 0)


def layer_norm(backend: Ours, row: list[float]) -> Any:
    return number(backend, backend.layer_norm(floats(backend, row), None, None, eps=EPS))


def rms_norm(backend: Ours, row: list[float], eps: float, weight: list[float] | None = None, **to: Any) -> Any:
    w = None if weight is None else floats(backend, weight, **to)
    return number(backend, backend.rms_norm(floats(backend, row, **to), w, eps=eps))


def test_layer_norm_of_a_single_one(backend: Ours) -> None:
    row = [1.0, 0.0, 0.0, 0.0]
    assert layer(row, sample=True)[0] == pytest.approx(1.5, abs=1e-4)
    told(layer_norm(backend, row), layer(row), layer_bound(row), layer(row, sample=True))


@pytest.mark.parametrize("mean", [0.0, 100.0, 512.0])
def test_layer_norm_does_not_cancel(backend: Ours, mean: float) -> None:
    """Sixteen values a thousandth apart; the difference of mean square and squared mean is lost in float32 at 100.

    At 10000 float32 promises nothing: the mean alone may be off by more than the spread of the row.
    """
    row, far = ([float(np.float32(m + i * 1e-3)) for i in range(16)] for m in (mean, 1e4))
    assert layer_bound(far) == inf
    wrong = [one_pass(row)] if mean else []
    told(layer_norm(backend, row), layer(row), layer_bound(row), *wrong)


def one_pass(row: list[float]) -> list[float]:
    """LayerNorm by E[x^2] - E[x]^2 in float32, value by value; another order of the sums gives another wrong row."""
    x = [np.float32(v) for v in row]
    mean, square = (np.float32(sum(v, np.float32(0)) / np.float32(len(x))) for v in (x, [a * a for a in x]))
    root = np.sqrt(max(square - mean * mean, np.float32(0)) + np.float32(EPS))
    return [float((v - mean) / root) for v in x]


def test_eps_stands_inside_the_root(backend: Ours) -> None:
    row = [1e-3] * 4
    told(rms_norm(backend, row, EPS), rms(row, EPS), rms_bound(4), rms(row, EPS, outside=True))


def test_eps_does_not_grow_with_the_row(backend: Ours) -> None:
    """A single 100 among 4096 gives almost 64; eps times the square of the largest takes two hundredths off."""
    row = [100.0] + [0.0] * 4095
    right, wrong = rms(row, EPS), rms(row, EPS * 100**2)
    assert right[0] == pytest.approx(64, abs=2e-4) and wrong[0] == pytest.approx(62.728, abs=1e-3)
    told(rms_norm(backend, row, EPS), right, 64 * rms_bound(4096), wrong)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_row_of_zeros_stays_zero(backend: Ours, dtype: str) -> None:
    told(rms_norm(backend, [0.0] * 4, 1e-8, dtype=dtype), [0] * 4, 0, [np.nan] * 4)


def test_eps_below_float16_is_not_lost(backend: Ours) -> None:
    """1e-8 is zero in float16, but as large as the mean square of this row."""
    assert np.float16(1e-8) == 0
    row = [float(np.float16(1e-4))] * 4
    right, lost = rms(row, 1e-8), rms(row, 0.0)
    told(rms_norm(backend, row, 1e-8, dtype="float16"), right, rms_bound(4, "float16"), lost)


def test_squares_beyond_float16(backend: Ours) -> None:
    with np.errstate(over="ignore"):
        assert np.float16(300) * np.float16(300) == inf
    told(rms_norm(backend, [300.0] * 4, EPS, dtype="float16"), rms([300.0] * 4, EPS), rms_bound(4, "float16"), [0] * 4)


def test_the_weight_is_the_factor_itself(backend: Ours) -> None:
    """Canonical weights are not offsets from one: zero gives zero, and 1 + 3.140625 is rounded by whoever converts."""
    row = [3.0, -4.0]
    told(rms_norm(backend, row, EPS, [0.0, 0.0]), [0, 0], 0, rms(row, EPS))
    w = [3.140625, 1.0]
    got = rms_norm(backend, row, EPS, w, dtype="bfloat16")
    right, offset = ([a * b for a, b in zip(rms(row, EPS), g, strict=True)] for g in (w, [1 + v for v in w]))
    told(got, right, 3 * (rms_bound(2, "bfloat16") + gamma(1, FORMATS["bfloat16"].u)), offset)


def test_one_plus_a_weight_in_bfloat16() -> None:
    """Between 4 and 8 bfloat16 counts by 1/32: 4.140625 = 4.125 + 1/64 is a tie, which goes to the even 132 / 32."""
    w = np.asarray(3.140625).astype(ml_dtypes.bfloat16)
    assert float(w) == 3.140625 and Fraction(4.140625) == Fraction(132, 32) + Fraction(1, 64)
    assert float(w + np.asarray(1).astype(ml_dtypes.bfloat16)) == 4.125


def gelu(x: float) -> float:
    return float(x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def gelu_tanh(x: float) -> float:
    return float(
        x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * mpmath.mpf(x) ** 3))) / 2
    )


def gelu_logistic(x: float) -> float:
    return float(x / (1 + mpmath.exp(-mpmath.mpf("1.702") * x)))


FORMS = {"none": gelu, "tanh": gelu_tanh}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_gelu(backend: Ours, form: str) -> None:
    """An error of erf or tanh is halved and multiplied by x; its argument and the products round 8 times."""
    xs = [1.0, -2.0, 3.0, 2.699, -2.699]
    given = floats(backend, xs)
    results = [backend.gelu(given, approximate=form), *([backend.gelu(given)] if form == "none" else [])]
    off = np.abs(np.asarray(xs)) * (gamma(max(ERF, TANH) / 2, FLOAT32.u) + gamma(8, FLOAT32.u))
    tables = {f.__name__: [f(float(np.float32(x))) for x in xs] for f in (gelu, gelu_tanh, gelu_logistic)}
    right = tables.pop(FORMS[form].__name__)
    for got in results:
        told(number(backend, got), right, off, *tables.values())


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_gelu_in_a_network(backend: Ours, form: str) -> None:
    """Of width one, and where they differ most."""
    x = float(np.float32(2.699))
    weights = {f"{n}.weight": floats(backend, [[1.0]]) for n in ("up", "down")}
    name = {"none": "gelu", "tanh": "gelu_tanh"}[form]
    got = number(backend, backend.feed_forward(floats(backend, [[x]]), weights, activation=name))
    other = FORMS["tanh" if form == "none" else "none"](x)
    told(got, [[FORMS[form](x)]], x * gamma(ERF / 2 + 10, FLOAT32.u), [[other]])


def test_where_the_forms_of_gelu_differ_most() -> None:
    """The gap is even in x, and its largest value 4.73e-4 lies at 2.699."""
    grid = [i / 1000 for i in range(5001)]
    gap, at = max((abs(gelu(x) - gelu_tanh(x)), x) for x in grid)
    assert (round(gap, 6), at) == (4.73e-4, 2.699)
    assert abs(gelu(-at) - gelu_tanh(-at)) == pytest.approx(gap, rel=1e-9)


def test_silu_stands_on_the_gate(backend: Ours) -> None:
    """Gate 2 and up 3: at gate 1 a sigmoid would pass for SiLU, at up 1 leaving it out would change nothing."""

    def silu(x: float) -> float:
        return float(x / (1 + mpmath.exp(-mpmath.mpf(x))))

    weights = {f"{n}.weight": floats(backend, [[w]]) for n, w in (("gate", 2.0), ("up", 3.0), ("down", 1.0))}
    got = number(backend, backend.swiglu(floats(backend, [[1.0]]), weights))
    wrong = (silu(3) * 2, silu(2), silu(2) / 2 * 3)
    told(got, [[silu(2) * 3]], 6 * gamma(EXP + 8, FLOAT32.u), *([[w]] for w in wrong))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_where_the_norms_of_a_silent_block_stand(backend: Ours, placement: str) -> None:
    attention = AttentionConfig(width=2, heads=1, kv_heads=1, head_width=2, value_width=2)
    config = BlockConfig(attention=attention, placement="pre" if placement == "pre" else "post", ffn_width=2)
    w1, w2, x = [1.0, 3.0], [2.0, 5.0], [3.0, -4.0]
    weights = {n: floats(backend, np.zeros(s)) for n, s in names.block(config).items()}
    weights |= {"attention_norm.weight": floats(backend, w1), "feed_forward_norm.weight": floats(backend, w2)}
    got = number(backend, backend.block(floats(backend, [[x]]), weights, config))[0, 0]
    once = [a * b for a, b in zip(rms(x, EPS), w1, strict=True)]
    twice = [a * b for a, b in zip(rms(once, EPS), w2, strict=True)]
    exchanged = [
        a * b for a, b in zip(rms([a * b for a, b in zip(rms(x, EPS), w2, strict=True)], EPS), w1, strict=True)
    ]
    if placement == "pre":
        told(got, x, 0, once, twice)
    else:  # the second norm passes a relative error on at most twice
        told(got, twice, max(map(abs, twice)) * 4 * rms_bound(2), x, once, exchanged)
