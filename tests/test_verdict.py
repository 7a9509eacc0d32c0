"""What a comparison says, and what the comparisons of a cell add up to."""

from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.records import OUTCOMES, exit_status
from gaugeblock.conformance.verdict import Status, Verdict, judge, same_bits
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
