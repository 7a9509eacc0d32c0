"""The checks of encoders and decoders on whole sequences: exact laws first, then laws with a bound, then values."""

from functools import partial
from typing import Any

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import model
from gaugeblock.conformance.laws import model_values as values
from gaugeblock.conformance.strategies.model import FEW, LONG, PADDED, PAIRS, SIZES, ModelCase, cases

encoder = partial(checks, component="model", offer="encoder", case_type=ModelCase)
decoder = partial(checks, component="model", offer="decoder", case_type=ModelCase)

ANY_PADS = (*PADDED, "row")
encoders = partial(cases, kind=("encoder", "both"), encode=(True,))
decoders = partial(cases, kind=("decoder", "both"))
few_encoders = partial(encoders, sizes=FEW)
few_decoders = partial(decoders, sizes=FEW)
# pads between tokens, and whatever goes by distance
GAPS: dict[str, Any] = {
    "sizes": SIZES[1:2],
    "pads": ("middle", "ragged"),
    "positions": ("",),
    "rotary": ("half", ""),
    "alibi": (True, False),
    "window": ((1, 1), None),
}
PADS, NONE, WHOLE = {"pads": ANY_PADS}, {"pads": ("",)}, {"last_only": (False,)}


@decoder("MODEL-CAUSAL", cases=partial(few_decoders, **WHOLE), effort=0.7)
def test_decoder_looks_at_no_later_token(cell: Cell, case: ModelCase) -> None:
    model.looks_at_no_later_token(cell, case)


@encoder("MODEL-PADDING", needs=("token_mask",), cases=partial(few_encoders, **PADS), effort=0.6)
def test_encoder_ignores_pads(cell: Cell, case: ModelCase) -> None:
    model.ignores_pads(cell, case)


@decoder("MODEL-PADDING", needs=("token_mask",), cases=partial(few_decoders, **PADS), effort=0.6)
def test_decoder_ignores_pads(cell: Cell, case: ModelCase) -> None:
    model.ignores_pads(cell, case)


@decoder(
    "MODEL-MEMORY-MASK",
    needs=("memory", "memory_mask"),
    cases=partial(few_decoders, kind=("both",), memory_pads=("left", "right", "middle", "ragged", "row")),
    effort=0.5,
)
def test_pads_of_the_memory_are_ignored(cell: Cell, case: ModelCase) -> None:
    model.ignores_pads_of_the_memory(cell, case)


@encoder("MODEL-ROWS", cases=few_encoders, effort=0.4)
def test_rows_of_an_encoder_are_independent(cell: Cell, case: ModelCase) -> None:
    model.keeps_rows_apart(cell, case)


@decoder("MODEL-ROWS", cases=few_decoders, effort=0.4)
def test_rows_of_a_decoder_are_independent(cell: Cell, case: ModelCase) -> None:
    model.keeps_rows_apart(cell, case)


@encoder("MODEL-CLOSED", cases=partial(few_encoders, w=("closed",)), effort=0.5)
def test_closed_encoder_knows_its_token_only(cell: Cell, case: ModelCase) -> None:
    model.depends_on_its_token(cell, case)


@decoder("MODEL-CLOSED", cases=partial(few_decoders, w=("closed",), **WHOLE), effort=0.5)
def test_closed_decoder_knows_its_token_only(cell: Cell, case: ModelCase) -> None:
    model.depends_on_its_token(cell, case)


@encoder("MODEL-EMBEDDING", needs=("ids",), cases=partial(few_encoders, vectors=(False,)), effort=0.5)
def test_encoder_looks_up_its_own_ids_only(cell: Cell, case: ModelCase) -> None:
    model.reads_only_its_rows(cell, case)


@decoder("MODEL-TIED", needs=("tied",), cases=partial(few_decoders, tied=(True,), head_bias=(False,)), effort=0.8)
def test_tied_head_is_the_embedding(cell: Cell, case: ModelCase) -> None:
    model.reads_only_its_rows(cell, case)


@decoder("MODEL-UNTIED", needs=("untied",), cases=partial(few_decoders, tied=(False,), head_bias=(False,)), effort=0.5)
def test_untied_head_is_its_own(cell: Cell, case: ModelCase) -> None:
    model.reads_only_its_rows(cell, case)


@decoder("MODEL-HEAD-BIAS", needs=("head_bias",), cases=partial(few_decoders, head_bias=(True,)), effort=0.3)
def test_head_adds_its_bias(cell: Cell, case: ModelCase) -> None:
    model.reads_only_its_rows(cell, case)


@encoder(
    "MODEL-EQUIVARIANT",
    needs=("positionless",),
    cases=partial(few_encoders, positions=("",), rotary=("",), alibi=(False,), window=(None,), pads=("", "right")),
    effort=0.5,
)
def test_encoder_without_positions_is_equivariant(cell: Cell, case: ModelCase) -> None:
    values.is_equivariant(cell, case)


