"""What the suite says of its own speed."""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from gaugeblock.conformance import cli, speed
from gaugeblock.conformance.cell import Cell
from gaugeblock.spec.reference import formulas

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no interval timers")


def test_a_stack_belongs_to_its_innermost_part() -> None:
    found: list[str] = []

    def look() -> None:
        found.append(speed.at_work(sys._getframe()))

    Cell.guarded(None, None, look)  # type: ignore[arg-type]
    inside = compile("look()", formulas.__file__, "exec")
    exec(inside, {"look": look})
    exec(compile("look()", "/x/hypothesis/core.py", "exec"), {"look": look})
    look()
    assert found == ["backend", "reference", "hypothesis", "suite"]


def test_shares_are_of_what_was_seen() -> None:
    pace = speed.Pace("numpy", "cache", 2, 10, 0.5, Counter(backend=3, suite=1))
    assert [pace.share(part) for part in speed.PARTS] == [0.75, 0.0, 0.0, 0.25]
    assert speed.Pace("numpy", "cache").share("suite") == 0.0
    assert [str(column.header) for column in speed.table([pace]).columns][5] == "examples/s"


def test_a_component_is_measured() -> None:
    (pace,) = speed.paces("numpy", "quick", ["cache"])
    assert pace.cells > 50 and pace.examples > pace.cells and pace.seconds > 0.1
    assert sum(pace.seen.values()) >= 0.1 * pace.seconds / speed.EVERY
    assert pace.share("backend") > 0


def test_the_command_refuses_what_it_cannot_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, told in (
        (["--profile", "slow"], "profile must be one of"),
        (["--out", str(tmp_path)], "out: must be a file"),
        (["--only", "nump"], "bench: nump cannot be measured: .*there is no backend 'nump'"),
    ):
        monkeypatch.setattr(sys, "argv", ["gaugeblock", "bench", "--suite", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 2
        message = capsys.readouterr().err
        assert re.search(told, message), message


def test_what_was_measured_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = speed.Pace("numpy", "cache", 1, 2, 3.0, Counter(suite=4))
    monkeypatch.setattr(speed, "_apart", lambda word, profile, tick: [told])
    path = tmp_path / "pace.json"
    assert speed.report(["numpy"], "quick", path, speed.Console(quiet=True)) == 0
    assert json.loads(path.read_text())[0]["seen"] == {"suite": 4}
