"""The checks of which keys a query sees: masks, -inf, causal, windows, and the rows that see nothing."""

from functools import partial
from typing import TypeAlias

import numpy as np

from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.attention import stays_hidden, with_key
from gaugeblock.conformance.refusals import offers
from gaugeblock.conformance.strategies.attention import (
    FAR,
    LONG,
    POOL,
    SQUARE,
    TALL,
    WIDE,
    AttentionCase,
    cases,
)

Case: TypeAlias = AttentionCase

attn = partial(checks, component="attention", case_type=AttentionCase)

capped = partial(attn, capability="softcap")

CAPS = (1.0, 0.3, 5.0, 30.0)
WINDOWS = ((2, 0), (0, 2), (1, 1), (3, 0), (0, 0), (None, 1), (2, None), (4, 4))
HIDING = ("random", "keys", "heads", "shared")


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


@capped(
    "ATTN-SOFTCAP",
    cases=partial(
        cases,
        qk=("normal", "scaled", "peaked", "heavy", "near-ties"),
        mask=("", "random", "keys"),
        bias=("", "normal"),
        causal=(False, True),
        scale=(None, 0.7),
        softcap=CAPS,
    ),
    effort=2,
)
def test_scores_are_capped(cell: Cell, case: Case) -> None:
    cell.judge(case)


@capped(
    "ATTN-SOFTCAP",
    "ATTN-MASKED-INERT",
    needs=("mask",),
    cases=partial(cases, sizes=LONG, mask=(*HIDING, "empty"), causal=(False, True), softcap=CAPS, poison=(3e4, -3e4)),
)
def test_no_cap_shows_a_masked_key(cell: Cell, case: Case) -> None:
    with_key(cell, case, "a masked key must change nothing, however small the cap on its score")


@attn(
    "ATTN-NAN-SAFE",
    cases=partial(
        cases,
        sizes=LONG,
        qk=("normal",),
        v=("normal",),
        mask=("", *HIDING, "empty"),
        bias=("", "infinite"),
        causal=(False, True),
        window=(None, (2, 0)),
    ),
    effort=2,
    capability="nan_safe",
)
def test_nan_stays_hidden(cell: Cell, case: Case) -> None:
    stays_hidden(cell, case)


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


@attn(
    "ATTN-MASK",
    needs=("mask", "rectangular"),
    cases=partial(cases, sizes=FAR, qk=("normal",), mask=("last",)),
    effort=0.2,
)
def test_mask_at_the_end_of_many_keys(cell: Cell, case: Case) -> None:
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
    "ATTN-WINDOW",
    needs=("window", "rectangular"),
    cases=partial(cases, sizes=FAR, qk=("normal",), window=((1, 0), (2, 0))),
    effort=0.2,
)
def test_window_at_the_end_of_many_keys(cell: Cell, case: Case) -> None:
    cell.judge(case)
