"""What is kept for other backends is what each would have been given without."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance import memory
from gaugeblock.conformance.memory import recall, remembering
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.mutants.matrix import Row, row
from gaugeblock.spec.precision import FLOAT32, FLOAT64, Contract
from gaugeblock.spec.reference.bounded import Bounded

# those whose case, reference, diagnosis or law of several steps is of a kind of its own
TRIED = ("MaskIgnored", "RMSNormOverRows", "RowsCutOff", "GeluForSilu", "ValuesAreNotReordered", "PositionsForgotten")


@pytest.mark.parametrize("name", [*TRIED, "LayerForRms"])
def test_a_row_is_the_same_with_and_without_memory(name: str) -> None:
    def tried() -> Row:
        return replace(row(mutants()[name], profile="quick"), seconds=0.0)

    alone = tried()
    with remembering():
        first, second = tried(), tried()
    assert first == alone == second and alone.kills


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    numbers = count()
    assert [recall(lambda: next(numbers), "x") for _ in range(3)] == [0, 1, 2]
    with remembering():
        assert [recall(lambda: next(numbers), "x") for _ in range(3)] == [3, 3, 3]
        with remembering():
            assert recall(lambda: next(numbers), "x") == 3
    assert recall(lambda: next(numbers), "x") == 4


X, LONG = np.arange(6.0).reshape(2, 3), np.arange(5000.0)
DIFFERENT: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, True),
    (1, 1.0),
    (1, "1"),
    (X, X + 1e-16 * (X == 2) + 1e-15 * (X == 3)),
    (X, X.reshape(3, 2)),
    (X, np.asfortranarray(X)),
    (np.zeros(2), -np.zeros(2)),
    (np.zeros(2, np.float32), np.zeros(2, np.int32)),
    ({"x": X}, {"y": X}),
    ({"x": X, "y": -X}, {"x": -X, "y": X}),
    (Contract(FLOAT32), Contract(FLOAT64)),
    (Contract(FLOAT32), Contract(FLOAT32, exp=9.0)),
    ((X, 1), (-X, 1)),
    ([1], (1,)),
    (Bounded(LONG, LONG), Bounded(LONG, LONG + (LONG == 2500))),  # numpy leaves the middle out where it prints them
    ({"x": [LONG]}, {"x": [LONG + (LONG == 2500)]}),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_is_kept_apart(one: Any, other: Any) -> None:
    with remembering():
        assert [recall(object, one) is recall(object, x) for x in (one, other)] == [True, False]


def test_what_nothing_is_known_by_is_refused() -> None:
    with remembering(), pytest.raises(TypeError, match="nothing is known by object"):
        recall(object, object())


def test_equal_arrays_are_the_same() -> None:
    with remembering():
        assert recall(object, {"x": X}) is recall(object, {"x": X.copy()})


def test_what_was_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST", 2)
    numbers = count()
    with remembering():
        assert [recall(lambda: next(numbers), key) for key in "ababcaba"] == [0, 1, 0, 1, 2, 3, 4, 3]


def test_what_fails_is_not_kept() -> None:
    def fails() -> int:
        raise ValueError

    with remembering():
        with pytest.raises(ValueError):
            recall(fails, "x")
        assert recall(lambda: 1, "x") == 1
