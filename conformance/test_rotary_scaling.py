"""The checks of rotary frequencies that are scaled to longer contexts."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.rotary import norms_kept
from gaugeblock.conformance.strategies.rotary import BASE, BASES, PARTIAL, SLIM, RotaryCase, cases

Case: TypeAlias = RotaryCase

rope = partial(checks, component="positions", offer="rotary", case_type=RotaryCase)


@rope(
    "ROPE-LINEAR",
    needs=("scaling", "scaling.linear"),
    cases=partial(cases, scaling=("linear4", "linear2.5")),
    effort=0.7,
)
def test_linear_scaling(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-NTK",
    needs=("scaling", "scaling.ntk"),
    cases=partial(cases, scaling=("ntk2", "ntk7.5"), base=BASES[:3]),
    effort=1.5,
)
def test_ntk_scaling(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope("ROPE-NTK", needs=("scaling", "scaling.ntk"), cases=partial(cases, sizes=SLIM, scaling=("ntk2",)), effort=0.2)
def test_ntk_scaling_of_one_pair(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-YARN",
    needs=("scaling", "scaling.yarn"),
    cases=partial(
        cases,
        scaling=("yarn-long", "yarn4", "yarn8", "yarn1", "yarn-short", "yarn-wide", "yarn-step"),
        base=BASES[:3],
    ),
    effort=3,
)
def test_yarn_scaling(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-YARN",
    needs=("scaling", "scaling.yarn"),
    cases=partial(cases, scaling=("yarn-wide", "yarn-step", "yarn-short"), base=(100.0, BASES[0])),
)
def test_yarn_ramp_beyond_its_ends(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-YARN",
    needs=("scaling", "scaling.yarn", "scaling.yarn.untruncated"),
    cases=partial(cases, scaling=("yarn-untruncated",), base=BASES[:2]),
)
def test_yarn_ramp_between_pairs(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-YARN-MAGNITUDE",
    needs=("scaling", "scaling.yarn"),
    cases=partial(
        cases,
        x=("normal",),
        scaling=("yarn4", "yarn8", "yarn-long", "yarn1", "yarn1.5", "yarn0.5", "yarn-factor", "yarn-factor1"),
    ),
    effort=1.3,
)
def test_yarn_lengthens_every_pair(cell: Cell, case: Case) -> None:
    norms_kept(cell, case)


@rope(
    "ROPE-YARN-MAGNITUDE",
    needs=("scaling", "scaling.yarn", "scaling.yarn.attention_factor"),
    cases=partial(cases, scaling=("yarn-factor", "yarn-factor1")),
    effort=0.7,
)
def test_yarn_attention_factor(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-LLAMA3",
    needs=("scaling", "scaling.llama3"),
    cases=partial(cases, scaling=("llama3-64", "llama3"), base=(1000.0, 500000.0, BASE)),
    effort=1.5,
)
def test_llama3_scaling(cell: Cell, case: Case) -> None:
    cell.judge(case)


@rope(
    "ROPE-PARTIAL",
    needs=("rotary_dim", "scaling", "rotary_dim+scaling"),
    cases=partial(cases, sizes=PARTIAL, scaling=("yarn4", "linear4", "ntk2", "llama3-64")),
)
def test_scaling_counts_the_rotated_components(cell: Cell, case: Case) -> None:
    cell.judge(case)
