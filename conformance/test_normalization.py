"""The checks of LayerNorm and RMSNorm: exact laws first, then laws with a bound, then values against the reference."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.normalization import independent_rows, moments, nan_propagates, scaled, shifted
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.normalization import malformed, using
from gaugeblock.conformance.strategies.normalization import (
    ANY_X,
    EPS,
    FEW,
    MIDDLE,
    NARROW,
    NO_ROWS,
    SEVERAL,
    WIDTHS,
    LayerNormCase,
    RMSNormCase,
    layer_norm_cases,
    rms_norm_cases,
)

LN: TypeAlias = LayerNormCase
RMS: TypeAlias = RMSNormCase

ln = partial(checks, component="normalization", offer="layer_norm", case_type=LayerNormCase)
rms = partial(checks, component="normalization", offer="rms_norm", case_type=RMSNormCase)
ln_cases, rms_cases = layer_norm_cases, rms_norm_cases

NONE: tuple[str, ...] = ("",)
ZERO = (0.0,)
FAR = ("mean-100", "mean-1000", "mean-10000")
LARGE = ("large", "all-large", "small", "outlier")


@ln("LN-ROWS", cases=partial(ln_cases, sizes=SEVERAL, x=("normal", "scaled", "mean-100", "large")))
def test_layer_norm_of_other_rows(cell: Cell, case: LN) -> None:
    independent_rows(cell, case)


@rms("RMS-ROWS", cases=partial(rms_cases, sizes=SEVERAL, x=("normal", "scaled", "mean-100", "large")))
def test_rms_norm_of_other_rows(cell: Cell, case: RMS) -> None:
    independent_rows(cell, case)


@ln("LN-ZERO-ROW", cases=partial(ln_cases, x=("zero", "some-zero")))
def test_layer_norm_of_zeros(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-ZERO-ROW", cases=partial(rms_cases, x=("zero", "some-zero")))
def test_rms_norm_of_zeros(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-ZERO-ROW", needs=("eps.zero",), cases=partial(ln_cases, x=("zero", "some-zero"), eps=ZERO))
def test_layer_norm_of_zeros_without_eps(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-ZERO-ROW", needs=("eps.zero",), cases=partial(rms_cases, x=("zero", "some-zero"), eps=ZERO))
def test_rms_norm_of_zeros_without_eps(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-SHIFT", cases=partial(ln_cases, sizes=MIDDLE, x=("integers",)))
def test_layer_norm_of_shifted_rows(cell: Cell, case: LN) -> None:
    shifted(cell, case)


@ln("LN-SCALE", cases=partial(ln_cases, sizes=MIDDLE, x=("normal", "integers", "root-eps", "outlier")))
def test_layer_norm_of_scaled_rows(cell: Cell, case: LN) -> None:
    scaled(cell, case, eps_too=True)


@rms("RMS-SCALE", cases=partial(rms_cases, sizes=MIDDLE, x=("normal", "integers", "root-eps", "outlier")))
def test_rms_norm_of_scaled_rows(cell: Cell, case: RMS) -> None:
    scaled(cell, case, eps_too=True)


@ln("LN-SCALE", needs=("eps.zero",), cases=partial(ln_cases, sizes=MIDDLE, x=("normal", "outlier"), eps=ZERO))
def test_layer_norm_of_scaled_rows_without_eps(cell: Cell, case: LN) -> None:
    scaled(cell, case, eps_too=False)


@rms("RMS-SCALE", needs=("eps.zero",), cases=partial(rms_cases, sizes=MIDDLE, x=("normal", "outlier"), eps=ZERO))
def test_rms_norm_of_scaled_rows_without_eps(cell: Cell, case: RMS) -> None:
    scaled(cell, case, eps_too=False)


@ln(
    "LN-MOMENTS",
    needs=("weightless", "biasless"),
    cases=partial(ln_cases, sizes=FEW, x=("normal", "scaled", "heavy", "deviation-root-eps"), weight=NONE, bias=NONE),
)
def test_layer_norm_moments(cell: Cell, case: LN) -> None:
    moments(cell, case)


@rms(
    "RMS-MOMENT",
    needs=("weightless",),
    cases=partial(rms_cases, sizes=FEW, x=("normal", "scaled", "heavy", "root-eps"), weight=NONE),
)
def test_rms_norm_moment(cell: Cell, case: RMS) -> None:
    moments(cell, case)


@ln("LN-FORMULA", "LN-SHAPES", cases=partial(ln_cases, x=ANY_X), effort=2)
def test_layer_norm_formula(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-FORMULA", "RMS-SHAPES", cases=partial(rms_cases, x=ANY_X), effort=2)
def test_rms_norm_formula(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-EPS-INSIDE", cases=partial(ln_cases, x=("deviation-root-eps", "small", "spike", "outlier"), eps=EPS), effort=2)
def test_layer_norm_eps(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-EPS-INSIDE", cases=partial(rms_cases, x=("root-eps", "small", "spike", "outlier"), eps=EPS), effort=2)
def test_rms_norm_eps(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-POPULATION", cases=partial(ln_cases, sizes=NARROW, x=("normal", "integers", "spike")))
def test_layer_norm_variance(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-NOT-CENTRED", cases=partial(rms_cases, x=("constant", "mean-100", "all-large")))
def test_rms_norm_of_rows_with_a_mean(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-LARGE-MEAN", cases=partial(ln_cases, sizes=MIDDLE, x=FAR), effort=2)
def test_layer_norm_of_rows_with_a_large_mean(cell: Cell, case: LN) -> None:
    cell.judge(case)


@ln("LN-LARGE", cases=partial(ln_cases, x=LARGE))
def test_layer_norm_of_large_and_small_rows(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-LARGE", cases=partial(rms_cases, x=LARGE))
def test_rms_norm_of_large_and_small_rows(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-WIDTHS", cases=partial(ln_cases, sizes=WIDTHS, x=("normal", "spike", "constant", "integers")))
def test_layer_norm_widths(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-WIDTHS", cases=partial(rms_cases, sizes=WIDTHS, x=("normal", "spike", "constant", "integers")))
def test_rms_norm_widths(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-AFFINE", cases=partial(ln_cases, x=("normal", "zero"), weight=("index", "scaled", "zero"), bias=("normal",)))
def test_layer_norm_weight_and_bias(cell: Cell, case: LN) -> None:
    cell.judge(case)


@ln("LN-AFFINE", needs=("weightless",), cases=partial(ln_cases, sizes=FEW, weight=NONE, bias=("normal", "index")))
def test_layer_norm_without_weight(cell: Cell, case: LN) -> None:
    cell.judge(case)


@ln("LN-AFFINE", needs=("biasless",), cases=partial(ln_cases, sizes=FEW, weight=("normal", "index"), bias=NONE))
def test_layer_norm_without_bias(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-WEIGHT", cases=partial(rms_cases, x=("normal", "zero"), weight=("zero", "index", "normal", "scaled")))
def test_rms_norm_weight(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@rms("RMS-WEIGHT", needs=("weightless",), cases=partial(rms_cases, sizes=FEW, weight=NONE))
def test_rms_norm_without_weight(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-DTYPE", "LN-SHAPES", cases=partial(ln_cases, x=("normal",)), effort=0.5)
def test_layer_norm_shape_and_dtype(cell: Cell, case: LN) -> None:
    cell.call(case)


@rms("RMS-DTYPE", "RMS-SHAPES", cases=partial(rms_cases, x=("normal",)), effort=0.5)
def test_rms_norm_shape_and_dtype(cell: Cell, case: RMS) -> None:
    cell.call(case)


@ln("LN-STRIDES", cases=partial(ln_cases, layout=("strided", "transposed", "repeated")))
def test_layer_norm_of_views(cell: Cell, case: LN) -> None:
    cell.judge(case)


@rms("RMS-STRIDES", cases=partial(rms_cases, layout=("strided", "transposed", "repeated")))
def test_rms_norm_of_views(cell: Cell, case: RMS) -> None:
    cell.judge(case)


@ln("LN-INPUTS-INTACT", cases=partial(ln_cases, x=("normal", "mean-100")))
def test_layer_norm_never_writes_inputs(cell: Cell, case: LN) -> None:
    inputs_intact(cell, case)


@rms("RMS-INPUTS-INTACT", cases=partial(rms_cases, x=("normal", "mean-100")))
def test_rms_norm_never_writes_inputs(cell: Cell, case: RMS) -> None:
    inputs_intact(cell, case)


@ln("LN-NONFINITE", cases=partial(ln_cases, x=("normal",)))
def test_layer_norm_of_nan(cell: Cell, case: LN) -> None:
    nan_propagates(cell, case)


@rms("RMS-NONFINITE", cases=partial(rms_cases, x=("normal",)))
def test_rms_norm_of_nan(cell: Cell, case: RMS) -> None:
    nan_propagates(cell, case)


@ln("LN-EMPTY", needs=("empty.rows",), cases=partial(ln_cases, sizes=NO_ROWS, x=("normal",)), effort=0.2)
def test_layer_norm_of_no_rows(cell: Cell, case: LN) -> None:
    cell.call(case)


@rms("RMS-EMPTY", needs=("empty.rows",), cases=partial(rms_cases, sizes=NO_ROWS, x=("normal",)), effort=0.2)
def test_rms_norm_of_no_rows(cell: Cell, case: RMS) -> None:
    cell.call(case)


@ln("LN-REFUSES")
def test_layer_norm_refuses_malformed_calls(cell: Cell) -> None:
    refused(cell, malformed(cell))


@rms("RMS-REFUSES")
def test_rms_norm_refuses_malformed_calls(cell: Cell) -> None:
    refused(cell, malformed(cell))


@ln("LN-ERRORS")
def test_layer_norm_names_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))


@rms("RMS-ERRORS")
def test_rms_norm_names_the_error(cell: Cell) -> None:
    named(cell, malformed(cell))


@ln("LN-UNSUPPORTED")
def test_layer_norm_unsupported_options(cell: Cell) -> None:
    unsupported(cell, using)


@rms("RMS-UNSUPPORTED")
def test_rms_norm_unsupported_options(cell: Cell) -> None:
    unsupported(cell, using)
