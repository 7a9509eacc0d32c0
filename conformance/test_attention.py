"""The checks of attention: exact laws first, then laws with a bound, then values against the reference."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.attention import (
    convex_rows,
    equal_within,
    nan_propagates,
    recovered_scale,
    score_variance,
    with_other_rows,
)
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.attention import malformed, meaningless_caps, using
from gaugeblock.conformance.strategies.attention import (
    ANY_QK,
    BATCHED,
    FAR_OUT,
    GROUPED,
    LONG,
    NO_BATCH,
    NO_KEYS,
    NO_QUERIES,
    POLYTOPES,
    POOL,
    SINGLE,
    TAILS,
    WIDE,
    AttentionCase,
    cases,
)

Case: TypeAlias = AttentionCase

attn = partial(checks, component="attention", case_type=AttentionCase)


@attn("ATTN-FORMULA", "ATTN-SHAPES", cases=cases, effort=2)
def test_formula(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-FORMULA", cases=partial(cases, sizes=TAILS, qk=("integers", "low", "normal"), causal=(False, True)))
def test_long_rows(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-DTYPE",
    "ATTN-SHAPES",
    cases=partial(cases, qk=("normal",), mask=("", "random", "keys", "none"), bias=("", "normal")),
)
def test_shape_and_dtype(cell: Cell, case: Case) -> None:
    cell.call(case)


@attn("ATTN-SCALE", cases=partial(cases, sizes=POLYTOPES, qk=("polytope",)))
def test_scores_have_unit_variance(cell: Cell, case: Case) -> None:
    score_variance(cell, case)


@attn("ATTN-SCALE", cases=partial(cases, sizes=WIDE, qk=("probe",), v=("first",)))
def test_scale_recovered(cell: Cell, case: Case) -> None:
    recovered_scale(cell, case)


@attn("ATTN-SCALE-GIVEN", needs=("scale",), cases=partial(cases, sizes=WIDE, scale=(1.0, 0.25, 0.3, 2.0)))
def test_given_scale(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-SCALE-GIVEN",
    needs=("scale", "scale.nonpositive"),
    cases=partial(cases, sizes=WIDE, qk=("normal", "integers"), scale=(0.0, -0.5, -1.0)),
)
def test_scale_of_any_sign(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-CONVEX", cases=partial(cases, sizes=WIDE, causal=(False, True), large=False))
def test_rows_are_convex_combinations(cell: Cell, case: Case) -> None:
    convex_rows(cell, case)


@attn("ATTN-CONVEX", cases=partial(cases, v=("constant",), mask=("", "random")))
def test_equal_values_are_the_output(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-COUNT", cases=partial(cases, qk=("zero",), v=("index",), mask=("", "random"), causal=(False, True)))
def test_counting(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-BIAS", needs=("bias",), cases=partial(cases, sizes=WIDE, bias=("normal", "keys", "full", "zero")))
def test_bias_is_added_after_scaling(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-BIAS", needs=("bias",), cases=partial(cases, sizes=WIDE, qk=("normal",), v=("constant",), bias=("abyss",)))
def test_finite_bias_hides_nothing(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-HEADS", needs=("grouped",), cases=partial(cases, sizes=GROUPED, v=("head", "normal"), mask=("", "heads")))
def test_query_heads_read_their_group(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-VALUE-WIDTH", needs=("value_width",), cases=partial(cases, sizes=[d for d in POOL if d.D != d.E]))
def test_values_of_another_width(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-PERMUTE",
    cases=partial(cases, sizes=WIDE, mask=("", "heads"), bias=("", "full")),
)
def test_order_of_keys_and_queries(cell: Cell, case: Case) -> None:
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    keys, queries = case.random("order").permutation(case.S), case.random("rows").permutation(case.T)
    moved = {name: x[:, :, keys] if name in "kv" else x for name, x in inputs.items()}
    moved |= {name: x[..., keys] for name, x in inputs.items() if name in ("mask", "bias")}
    equal_within(cell, case, moved, expected)
    moved = {name: x if name in "kv" else x[:, :, queries] for name, x in inputs.items()}
    equal_within(cell, case, moved, expected, rows=queries)


@attn(
    "ATTN-BATCH-ROWS",
    cases=partial(cases, sizes=BATCHED, mask=("", "keys", "random"), bias=("", "full"), causal=(False, True)),
)
def test_batch_rows_are_independent(cell: Cell, case: Case) -> None:
    with_other_rows(cell, case, axis=0)
    cell.judge(case)


@attn("ATTN-HEADS", cases=partial(cases, sizes=[d for d in POOL if d.K > 1], mask=("", "heads"), causal=(False, True)))
def test_heads_are_independent(cell: Cell, case: Case) -> None:
    with_other_rows(cell, case, axis=1)


@attn(
    "ATTN-STRIDES",
    cases=partial(cases, sizes=WIDE, layout=("strided", "repeated"), mask=("", "heads"), bias=("", "full")),
)
def test_strided_and_broadcast_views(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-INPUTS-INTACT",
    cases=partial(
        cases,
        sizes=WIDE,
        mask=("random", "none", ""),
        bias=("normal", "infinite", ""),
        causal=(True, False),
        scale=(0.3, None),
    ),
)
def test_inputs_are_never_written(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)


@attn(
    "ATTN-LARGE-LOGITS",
    cases=partial(cases, sizes=LONG, qk=FAR_OUT, mask=("", "random"), causal=(False, True)),
    effort=1.5,
)
def test_large_logits(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-LARGE-LOGITS", needs=("bias",), cases=partial(cases, sizes=LONG, qk=("zero", "integers"), bias=("shifted",))
)
def test_shift_of_a_row(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-SINGLE", cases=partial(cases, sizes=SINGLE, qk=ANY_QK, causal=(False, True)))
def test_single_key_query_or_width(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-EMPTY-AXES", needs=("empty.batch",), cases=partial(cases, sizes=[NO_BATCH], mask=("", "random")), effort=0.2
)
def test_no_batch_rows(cell: Cell, case: Case) -> None:
    cell.call(case)


@attn("ATTN-EMPTY-AXES", needs=("empty.queries",), cases=partial(cases, sizes=[NO_QUERIES]), effort=0.2)
def test_no_queries(cell: Cell, case: Case) -> None:
    cell.call(case)


@attn("ATTN-EMPTY-AXES", needs=("empty.keys",), cases=partial(cases, sizes=[NO_KEYS], mask=("", "random")), effort=0.2)
def test_no_keys(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-NONFINITE", cases=partial(cases, qk=("normal",), v=("normal",), causal=(False, True)))
def test_nan_goes_where_it_is_read(cell: Cell, case: Case) -> None:
    nan_propagates(cell, case)


@attn("ATTN-REFUSES")
def test_malformed_calls_are_refused(cell: Cell) -> None:
    refused(cell, malformed(cell))


@attn("ATTN-ERRORS")
def test_refusals_name_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))


@attn("ATTN-UNSUPPORTED")
def test_unsupported_options_are_refused(cell: Cell) -> None:
    unsupported(cell, using)


@attn("ATTN-SOFTCAP", capability="softcap")
def test_caps_without_meaning(cell: Cell) -> None:
    named(cell, meaningless_caps(cell))
