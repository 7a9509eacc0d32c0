"""What the first-order bound of a whole decoder kills, beside its steps: a fault in one of several layers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.cell import Cell, Nonconformance
from gaugeblock.conformance.checks import Plan, registry, run
from gaugeblock.conformance.diagnosis import BROKEN
from gaugeblock.conformance.laws.compositions import steps_hold, traced
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.strategies.model import SIZES, ModelCase
from gaugeblock.conformance.verdict import judge

FAULTY = "1"  # the second layer


class InOneLayer(NumpyBackend):
    """A backend that knows in which layer it is."""

    inside = ""

    def _within(self, *names: str) -> AbstractContextManager[None]:
        self.inside = names[1] if names[0] == "layers" else self.inside
        return super()._within(*names)


class AttentionScaled(InOneLayer):
    """What attention gives is 2 % too large."""

    def _mix(self, d: Any, weights: Any, v: Any) -> Any:
        return super()._mix(d, weights, v) * weights.dtype.type(1.02 if self.inside == FAULTY else 1)


class GeluForSilu(InOneLayer):
    """GELU is computed for SiLU."""

    def _silu(self, x: Any, beta: float) -> Any:
        return self._gelu(x) if self.inside == FAULTY else super()._silu(x, beta)


FAULTS = {"none": InOneLayer, "attention 2 % too large": AttentionScaled, "GELU for SiLU": GeluForSilu}


def models() -> Iterator[ModelCase]:
    """Decoders of two to four layers, as LLaMA and as the paper of 2017 have them."""
    for seed, size in enumerate(SIZES[:3] + SIZES[4:]):
        for layers in (2, 4):
            fields = {**size._asdict(), "L": layers, "kind": "decoder", "gated": True, "tied": True, "seed": seed}
            yield ModelCase(**fields, placement="pre", norm="rms", rotary="" if size.D % 2 else "half")
            yield ModelCase(**fields, placement="post", norm="layer", positions="learned")


def ratios(backend: NumpyBackend, case: ModelCase, dtype: str) -> tuple[float, float]:
    """Error over bound: by the bound of the whole (0 where nothing is promised), and by the first step that fails."""
    cell = Cell(backend, "model", dtype, offer="decoder")
    inputs = case.inputs(cell.io)
    whole = judge(cell.call(case, inputs), cell.expected(case, inputs)).ratio
    result, taps = traced(cell, case, inputs)
    try:
        steps_hold(cell, case, inputs, {**taps, case.program(inputs)[-1].name: result})
    except Nonconformance as wrong:
        assert wrong.verdict is not None
        return whole, wrong.verdict.ratio
    return whole, cell.tally.headroom


# how far beyond the bound of its step attention is at least, as the clause MODEL-TAPS tells
STEPS = {"float32": 1.6e4, "float16": 20, "bfloat16": 2.7}


@pytest.mark.parametrize("dtype", STEPS)
def test_a_fault_in_one_layer(dtype: str) -> None:
    """In float32 the bound of the whole kills a fault in one layer of any model; in half precision the steps do."""
    print(f"\n{dtype:9} error / bound, smallest and largest:        whole       killed            steps")
    for fault, make in FAULTS.items():
        found = np.array([ratios(make(), case, dtype) for case in models()])
        low, high, killed = np.min(found, axis=0), np.max(found, axis=0), int(np.sum(found[:, 0] > 1))
        whole = f"{low[0]:10.3g} to {high[0]:8.3g}   {killed:3} of {len(found)}"
        print(f"{fault:28} {whole}   {low[1]:10.3g} to {high[1]:8.3g}")
        if fault == "none":
            assert np.all(high <= 1)
            continue
        assert np.all(found[:, 1] > STEPS[dtype]), fault
        assert np.all(found[:, 1] > found[:, 0]), fault
        if dtype == "float32":
            assert low[0] > 50, fault


def test_pads_beyond_the_table_are_not_taken_for_tokens_to_explain_a_failure() -> None:
    check = registry()["pads_take_no_row_of_the_encoder_s_table"]
    record = run(check, mutants()["EmbeddingScaleMissing"].make(), "float32", Plan(shrink=False))
    assert record.failure and BROKEN not in str(record.failure)
