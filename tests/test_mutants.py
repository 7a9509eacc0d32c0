"""The checks catch the faults that they are there for."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gaugeblock.conformance.checks import registry
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.mutants import Mutant, mutants
from gaugeblock.conformance.mutants.exempt import NOT_EXPRESSIBLE
from gaugeblock.conformance.mutants.matrix import Row, idle, killed_by, matrix, row, selected, survivors
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    """Examples and references are the same for all mutants."""
    with remembering():
        yield


CATALOGUE = {f"M{number:02}" for number in range(1, 27)}  # the known-bad variants that concern attention


@pytest.mark.parametrize("mutant", mutants().values(), ids=list(mutants()))
def test_the_first_clause_kills(mutant: Mutant) -> None:
    assert killed_by(mutant, mutant.killed_by[0]), f"{mutant.killed_by[0]} must catch: {mutant.fault}"


def test_every_known_bad_variant_is_accounted_for() -> None:
    present = {mutant.catalogue for mutant in mutants().values()}
    assert present | set(NOT_EXPRESSIBLE) >= CATALOGUE
    assert not present & set(NOT_EXPRESSIBLE)


def test_every_binding_clause_kills() -> None:
    checked = {clause for check in registry().values() for clause in check.clauses}
    binding = {clause.id for clause in clauses().values() if clause.kind == "MUST"}
    killing = {clause for mutant in mutants().values() for clause in mutant.killed_by}
    assert binding & checked <= killing


def test_the_registry_is_well_formed() -> None:
    for mutant in mutants().values():
        assert set(mutant.killed_by) <= set(clauses()), mutant.name
        assert set(mutant.dtypes) <= set(FORMATS), mutant.name
        assert all(report.count("/") == 1 and report.partition("#")[2].isdigit() for report in mutant.reports)
        assert mutant.fault.endswith("."), f"{mutant.name}: the first line of the docstring is the fault"


def test_a_row_says_what_killed() -> None:
    found = row(mutants()["ScaleMissing"], profile="quick")
    assert not found.missed and "ATTN-SCALE" in found.clauses and found.margin and found.margin > 1
    assert Row.from_json(json.loads(json.dumps(found.as_json(), allow_nan=False))) == found


def test_rows_come_in_order_and_are_counted() -> None:
    seen: list[tuple[int, int]] = []
    words = ("DeclaresMeanRows", "M02")
    rows = matrix(words, profile="quick", progress=lambda _, done, total: seen.append((done, total)))
    assert [found.mutant for found in rows] == ["ScaleMissing", "DeclaresMeanRows"]
    assert seen == [(1, 2), (2, 2)] and not survivors(rows)
    assert "ATTN-INPUTS-INTACT" in idle(rows) and "ATTN-SCALE" not in idle(rows)


def test_workers_give_the_same_rows() -> None:
    alone, shared = (matrix(("M01", "M02"), profile="quick", jobs=jobs) for jobs in (1, 2))
    assert [found.kills for found in alone] == [found.kills for found in shared]


def test_words_select() -> None:
    assert len(selected(())) == len(mutants())
    assert {mutant.component for mutant in selected(("attention",))} == {"attention"}
    assert "HeadsTiled" in {mutant.name for mutant in selected(("attn-heads",))}
    with pytest.raises(ConfigError, match="Nothing"):
        selected(("Nothing",))


@pytest.mark.parametrize("room", ["mutants", "unusual"])
def test_importing_the_room_loads_no_backend(room: str) -> None:
    code = f"import sys, gaugeblock.conformance.{room}; print('gaugeblock.backends' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
