"""The vjp of the backends that offer it: its form, whatever it differentiates."""

from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.checks import registry
from gaugeblock.conformance.load import load
from gaugeblock.spec.errors import ConfigError, ShapeError
from gaugeblock.spec.gradients import Gradients


@pytest.fixture(scope="module", params=["torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)
    return load(request.param)


def placed(backend: Any, *shape: int) -> Any:
    return backend.asarray(np.random.default_rng(shape).normal(size=shape).astype(np.float32))


def test_gradients_have_the_form_of_their_primals(backend: Any) -> None:
    x, w = placed(backend, 2, 3), placed(backend, 3)
    value, pullback = backend.vjp(lambda x, m: backend.rms_norm(x, m["w"], eps=1e-5), x, {"w": w, "unused": w})
    assert np.array_equal(backend.asnumpy(value), backend.asnumpy(backend.rms_norm(x, w, eps=1e-5)))
    dx, dm = pullback(value)
    assert (backend.asnumpy(dx).shape, set(dm)) == ((2, 3), {"w", "unused"})
    assert not backend.asnumpy(dm["unused"]).any() and backend.asnumpy(dm["w"]).all()


def test_a_pullback_repeats_itself(backend: Any) -> None:
    x = placed(backend, 4)
    _, pullback = backend.vjp(backend.silu, x)
    first, second = (backend.asnumpy(pullback(x)[0]) for _ in range(2))
    assert np.array_equal(first, second)


def test_a_value_that_reads_no_primal_has_the_gradient_zero(backend: Any) -> None:
    x = placed(backend, 4)
    _, pullback = backend.vjp(lambda _: backend.silu(x), x)
    assert not backend.asnumpy(pullback(x)[0]).any()


def test_refusals_come_through(backend: Any) -> None:
    with pytest.raises(ShapeError):
        backend.vjp(lambda x, w: backend.rms_norm(x, w, eps=1e-5), placed(backend, 2, 3), placed(backend, 4))


def test_only_backends_that_offer_gradients_are_asked_for_them() -> None:
    asking = [check.name for check in registry().values() if check.capability == "gradients"]
    plain = load("numpy")
    assert not isinstance(plain, Gradients)
    assert not {record.check for record in check_backend(plain, only=["cache"], profile="quick")} & set(asking)


def test_a_vjp_of_another_form_is_refused() -> None:
    from gaugeblock.backends.numpy import NumpyBackend

    class Wrong(NumpyBackend, Gradients):
        def vjp(self, function: Any) -> Any:  # type: ignore[override]
            return function

    with pytest.raises(ConfigError, match="vjp: must take any number of primals"):
        check_backend(Wrong(), only=["cache"], profile="quick")
