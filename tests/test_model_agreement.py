"""The three backends on the same models of random configurations: as near to one another as their bounds allow."""

import os
from collections.abc import Callable
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.drawing import quiet
from gaugeblock.conformance.load import load
from gaugeblock.conformance.mistakes.model import mistakes
from gaugeblock.conformance.strategies import Draw
from gaugeblock.conformance.strategies.model import FEW, ModelCase, cases

MODELS = int(os.environ.get("GAUGEBLOCK_MODELS", "30"))  # 200 where time is no matter


def drawn(count: int, **choices: Any) -> Callable[[Callable[[ModelCase], None]], Callable[[], None]]:
    """Run a function on so many cases."""

    def decorate(example: Callable[[ModelCase], None]) -> Callable[[], None]:
        made = settings(
            max_examples=count,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )(given(cases(Draw(), sizes=FEW, **choices))(example))
        return cast(Callable[[], None], made)

    return decorate


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    names = ("numpy", "torch", "jax")
    for name in names:
        pytest.importorskip(name)
    return [Cell(load(name), "model", "float32", offer="decoder") for name in names]


def test_random_models_agree(cells: list[Cell]) -> None:
    """|a - b| is at most the sum of the two bounds, at every real token of every pair."""
    seen: list[ModelCase] = []

    @drawn(MODELS, kind=("decoder", "encoder", "both"), encode=(False, True))
    def example(case: ModelCase) -> None:
        seen.append(case)
        agree(cells, case)

    with quiet():
        example()
    assert len(seen) >= min(MODELS, 25) and {case.kind for case in seen} == {"decoder", "encoder", "both"}


def test_a_diagnosis_finds_its_words() -> None:
    """Every mistake can be tried on every case, and what it gives has the shape of the result."""
    cell, tried = Cell(load("numpy"), "model", "float32", offer="decoder"), set[str]()

    @drawn(12, L=(1,), kind=("decoder", "encoder", "both"), encode=(False, True), vectors=(False,))
    def example(case: ModelCase) -> None:
        inputs = case.inputs(cell.io)
        for text, wrong in mistakes(cell, case, inputs):
            assert wrong.value.shape == case.result(inputs)[0], text
            tried.add(text)

    with quiet():
        example()
    assert len(tried) > 12


def agree(cells: list[Cell], case: ModelCase) -> None:
    inputs = case.inputs(cells[0].io)
    results: list[Any] = [cell.call(case, inputs).astype(np.float64) for cell in cells]
    expected = cells[0].expected(case, inputs)
    judged = ~np.broadcast_to(expected.free, results[0].shape)
    for a, b in combinations(results, 2):
        assert np.all(np.abs(a - b)[judged] <= 2 * expected.err[judged]), str(case)