@encoder("MODEL-ORDER", cases=partial(few_encoders, positions=("learned", "sinusoidal"), **NONE), effort=0.2)
def test_encoder_with_positions_knows_the_order(cell: Cell, case: ModelCase) -> None:
    values.knows_the_order(cell, case)


@decoder(
    "MODEL-ORDER",
    cases=partial(few_decoders, positions=("",), rotary=("",), alibi=(False,), **NONE, **WHOLE),
    effort=0.2,
)
def test_causal_decoder_knows_the_order(cell: Cell, case: ModelCase) -> None:
    values.knows_the_order(cell, case)


@encoder("MODEL-REACH", cases=partial(encoders, sizes=LONG, window=(None,), **NONE), effort=0.15)
def test_last_token_reaches_the_first_row(cell: Cell, case: ModelCase) -> None:
    values.reaches_the_first(cell, case)


@encoder("MODEL-PADDING", "MODEL-POSITIONS", needs=("token_mask",), cases=partial(few_encoders, **PADS), effort=0.4)
def test_padded_row_is_encoded_as_if_alone(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@decoder("MODEL-PADDING", "MODEL-POSITIONS", needs=("token_mask",), cases=partial(few_decoders, **PADS), effort=0.4)
def test_padded_row_is_decoded_as_if_alone(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@encoder("MODEL-POSITIONS", needs=("token_mask", "padding.middle"), cases=partial(encoders, **GAPS), effort=0.3)
def test_pads_between_tokens_keep_none_apart_in_an_encoder(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@decoder("MODEL-POSITIONS", needs=("token_mask", "padding.middle"), cases=partial(decoders, **GAPS), effort=0.3)
def test_pads_between_tokens_keep_none_apart_in_a_decoder(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@encoder("MODEL-BATCH", cases=partial(few_encoders, **NONE), effort=0.2)
def test_batch_row_is_encoded_as_if_alone(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@decoder("MODEL-BATCH", cases=partial(few_decoders, **NONE), effort=0.2)
def test_batch_row_is_decoded_as_if_alone(cell: Cell, case: ModelCase) -> None:
    values.is_as_if_alone(cell, case)


@encoder(
    "MODEL-ROOM",
    needs=("token_mask", "learned"),
    cases=partial(encoders, sizes=[*PAIRS, *FEW], positions=("learned",), pads=("right", "ragged")),
    effort=0.4,
)
def test_pads_take_no_row_of_the_encoder_s_table(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, values.with_a_tight_table(case))


@decoder(
    "MODEL-ROOM",
    needs=("token_mask", "learned"),
    cases=partial(decoders, sizes=[*PAIRS, *FEW], positions=("learned",), pads=("right", "ragged")),
    effort=0.4,
)
def test_pads_take_no_row_of_the_decoder_s_table(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, values.with_a_tight_table(case))


@decoder(
    "MODEL-LAST-ONLY",
    needs=("last_only",),
    cases=partial(few_decoders, last_only=(True,), pads=("right", "ragged", "left")),
    effort=0.4,
)
def test_last_only_follows_the_last_real_token(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case, logits="MODEL-LAST-ONLY")


@decoder("MODEL-MEMORY", needs=("memory",), cases=partial(few_decoders, kind=("both",)), effort=0.25)
def test_decoder_reads_its_memory(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)


@encoder("MODEL-EMBEDDING", "MODEL-NORMS", needs=("layers.none",), cases=partial(few_encoders, L=(0,)), effort=0.4)
def test_encoder_without_layers(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case)


@decoder("MODEL-EMBEDDING", "MODEL-NORMS", needs=("layers.none",), cases=partial(few_decoders, L=(0,)), effort=0.4)
def test_decoder_without_layers(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case)


@encoder("MODEL-ENCODE", "MODEL-EMBEDDING", "MODEL-POSITIONS", "MODEL-NORMS", cases=encoders)
def test_any_encoder(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case, whole=True)


@decoder("MODEL-LOGITS", "MODEL-EMBEDDING", "MODEL-POSITIONS", "MODEL-NORMS", cases=decoders)
def test_any_decoder(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case, whole=True)


@encoder("MODEL-ENCODE", cases=few_encoders, effort=0.3)
def test_encoding_as_a_whole(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)


@encoder("MODEL-STACK", cases=partial(few_encoders, L=(2,)), effort=0.2)
def test_layers_of_an_encoder(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)


@decoder("MODEL-STACK", cases=partial(few_decoders, L=(2,)), effort=0.5)
def test_layers_of_a_decoder(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)
