"""What becomes of a cell: its outcome, its score, and the clause that a failure breaks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Check, Record, registry, run
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.spec.precision import Level
from gaugeblock.spec.reference.bounded import Expected

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True, kw_only=True)
class Promised(AttentionCase):
    """A case on whose result the reference promises what the case says, instead of what it derives."""

    allowed: float = 0.0

    def computed(self, *given: Any) -> Expected:
        found = super().computed(*given)
        return replace(found, err=np.full(found.err.shape, self.allowed))


def promising(*allowed: float) -> Check:
    """The formula's check, on cases that promise these bounds."""
    strategy = st.builds(Promised, S=st.just(3), allowed=st.sampled_from(allowed), seed=st.integers(0, 99))
    return replace(registry()["formula"], cases=lambda draw: strategy, case_type=Promised)


class Wrong(NumpyBackend):
    """Half of what it should be."""

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        return super().attention(*args, **kwargs) / 2


def test_a_cell_is_undetermined_only_if_no_example_was_determined() -> None:
    record = run(promising(INF), NumpyBackend(), "float32")
    assert (record.outcome, record.undetermined) == ("undetermined", record.examples)
    assert "overflows" in record.reason
    some = run(promising(1e-3, INF), NumpyBackend(), "float32")
    assert some.outcome == "pass" and 0 < some.undetermined < some.examples


def test_undetermined_examples_hide_no_wrong_one() -> None:
    assert run(promising(1e-3, INF), Wrong(), "float32").outcome == "fail"
    assert run(promising(INF), Wrong(), "float32").outcome == "undetermined"


def test_a_family_whose_bounds_are_all_vacuous_is_an_error_of_the_suite() -> None:
    record = run(promising(50.0), NumpyBackend(), "float32")
    assert (record.outcome, record.vacuous) == ("error", record.examples)
    assert record.reason.startswith("the suite is wrong: the bounds of all")
    assert run(promising(1e-3, 50.0), NumpyBackend(), "float32").outcome == "pass"


def cell(name: str, backend: NumpyBackend, dtype: str = "float32") -> Record:
    """What becomes of a check of the suite on a backend."""
    return run(registry()[name], backend, dtype)


def failure(record: Record) -> dict[str, Any]:
    assert record.outcome == "fail" and record.failure, record
    return record.failure


def test_the_headroom_and_the_level_are_recorded() -> None:
    record = cell("formula", NumpyBackend(), "bfloat16")
    assert (record.outcome, record.level, record.held) == ("pass", "strict", "strict")
    assert 0.5 < record.headroom <= 1.0


def test_the_tightest_level_that_holds_is_recorded() -> None:
    class Modest(NumpyBackend):
        level = {"bfloat16": Level.STORED}

    record = cell("formula", Modest(), "bfloat16")
    assert (record.outcome, record.level, record.held) == ("pass", "stored", "strict")


