"""The checks of blocks: exact laws first, then laws with a bound, then values."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.blocks import (
    NORMS,
    READS,
    SUMS,
    is_identity,
    mapping_intact,
    nan_propagates,
    remembers_nothing,
    right,
    rows_are_normalised,
    shows_its_steps,
    weights_are_read_by_name,
)
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.blocks import malformed, using
from gaugeblock.conformance.strategies.blocks import (
    BATCHED,
    NETWORKS,
    NO_CONTEXT,
    NO_TOKENS,
    SIZES,
    BlockCase,
    cases,
)

Case: TypeAlias = BlockCase

block = partial(checks, component="blocks", offer="block", case_type=BlockCase)

FEW = 0.4  # of the usual number of examples: a composition costs more than its parts
ONCE = 0.1
SELF, CROSS, EITHER = (False,), (True,), (False, True)
ROTARY = ("", "half", "interleaved")
WINDOWS = (None, (2, 0), (1, 1), (None, 1))
ONE_OPEN = ("only_attention", "only_feed_forward", "only_cross")


@block(
    "BLOCK-IDENTITY", needs=("pre",), cases=partial(cases, placement=("pre",), w=("closed",), x=("normal", "scaled"))
)
def test_silent_sublayers_leave_the_stream_as_it_is(cell: Cell, case: Case) -> None:
    is_identity(cell, case)


@block("BLOCK-NORMS-IN-TURN", needs=("post",), cases=partial(cases, placement=("post",), w=("closed",)), effort=FEW)
def test_silent_sublayers_leave_the_norms_in_turn(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-NORMS-IN-TURN", (*NORMS, *SUMS, *READS))


@block(
    "BLOCK-ROWS-NORMALISED",
    needs=("post", "layer"),
    cases=partial(
        cases,
        placement=("post",),
        norm=("layer",),
        w=("closed_plain", "plain_norms"),
        eps=(0.5, 1e-5),
    ),
    effort=FEW,
)
def test_rows_behind_the_last_norm(cell: Cell, case: Case) -> None:
    rows_are_normalised(cell, case)


@block(
    "BLOCK-FORMULA",
    cases=partial(
        cases,
        network=NETWORKS,
        rotary=ROTARY,
        alibi=EITHER,
        window=WINDOWS,
        scale=(None, 0.3),
        positions=("", "gaps", "rows"),
        mask=("", "random", "heads"),
        context_mask=("", "random"),
        x=("normal", "scaled"),
    ),
)
def test_block(cell: Cell, case: Case) -> None:
    if cell.dtype in ("float64", "float32"):
        cell.judge(case)
    right(cell, case)


@block("BLOCK-PLACEMENT", cases=partial(cases, w=("normal", *ONE_OPEN), x=("scaled",)), effort=FEW)
def test_norm_stands_where_it_is_configured(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-PLACEMENT", (*NORMS, *SUMS, *READS))


@block("BLOCK-RESIDUAL", cases=partial(cases, w=("normal", *ONE_OPEN), x=("scaled",)), effort=FEW)
def test_sublayers_add_to_the_stream(cell: Cell, case: Case) -> None:
    right(cell, case)


@block("BLOCK-NORM", cases=partial(cases, w=("normal", "closed"), x=("normal", "scaled")), effort=FEW)
def test_every_sublayer_has_its_own_norm(cell: Cell, case: Case) -> None:
    right(cell, case)


@block("BLOCK-EPS", cases=partial(cases, eps=(0.5, 1e-2, 3e-6), w=("closed", "normal")), effort=FEW)
def test_eps_is_the_configured_one(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-EPS", NORMS)


@block("BLOCK-EPS", needs=("eps.zero",), cases=partial(cases, x=("small", "normal"), eps=(0.0,)), effort=ONCE)
def test_eps_may_be_zero(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-EPS", NORMS)


@block(
    "BLOCK-FEED-FORWARD",
    cases=partial(cases, cross=SELF, network=NETWORKS, w=("only_feed_forward", "normal")),
    effort=FEW,
)
def test_feed_forward_is_the_configured_one(cell: Cell, case: Case) -> None:
    right(cell, case)


@block("BLOCK-ORDER", needs=("context",), cases=partial(cases, cross=CROSS), effort=FEW)
def test_sublayers_come_in_order(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-ORDER", (*NORMS, *SUMS, *READS))


@block("BLOCK-SHAPES", "BLOCK-DTYPE", cases=partial(cases, x=("normal", "zero")), effort=FEW)
def test_shape_and_dtype_of_a_block(cell: Cell, case: Case) -> None:
    cell.call(case)
    right(cell, case)


@block("BLOCK-WEIGHTS", cases=partial(cases, bias=("", "all", "query+value+output"), network=NETWORKS), effort=FEW)
def test_weights_of_a_block_are_read_by_name(cell: Cell, case: Case) -> None:
    weights_are_read_by_name(cell, case)


@block(
    "BLOCK-NONFINITE",
    cases=partial(cases, sizes=BATCHED, w=("quiet",), mask=("", "random"), context_mask=("", "keys")),
    effort=FEW,
)
def test_nan_propagates_through_a_block(cell: Cell, case: Case) -> None:
    nan_propagates(cell, case)


@block(
    "BLOCK-STRIDES",
    cases=partial(cases, sizes=SIZES[1:], layout=("strided", "transposed"), mask=("", "random")),
    effort=FEW,
)
def test_block_on_views(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-STRIDES")


@block(
    "BLOCK-INPUTS-INTACT",
    cases=partial(cases, mask=("", "random"), context_mask=("", "random"), positions=("", "rows")),
    effort=FEW,
)
def test_block_writes_to_no_input(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)
    mapping_intact(cell, case)


@block(
    "BLOCK-STATELESS", cases=partial(cases, mask=("", "random"), positions=("", "rows"), rotary=ROTARY[:2]), effort=FEW
)
def test_block_remembers_nothing(cell: Cell, case: Case) -> None:
    remembers_nothing(cell, case)


@block("BLOCK-EMPTY", needs=("empty.batch",), cases=partial(cases, sizes=NO_TOKENS[:1]), effort=ONCE)
def test_no_batch_rows_in_a_block(cell: Cell, case: Case) -> None:
    cell.call(case)


@block("BLOCK-EMPTY", needs=("empty.tokens",), cases=partial(cases, sizes=NO_TOKENS[1:]), effort=ONCE)
def test_no_tokens_in_a_block(cell: Cell, case: Case) -> None:
    cell.call(case)


@block(
    "BLOCK-EMPTY", needs=("context", "empty.context"), cases=partial(cases, sizes=NO_CONTEXT, cross=CROSS), effort=FEW
)
def test_no_tokens_in_the_context_of_a_block(cell: Cell, case: Case) -> None:
    right(cell, case, "BLOCK-EMPTY")


@block(
    "BLOCK-TAPS", cases=partial(cases, rotary=ROTARY, alibi=EITHER, mask=("", "random"), network=NETWORKS), effort=FEW
)
def test_traced_block_is_the_same(cell: Cell, case: Case) -> None:
    shows_its_steps(cell, case)


@block("BLOCK-REFUSES")
def test_malformed_blocks_are_refused(cell: Cell) -> None:
    refused(cell, malformed(cell))


@block("BLOCK-ERRORS")
def test_refused_blocks_name_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))


@block("BLOCK-UNSUPPORTED")
def test_unsupported_options_of_blocks_are_refused(cell: Cell) -> None:
    unsupported(cell, using, partial(right, clause="BLOCK-UNSUPPORTED"))
