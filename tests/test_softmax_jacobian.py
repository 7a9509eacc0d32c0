"""The derivative of the softmax: identities, complex step, many digits, and the figures that the clauses state."""

from typing import Any

import mpmath
import numpy as np
import pytest

from gaugeblock.spec.precision import EXACT, FLOAT64
from gaugeblock.spec.reference.attention import softmax
from gaugeblock.spec.reference.bounded import Bounded, ulps
from gaugeblock.spec.reference.jacobian import softmax_jacobian

Real = np.ndarray[Any, np.dtype[np.float64]]
SIZES = (1, 2, 3, 16, 200)
SPREADS = (0.0, 1.0, 8.0, 200.0)
ROUNDINGS = 8  # a row of weights is a maximum, a difference, an exponential, a sum and a quotient; J two products more


def weights(s: Real, visible: Any = True) -> Real:
    shown = np.broadcast_to(visible, s.shape)
    return softmax(Bounded(s, np.zeros_like(s)), shown, EXACT).value


def some_scores() -> list[Real]:
    rng = np.random.default_rng(3)
    return [spread * rng.standard_normal((4, S)) for S in SIZES for spread in SPREADS]


def norms(J: Real) -> Real:
    return np.asarray(np.sqrt(np.sum(J * J, axis=(-2, -1))))


@pytest.mark.parametrize("s", some_scores(), ids=lambda s: f"{s.shape[-1]} keys")
def test_identities(s: Real) -> None:
    p = weights(s)
    J = softmax_jacobian(p)
    S = s.shape[-1]
    slack = ulps(2 * S + ROUNDINGS, FLOAT64.u)
    size = np.sum(np.abs(J), axis=-1)
    assert np.all(np.abs(np.sum(J, axis=-1)) <= slack * size)
    assert np.array_equal(J, J.swapaxes(-1, -2))
    largest = np.max(size, axis=-1)
    assert np.all(np.abs(largest - np.max(2 * p * (1 - p), axis=-1)) <= 2 * slack)
    squares, cubes = np.sum(p**2, axis=-1), np.sum(p**3, axis=-1)
    assert np.all(np.abs(norms(J) ** 2 - (squares - 2 * cubes + squares**2)) <= 4 * slack)
    assert np.all(np.linalg.eigvalsh(J) >= -slack)


@pytest.mark.parametrize("s", some_scores(), ids=lambda s: f"{s.shape[-1]} keys")
def test_complex_step_agrees(s: Real) -> None:
    """An independent derivative: the softmax of complex scores, which cancels nothing for so small a step."""
    h, S = 1e-40, s.shape[-1]
    shifted = (s - np.max(s, axis=-1, keepdims=True))[..., None, :] + 1j * h * np.eye(S)  # (rows, j, S)
    e = np.exp(shifted)
    step = (e / np.sum(e, axis=-1, keepdims=True)).imag.swapaxes(-1, -2) / h  # (rows, S, j)
    p = weights(s)
    terms = p[..., None] * (np.eye(S) + p[..., None, :])
    allowed = ulps(2 * S + 2 * ROUNDINGS, FLOAT64.u) * terms + FLOAT64.tiny / h
    assert np.all(np.abs(softmax_jacobian(p) - step) <= allowed)


def test_many_digits_agree() -> None:
    """A quotient of differences with 400 digits, so that no formula for the derivative is shared."""
    rng = np.random.default_rng(5)
    for spread in (1.0, 8.0, 60.0):
        s = spread * rng.standard_normal(5)
        roundings = 2 * 5 + ROUNDINGS + 2 * float(np.ptp(s))  # a rounded difference of scores is a factor of its size
        J = softmax_jacobian(weights(s))
        with mpmath.workdps(400):
            h = mpmath.mpf(10) ** -150
            for j in range(5):
                up, down = ([mpmath.mpf(x) + (sign * h if k == j else 0) for k, x in enumerate(s)] for sign in (1, -1))
                for i, (a, b) in enumerate(zip(row(up), row(down), strict=True)):
                    want = float((a - b) / (2 * h))
                    assert abs(J[i, j] - want) <= ulps(roundings, FLOAT64.u) * abs(want)


