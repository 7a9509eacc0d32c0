"""The checks of rotary position embedding: exact laws first, then laws with a bound, then values."""

from functools import partial
from typing import TypeAlias

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.rotary import (
    at_zero,
    composed,
    layouts_agree,
    nan_stays_in_its_pair,
    no_memory,
    norms_kept,
    only_itself,
    relative_only,
    reordered,
    rest,
    rows_spread,
    unchanged,
)
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.rotary import malformed, outside, using
from gaugeblock.conformance.strategies.rotary import (
    BASE,
    BASES,
    BATCHED,
    LONG,
    NEAR,
    NO_BATCH,
    NO_TOKENS,
    ODD,
    PARTIAL,
    POOL,
    ROWS,
    SINGLE,
    SLIM,
    SLOW,
    RotaryCase,
    cases,
)

Case: TypeAlias = RotaryCase

rope = partial(checks, component="positions", offer="rotary", case_type=RotaryCase)


@rope("ROPE-ZERO", cases=partial(cases, positions=("zero", "start", "edges"), base=BASES))
def test_position_zero_is_the_identity(cell: Cell, case: Case) -> None:
    inputs = case.inputs(cell.io)
    unchanged(cell, case, at_zero(case, inputs), "a token at position 0 must stay as it is, bit for bit")


@rope(
    "ROPE-PARTIAL-REST", needs=("rotary_dim",), cases=partial(cases, sizes=PARTIAL, x=("normal", "index")), effort=0.7
)
def test_other_components_stay(cell: Cell, case: Case) -> None:
    unchanged(cell, case, rest(cell, case), "a component that is not rotated must stay as it is, bit for bit")


@rope("ROPE-INDEPENDENT", cases=partial(cases, sizes=LONG, x=("normal",), positions=(*NEAR, *ROWS)))
def test_tokens_are_rotated_alone(cell: Cell, case: Case) -> None:
    only_itself(cell, case, axis=2)


@rope("ROPE-INDEPENDENT", cases=partial(cases, sizes=BATCHED, x=("normal",), positions=(*NEAR, *ROWS)), effort=0.7)
def test_batch_rows_and_heads_are_rotated_alone(cell: Cell, case: Case) -> None:
    only_itself(cell, case, axis=0)
    only_itself(cell, case, axis=1)


@rope(
    "ROPE-STATELESS",
    cases=partial(cases, sizes=[POOL[0], SINGLE[0]], x=("normal",), positions=("start", "offset", "thousands")),
    effort=0.4,
)
def test_calls_leave_nothing_behind(cell: Cell, case: Case) -> None:
    no_memory(cell, case)


@rope("ROPE-INPUTS-INTACT", cases=partial(cases, x=("normal",)), effort=0.5)
def test_rotation_never_writes_to_its_inputs(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)


@rope("ROPE-NORM", cases=partial(cases, positions=(*NEAR, *ROWS, "far", "anywhere", "last"), base=BASES), effort=1.5)
def test_pairs_keep_their_length(cell: Cell, case: Case) -> None:
    norms_kept(cell, case)


@rope("ROPE-SHIFT", cases=partial(cases, sizes=SLOW, x=("normal",), positions=NEAR, base=(1e6, 1e8, BASE)), effort=1.2)
def test_scores_depend_on_the_distance(cell: Cell, case: Case) -> None:
    relative_only(cell, case)


@rope(
    "ROPE-COMPOSE",
    needs=("positions.offset", "positions.gaps"),
    cases=partial(cases, sizes=SLOW, x=("normal", "axis"), positions=NEAR, base=(1e6, 1e8, BASE)),
)
def test_rotations_add_up(cell: Cell, case: Case) -> None:
    composed(cell, case)


@rope(
    "ROPE-LAYOUT-PERMUTE",
    needs=("half", "interleaved"),
    cases=partial(cases, sizes=[*POOL, *PARTIAL[:1]], base=BASES),
    effort=0.7,
)
def test_layouts_differ_by_an_order(cell: Cell, case: Case) -> None:
    layouts_agree(cell, case)


@rope("ROPE-POSITIONS", needs=("positions.gaps",), cases=partial(cases, sizes=LONG, positions=(*NEAR, *ROWS)))
def test_order_of_tokens(cell: Cell, case: Case) -> None:
    reordered(cell, case)


@rope("ROPE-ROWS", needs=("positions.rows",), cases=partial(cases, sizes=BATCHED, positions=NEAR), effort=0.7)
def test_one_row_of_positions_for_all(cell: Cell, case: Case) -> None:
    rows_spread(cell, case)


