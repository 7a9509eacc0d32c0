"""The checks of sinusoidal and learned positions: exact laws first, then laws with a bound, then values."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.positions import (
    linear_shift,
    nan_in_a_row,
    neighbours,
    offset_only,
    outside,
    recovered_frequencies,
    stateless,
    unit_norm,
)
from gaugeblock.conformance.recipes.positions import FAR_POSITIONS
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.positions import (
    learned,
    learned_range,
    odd_widths,
    sinusoidal,
    sinusoidal_range,
    using_learned,
    using_sinusoidal,
)
from gaugeblock.conformance.strategies.positions import (
    BASES,
    NEAR,
    POOL,
    TABLES_POOL,
    LookupCase,
    SinusoidalCase,
    Tables,
    Widths,
    cases,
    lookups,
)

Case: TypeAlias = SinusoidalCase
Lookup: TypeAlias = LookupCase

WIDE = [d for d in POOL if d.M > 2]
LONG = [d for d in POOL if d.T > 1]
BATCHED = [d for d in POOL if d.B > 1]
NO_POSITIONS = [Widths(1, 0, 4)]
TALL = [d for d in TABLES_POOL if d.N > 1]
TABLES_BATCHED = [d for d in TABLES_POOL if d.B > 1]
NO_LOOKUPS = [Tables(1, 0, 3, 4)]

pe = partial(checks, component="positions", offer="sinusoidal", case_type=SinusoidalCase)
lookup = partial(checks, component="positions", offer="learned_positions", case_type=LookupCase)


@pe("PE-FORMULA", "POS-SHAPES", cases=cases, effort=2)
def test_sinusoidal_formula(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("POS-DTYPE", "POS-SHAPES", cases=partial(cases, positions=("first", "edges"), rows=(False, True)), effort=0.5)
def test_sinusoidal_shape_and_dtype(cell: Cell, case: Case) -> None:
    cell.call(case)


@pe("PE-ORDER", cases=partial(cases, sizes=WIDE, positions=("first", "one")), effort=0.5)
def test_order_of_sines_and_cosines(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("PE-FREQUENCIES", cases=partial(cases, sizes=WIDE, positions=("one",)))
def test_frequencies_recovered(cell: Cell, case: Case) -> None:
    recovered_frequencies(cell, case)


@pe("PE-BASE", needs=("base",), cases=partial(cases, sizes=WIDE, positions=("one", *NEAR), base=BASES[:0:-1]))
def test_given_base(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("PE-UNIT-NORM", cases=partial(cases, base=BASES))
def test_pairs_lie_on_the_unit_circle(cell: Cell, case: Case) -> None:
    unit_norm(cell, case)


@pe("PE-SHIFT", cases=partial(cases, base=BASES))
def test_shift_is_a_rotation(cell: Cell, case: Case) -> None:
    linear_shift(cell, case)


@pe("PE-OFFSET", cases=partial(cases, sizes=LONG, base=BASES))
def test_products_depend_on_the_offset(cell: Cell, case: Case) -> None:
    offset_only(cell, case)


@pe("PE-FAR", needs=("positions.far",), cases=partial(cases, positions=FAR_POSITIONS, base=BASES))
def test_far_positions(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("POS-ROWS", needs=("positions.rows",), cases=partial(cases, sizes=BATCHED, rows=(True,)))
def test_sinusoidal_rows_have_their_own_positions(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("POS-ANY-ORDER", cases=partial(cases, sizes=LONG, positions=("shuffled", "gaps", "rows")))
def test_sinusoidal_positions_in_any_order(cell: Cell, case: Case) -> None:
    cell.judge(case)


@pe("POS-EMPTY", "POS-SHAPES", needs=("empty.positions",), cases=partial(cases, sizes=NO_POSITIONS), effort=0.1)
def test_no_sinusoidal_positions(cell: Cell, case: Case) -> None:
    cell.call(case)


@pe("POS-STATELESS", cases=partial(cases, positions=("first", "gaps")), effort=0.2)
def test_sinusoidal_keeps_no_state(cell: Cell, case: Case) -> None:
    stateless(cell, case, neighbours(case))


@pe("POS-INPUTS-INTACT", cases=partial(cases, positions=("edges",), rows=(False, True)), effort=0.3)
def test_sinusoidal_writes_to_no_input(cell: Cell, case: Case) -> None:
    inputs_intact(cell, case)


@pe("PE-EVEN")
def test_odd_widths_are_refused(cell: Cell) -> None:
    refused(cell, odd_widths(cell))


@pe("POS-RANGE")
def test_sinusoidal_positions_out_of_range(cell: Cell) -> None:
    refused(cell, sinusoidal_range(cell))


@pe("POS-ERRORS")
def test_sinusoidal_refusals_name_the_error(cell: Cell) -> None:
    for calls in (sinusoidal, odd_widths, sinusoidal_range):
        named(cell, calls(cell))


@pe("POS-UNSUPPORTED")
def test_unsupported_sinusoidal_options_are_refused(cell: Cell) -> None:
    unsupported(cell, using_sinusoidal)


@lookup("POS-LOOKUP", "POS-SHAPES", cases=lookups, effort=2)
def test_lookup(cell: Cell, case: Lookup) -> None:
    cell.judge(case)


@lookup("POS-DTYPE", "POS-SHAPES", cases=partial(lookups, rows=(False, True)), effort=0.5)
def test_lookup_shape_and_dtype(cell: Cell, case: Lookup) -> None:
    cell.call(case)


@lookup("POS-LOOKUP-RANGE", cases=partial(lookups, sizes=TALL))
def test_lookup_outside_the_table(cell: Cell, case: Lookup) -> None:
    outside(cell, case)


@lookup("POS-ROWS", needs=("positions.rows",), cases=partial(lookups, sizes=TABLES_BATCHED, rows=(True,)))
def test_lookup_rows_have_their_own_positions(cell: Cell, case: Lookup) -> None:
    cell.judge(case)


@lookup("POS-ANY-ORDER", cases=partial(lookups, sizes=TALL, positions=("shuffled", "backwards", "ends", "same")))
def test_lookups_in_any_order(cell: Cell, case: Lookup) -> None:
    cell.judge(case)


@lookup("POS-STRIDES", cases=partial(lookups, sizes=TALL, layout=("strided",)))
def test_lookups_in_views(cell: Cell, case: Lookup) -> None:
    cell.judge(case)


@lookup("POS-NONFINITE", cases=lookups)
def test_nan_in_the_table(cell: Cell, case: Lookup) -> None:
    nan_in_a_row(cell, case)


@lookup("POS-EMPTY", "POS-SHAPES", needs=("empty.positions",), cases=partial(lookups, sizes=NO_LOOKUPS), effort=0.1)
def test_no_lookups(cell: Cell, case: Lookup) -> None:
    cell.call(case)


@lookup("POS-INPUTS-INTACT", cases=partial(lookups, rows=(False, True)), effort=0.3)
def test_lookup_writes_to_no_input(cell: Cell, case: Lookup) -> None:
    inputs_intact(cell, case)


@lookup("POS-ERRORS")
def test_lookup_refusals_name_the_error(cell: Cell) -> None:
    for calls in (learned, learned_range):
        named(cell, calls(cell))


@lookup("POS-UNSUPPORTED")
def test_unsupported_lookup_options_are_refused(cell: Cell) -> None:
    unsupported(cell, using_learned)
