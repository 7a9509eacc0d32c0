"""The checks of what a head sees and where tokens stand: masks, causality, windows, rotation, linear biases."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.compositions import holds
from gaugeblock.conformance.laws.multihead import (
    blind_rows_give_the_bias,
    hidden_rows_are_inert,
    holds_as,
    order_matters,
    shift_changes_nothing,
)
from gaugeblock.conformance.strategies.multihead import BOTH, EXACT, LONG, POOL, ROTARY, MultiHeadCase, cases

Case: TypeAlias = MultiHeadCase

mha = partial(checks, component="multihead", case_type=MultiHeadCase)

FEW = 0.2  # of the usual number of examples: a composition costs more than its parts
NEAR = ("near-gaps", "near-rows", "shuffled")
ANYWHERE = ("offset", "gaps", "rows", "rows-padded", "same", "shuffled")
HIDING = ("keys", "random", "heads", "shared", "queries", "evens")
WINDOWS = ((2, 0), (0, 2), (1, 1), (0, 0), (None, 1), (3, None))


@mha(
    "MHA-MASK",
    needs=("mask",),
    cases=partial(cases, sizes=BOTH, mask=HIDING),
    effort=0.3,
)
def test_true_lets_a_head_attend(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-MASK")


@mha(
    "MHA-MASK",
    needs=("mask", "mask.heads"),
    cases=partial(cases, sizes=LONG, filled=EXACT, mask=("other",)),
    effort=FEW,
)
def test_every_head_has_its_mask(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-MASK")
    cell.judge(case)


@mha(
    "MHA-INERT",
    needs=("mask",),
    cases=partial(cases, sizes=BOTH, mask=("keys", "random", "evens", "itself"), poison=(50.0, 1.0)),
)
def test_hidden_token_changes_nothing(cell: Cell, case: Case) -> None:
    hidden_rows_are_inert(cell, case, "a token that no head of a query sees must change nothing in its output")


@mha(
    "MHA-CAUSAL",
    needs=("causal",),
    cases=partial(
        cases,
        sizes=LONG,
        causal=(True,),
        rotary=("", *ROTARY),
        alibi=(False, True),
        mask=("", "random"),
        positions=("", "shuffled"),
        poison=(50.0, 1.0),
    ),
)
def test_later_token_changes_nothing(cell: Cell, case: Case) -> None:
    hidden_rows_are_inert(cell, case, "a later token must change nothing in an earlier output")


@mha(
    "MHA-CAUSAL",
    needs=("causal", "positions"),
    cases=partial(cases, sizes=LONG, causal=(True,), positions=("shuffled", "shuffled", "same", "rows-padded")),
    effort=FEW,
)
def test_causality_goes_by_column(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-CAUSAL")


@mha(
    "MHA-WINDOW",
    needs=("window",),
    cases=partial(cases, sizes=LONG, window=WINDOWS, positions=("", *NEAR)),
    effort=0.3,
)
def test_window_goes_by_position(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-WINDOW")


@mha(
    "MHA-WINDOW",
    needs=("window",),
    cases=partial(cases, sizes=LONG, window=WINDOWS, positions=("", *NEAR), poison=(50.0, 1.0)),
)
def test_token_outside_the_window_changes_nothing(cell: Cell, case: Case) -> None:
    hidden_rows_are_inert(cell, case, "a token outside the window must change nothing")


@mha(
    "MHA-INTERSECT",
    needs=("mask",),
    cases=partial(
        cases,
        sizes=LONG,
        mask=("random", "heads", "keys", "empty"),
        causal=(True, False),
        window=(None, (2, 0), (1, 2)),
        positions=("", *NEAR),
        alibi=(False, True),
    ),
    effort=0.3,
)
def test_mask_causality_and_window_intersect(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-INTERSECT")


@mha(
    "MHA-EMPTY-ROW",
    needs=("mask",),
    cases=partial(
        cases,
        sizes=[*BOTH, POOL[0]],
        mask=("none", "queries", "empty", "one-head"),
        bias=("all", "", "output", "query+key+value"),
    ),
    effort=0.3,
)
def test_query_that_sees_nothing(cell: Cell, case: Case) -> None:
    blind_rows_give_the_bias(cell, case)
    holds_as(cell, case, "MHA-EMPTY-ROW")


@mha(
    "MHA-ROTARY",
    needs=("rotary",),
    cases=partial(
        cases, sizes=LONG[:4], rotary=ROTARY, base=(10000.0, 100.0), positions=("", *ANYWHERE), causal=(False, True)
    ),
    effort=0.7,
)
def test_queries_and_keys_turn(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-ROTARY")


@mha(
    "MHA-ROTARY",
    needs=("rotary", "rotary.partial"),
    cases=partial(cases, sizes=[POOL[1], POOL[3], POOL[5]], rotary=ROTARY, rotary_dim=(2, 4), positions=("gaps",)),
    effort=FEW,
)
def test_part_of_a_head_turns(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-ROTARY")


@mha(
    "MHA-ROTARY",
    needs=("rotary", "rotary.scaling"),
    cases=partial(
        cases, sizes=LONG[2:], rotary=ROTARY, scaling=("linear4", "ntk2", "yarn4", "llama3"), positions=("offset",)
    ),
    effort=FEW,
)
def test_heads_turn_by_scaled_frequencies(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-ROTARY")


@mha(
    "MHA-ALIBI",
    needs=("alibi",),
    cases=partial(cases, sizes=LONG, alibi=(True,), positions=("", "same", "gaps", *NEAR)),
    effort=0.3,
)
def test_distance_lowers_scores(cell: Cell, case: Case) -> None:
    holds(cell, case, mixed="MHA-ALIBI")


@mha(
    "MHA-POSITIONS",
    needs=("positions", "rotary"),
    cases=partial(cases, sizes=LONG, rotary=ROTARY, alibi=(False, True), positions=ANYWHERE, window=(None, (4, 4))),
    effort=0.3,
)
def test_tokens_stand_where_positions_say(cell: Cell, case: Case) -> None:
    holds_as(cell, case, "MHA-POSITIONS")


@mha(
    "MHA-RELATIVE",
    needs=("positions",),
    cases=partial(
        cases,
        sizes=LONG[:3],
        rotary=("half", "interleaved", ""),
        alibi=(False, True),
        window=(None, (2, 1)),
        causal=(False, True),
        positions=("near-gaps", "near-rows", "shuffled"),
        bias=("", "all"),
    ),
    effort=0.3,
)
def test_positions_count_by_their_differences(cell: Cell, case: Case) -> None:
    shift_changes_nothing(cell, case)


@mha(
    "MHA-ORDER",
    cases=partial(
        cases,
        sizes=LONG[:3],
        causal=(True, False),
        rotary=("", *ROTARY),
        alibi=(False, True),
        positions=("", "offset"),
        # of these the order shows even in bfloat16
        filled=(("scaled", "normal"), ("normal", "peaked"), ("scaled", "positive"), ("scaled", "even")),
    ),
    effort=0.7,
)
def test_positions_and_causality_make_an_order(cell: Cell, case: Case) -> None:
    order_matters(cell, case)
