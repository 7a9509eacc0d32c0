"""The laws of section 6.1 on gradients, as the reference's complex step shows them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_reference_blocks import some_cases

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.spec.precision import EXACT, FLOAT64
from gaugeblock.spec.reference.bounded import ulps
from gaugeblock.spec.reference.formulas import norm
from gaugeblock.spec.reference.program import Step, derivative, local, run

Real = np.ndarray[Any, np.dtype[np.float64]]


def jacobian(case: BlockCase, inputs: Inputs) -> Real:
    """The derivative of the block of a case by x, by the complex step: (elements of x, elements of the result)."""
    x = inputs["x"].astype(np.float64)
    program = [Step("x", (), lambda: x, lambda _: local(program[1], {}, EXACT)), *case.program(inputs)]
    known = {**{n: a.astype(np.float64) for n, a in case.given(inputs).items()}, **run(program[1:], case.given(inputs))}
    return derivative(program, 0, known, np.arange(x.size)).reshape(x.size, -1)


def test_silent_pre_block_has_the_identity_as_derivative() -> None:
    for case in some_cases(2, w=("closed",)):
        if case.placement == "pre":
            J = jacobian(case, case.inputs(FLOAT64))
            assert np.array_equal(J, np.eye(len(J))), case


def layer_norm_jacobian(y: Real, eps: float, weight: Real) -> tuple[Real, Real]:
    """The derivative of LayerNorm of one row by that row (M by M, result by input), and a size for its roundings.

    J = diag(w) (I - 11^T / M - c c^T / (M s^2)) / s,   s^2 = var + eps
    """
    M = len(y)
    c = y - np.mean(y)
    s = np.sqrt(np.mean(c * c) + eps)
    rough = np.abs(y) + np.mean(np.abs(y))  # c before it cancels
    J = (np.eye(M) - 1 / M - np.outer(c, c) / (M * s * s)) / s
    size = (np.eye(M) + 1 / M + np.outer(rough, rough) / (M * s * s)) / s
    return weight[:, None] * J, np.abs(weight)[:, None] * size * (1 + np.max(rough) ** 2 / s**2)


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.5])
def test_layer_norm_projects_and_divides(eps: float) -> None:
    """The formula is the complex step's; each column sums to 0; at eps = 0 the normalised row is lost as well."""
    rng = np.random.default_rng(7)
    for M in (2, 5, 12):
        y, weight = rng.normal(size=M), 1 + 0.3 * rng.normal(size=M)
        J, size = layer_norm_jacobian(y, eps, weight)
        h = 1e-100
        pushed = np.broadcast_to(y, (M, M)) + 1j * h * np.eye(M)
        step = (norm(pushed, {"weight": weight, "bias": np.zeros(M)}, "layer", eps).imag / h).T
        room = ulps(8 * M + 40, FLOAT64.u) * size
        assert np.all(np.abs(step - J) <= room)
        plain, size = layer_norm_jacobian(y, eps, np.ones(M))
        room = ulps(9 * M + 40, FLOAT64.u) * size
        assert np.all(np.abs(np.sum(plain, axis=0)) <= np.sum(room, axis=0))
        if eps == 0:
            c = y - np.mean(y)
            assert np.all(np.abs(plain @ c) <= room @ (np.abs(y) + np.mean(np.abs(y))))


def test_silent_post_block_has_the_derivative_of_its_norms() -> None:
    """Row by row the product of the norms' Jacobians, the later to the left."""
    for case in some_cases(2, w=("closed", "closed_plain")):
        case = replace(case, placement="post", norm="layer", eps=1e-2)
        inputs = case.inputs(FLOAT64)
        B, T, M = inputs["x"].shape
        J = jacobian(case, inputs).reshape(B, T, M, B, T, M)
        weights, layers = weights_of(inputs), ("attention", *(("cross",) if case.cross else ()), "feed_forward")
        for b, t in np.ndindex(B, T):
            row, want, size = inputs["x"][b, t].astype(float), np.eye(M), np.eye(M)
            for layer in layers:
                w = {kind: weights[f"{layer}_norm.{kind}"] for kind in ("weight", "bias")}
                own, rough = layer_norm_jacobian(row, case.eps, w["weight"])
                want, size = own @ want, rough @ size
                row = norm(row, w, "layer", case.eps)
            apart = np.abs(J[b, t, :, b, t].T - want)
            assert np.all(apart <= ulps(30 * M + 120, FLOAT64.u) * size), case
            assert not np.any(np.delete(J[b, t].reshape(M, B * T, M), b * T + t, axis=1))


def test_identity_in_the_derivative_may_be_cancelled() -> None:
    """f(u) = -a u behind an RMSNorm, a the row's root mean square: all but one direction is lost in one layer."""
    x = np.array([1.0, -2.0, 0.5, 3.0])
    a, h = np.sqrt(np.mean(x * x)), 1e-100
    pushed = np.broadcast_to(x, (4, 4)) + 1j * h * np.eye(4)
    y = pushed - a * norm(pushed, {"weight": np.ones(4)}, "rms", 0.0)
    singular = np.linalg.svd(y.imag / h, compute_uv=False)
    assert singular[0] > 0.99 and np.all(singular[1:] <= ulps(64, FLOAT64.u))
