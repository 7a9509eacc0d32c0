"""Laws that demand a difference accuse nobody who uses up his bound against it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import parse_case
from gaugeblock.conformance.drawing import quiet
from gaugeblock.conformance.laws.multihead import order_matters
from gaugeblock.conformance.strategies.multihead import MultiHeadCase

FOUND = "positions_and_causality_make_an_order B=2 T=4 M=8 H=2 K=2 D=4 E=4 alibi x=scaled w=even at=14 seed=435"


class Against(Cell):
    """A backend whose results are as near to the unwanted ones as its bound lets it."""

    def call(self, case: Any, inputs: Inputs | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        assert inputs is not None
        original = case.inputs(self.io)
        order = np.roll(np.arange(case.T), 1 + case.at % (case.T - 1))
        moved = {**original, "x": original["x"][:, order]}
        here, there = self.expected(case, original), self.expected(case, moved)
        towards = (1 - 1e-9) * np.sign(there.value - here.value[:, order])
        if np.array_equal(inputs["x"], original["x"]):
            return np.asarray((here.value[:, order] + towards * here.err[:, order])[:, np.argsort(order)])
        return np.asarray(there.value - towards * there.err)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_order_that_the_bounds_hide_is_not_demanded(dtype: str) -> None:
    _, found = parse_case(FOUND)
    assert isinstance(found, MultiHeadCase)
    cell = Against(NumpyBackend(), "multihead", dtype)
    with quiet():
        for seed in range(60):
            for options in ({"alibi": True}, {"alibi": False, "causal": True}, {"alibi": False, "rotary": "half"}):
                order_matters(cell, replace(found, seed=seed, at=seed, **options))
    assert cell.tally.judged > 2 * cell.tally.undetermined or dtype != "float32"
