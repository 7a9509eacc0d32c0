"""What is said of the power of the suite: the record, the README, the command."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.mutants.matrix import Progress, Row, complete, idle, matrix, row, survivors
from gaugeblock.conformance.mutants.power import by_clause, by_component, dumps, merged, read
from gaugeblock.conformance.report import mutants as mutants_report
from gaugeblock.conformance.report.mutants import Request, report
from gaugeblock.conformance.report.mutants_markdown import insert, page, render
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.errors import ConfigError

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "power.json"
PAGE = ROOT / "docs" / "clauses.md"
MAKE = "python -m gaugeblock.conformance.report.mutants_markdown"
WHOLE = f"gaugeblock mutants --out whole.json; {MAKE} whole.json docs/clauses.md --clauses"
AGAIN = "gaugeblock mutants --first --only MUTANT --out docs/power.json --update"
TABLE = "python -m gaugeblock.conformance.report.mutants_markdown docs/power.json README.md"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return matrix(("ScaleMissing", "DeclaresMeanRows"), profile="quick", first=True)


def test_the_record_is_of_today_s_mutants() -> None:
    recorded = {found.mutant: found.killed_by for found in read(RECORD)[1]}
    now = {mutant.name: mutant.killed_by for mutant in mutants().values()}
    stale = [name for name in now | recorded if now.get(name) != recorded.get(name)]
    assert not stale, f"run `{AGAIN}` for {stale}, then `{TABLE}`"


def test_the_record_has_no_survivor_and_no_idle_clause() -> None:
    recorded = read(RECORD)[1]
    assert not survivors(recorded) and not idle(recorded)


def test_the_readme_shows_the_record() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert insert(readme, read(RECORD)[1]) == readme, f"run `{TABLE}`"


def test_the_first_kill_is_enough(rows: list[Row]) -> None:
    assert all(len(found.kills) == 1 and not found.missed for found in rows)
    assert [found.first.clause for found in rows if found.first] == ["ATTN-SCALE", "ATTN-EMPTY-ROW"]
    assert rows[0].first and rows[0].first.case.startswith("B=")


def test_a_clause_that_no_first_kill_credits_is_tried_on_those_that_name_it() -> None:
    rows = matrix(("normalization",), profile="quick", first=True)
    assert complete(rows) == {"normalization"} and not idle(rows)
    assert any(len(found.kills) > 1 for found in rows)


def test_clauses_are_counted(rows: list[Row]) -> None:
    whole = row(mutants()["ScaleMissing"], profile="quick")
    powers = {power.clause: power for power in by_clause([whole, rows[1]])}
    assert powers["ATTN-EMPTY-ROW"].alone == 1
    assert powers["ATTN-SCALE"].kills == 1 and powers["ATTN-SCALE"].alone == 0
    assert powers["ATTN-SCALE"].first == 1 and powers["ATTN-INPUTS-INTACT"].kills == 0


def test_components_are_counted(rows: list[Row]) -> None:
    lost = replace(rows[0], kills=())
    wrongly = next(m.name for m in mutants().values() if m.make.__module__.endswith("attention_declared"))
    assert [vars(power) for power in by_component([lost, rows[1], replace(rows[1], mutant=wrongly)])] == [
        {"component": "attention", "mutants": 2, "obvious": sum(bool(r.obvious) for r in rows), "suite": 1},
        {"component": "wrong declarations", "mutants": 1, "obvious": bool(rows[1].obvious), "suite": 1},
    ]


def test_a_record_is_read_as_it_was_written(rows: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "power.json"
    path.write_text(dumps(rows, "quick"), encoding="utf-8")
    assert read(path) == ("quick", rows)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a record"):
        read(path)


def test_an_update_loses_little_where_it_is_ended(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "power.json"
    path.write_text(dumps([replace(rows[0], seconds=99.0)], "quick"), encoding="utf-8")
    monkeypatch.setattr(mutants_report, "EVERY", 0.0)

    def ended(*_: object, progress: Progress, **__: object) -> list[Row]:
        progress(rows[1], 1, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(mutants_report, "matrix", ended)
    with pytest.raises(KeyboardInterrupt):
        report(Request(profile="quick", out=path, update=True), "json", Console())
    assert [(row.mutant, row.seconds) for row in read(path)[1]] == [
        ("ScaleMissing", 99.0),
        ("DeclaresMeanRows", rows[1].seconds),
    ]


def test_every_binding_clause_is_on_the_page_and_kills() -> None:
    text = PAGE.read_text(encoding="utf-8")
    powers = {row.split("]")[0][3:]: row.split("|")[2:4] for row in text.splitlines() if row.startswith("| [")}
    binding = {clause.id for clause in clauses().values() if clause.kind == "MUST" and not clause.unchecked}
    assert powers.keys() == binding and f"On each of {len(mutants())} mutants" in text, f"run `{WHOLE}`"
    assert all(int(kills) >= max(int(alone), 1) for kills, alone in powers.values())


def test_only_a_whole_matrix_says_what_clauses_kill(rows: list[Row]) -> None:
    with pytest.raises(ValueError, match="without --first"):
        page(rows, "quick")
    whole = row(mutants()["ScaleMissing"], profile="quick")
    text = page([whole], "quick")
    assert "| [ATTN-SCALE](../spec/clauses/attention.md#attn-scale) | 1 | 0 | 1 | 1 |" in text
    assert "Not yet tried whole: attention, " in text, "of which this is one mutant"


def test_a_seed_draws_others_and_is_no_record(tmp_path: Path) -> None:
    usual, other = (matrix(("ScaleMissing",), profile="quick", seed=seed)[0] for seed in (None, 5))
    assert {kill.case for kill in usual.kills} != {kill.case for kill in other.kills} and not other.missed
    with pytest.raises(ConfigError, match="a record is of the usual examples, not of seed 5"):
        report(Request(seed=5, out=tmp_path / "power.json"), "json", Console())


def test_an_update_keeps_the_others(rows: list[Row]) -> None:
    gone = replace(rows[0], mutant="Gone")
    newer = replace(rows[1], seconds=99.0)
    assert merged([*rows, gone], [newer]) == [rows[0], newer]


def test_markdown_names_fault_clauses_and_input(rows: list[Row]) -> None:
    text = render([rows[0], replace(rows[1], kills=())], ["ATTN-SCALE"])
    assert rows[0].fault in text and "[ATTN-SCALE](spec/clauses/attention.md#attn-scale)" in text
    assert rows[0].kills[0].case in text and "## Survivors" in text and "## Clauses that kill nothing" in text


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_a_record_is_shown(rows: list[Row], tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "power.json"
    path.write_text(dumps(rows, "quick"), encoding="utf-8")
    assert report(Request(shown=path), form, Console(width=200)) == 0
    assert "ATTN-SCALE" in capsys.readouterr().out


def test_a_survivor_fails_the_run(rows: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "power.json"
    path.write_text(dumps([replace(rows[0], kills=())], "quick"), encoding="utf-8")
    assert report(Request(shown=path), "json", Console(width=200)) == 1
    with pytest.raises(ConfigError, match="format"):
        report(Request(shown=path), "yaml", Console())
