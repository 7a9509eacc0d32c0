"""The checks of the gradients of multi-head attention, blocks and models: exact laws first, then values."""

from functools import partial
from typing import Any

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.gradients import keeps_its_word
from gaugeblock.conformance.laws.gradients_compositions import (
    agree,
    block,
    called,
    identity,
    layer,
    norms_alone,
    nothing_hidden,
)
from gaugeblock.conformance.strategies import blocks, multihead
from gaugeblock.conformance.strategies.blocks import NETWORKS, BlockCase
from gaugeblock.conformance.strategies.model import PADDED, SIZES, ModelCase
from gaugeblock.conformance.strategies.model import cases as model_cases
from gaugeblock.conformance.strategies.multihead import BOTH, CROSS, LONG, ROTARY, SOME_BIASES, MultiHeadCase

FEW = 0.1  # of the usual number of examples: a compiler needs seconds for the way back through each of them

gradient = partial(checks, capability="gradients", effort=FEW)
mha = partial(gradient, component="multihead", case_type=MultiHeadCase)
blk = partial(gradient, component="blocks", offer="block", case_type=BlockCase)
encoder = partial(gradient, component="model", offer="encoder", case_type=ModelCase)
decoder = partial(gradient, component="model", offer="decoder", case_type=ModelCase)

TAME = (("normal", "normal"), ("positive", "positive"))
# the first example takes the first of everything: of so few it must be one that shows what may be wrong
BIASES, TURNS, EITHER = ("all", "", *SOME_BIASES[:2]), (*ROTARY, ""), (True, False)
# sublayers that give a sixteenth: even in float32 the bound of a gradient through several layers tells something
QUIET = ("quiet", "normal")
ANY_BLOCK: dict[str, Any] = {
    "network": (NETWORKS[-1], *NETWORKS[:-1]),
    "rotary": TURNS,
    "alibi": EITHER,
    "w": QUIET,
    "mask": ("random", ""),
}
models = partial(
    model_cases,
    scaling=("",),
    w=QUIET,
    bias=BIASES,
    ffn_bias=EITHER,
    positions=("learned", "", "sinusoidal"),
    embedding_scale=(2.3, 1.0),
    embedding_norm=EITHER,
)
decoders = partial(
    models, sizes=SIZES[:3], kind=("both", "decoder"), last_only=(False,), apart=(False,), head_bias=EITHER
)


@mha("MHA-GRADIENT-HIDDEN", needs=("causal",), cases=partial(multihead.cases, sizes=LONG, filled=TAME, causal=(True,)))
def test_later_columns_have_no_gradient(cell: Cell, case: MultiHeadCase) -> None:
    nothing_hidden(cell, case, layer(case), "a column after every one with a cotangent gets nothing", kind="early")


@mha(
    "MHA-GRADIENT-HIDDEN",
    needs=("context", "mask"),
    cases=partial(multihead.cases, sizes=CROSS, filled=TAME, mask=("random", "other", "keys")),
)
def test_hidden_columns_of_a_context_have_no_gradient(cell: Cell, case: MultiHeadCase) -> None:
    nothing_hidden(cell, case, layer(case), "a column that no query with a cotangent sees gets nothing")


@mha(
    "MHA-GRADIENT",
    cases=partial(
        multihead.cases,
        sizes=LONG,
        filled=TAME,
        rotary=TURNS,
        alibi=EITHER,
        causal=EITHER,
        bias=BIASES,
        mask=("random", "", "heads"),
        positions=("near-rows", "", "offset"),
        scale=(0.6, None),
    ),
    effort=0.3,
)
def test_gradients_of_a_layer(cell: Cell, case: MultiHeadCase) -> None:
    agree(cell, case, layer(case))


@mha(
    "MHA-GRADIENT",
    needs=("context",),
    cases=partial(multihead.cases, sizes=CROSS, filled=TAME, bias=BIASES, mask=("random", "")),
    effort=0.2,
)
def test_gradients_of_a_layer_with_a_context(cell: Cell, case: MultiHeadCase) -> None:
    agree(cell, case, layer(case))


@mha(
    "MHA-GRADIENT",
    needs=("grouped",),
    cases=partial(multihead.cases, sizes=[s for s in BOTH if s.H != s.K], filled=TAME, bias=("all", "")),
    effort=0.2,
)
def test_gradients_of_shared_projections(cell: Cell, case: MultiHeadCase) -> None:
    agree(cell, case, layer(case))


