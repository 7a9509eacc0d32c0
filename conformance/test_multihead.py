"""The checks of multi-head attention: its projections, heads and arrays."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.compositions import holds, same_result
from gaugeblock.conformance.laws.multihead import (
    batch_rows_are_independent,
    far_key_arrives,
    grouped_is_repeated,
    heads_are_independent,
    holds_as,
    itself_as_context,
    key_bias_is_inert,
    mapping_intact,
    nan_propagates,
    remembers_nothing,
    reordered,
    shows_its_steps,
)
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.multihead import malformed, using
from gaugeblock.conformance.strategies.multihead import (
    ANY,
    BOTH,
    CROSS,
    EVERY,
    EXACT,
    FAR,
    FREE,
    GROUPED,
    LONG,
    NO_BATCH,
    NO_CROSS_QUERIES,
    NO_KEYS,
    NO_QUERIES,
    POOL,
    ROTARY,
    SOME_BIASES,
    SQUARE,
    MultiHeadCase,
    cases,
)

Case: TypeAlias = MultiHeadCase

mha = partial(checks, component="multihead", case_type=MultiHeadCase)

FEW = 0.2  # of the usual number of examples: a composition costs more than its parts
ONCE = 0.1


@mha("MHA-SPLIT", needs=("mask",), cases=partial(cases, filled=EXACT, mask=("itself",)), effort=FEW)
def test_columns_belong_to_heads(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-SPLIT")
    cell.judge(case)


@mha(
    "MHA-SPLIT",
    needs=("mask", "mask.heads"),
    cases=partial(cases, sizes=GROUPED, filled=EXACT, mask=("other",), bias=("", "all")),
    effort=FEW,
)
def test_every_head_reads_its_own_columns(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-SPLIT")
    cell.judge(case)


@mha(
    "MHA-WEIGHTS",
    cases=partial(cases, sizes=SQUARE, filled=(*ANY, *EXACT)),
    effort=FEW,
)
def test_weights_are_in_by_out(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-WEIGHTS")


@mha("MHA-PROJECT", "MHA-ATTEND", "MHA-OUTPUT", cases=partial(cases, large=True, bias=("", "all")), effort=0.7)
def test_multi_head_attention(cell: Cell, case: Case) -> None:
    holds(cell, case)


@mha("MHA-SCALE", cases=partial(cases, sizes=LONG, scale=(None, 0.3, 1.0, -0.5)), effort=0.3)
def test_scale_of_the_scores(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-SCALE")


@mha(
    "MHA-BIAS",
    needs=("bias",),
    cases=partial(cases, sizes=LONG, bias=("all", *SOME_BIASES), rotary=ROTARY, positions=("offset",)),
    effort=0.3,
)
def test_biases_where_keys_turn(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-BIAS")


@mha(
    "MHA-BIAS",
    needs=("bias",),
    cases=partial(cases, sizes=BOTH, bias=("all", *SOME_BIASES), filled=(*ANY, *EXACT)),
    effort=0.3,
)
def test_biases(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-BIAS")


@mha("MHA-KEY-BIAS", needs=("bias",), cases=partial(cases, sizes=EVERY, bias=("all", "query+key+value")), effort=FEW)
def test_key_bias_where_no_key_turns(cell: Cell, case: Case) -> None:
    key_bias_is_inert(cell, case)


@mha("MHA-HEADS", cases=partial(cases, sizes=BOTH, bias=("", "all")))
def test_heads_are_independent_subspaces(cell: Cell, case: Case) -> None:
    heads_are_independent(cell, case)


@mha(
    "MHA-GROUPED",
    needs=("grouped",),
    cases=partial(cases, sizes=GROUPED[:3], bias=("", "all")),
    effort=FEW,
)
def test_shared_keys_are_repeated_keys(cell: Cell, case: Case) -> None:
    grouped_is_repeated(cell, case)
    holds(cell, case, mixed="MHA-GROUPED")


@mha(
    "MHA-GROUPED",
    needs=("grouped", "mask"),
    cases=partial(cases, sizes=GROUPED, filled=EXACT, mask=("itself",)),
    effort=FEW,
)
def test_heads_read_their_group_exactly(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-GROUPED")
    cell.judge(case)


@mha(
    "MHA-WIDTHS",
    needs=("value_width", "inner_width"),
    cases=partial(cases, sizes=FREE, bias=("", "all")),
    effort=FEW,
)
def test_widths_are_free(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-WIDTHS")


@mha(
    "MHA-CONTEXT",
    needs=("context",),
    cases=partial(cases, sizes=[CROSS[1], CROSS[4], CROSS[2], CROSS[0]], bias=("", "all", "query+value+output")),
    effort=0.3,
)
def test_keys_come_from_the_context(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-CONTEXT")


@mha("MHA-CONTEXT", needs=("context",), cases=partial(cases, sizes=LONG[:3]), effort=FEW)
def test_no_context_is_x_itself(cell: Cell, case: Case) -> None:
    itself_as_context(cell, case)


@mha("MHA-REACH", cases=partial(cases, sizes=FAR, poison=(4.0, 40.0)), effort=0.2)
def test_any_key_reaches_any_query(cell: Cell, case: Case) -> None:
    far_key_arrives(cell, case)


@mha(
    "MHA-PERMUTE",
    cases=partial(cases, sizes=BOTH, mask=("", "heads"), bias=("", "all")),
    effort=0.3,
)
def test_tokens_have_no_order(cell: Cell, case: Case) -> None:
    reordered(cell, case)


@mha(
    "MHA-BATCH-ROWS",
    cases=partial(cases, sizes=[size for size in BOTH if size.B > 1], mask=("", "keys", "random")),
    effort=0.3,
)
def test_rows_of_the_batch_are_independent(cell: Cell, case: Case) -> None:
    batch_rows_are_independent(cell, case)
    holds_as(cell, case, "MHA-BATCH-ROWS")


@mha(
    "MHA-BATCH-ROWS",
    needs=("positions", "positions.rows"),
    cases=partial(
        cases,
        sizes=LONG[1:],
        positions=("near-rows", "rows"),
        rotary=ROTARY,
        alibi=(False, True),
        window=(None, (2, 1)),
    ),
    effort=FEW,
)
def test_rows_of_the_batch_stand_apart(cell: Cell, case: Case) -> None:
    batch_rows_are_independent(cell, case)


@mha(
    "MHA-SHAPES",
    "MHA-DTYPE",
    cases=partial(cases, sizes=[*BOTH[:4], POOL[0]], bias=("", "all"), filled=(*ANY, ("normal", "closed"))),
    effort=FEW,
)
def test_shape_and_dtype_of_multi_head_attention(cell: Cell, case: Case) -> None:
    cell.call(case)
    holds(cell, case)


@mha("MHA-TAPS", cases=partial(cases, sizes=EVERY, bias=("", "all"), mask=("", "random")), effort=FEW)
def test_steps_are_shown(cell: Cell, case: Case) -> None:
    shows_its_steps(cell, case)
    same_result(cell, case)


@mha(
    "MHA-TAPS",
    needs=("rotary",),
    cases=partial(cases, sizes=LONG[:3], rotary=ROTARY, alibi=(False, True), causal=(False, True)),
    effort=ONCE,
)
def test_steps_of_positions_are_shown(cell: Cell, case: Case) -> None:
    shows_its_steps(cell, case)
    same_result(cell, case)


@mha(
    "MHA-STRIDES",
    cases=partial(cases, sizes=EVERY, layout=("transposed", "strided"), mask=("", "heads"), bias=("", "all")),
    effort=FEW,
)
def test_multi_head_attention_on_views(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-STRIDES")


@mha("MHA-INPUTS-INTACT", cases=partial(cases, sizes=EVERY, mask=("random", ""), bias=("all", "")), effort=FEW)
def test_multi_head_attention_writes_to_no_input(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)
    mapping_intact(cell, case)


@mha("MHA-STATELESS", cases=partial(cases, sizes=EVERY, mask=("random", ""), bias=("", "all")), effort=ONCE)
def test_multi_head_attention_remembers_nothing(cell: Cell, case: Case) -> None:
    remembers_nothing(cell, case)


@mha("MHA-NONFINITE", cases=partial(cases, sizes=[*BOTH, POOL[0]], bias=("", "all")), effort=0.3)
def test_nan_reaches_what_reads_it(cell: Cell, case: Case) -> None:
    nan_propagates(cell, case)


@mha("MHA-EMPTY-AXES", needs=("empty.batch",), cases=partial(cases, sizes=[NO_BATCH], bias=("", "all")), effort=ONCE)
def test_no_rows_of_a_batch(cell: Cell, case: Case) -> None:
    cell.call(case)


@mha(
    "MHA-EMPTY-AXES",
    needs=("empty.queries",),
    cases=partial(cases, sizes=[NO_QUERIES, NO_CROSS_QUERIES], bias=("", "all")),
    effort=ONCE,
)
def test_no_tokens(cell: Cell, case: Case) -> None:
    cell.call(case)


@mha(
    "MHA-EMPTY-AXES",
    needs=("context", "empty.keys"),
    cases=partial(cases, sizes=[NO_KEYS], bias=("all", "")),
    effort=ONCE,
)
def test_a_context_of_no_tokens(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-EMPTY-AXES")


@mha("MHA-REFUSES")
def test_malformed_heads_are_refused(cell: Cell) -> None:
    refused(cell, malformed(cell))


@mha("MHA-ERRORS")
def test_refused_heads_name_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))


@mha("MHA-UNSUPPORTED")
def test_unsupported_heads_are_refused(cell: Cell) -> None:
    unsupported(cell, using, partial(holds_as, clause="MHA-UNSUPPORTED"))
