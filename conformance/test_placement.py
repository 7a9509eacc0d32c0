"""The checks of where arrays lie and of what is read on the way, by dry runs: no device is needed."""

from functools import partial

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import placement as laws
from gaugeblock.conformance.strategies import decoding
from gaugeblock.conformance.strategies.decoding import MIXED, SPLITS, SWITCHES, DecodeCase
from gaugeblock.conformance.strategies.model import ModelCase, cases

dry = partial(checks, component="model", capability="placement")
step = partial(dry, offer="decoder", case_type=DecodeCase)
whole = partial(dry, case_type=ModelCase)

OTHER = tuple(switch for switch in SWITCHES if switch.get("kind") != "both")
LONG = ("s6,s1,s1,s1", "s3,s5,s2", "s1,s1,s7,s1")  # longer than a table that somebody made for a few tokens


@step("MODEL-DRY", needs=("step",), cases=partial(decoding.cases, ops=("s3,s1", "s1,s2,s1"), pads=("",)), effort=0.3)
def test_dry_steps_have_no_values(cell: Cell, case: DecodeCase) -> None:
    laws.has_no_values(cell, case)


@step(
    "MODEL-PLACEMENT",
    needs=("step",),
    cases=partial(decoding.cases, ops=SPLITS, pads=("",), switches=OTHER),
    effort=0.6,
)
def test_steps_stay_on_the_device(cell: Cell, case: DecodeCase) -> None:
    laws.stays_while_it_decodes(cell, case)


@step("MODEL-PLACEMENT", needs=("step",), cases=partial(decoding.cases, ops=LONG, pads=("",)), effort=0.4)
def test_long_sequences_stay_on_the_device(cell: Cell, case: DecodeCase) -> None:
    laws.stays_while_it_decodes(cell, case)


@step(
    "MODEL-PLACEMENT",
    needs=("step.padding",),
    cases=partial(decoding.cases, pads=("left", "right", "ragged")),
    effort=0.4,
)
def test_padded_steps_stay_on_the_device(cell: Cell, case: DecodeCase) -> None:
    laws.stays_while_it_decodes(cell, case)


@step(
    "MODEL-PLACEMENT",
    needs=("step", "reorder", "truncate", "fork"),
    cases=partial(decoding.cases, ops=MIXED, pads=("",)),
    effort=0.3,
)
def test_caches_stay_on_the_device(cell: Cell, case: DecodeCase) -> None:
    laws.stays_while_it_decodes(cell, case)


@whole("MODEL-PLACEMENT", offer="decoder", cases=partial(cases, kind=("decoder", "both")), effort=0.4)
def test_logits_stay_on_the_device(cell: Cell, case: ModelCase) -> None:
    laws.stays(cell, case)


@whole("MODEL-PLACEMENT", offer="encoder", cases=partial(cases, kind=("encoder", "both"), encode=(True,)), effort=0.4)
def test_encoding_stays_on_the_device(cell: Cell, case: ModelCase) -> None:
    laws.stays(cell, case)
