"""What a comparison says, and what the comparisons of a cell add up to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Check, Record, registry, run
from gaugeblock.conformance.records import OUTCOMES, exit_status
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.conformance.verdict import Status, Verdict, judge, same_bits
from gaugeblock.spec.precision import Level
from gaugeblock.spec.reference.bounded import Expected

NAN, INF = float("nan"), float("inf")


def expected(value: Any, err: Any, empty: Any = False, free: Any = False) -> Expected:
    """An expectation of rows of values; empty and free are given for each row."""
    wide = np.atleast_2d(np.asarray(value, np.float64))
    rows = [np.broadcast_to(np.asarray(x), wide.shape[:-1]) for x in (empty, free)]
    return Expected(
        wide, np.broadcast_to(err, wide.shape), rows[0], np.repeat(rows[1][:, None], wide.shape[-1], axis=1)
    )


def verdict(actual: Any, value: Any, err: Any, **more: Any) -> Verdict:
    return judge(np.atleast_2d(np.asarray(actual, np.float64)), expected(value, err), **more)


@pytest.mark.parametrize(
    ("actual", "value", "err", "status"),
    [
        (1.5, 1.0, 0.5, Status.PASS),
        (0.5, 1.0, 0.5, Status.PASS),
        (1.5 + 1e-9, 1.0, 0.5, Status.FAIL),
        (1.0, 1.0, 0.0, Status.PASS),
        (np.nextafter(1.0, 2.0), 1.0, 0.0, Status.FAIL),
        (-0.0, 0.0, 0.0, Status.PASS),
        (0.0, -0.0, 0.0, Status.PASS),
        (NAN, 1.0, 0.5, Status.FAIL),
        (NAN, 1.0, 0.0, Status.FAIL),
        (NAN, NAN, 0.0, Status.PASS),
        (1.0, NAN, 0.0, Status.FAIL),
        (INF, 1.0, 0.5, Status.FAIL),
        (-INF, 1.0, 1e300, Status.FAIL),
        (INF, INF, 0.0, Status.PASS),
        (-INF, INF, 0.0, Status.FAIL),
        (1.0, 1.0, INF, Status.UNDETERMINED),
        (7.0, 1.0, INF, Status.UNDETERMINED),
        (NAN, 1.0, INF, Status.UNDETERMINED),
        (INF, 1.0, INF, Status.UNDETERMINED),
    ],
)
def test_one_element(actual: float, value: float, err: float, status: Status) -> None:
    assert verdict(actual, value, err).status is status


def test_a_single_rounding_attains_its_bound_and_conforms() -> None:
    u = 2.0**-24
    midway = 1.0 + u  # half-way between two float32 numbers: the error of rounding is exactly u
    rounded = np.float32(midway)
    found = judge(np.array([rounded]), Expected(np.array([midway]), np.array([u])))
    assert (found.status, abs(float(rounded) - midway)) == (Status.PASS, u)
    assert found.ratio == pytest.approx(1.0)


def test_the_reference_brings_its_own_error() -> None:
    assert verdict(1.75, 1.0, 0.5).status is Status.FAIL
    assert verdict(1.75, 1.0, 0.5, own=0.25).status is Status.PASS


def test_the_worst_element_is_told() -> None:
    found = verdict([[1.0, 2.5], [3.0, 9.0]], [[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 2.0]])
    assert (found.index, found.actual, found.expected, found.wrong) == ((1, 1), 9.0, 4.0, 1)
    assert found.ratio == pytest.approx(2.5)
    assert found.allowed == pytest.approx(2.0)


def test_a_passing_verdict_tells_how_close_it_was() -> None:
    found = verdict([1.0, 2.4], [1.0, 2.0], [0.0, 0.8])
    assert (found.status, found.index) == (Status.PASS, (0, 1))
    assert found.ratio == pytest.approx(0.5)


def test_an_undetermined_element_hides_no_wrong_one() -> None:
    found = verdict([7.0, NAN, 1.0], [1.0, 1.0, 1.0], [INF, 0.5, 0.5])
    assert (found.status, found.index, found.wrong) == (Status.FAIL, (0, 1), 1)
    assert verdict([7.0, 1.0], [1.0, 1.0], [INF, 0.5]).status is Status.UNDETERMINED


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_to_compare_conforms(shape: tuple[int, int]) -> None:
    nothing = np.zeros(shape)
    found = judge(nothing, Expected(nothing, nothing), own=nothing, size=1.0)
    assert (found.status, found.wrong, found.vacuous) == (Status.PASS, 0, False)


def test_a_bound_is_vacuous_against_the_size_of_the_values() -> None:
    assert verdict([1.0, 1.0], [1.0, 1.0], [1e-3, 0.06], size=1.0).vacuous
    assert not verdict([1.0, 1.0], [1.0, 1.0], [1e-3, 0.06], size=2.0).vacuous
    assert not verdict([1.0, 1.0], [1.0, 1.0], [1e-3, 0.06]).vacuous
    assert not verdict([1.0, 1.0], [1.0, 1.0], [1e-3, INF], size=1.0).vacuous


def test_wrong_rows_that_see_no_key_are_told_apart() -> None:
    value, err = np.zeros((3, 2)), np.full((3, 2), 0.1)
    for wrong, alone in (((1,), True), ((1, 2), True), ((0, 1), False), ((0,), False), ((), False)):
        actual = value.copy()
        actual[list(wrong)] = NAN
        found = judge(actual, expected(value, err, empty=[False, True, True]))
        assert (found.in_empty_rows, found.wrong) == (alone, 2 * len(wrong))


def test_rows_on_which_the_conventions_say_nothing_are_free() -> None:
    actual = np.array([[1.0, 1.0], [NAN, 5.0]])
    assert judge(actual, expected(np.ones((2, 2)), 0.0, free=[False, True])).status is Status.PASS
    assert judge(actual, expected(np.ones((2, 2)), 0.0, free=[True, False])).status is Status.FAIL


def test_same_bits_knows_no_sign_of_zero_and_one_nan() -> None:
    one, other = np.array([0.0, NAN, 1.0, NAN, INF]), np.array([-0.0, NAN, 1.0 + 2**-52, 1.0, INF])
    assert same_bits(one, other).tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ((), 3),
        (("pass",), 0),
        (("pass", "unsupported", "known-failure"), 0),
        (("pass", "undetermined"), 3),
        (("not-available",), 3),
        (("pass", "not-run"), 3),
        (("pass", "fail"), 1),
        (("error",), 1),
        (("unexpected-pass", "not-available"), 1),
    ],
)
def test_exit_status(outcomes: tuple[str, ...], status: int) -> None:
    assert set(outcomes) <= set(OUTCOMES)
    assert exit_status(outcomes) == status


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