@rope("ROPE-FORMULA", "ROPE-SHAPES", cases=cases, effort=1.5)
def test_rotation_formula(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-DTYPE", "ROPE-SHAPES", cases=partial(cases, x=("normal",), scaling=("", "linear4", "yarn4")), effort=0.5)
def test_shape_and_dtype_of_a_rotation(cell: Cell, case: Case) -> None:
    cell.call(case)


@rope("ROPE-LAYOUT", needs=("half",), cases=partial(cases, x=("index", "axis", "normal"), layout=("half",)), effort=0.7)
def test_pairs_of_the_layout_half(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-LAYOUT",
    needs=("interleaved",),
    cases=partial(cases, x=("index", "axis", "normal"), layout=("interleaved",)),
    effort=0.7,
)
def test_pairs_of_the_layout_interleaved(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-BASE", needs=("base",), cases=partial(cases, base=BASES[1:], positions=(*NEAR, "thousands")))
def test_base_of_the_frequencies(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-PARTIAL", needs=("rotary_dim",), cases=partial(cases, sizes=PARTIAL, base=(BASE, 500000.0)))
def test_first_components_only(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-PARTIAL", needs=("rotary_dim", "odd_width"), cases=partial(cases, sizes=ODD, x=("index",)), effort=0.3)
def test_odd_width(cell: Cell, case: Case) -> None:
    if cell.backend.conventions.rotary_partial == "compact":
        cell.judge(case)


@rope(
    "ROPE-PAIR-ZERO",
    needs=("positions.offset",),
    cases=partial(
        cases, sizes=SLIM, x=("axis", "normal"), positions=("last", "anywhere", "million", "far", "odd-2048")
    ),
)
def test_first_pair_turns_by_the_position(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-ANGLE",
    needs=("positions.offset",),
    cases=partial(cases, x=("axis", "normal"), positions=("odd-256", "odd-2048", "thousands", "edges"), base=BASES),
)
def test_positions_are_not_rounded(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-ANGLE",
    needs=("positions.far", "base"),
    cases=partial(cases, sizes=SLOW, positions=("far", "million", "anywhere", "last"), base=(1e6, 1e8, 1e10)),
)
def test_far_rotations(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-POSITIONS", needs=("positions.offset",), cases=partial(cases, x=("equal", "axis"), positions=NEAR[1:]))
def test_every_token_has_its_position(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-ROWS", needs=("positions.rows",), cases=partial(cases, sizes=BATCHED, x=("equal", "normal"), positions=ROWS)
)
def test_every_batch_row_has_its_positions(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-SINGLE", cases=partial(cases, sizes=SINGLE, x=("equal", "normal"), positions=(*NEAR, *ROWS)))
def test_one_token_in_every_batch_row(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-STRIDES",
    cases=partial(cases, strides=("strided", "repeated"), positions=("offset", "rows", "permuted")),
    effort=0.7,
)
def test_rotated_views_equal_their_copies(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-EMPTY-AXES", needs=("empty.batch",), cases=partial(cases, sizes=[NO_BATCH], positions=("start",)), effort=0.2
)
def test_no_batch_rows_to_rotate(cell: Cell, case: Case) -> None:
    cell.call(case)


@rope(
    "ROPE-EMPTY-AXES",
    needs=("empty.tokens",),
    cases=partial(cases, sizes=[NO_TOKENS], positions=("start",)),
    effort=0.2,
)
def test_no_tokens_to_rotate(cell: Cell, case: Case) -> None:
    cell.call(case)


@rope("ROPE-NONFINITE", cases=partial(cases, x=("normal",), positions=(*NEAR, *ROWS)))
def test_nan_stays_in_its_pair(cell: Cell, case: Case) -> None:
    nan_stays_in_its_pair(cell, case)


@rope("ROPE-NONFINITE", cases=partial(cases, x=("normal",), positions=(*NEAR, *ROWS)), effort=0.3)
def test_infinity_is_accepted(cell: Cell, case: Case) -> None:
    inputs = dict(case.inputs(cell.io))
    inputs["x"] = np.where(np.arange(case.D) == case.at % case.D, np.inf, inputs["x"]).astype(cell.io.dtype)
    cell.call(case, inputs)
    cell.tally.judged += 1


@rope("ROPE-REFUSES")
def test_malformed_rotations_are_refused(cell: Cell) -> None:
    refused(cell, malformed(cell))


@rope("ROPE-RANGE")
def test_positions_out_of_range_are_refused(cell: Cell) -> None:
    refused(cell, outside(cell))


@rope("ROPE-ERRORS")
def test_refused_rotations_name_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))
    named(cell, outside(cell))


@rope("ROPE-UNSUPPORTED")
def test_unsupported_rotations_are_refused(cell: Cell) -> None:
    unsupported(cell, using)
