"""The checks of how encoders and decoders are called: shapes, views, states, refusals."""

from functools import partial

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact, model
from gaugeblock.conformance.laws import model_values as values
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.model import (
    DECODER,
    ENCODER,
    malformed_decoders,
    malformed_encoders,
    malformed_weights,
    mentioned,
    too_many_tokens,
    unknown_ids,
    using,
)
from gaugeblock.conformance.strategies.model import FEW, NOTHING, ModelCase, cases

encoder = partial(checks, component="model", offer="encoder", case_type=ModelCase)
decoder = partial(checks, component="model", offer="decoder", case_type=ModelCase)

encoders = partial(cases, kind=("encoder", "both"), encode=(True,))
decoders = partial(cases, kind=("decoder", "both"))
few_encoders = partial(encoders, sizes=FEW)
few_decoders = partial(decoders, sizes=FEW)


@encoder("MODEL-SHAPES", "MODEL-DTYPE", cases=few_encoders, effort=0.3)
def test_shape_and_dtype_of_an_encoding(cell: Cell, case: ModelCase) -> None:
    cell.call(case)


@decoder("MODEL-SHAPES", "MODEL-DTYPE", cases=few_decoders, effort=0.3)
def test_shape_and_dtype_of_logits(cell: Cell, case: ModelCase) -> None:
    cell.call(case)


@encoder("MODEL-STRIDES", cases=partial(few_encoders, layout=("transposed", "strided")), effort=0.2)
def test_encoder_of_views(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)


@decoder("MODEL-STRIDES", cases=partial(few_decoders, layout=("transposed", "strided")), effort=0.2)
def test_decoder_of_views(cell: Cell, case: ModelCase) -> None:
    values.is_right_as_a_whole(cell, case)


@encoder("MODEL-STATELESS", cases=few_encoders, effort=0.3)
def test_encoder_keeps_no_state(cell: Cell, case: ModelCase) -> None:
    model.keeps_no_state(cell, case)


@decoder("MODEL-STATELESS", cases=few_decoders, effort=0.3)
def test_decoder_keeps_no_state(cell: Cell, case: ModelCase) -> None:
    model.keeps_no_state(cell, case)


@encoder("MODEL-NONFINITE", needs=("vectors",), cases=partial(few_encoders, vectors=(True,)), effort=0.3)
def test_nan_in_a_vector_stays_in_its_row(cell: Cell, case: ModelCase) -> None:
    model.nan_stays(cell, case)


@decoder("MODEL-NONFINITE", needs=("memory",), cases=partial(few_decoders, kind=("both",)), effort=0.3)
def test_nan_in_a_memory_stays_in_its_row(cell: Cell, case: ModelCase) -> None:
    model.nan_stays(cell, case)


@encoder("MODEL-EMPTY", needs=("empty.batch", "empty.tokens"), cases=partial(encoders, sizes=NOTHING), effort=0.3)
def test_encoder_of_nothing(cell: Cell, case: ModelCase) -> None:
    cell.call(case)


@decoder("MODEL-EMPTY", needs=("empty.batch", "empty.tokens"), cases=partial(decoders, sizes=NOTHING), effort=0.3)
def test_decoder_of_nothing(cell: Cell, case: ModelCase) -> None:
    cell.call(case)


@decoder(
    "MODEL-EMPTY",
    needs=("memory", "empty.memory"),
    cases=partial(few_decoders, kind=("both",), S=(0,), memory_pads=("", "full")),
    effort=0.2,
)
def test_decoder_without_a_memory_to_read(cell: Cell, case: ModelCase) -> None:
    values.is_right(cell, case)


@encoder("MODEL-INPUTS-INTACT", cases=few_encoders, effort=0.3)
def test_encoder_writes_to_no_input(cell: Cell, case: ModelCase) -> None:
    inputs_intact(cell, case)
    model.mapping_intact(cell, case)


@decoder("MODEL-INPUTS-INTACT", cases=few_decoders, effort=0.3)
def test_decoder_writes_to_no_input(cell: Cell, case: ModelCase) -> None:
    inputs_intact(cell, case)
    model.mapping_intact(cell, case)


@encoder("MODEL-TAPS", cases=few_encoders, effort=0.2)
def test_traced_encoder_is_the_same(cell: Cell, case: ModelCase) -> None:
    model.shows_the_same(cell, case)


@decoder("MODEL-TAPS", cases=few_decoders, effort=0.2)
def test_traced_decoder_is_the_same(cell: Cell, case: ModelCase) -> None:
    model.shows_the_same(cell, case)


@encoder("MODEL-WEIGHTS")
def test_weights_that_do_not_fit_an_encoder_are_refused(cell: Cell) -> None:
    refused(cell, malformed_weights(cell, ENCODER))


@decoder("MODEL-WEIGHTS")
def test_weights_that_do_not_fit_a_decoder_are_refused(cell: Cell) -> None:
    refused(cell, malformed_weights(cell, DECODER))


@encoder("MODEL-REFUSES")
def test_malformed_encodings_are_refused(cell: Cell) -> None:
    refused(cell, malformed_encoders(cell))


@decoder("MODEL-REFUSES")
def test_malformed_logits_are_refused(cell: Cell) -> None:
    refused(cell, malformed_decoders(cell))


@encoder("MODEL-IDS")
def test_encoder_refuses_unknown_ids(cell: Cell) -> None:
    refused(cell, unknown_ids(cell, ENCODER))


@decoder("MODEL-IDS")
def test_decoder_refuses_unknown_ids(cell: Cell) -> None:
    refused(cell, unknown_ids(cell, DECODER))


@encoder("MODEL-ROOM")
def test_encoder_refuses_more_tokens_than_positions(cell: Cell) -> None:
    refused(cell, too_many_tokens(cell, ENCODER))


@decoder("MODEL-ROOM")
def test_decoder_refuses_more_tokens_than_positions(cell: Cell) -> None:
    refused(cell, too_many_tokens(cell, DECODER))


@encoder("MODEL-ERRORS")
def test_refused_encodings_name_the_error(cell: Cell) -> None:
    wrong = malformed_weights(cell, ENCODER)
    named(cell, [*wrong, *malformed_encoders(cell), *unknown_ids(cell, ENCODER), *too_many_tokens(cell, ENCODER)])
    mentioned(cell, malformed_weights(cell, ENCODER))


@decoder("MODEL-ERRORS")
def test_refused_logits_name_the_error(cell: Cell) -> None:
    wrong = malformed_weights(cell, DECODER)
    named(cell, [*wrong, *malformed_decoders(cell), *unknown_ids(cell, DECODER), *too_many_tokens(cell, DECODER)])
    mentioned(cell, malformed_weights(cell, DECODER))


@encoder("MODEL-UNSUPPORTED")
def test_unsupported_encoders_are_refused(cell: Cell) -> None:
    unsupported(cell, using)


@decoder("MODEL-UNSUPPORTED")
def test_unsupported_decoders_are_refused(cell: Cell) -> None:
    unsupported(cell, using)