@blk(
    "BLOCK-GRADIENT-PRE",
    needs=("pre",),
    cases=partial(blocks.cases, placement=("pre",), w=("closed",), x=("normal", "scaled")),
)
def test_gradient_passes_silent_sublayers_as_it_is(cell: Cell, case: BlockCase) -> None:
    identity(cell, case)


@blk(
    "BLOCK-GRADIENT-POST",
    needs=("post", "layer"),
    cases=partial(blocks.cases, placement=("post",), norm=("layer",), w=("closed", "closed_plain"), eps=(1e-5, 0.1)),
)
def test_gradient_of_silent_sublayers_is_that_of_the_norms(cell: Cell, case: BlockCase) -> None:
    norms_alone(cell, case)


@blk(
    "BLOCK-GRADIENT-POST",
    needs=("post", "layer", "eps.zero"),
    cases=partial(blocks.cases, placement=("post",), norm=("layer",), w=("closed", "closed_plain"), eps=(0.0,)),
)
def test_gradient_of_silent_sublayers_is_orthogonal_to_the_row(cell: Cell, case: BlockCase) -> None:
    norms_alone(cell, case)


@blk("BLOCK-GRADIENT-HIDDEN", needs=("causal",), cases=partial(blocks.cases, causal=(True,), rotary=TURNS))
def test_later_columns_of_a_block_have_no_gradient(cell: Cell, case: BlockCase) -> None:
    nothing_hidden(cell, case, block(case), "a column after every one with a cotangent gets nothing", kind="early")


@blk(
    "BLOCK-GRADIENT-HIDDEN",
    needs=("context", "context_mask"),
    cases=partial(blocks.cases, cross=(True,), context_mask=("random", "keys"), mask=("", "random")),
    effort=0.3,
)
def test_hidden_columns_of_a_block_have_no_gradient(cell: Cell, case: BlockCase) -> None:
    nothing_hidden(cell, case, block(case), "a column that no token with a cotangent sees gets nothing")


@blk("BLOCK-GRADIENT-CALL", cases=partial(blocks.cases, w=("quiet",), network=NETWORKS))
def test_pullback_of_a_block_may_be_called_again(cell: Cell, case: BlockCase) -> None:
    keeps_its_word(cell, case, block(case))


@blk("BLOCK-GRADIENT", needs=("pre",), cases=partial(blocks.cases, placement=("pre",), **ANY_BLOCK), effort=0.2)
def test_gradients_of_a_pre_block(cell: Cell, case: BlockCase) -> None:
    agree(cell, case, block(case))


@blk("BLOCK-GRADIENT", needs=("post",), cases=partial(blocks.cases, placement=("post",), **ANY_BLOCK), effort=0.2)
def test_gradients_of_a_post_block(cell: Cell, case: BlockCase) -> None:
    agree(cell, case, block(case))


@decoder(
    "MODEL-GRADIENT-CAUSAL",
    needs=("untied",),
    cases=partial(decoders, tied=(False,), tokens=("distinct",), pads=("",), L=(1, 2)),
)
def test_rows_of_later_tokens_have_no_gradient(cell: Cell, case: ModelCase) -> None:
    nothing_hidden(cell, case, called(case), "a token after every one with a cotangent gets nothing", kind="early")


@decoder("MODEL-GRADIENT-UNREAD", needs=("untied",), cases=partial(decoders, tied=(False,), positions=("learned", "")))
def test_rows_that_are_not_read_have_no_gradient(cell: Cell, case: ModelCase) -> None:
    nothing_hidden(cell, case, called(case), "a row that no real token reads gets nothing", kind="normal")


@decoder("MODEL-GRADIENT-TIED", needs=("tied",), cases=partial(decoders, tied=(True,)))
def test_tied_table_sums_both_of_its_uses(cell: Cell, case: ModelCase) -> None:
    agree(cell, case, called(case))


@encoder(
    "MODEL-GRADIENT",
    cases=partial(models, sizes=SIZES[:2], kind=("encoder", "both"), encode=(True,)),
)
def test_gradients_of_an_encoder(cell: Cell, case: ModelCase) -> None:
    agree(cell, case, called(case))


@decoder("MODEL-GRADIENT", cases=partial(decoders, pads=("", *PADDED), tokens=("random", "same")), effort=0.2)
def test_gradients_of_logits(cell: Cell, case: ModelCase) -> None:
    agree(cell, case, called(case))