def row(s: list[Any]) -> list[Any]:
    e = [mpmath.exp(x) for x in s]
    return [x / mpmath.fsum(e) for x in e]


def test_saturation_is_not_lost_to_cancellation() -> None:
    J = softmax_jacobian(weights(np.array([0.0, -100.0, -100.0])))
    assert J[0, 0] == pytest.approx(2 * np.exp(-100), rel=1e-14)


def test_hidden_keys_and_empty_rows_have_no_derivative() -> None:
    visible = np.array([[True, False, True], [False, False, False]])
    J = softmax_jacobian(weights(np.ones((2, 3)), visible))
    assert np.array_equal(J[0], [[0.25, 0, -0.25], [0, 0, 0], [-0.25, 0, 0.25]])
    assert not J[1].any()


@pytest.mark.parametrize("s", some_scores(), ids=lambda s: f"{s.shape[-1]} keys")
def test_saturation_bounds_the_norm(s: Real) -> None:
    p, S = weights(s), s.shape[-1]
    ordered = np.sort(s, axis=-1)
    rest = np.sum(np.sort(p, axis=-1)[..., :-1], axis=-1)  # 1 - p_max
    slack = 1 + ulps(2 * S + ROUNDINGS, FLOAT64.u)
    assert np.all(norms(softmax_jacobian(p)) <= 2 * rest * slack)
    if S > 1:
        assert np.all(rest <= (S - 1) * np.exp(-(ordered[..., -1] - ordered[..., -2])) * slack)


@pytest.mark.parametrize(("D", "stated"), [(64, "0.56343"), (4096, "0.56418")])
def test_two_keys_without_a_scale(D: int, stated: str) -> None:
    """ERR-SATURATION: for a query of squared length r, chi-squared, the gap of two scores is normal of variance 2 r."""
    r = np.linspace(max(D - 10 * np.sqrt(2 * D), 1e-3), D + 12 * np.sqrt(2 * D), 800)[:, None]
    gap = np.linspace(-50, 50, 2001)
    density = np.exp((D / 2 - 1) * np.log(r / D) - (r - D) / 2) * np.exp(-(gap**2) / (4 * r)) / np.sqrt(r)
    norm = 2 / (2 + 2 * np.cosh(gap))  # 2 p (1 - p)
    of_all_gaps = np.exp((D / 2 - 1) * np.log(r / D) - (r - D) / 2)
    mean = np.sum(density * norm) * (gap[1] - gap[0]) / (np.sum(of_all_gaps) * np.sqrt(4 * np.pi))
    assert f"{mean * np.sqrt(D):.5f}" == stated


def test_a_tie_never_saturates() -> None:
    for D in (1, 64, 4096):
        s = np.sqrt(D) * np.array([3.0, 3.0, -1.0, -2.0])
        assert norms(softmax_jacobian(weights(s))) == pytest.approx(0.5, rel=0.1 if D == 1 else 1e-6)


def test_a_thousand_keys_with_and_without_the_scale() -> None:
    """ERR-SATURATION: at width 64 the unscaled derivative is the larger one."""
    rng = np.random.default_rng(11)
    s = rng.standard_normal((400, 1000))
    scaled, unscaled = (float(np.mean(norms_of(weights(c * s)))) for c in (1.0, 8.0))
    assert f"{scaled:.2f}" == "0.05"
    assert 0.23 < unscaled < 0.27


def norms_of(p: Real) -> Real:
    """The norm by its closed form, where the matrices would be large."""
    squares = np.sum(p**2, axis=-1)
    return np.asarray(np.sqrt(squares - 2 * np.sum(p**3, axis=-1) + squares**2))