class Jittery(NumpyBackend):
    """Every result is off by a random share of itself."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.rng = share, np.random.default_rng(0)

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        out = super().attention(*args, **kwargs)
        return (out * (1 + self.share * self.rng.uniform(-1, 1, out.shape))).astype(out.dtype)


@pytest.mark.parametrize("name", ["masked_key_is_inert", "future_changes_nothing", "batch_rows_are_independent"])
def test_a_nondeterministic_result_is_recorded_and_held_to_both_bounds(name: str) -> None:
    near, far = (cell(name, Jittery(share)) for share in (1e-6, 0.5))
    assert (near.outcome, near.nondeterministic > 0) == ("pass", True)
    assert far.outcome == "fail"
    assert cell(name, NumpyBackend()).nondeterministic == 0


class Leaky(NumpyBackend):
    """Hidden keys weigh a little, far below every bound."""

    def attention(self, q: Any, k: Any, v: Any, **kwargs: Any) -> Any:
        out = super().attention(q, k, v, **kwargs)
        return (out + 1e-7 * v[:, :1, -1:, :]).astype(out.dtype)


def test_an_exact_law_knows_no_bound() -> None:
    shown = failure(cell("future_changes_nothing", Leaky()))
    assert shown["allowed"] == 0.0 and abs(shown["got"] - shown["expected"]) > 0
    assert shown["problem"] == "a future key must change nothing"


class Raising(NumpyBackend):
    """Raises in some of its calls."""

    def __init__(self, when: Callable[[int], bool]) -> None:
        super().__init__()
        self.when, self.calls = when, count()

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        if self.when(next(self.calls)):
            raise ZeroDivisionError("no such kernel\nand more")
        return super().attention(*args, **kwargs)


def test_a_backend_that_raises_is_an_error() -> None:
    record = cell("formula", Raising(lambda call: True))
    assert (record.outcome, record.reason) == ("error", "raised ZeroDivisionError: no such kernel\nand more")
    assert record.failure and record.failure["case"].startswith("formula B=1 H=1")


def test_a_backend_that_raises_once_is_an_error() -> None:
    record = cell("formula", Raising(lambda call: call == 3))
    assert (record.outcome, "ZeroDivisionError" in record.reason) == ("error", True)


class Off(NumpyBackend):
    """Gives its result another shape or dtype."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.change = change

    def attention(self, *args: Any, **kwargs: Any) -> Any:
        return self.change(super().attention(*args, **kwargs))


def test_another_shape_breaks_the_clause_of_shapes() -> None:
    shown = failure(cell("counting", Off(lambda out: out[..., None])))
    assert shown["clause"] == "ATTN-SHAPES"
    assert shown["problem"] == "the result must have shape (1, 1, 1, 1), got (1, 1, 1, 1, 1)"


def test_another_dtype_breaks_the_clause_of_dtypes() -> None:
    shown = failure(cell("counting", Off(lambda out: out.astype(np.float64))))
    assert shown["clause"] == "ATTN-DTYPE"
    assert shown["problem"] == "the result must have dtype float32, got float64"


class Nan(NumpyBackend):
    """Gives NaN where nothing is visible."""

    def _softmax(self, scores: Any, visible: Any) -> Any:
        weights = super()._softmax(scores, visible)
        return np.where(np.any(visible, axis=-1, keepdims=True), weights, np.nan)


def test_what_is_wrong_only_in_empty_rows_is_their_clause_s_failure() -> None:
    shown = failure(cell("row_emptied_by_mask", Nan()))
    assert (shown["clause"], shown["in_empty_rows"]) == ("ATTN-EMPTY-ROW", True)
    assert failure(cell("mask_and_causal_intersect", Nan()))["clause"] == "ATTN-EMPTY-ROW"


def test_wrong_empty_rows_hide_no_other_fault() -> None:
    class NanAndInverted(Nan):
        def attention(self, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
            return super().attention(*args, mask=None if mask is None else ~mask, **kwargs)

    assert failure(cell("mask_and_causal_intersect", NanAndInverted()))["clause"] == "ATTN-INTERSECT"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_level_naive_never_conforms_in_half_precision(dtype: str) -> None:
    class Naive(NumpyBackend):
        level = {"bfloat16": Level.NAIVE, "float16": Level.NAIVE}

    shown = failure(cell("formula", Naive(), dtype))
    assert shown["problem"] == f"holds at level naive only, which no {dtype} implementation may declare"
    assert cell("formula", Naive(), "float32").outcome == "pass"


def test_rounding_everywhere_is_told() -> None:
    class Narrow(NumpyBackend):
        """Mixes the values in float16, one after the other."""

        level = {"float16": Level.STORED}

        def _mix(self, d: Any, weights: Any, v: Any) -> Any:
            weights, v = (x.astype(np.float16) for x in (weights.reshape(d.B, d.K, -1, d.T, d.S), v[:, :, None, None]))
            mixed = np.cumsum(weights[..., None] * v, axis=-2, dtype=np.float16)[..., -1, :]
            return mixed.reshape(d.B, d.H, d.T, d.E)

    shown = failure(cell("equal_values_are_the_output", Narrow(), "float16"))
    told = [hint["text"] for hint in shown["likely"]]
    assert "rounds as level naive allows, which no implementation may declare" in told, shown
