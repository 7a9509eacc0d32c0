"""What a backend may declare is recognized in its failures, and the declaration that makes it honest is shown."""

from typing import Any

import numpy as np
import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.checks import Plan, Record, registry, run
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.backend import Backend

DECLARE = 'conventions = Conventions(scalars="float32")'
NARROW = {
    "ScaleInFloat32": ("formula", "ScalarsInFloat32"),
    "EpsInFloat32": ("layer_norm_formula", "EpsHeldInFloat32"),
    "BaseInFloat32DeclaresScalarsFloat64": ("given_base", "BaseInFloat32"),
}


def record(backend: Backend, check: str, dtype: str = "float64") -> Record:
    return run(registry()[check], backend, dtype, Plan("quick"))


def declared(found: Record) -> list[str]:
    return [hint["declare"] for hint in (found.failure or {}).get("likely", [])]


@pytest.mark.parametrize("name", NARROW)
def test_numbers_in_float32_are_recognized(name: str) -> None:
    check, honest = NARROW[name]
    found = record(mutants()[name].make(), check)
    assert found.outcome == "fail" and declared(found) == [DECLARE]
    assert record(unusual()[honest].make(), check).outcome == "pass"


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Float64InFloat32", "formula"),
        ("NormsOfFloat64InFloat32", "layer_norm_formula"),
        ("NormsOfFloat64InFloat32", "steps_give_what_the_whole_gives"),
    ],
)
def test_float64_in_float32_is_recognized(name: str, check: str) -> None:
    found = record(mutants()[name].make(), check)
    (hint,) = (found.failure or {})["likely"]
    assert hint["text"] == "float64 is computed in float32"
    assert hint["declare"] == 'dtypes = frozenset({"float32", "bfloat16", "float16"})'


@pytest.mark.parametrize("name", ["LayerNormEpsSquared", "LayerNormEpsOutside"])
def test_other_numbers_are_not(name: str) -> None:
    found = record(mutants()[name].make(), "layer_norm_eps")
    assert found.outcome == "fail" and DECLARE not in declared(found)


def test_positions_that_are_not_checked_may_be_declared() -> None:
    found = record(mutants()["NegativePositionsAccepted"].make(), "positions_out_of_range_are_refused", "float32")
    assert found.outcome == "fail" and declared(found) == ['conventions = Conventions(out_of_range="undefined")']


def test_what_a_table_gives_outside_itself_is_recognized() -> None:
    found = record(mutants()["OutsideIsClamped"].make(), "lookup_outside_the_table", "float32")
    assert found.outcome == "fail" and 'conventions = Conventions(out_of_range="clamps")' in declared(found)


class BlindIsNan(NumpyBackend):
    """A query that sees no key gives NaN, as PyTorch's layers have it."""

    def multi_head_attention(self, x: Array, weights: Any, config: Any, *, mask: Any = None, **given: Any) -> Array:
        return self._blind(super().multi_head_attention(x, weights, config, mask=mask, **given), mask)

    def block(self, x: Array, weights: Any, config: Any, *, mask: Any = None, **given: Any) -> Array:
        return self._blind(super().block(x, weights, config, mask=mask, **given), mask)

    def _blind(self, y: Array, mask: Any) -> Array:
        sees = np.ones((1, 1, 1), bool) if mask is None else np.all(np.any(mask, axis=-1), axis=1)[..., None]
        return np.where(sees, y, np.asarray(np.nan, y.dtype))


@pytest.mark.parametrize("check", ["query_that_sees_nothing", "mask_belongs_to_self_attention"])
def test_a_query_that_sees_no_key_is_named(check: str) -> None:
    found = run(registry()[check], BlindIsNan(), "float32", Plan("default"))
    assert found.failure is not None, found
    assert found.failure["likely"][0]["text"] == "a query that sees no key gives NaN"
