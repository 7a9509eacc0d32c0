"""What is said of the generic mutants: the record, and that it is of today's files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gaugeblock.conformance.mutants.generic import FILES, Found
from gaugeblock.conformance.mutants.tally import Tally, digest, read, table, tally, write
from gaugeblock.conformance.report.generic import Request, report
from gaugeblock.spec.errors import ConfigError

RECORD = Path(__file__).parents[1] / "docs" / "mutation.json"
AGAIN = "gaugeblock mutate {} --record docs/mutation.json"
ENOUGH = 0.95


def test_the_record_is_of_today_s_files() -> None:
    recorded = {one.file: one.digest for one in read(RECORD)}
    stale = [file for file in FILES if recorded.get(file) != digest(file)]
    assert not stale, f"run `{AGAIN.format(' '.join(stale))}`"


def test_enough_is_killed_in_every_file() -> None:
    assert all(one.share >= ENOUGH for one in read(RECORD)), table(read(RECORD))


def found(fate: str, after: str = "y") -> Found:
    return Found("backends/numpy/arrays.py", 7, "branch", "x", after, fate, "", 0.5)


def test_fates_are_counted() -> None:
    one = tally("arrays", 3, [*map(found, ("killed", "timeout", "noted", "equivalent")), found("survives", "z")], 2.0)
    assert (one.tried, one.killed, one.noted, one.equivalent) == (5, 2, 1, 1)
    assert one.open == [{"line": 7, "before": "x", "after": "z"}] and one.share == 2 / 3


def test_a_record_keeps_what_it_says_of_other_files(tmp_path: Path) -> None:
    path = tmp_path / "mutation.json"
    old = [tally(file, 0, [found("killed")], 1.0) for file in ("decoder", "arrays")]
    write(path, "quick", old)
    newer = replace(old[0], killed=9)
    write(path, "quick", [newer])
    assert read(path) == [old[1], newer] and json.loads(path.read_text())["profile"] == "quick"
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a record"):
        write(path, "quick", old)


def test_a_table_ends_with_the_sum() -> None:
    one = Tally("arrays", "", 11, 10, 0, 7, 1, 1, [{}], 5.4)
    assert table([one, one]).splitlines()[2:] == [
        *["| arrays | 11 | 10 | 7 | 1 | 1 | 1 | 87.5 % | 5 |"] * 2,
        "| all | 22 | 20 | 14 | 2 | 2 | 2 | 87.5 % | 11 |",
    ]


def test_the_command_writes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, record = tmp_path / "found.jsonl", tmp_path / "mutation.json"
    asked = Request(["positions"], sample=2, seed=5, profile="quick", jobs=1, out=out, record=record)
    status = report(asked, Console(width=200))
    (one,) = read(record)
    assert one.tried == 2 and one.seed == 5 and status == bool(one.open)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2 and "| positions |" in capsys.readouterr().out
