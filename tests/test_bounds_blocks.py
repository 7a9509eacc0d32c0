"""The first-order bound of blocks: it holds for errors that add up, and it kills planted faults."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_reference_blocks import some_cases

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import checks
from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, Nonconformance
from gaugeblock.conformance.laws.compositions import steps_hold, traced
from gaugeblock.conformance.mutants.blocks import SublayersScaled
from gaugeblock.conformance.mutants.blocks_norms import GeluForSiluInABlock
from gaugeblock.conformance.strategies.blocks import SIZES, BlockCase
from gaugeblock.conformance.verdict import judge
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import FORMATS, HALF, Contract, Level
from gaugeblock.spec.reference.program import LINEAR, derivative, local, run

Real = np.ndarray[Any, np.dtype[np.float64]]
LEVELS = (Level.STRICT, Level.FUSED, Level.STORED)


def adversary(case: BlockCase, inputs: Inputs, contract: Contract, rng: np.random.Generator) -> tuple[Real, Real, Real]:
    """The result of an implementation that errs at every step by all that its local bound lets it, and value and bound.

    At one element of the result all errors push the same way; where the signs are drawn, they do not.
    """
    program, given = case.program(inputs), case.given(inputs)
    want = case.expected(inputs, contract, Conventions())
    clean, aim = run(program, given), int(rng.integers(want.value.size))
    known: dict[str, Any] = {name: np.asarray(x, np.float64) for name, x in given.items()}
    for n, step in enumerate(program):
        last = step is program[-1]
        made = local(step, known, contract, last=last)
        err = np.where(np.isfinite(made.err), made.err, 0.0)
        signs = rng.choice([-1.0, 1.0], made.value.shape)
        if not last and rng.random() < 0.9:
            slopes = derivative(program, n, clean, np.arange(made.value.size))
            signs = np.sign(slopes.reshape(made.value.size, -1)[:, aim]).reshape(made.value.shape)
        known[step.name] = made.value + signs * err
    return known[program[-1].name], want.value, want.err


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_first_order_bound_holds_for_errors_that_add_up(dtype: str, level: Level) -> None:
    contract, worst, determined = Contract(FORMATS[dtype], level), 0.0, 0
    for case in some_cases(2, w=("normal", "quiet", "only_attention", "closed")):
        inputs = case.inputs(contract.io)
        for turn in range(2):
            got, value, err = adversary(case, inputs, contract, np.random.default_rng([case.seed, turn]))
            allowed = err * (1 + 1e-12)
            error = np.where(np.isfinite(allowed), np.abs(got - value), 0.0)
            assert np.all(error <= allowed), (case, turn)
            worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1.0))))
            determined += bool(np.all(np.isfinite(err)))
    assert worst > 0.2, "the adversary does not come near the bound, which is doubled, and in float64 twice"
    assert determined > 10


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for name in HALF:
        for case in some_cases(1):
            inputs = case.inputs(FORMATS[name])
            contracts = [Contract(FORMATS[name], level) for level in sorted(LEVELS)]
            bounds = [case.expected(inputs, contract, Conventions()).err for contract in contracts]
            for looser, tighter in pairwise(bounds):
                assert np.all(tighter <= looser * (1 + 1e-12)), case


def test_linearization_is_given_up_where_the_bound_is_wide() -> None:
    case = BlockCase(**SIZES[1]._asdict(), cross=True)
    made = case.expected(case.inputs(FORMATS["bfloat16"]), Contract(FORMATS["bfloat16"], Level.STORED), Conventions())
    finite = made.err[np.isfinite(made.err)]
    assert np.any(np.isinf(made.err))
    assert np.all(finite <= LINEAR * np.max(np.abs(made.value)))


def ratios(backend: NumpyBackend, case: BlockCase, dtype: str) -> tuple[float, float]:
    """Error over bound of a block: by the first-order bound of the whole, and by the first step that does not hold."""
    cell = Cell(backend, "blocks", dtype, offer="block")
    inputs = case.inputs(cell.io)
    want = cell.expected(case, inputs)
    whole = judge(cell.call(case, inputs), want).ratio  # 0 where nothing is promised
    result, taps = traced(cell, case, inputs)
    try:
        steps_hold(cell, case, inputs, {**taps, case.program(inputs)[-1].name: result})
    except Nonconformance as wrong:
        assert wrong.verdict is not None
        return whole, wrong.verdict.ratio
    return whole, cell.tally.headroom


class AttentionScaled(NumpyBackend):
    """What attention gives is 2 % too large."""

    def _mix(self, d: Any, weights: Any, v: Any) -> Any:
        return super()._mix(d, weights, v) * weights.dtype.type(1.02)


FAULTS: dict[str, type[NumpyBackend]] = {
    "none": NumpyBackend,
    "attention 2 % too large": AttentionScaled,
    "sublayers 2 % too small": SublayersScaled,
    "GELU for SiLU": GeluForSiluInABlock,
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_the_bound_of_the_whole_kills_and_what_the_steps_kill(dtype: str) -> None:
    """In float32 the black-box bound kills every planted fault in every block; the steps kill by far more."""
    sizes = [size._asdict() | {"S": 1} for size in SIZES[1:]]
    blocks = [
        BlockCase(**size, placement=placement, norm=norm, gated=True, causal=True, rotary="half", seed=seed)
        for seed, size in enumerate(sizes)
        for placement, norm in (("pre", "rms"), ("post", "layer"))
    ]
    print(f"\n{dtype:9} error / bound, smallest and largest:        whole              steps")
    for fault, make in FAULTS.items():
        found = np.array([ratios(make(), case, dtype) for case in blocks])
        low, high = np.min(found, axis=0), np.max(found, axis=0)
        print(f"{fault:28} {low[0]:10.3g} to {high[0]:8.3g}   {low[1]:10.3g} to {high[1]:8.3g}")
        if fault == "none":
            assert np.all(high <= 1)
            continue
        assert np.all(found[:, 1] > 1), fault
        assert np.all(found[:, 1] > found[:, 0]), fault
        if dtype == "float32":
            assert np.all(found[:, 0] > 1), fault


class ShowsOneRow(NumpyBackend):
    """Shows the last sum of its first row alone."""

    def _tap(self, name: str, x: Any) -> Any:
        super()._tap(name, x[0] if name == "feed_forward_residual" else x)
        return x


def test_a_sum_of_another_shape_is_a_failure_of_the_taps() -> None:
    record = checks.run(checks.registry()["rows_behind_the_last_norm"], ShowsOneRow(), "float32")
    assert record.failure and record.failure["clause"] == "BLOCK-TAPS"
