"""The checks of attention: exact laws first, then laws with a bound, then values against the reference."""

from functools import partial
from typing import TypeAlias

import numpy as np

from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.attention import (
    convex_rows,
    equal_within,
    nan_propagates,
    recovered_scale,
    score_variance,
    with_key,
    with_other_rows,
)
from gaugeblock.conformance.refusals import named, offers, refused, unsupported
from gaugeblock.conformance.refusals.attention import malformed, using
from gaugeblock.conformance.strategies.attention import (
    ANY_QK,
    BATCHED,
    FAR,
    GROUPED,
    LONG,
    NO_BATCH,
    NO_KEYS,
    NO_QUERIES,
    POLYTOPES,
    POOL,
    SINGLE,
    SQUARE,
    TAILS,
    TALL,
    WIDE,
    AttentionCase,
    cases,
)

Case: TypeAlias = AttentionCase

attn = partial(checks, component="attention", case_type=AttentionCase)

WINDOWS = ((2, 0), (0, 2), (1, 1), (3, 0), (0, 0), (None, 1), (2, None), (4, 4))
HIDING = ("random", "keys", "heads", "shared")


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


@attn(
    "ATTN-BIAS-INF",
    needs=("bias", "bias.infinite"),
    cases=partial(cases, sizes=WIDE, bias=("infinite", "hide"), qk=("normal", "zero"), v=("normal", "index")),
)
def test_minus_infinity_masks(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-MASK", needs=("mask",), cases=partial(cases, sizes=WIDE, qk=("zero", "normal"), v=("index",), mask=HIDING))
def test_true_means_may_attend(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-MASK", needs=("mask",), cases=partial(cases, sizes=WIDE, qk=("abyss",), v=("parity",), mask=("evens",)))
def test_mask_beats_any_score(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-MASK",
    needs=("mask", "rectangular"),
    cases=partial(cases, sizes=FAR, qk=("normal",), mask=("last",)),
    effort=0.2,
)
def test_mask_at_the_end_of_many_keys(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn("ATTN-BIAS", needs=("bias",), cases=partial(cases, sizes=WIDE, qk=("normal",), v=("constant",), bias=("abyss",)))
def test_finite_bias_hides_nothing(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-MASK-BROADCAST",
    needs=("mask",),
    cases=partial(cases, sizes=POOL, mask=("keys", "shared", "queries", "random", "heads", "all")),
)
def test_mask_broadcasts(cell: Cell, case: Case) -> None:
    inputs = case.inputs(cell.io)
    full = np.broadcast_to(inputs["mask"], (case.B, case.H, case.T, case.S)).copy()
    cell.judge(case, inputs)
    if offers(cell, "mask.heads"):
        cell.judge(case, change(inputs, mask=full))


@attn(
    "ATTN-MASK-BROADCAST",
    needs=("mask",),
    cases=partial(cases, sizes=SQUARE, qk=("zero",), v=("index",), mask=("keys", "queries")),
)
def test_key_and_query_axes_of_the_mask(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-MASKED-INERT",
    needs=("mask",),
    cases=partial(cases, sizes=LONG, mask=(*HIDING, "empty"), causal=(False, True), poison=(3e4, -3e4)),
)
def test_masked_key_is_inert(cell: Cell, case: Case) -> None:
    with_key(cell, case, "a masked key must change nothing, whatever finite values it holds")


@attn(
    "ATTN-MASKED-INERT",
    needs=("bias", "bias.infinite"),
    cases=partial(cases, sizes=LONG, bias=("infinite", "hide"), poison=(3e4, -3e4)),
)
def test_key_at_minus_infinity_is_inert(cell: Cell, case: Case) -> None:
    with_key(cell, case, "a key with bias -inf must change nothing, whatever finite values it holds")


@attn(
    "ATTN-CAUSAL-LEAK",
    needs=("causal",),
    cases=partial(
        cases,
        sizes=LONG,
        causal=(True,),
        mask=("", "all", "random", "heads"),
        bias=("", "normal", "infinite"),
        window=(None, (3, 0), (None, 1)),
        scale=(None, 0.3),
        layout=("", "strided"),
        poison=(3e4, -3e4, 1.0),
    ),
    effort=2,
)
def test_future_changes_nothing(cell: Cell, case: Case) -> None:
    with_key(cell, case, "a future key must change nothing")


@attn(
    "ATTN-WINDOW",
    needs=("window",),
    cases=partial(cases, sizes=LONG, window=WINDOWS, causal=(False, True), poison=(3e4, -3e4)),
)
def test_key_outside_the_window_is_inert(cell: Cell, case: Case) -> None:
    with_key(cell, case, "a key outside the window must change nothing")


@attn("ATTN-EMPTY-ROW", needs=("mask",), cases=partial(cases, sizes=POOL, mask=("empty", "none", "queries")))
def test_row_emptied_by_mask(cell: Cell, case: Case) -> None:
    cell.strict_empty_rows = True
    cell.judge(case)


@attn("ATTN-EMPTY-ROW", needs=("bias", "bias.infinite"), cases=partial(cases, sizes=POOL, bias=("hide",)))
def test_row_emptied_by_bias(cell: Cell, case: Case) -> None:
    cell.strict_empty_rows = True
    cell.judge(case)


@attn("ATTN-EMPTY-ROW", needs=("causal", "rectangular"), cases=partial(cases, sizes=TALL, causal=(True,)))
def test_row_emptied_by_causal(cell: Cell, case: Case) -> None:
    cell.strict_empty_rows = True
    cell.judge(case)


@attn(
    "ATTN-EMPTY-ROW",
    needs=("window", "rectangular"),
    cases=partial(cases, sizes=TALL, window=((0, 0), (2, 0), (1, 1))),
)
def test_row_emptied_by_window(cell: Cell, case: Case) -> None:
    cell.strict_empty_rows = True
    cell.judge(case)


@attn(
    "ATTN-EMPTY-ROW",
    needs=("mask", "causal"),
    cases=partial(cases, sizes=WIDE, mask=("keys", "empty"), causal=(True,)),
)
def test_row_emptied_by_mask_and_causal(cell: Cell, case: Case) -> None:
    cell.strict_empty_rows = True
    cell.judge(case)


@attn(
    "ATTN-CAUSAL-ALIGN",
    needs=("causal",),
    cases=partial(cases, sizes=POOL, qk=("zero", "normal"), v=("index", "normal"), causal=(True,)),
    effort=2,
)
def test_causal_alignment(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-WINDOW",
    needs=("window",),
    cases=partial(cases, sizes=LONG, qk=("zero", "normal"), v=("index",), window=WINDOWS, mask=("", "all")),
)
def test_window(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-WINDOW",
    needs=("window", "rectangular"),
    cases=partial(cases, sizes=FAR, qk=("normal",), window=((1, 0), (2, 0))),
    effort=0.2,
)
def test_window_at_the_end_of_many_keys(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-INTERSECT",
    needs=("mask", "causal"),
    cases=partial(cases, sizes=LONG, qk=("zero", "normal"), v=("index",), mask=(*HIDING, "empty"), causal=(True,)),
)
def test_mask_and_causal_intersect(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-INTERSECT",
    needs=("mask", "window"),
    cases=partial(cases, sizes=LONG, qk=("zero", "normal"), v=("index",), mask=HIDING, window=WINDOWS),
)
def test_mask_and_window_intersect(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-INTERSECT",
    needs=("causal", "window"),
    cases=partial(cases, sizes=LONG, qk=("zero", "normal"), v=("index",), causal=(True,), window=WINDOWS),
)
def test_causal_and_window_intersect(cell: Cell, case: Case) -> None:
    cell.judge(case)


@attn(
    "ATTN-INTERSECT",
    needs=("mask", "bias"),
    cases=partial(
        cases,
        sizes=LONG,
        mask=("", *HIDING),
        bias=("normal", "infinite"),
        causal=(False, True),
        window=(None, (3, 1)),
        scale=(None, 0.3),
    ),
)
def test_bias_goes_with_every_option(cell: Cell, case: Case) -> None:
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
        cases, mask=("", "random", "none"), bias=("", "normal", "infinite"), causal=(False, True), scale=(None, 0.3)
    ),
)
def test_inputs_are_never_written(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)


@attn(
    "ATTN-LARGE-LOGITS",
    cases=partial(cases, sizes=LONG, qk=("winner", "high", "deep"), mask=("", "random"), causal=(False, True)),
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
