"""The checks of ALiBi: exact laws first, then values against the reference."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.alibi import both_ways, decays, neighbours, shifted
from gaugeblock.conformance.laws.positions import stateless
from gaugeblock.conformance.recipes.positions import FAR_PAIRS
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.positions import alibi, alibi_contradictions, alibi_range, using_alibi
from gaugeblock.conformance.strategies.alibi import (
    OTHER_HEADS,
    POOL,
    ROWS,
    SQUARE,
    BiasCase,
    Extent,
    SlopesCase,
    cases,
    slopes,
)

Slopes: TypeAlias = SlopesCase
Bias: TypeAlias = BiasCase

ONE_QUERY = [d for d in POOL if d.T == 1 < d.S]
BATCHED = [d for d in POOL if d.B > 1]
OTHERS = [d for d in POOL if d.H & (d.H - 1)]
EMPTY = [Extent(1, 2, 0, 3), Extent(1, 2, 0, 0)]

slope = partial(checks, component="positions", offer="alibi", case_type=SlopesCase)
bias = partial(checks, component="positions", offer="alibi", case_type=BiasCase)


@slope("ALIBI-SLOPES", "POS-SHAPES", cases=slopes)
def test_slopes_of_a_power_of_two(cell: Cell, case: Slopes) -> None:
    cell.judge(case)


@slope("ALIBI-SLOPES-ANY", needs=("heads",), cases=partial(slopes, heads=OTHER_HEADS))
def test_slopes_of_other_numbers_of_heads(cell: Cell, case: Slopes) -> None:
    cell.judge(case)


@bias("ALIBI-BIAS", "POS-SHAPES", cases=cases, effort=2)
def test_bias(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias("ALIBI-SLOPES-ANY", needs=("heads",), cases=partial(cases, sizes=OTHERS))
def test_bias_of_other_numbers_of_heads(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias("POS-DTYPE", "POS-SHAPES", cases=partial(cases, positions=("cached",), rows=ROWS), effort=0.5)
def test_bias_shape_and_dtype(cell: Cell, case: Bias) -> None:
    cell.call(case)


@bias("ALIBI-SHIFT", needs=("positions",), cases=partial(cases, rows=ROWS))
def test_bias_is_shift_invariant(cell: Cell, case: Bias) -> None:
    shifted(cell, case)


@bias("ALIBI-DECAY", cases=cases)
def test_bias_never_grows_with_distance(cell: Cell, case: Bias) -> None:
    decays(cell, case)


@bias("ALIBI-BOTH-WAYS", needs=("positions",), cases=partial(cases, sizes=SQUARE, positions=("both", "thousand")))
def test_bias_is_the_same_both_ways(cell: Cell, case: Bias) -> None:
    both_ways(cell, case)


@bias("ALIBI-ONE-QUERY", cases=partial(cases, sizes=ONE_QUERY, positions=("cached", "thousand")))
def test_one_query_against_many_keys(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias("ALIBI-DISTANCE", needs=("positions",), cases=partial(cases, positions=("thousand",)))
def test_distances_of_a_thousand(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias("ALIBI-DISTANCE", needs=("positions", "positions.far"), cases=partial(cases, positions=FAR_PAIRS))
def test_bias_of_far_positions(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias(
    "POS-ROWS",
    needs=("positions", "positions.rows"),
    cases=partial(cases, sizes=BATCHED, positions=("padded", "gaps", "both"), rows=ROWS[1:]),
)
def test_bias_rows_have_their_own_positions(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias("POS-ANY-ORDER", needs=("positions",), cases=partial(cases, positions=("gaps", "both")))
def test_bias_of_positions_in_any_order(cell: Cell, case: Bias) -> None:
    cell.judge(case)


@bias(
    "POS-EMPTY",
    "POS-SHAPES",
    needs=("empty.positions",),
    cases=partial(cases, sizes=EMPTY, positions=("cached",)),
    effort=0.2,
)
def test_bias_without_positions(cell: Cell, case: Bias) -> None:
    cell.call(case)


@bias("POS-STATELESS", cases=partial(cases, positions=("cached",)), effort=0.2)
def test_bias_keeps_no_state(cell: Cell, case: Bias) -> None:
    stateless(cell, case, neighbours(case))


@bias("POS-INPUTS-INTACT", cases=partial(cases, rows=("", "both")), effort=0.3)
def test_bias_writes_to_no_input(cell: Cell, case: Bias) -> None:
    inputs_intact(cell, case)


@bias("POS-RANGE")
def test_bias_positions_out_of_range(cell: Cell) -> None:
    refused(cell, alibi_range(cell))


@bias("POS-REFUSES")
def test_bias_of_contradicting_batches_is_refused(cell: Cell) -> None:
    refused(cell, alibi_contradictions(cell))


@bias("POS-ERRORS")
def test_alibi_refusals_name_the_error(cell: Cell) -> None:
    for calls in (alibi, alibi_contradictions, alibi_range):
        named(cell, calls(cell))


@bias("POS-UNSUPPORTED")
def test_unsupported_alibi_options_are_refused(cell: Cell) -> None:
    unsupported(cell, using_alibi)
