"""The checks of what a block sees: causality, masks, the context, positions, other batch rows."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.blocks import (
    READS,
    batch_rows_are_independent,
    hidden_columns_are_inert,
    hidden_context_is_inert,
    right,
)
from gaugeblock.conformance.strategies.blocks import (
    BATCHED,
    LONG,
    NETWORKS,
    SIZES,
    SQUARE,
    BlockCase,
    cases,
)

Case: TypeAlias = BlockCase

block = partial(checks, component="blocks", offer="block", case_type=BlockCase)

FEW = 0.4  # of the usual number of examples: a composition costs more than its parts
SELF, CROSS, EITHER = (False,), (True,), (False, True)
ROTARY = ("", "half", "interleaved")
WINDOWS = (None, (2, 0), (1, 1), (None, 1))
HIDING = ("random", "keys", "heads", "shared")


@block(
    "BLOCK-CAUSAL",
    needs=("causal",),
    cases=partial(
        cases,
        sizes=LONG,
        causal=(True,),
        rotary=ROTARY,
        alibi=EITHER,
        window=WINDOWS,
        positions=("backwards", "rows", "offset", ""),
        mask=("", "all", "random", "heads"),
        context_mask=("", "random"),
        network=NETWORKS,
    ),
)
def test_later_columns_change_nothing(cell: Cell, case: Case) -> None:
    hidden_columns_are_inert(cell, case, "a later column must change nothing")


@block(
    "BLOCK-MASK",
    needs=("mask",),
    cases=partial(cases, sizes=LONG, mask=(*HIDING, "empty"), window=WINDOWS[:2], rotary=ROTARY[:2]),
    effort=0.7,
)
def test_masked_column_is_inert(cell: Cell, case: Case) -> None:
    hidden_columns_are_inert(cell, case, "a masked column must change no position but its own")


@block(
    "BLOCK-CONTEXT-MASK",
    needs=("context", "context_mask"),
    cases=partial(cases, cross=CROSS, context_mask=(*HIDING, "empty"), mask=("", "random")),
    effort=FEW,
)
def test_masked_context_is_inert(cell: Cell, case: Case) -> None:
    hidden_context_is_inert(cell, case, "a masked column of the context must change nothing")


@block(
    "BLOCK-BATCH-ROWS",
    cases=partial(
        cases, sizes=BATCHED, mask=("", "random"), context_mask=("", "keys"), positions=("", "rows"), rotary=ROTARY
    ),
    effort=FEW,
)
def test_batch_rows_of_a_block_are_independent(cell: Cell, case: Case) -> None:
    batch_rows_are_independent(cell, case)


@block(
    "BLOCK-BIDIRECTIONAL",
    needs=("bidirectional",),
    cases=partial(cases, sizes=LONG, causal=(False,), cross=SELF, w=("only_attention", "normal")),
    effort=FEW,
)
def test_all_positions_see_one_another(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-BIDIRECTIONAL", ("mixed",))


@block("BLOCK-CAUSAL", needs=("causal",), cases=partial(cases, sizes=LONG, causal=(True,)), effort=FEW)
def test_causality_binds_self_attention(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-CAUSAL", ("mixed",))


@block(
    "BLOCK-MASK",
    needs=("mask",),
    cases=partial(cases, sizes=[*SQUARE, *SIZES], mask=("queries", *HIDING, "none"), cross=(True, False)),
    effort=0.7,
)
def test_mask_belongs_to_self_attention(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-MASK", ("mixed",))


@block(
    "BLOCK-CONTEXT-MASK",
    needs=("context", "context_mask"),
    cases=partial(cases, sizes=[*SQUARE, *SIZES], cross=CROSS, context_mask=(*HIDING, "queries", "none")),
    effort=FEW,
)
def test_context_mask_belongs_to_cross_attention(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-CONTEXT-MASK", ("mixed",))


@block(
    "BLOCK-CROSS",
    needs=("context",),
    cases=partial(cases, cross=CROSS, w=("only_cross", "normal"), x=("scaled", "normal")),
    effort=FEW,
)
def test_context_is_read_as_it_is(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-CROSS", (*READS, "mixed", "cross_norm", "cross_residual"))


@block(
    "BLOCK-CROSS-PLAIN",
    needs=("context",),
    cases=partial(
        cases,
        sizes=[*SQUARE, *LONG],
        cross=CROSS,
        rotary=ROTARY[1:],
        alibi=EITHER,
        window=((1, 1), None),
        positions=("", "gaps"),
        w=("only_cross", "normal"),
    ),
    effort=FEW,
)
def test_cross_attention_knows_no_order(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-CROSS-PLAIN", ("query", "mixed"))


@block(
    "BLOCK-POSITIONS",
    needs=("positions",),
    cases=partial(
        cases,
        sizes=sorted(LONG, key=lambda size: size.D < 4),  # of two components both layouts make one pair
        rotary=("interleaved", "half", ""),
        alibi=EITHER,
        window=WINDOWS,
        causal=(True, False),
        positions=("backwards", "rows", "gaps", "offset"),
        cross=SELF,
    ),
    effort=FEW,
)
def test_positions_reach_the_self_attention(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-POSITIONS", ("rotated_query", "rotated_key", "bias", "mixed"))
