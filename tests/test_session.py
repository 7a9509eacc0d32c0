"""The processes in which backends are checked: what they cost one another, and what their records say."""

import json
import re
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from commanding import BACKENDS, QUICK, Gauge, cells, outcomes
from rich.console import Console

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import children, records, session
from gaugeblock.conformance.checks import Record
from gaugeblock.spec.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]


def test_several_backends_in_one_run(gauge: Gauge, tmp_path: Path) -> None:
    asked = ("check", "mine.py:Right", "mine.py:Second", "torch@cuda", "mine.py:Right", *QUICK, "--only", "counting")
    said = gauge(*asked, "--out", "run.jsonl")
    pytest.importorskip("torch")
    assert re.search(r"^right: 1 pass; .+\nsecond: 1 pass; ", said.out, flags=re.MULTILINE)
    found = {cell["backend"]: cell["outcome"] for cell in cells(tmp_path / "run.jsonl")}
    if found.pop("torch@cuda") == "not-available":
        assert "\ntorch@cuda: not-available: no CUDA device\n" in said.out
        assert said.status == 3
    assert found == {"right": "pass", "second": "pass"}


def test_a_process_that_dies_costs_its_own_cells(gauge: Gauge, tmp_path: Path) -> None:
    # more of them than pytest-xdist would restart workers of its own accord
    only = [
        word
        for name in ("ATTN-WINDOW", "ATTN-INTERSECT", "row_emptied_by_window", "counting")
        for word in ("--only", name)
    ]
    said = gauge("check", "mine.py:Dies", *QUICK, *only, "--out", "run.jsonl")
    found = outcomes(tmp_path / "run.jsonl")
    assert said.status == 1
    assert (found["counting"], found["window"], found["row_emptied_by_window"]) == ("pass", "error", "error")
    assert set(found.values()) == {"pass", "error"}
    assert list(found.values()).count("error") > 5
    assert "error           the process died during this check" in said.out
    assert "reproduce       gaugeblock check mine.py:Dies --dtype float32 --only row_emptied_by_window" in said.out


def test_a_process_that_dies_in_one_case_is_an_error(gauge: Gauge) -> None:
    said = gauge("check", "mine.py:Dies", "--case", "window S=5 T=5 window=(1,1)")
    assert said.status == 1
    assert "ERROR  ATTN-WINDOW   dies  float32" in said.out


def test_a_backend_that_hangs_costs_its_own_cell(gauge: Gauge, tmp_path: Path) -> None:
    began = time.monotonic()
    only = ("--only", "bias_is_added_after_scaling", "--only", "counting")
    said = gauge("check", "mine.py:Hangs", *QUICK, *only, "--timeout", "5", "--out", "run.jsonl")
    assert said.status == 1
    assert outcomes(tmp_path / "run.jsonl") == {"bias_is_added_after_scaling": "error", "counting": "pass"}
    assert "error           no result within 5 s" in said.out
    assert time.monotonic() - began < 60


def test_the_user_s_own_settings_stay_outside(gauge: Gauge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only --no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    for name in ("pytest.ini", "tox.ini"):
        (tmp_path / name).write_text(
            "[pytest]\naddopts = --no-such-option\npython_functions = never\n", encoding="utf-8"
        )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["-k", "nothing"]\n', encoding="utf-8"
    )
    for name in ("conftest.py", "test_theirs.py"):
        (tmp_path / name).write_text("raise SystemExit('read the user\\'s own file')\n", encoding="utf-8")
    for name in ("spec", "backends", "conformance"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    said = gauge("check", "mine.py:Right", *QUICK, "--only", "counting")
    assert (said.status, "right: 1 pass" in said.out) == (0, True), said


def test_a_refusal_does_not_wait_for_the_backends_before(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[children.Child] = []
    real = session.start

    def start(*arguments: Any) -> children.Child:
        started.append(real(*arguments))
        return started[-1]

    monkeypatch.setattr(session, "start", start)
    said = gauge("check", "mine.py:Hangs", "mine.py:NoMethod", "--only", "ATTN-BIAS", "-j", "2")
    assert (said.status, "attention: is missing" in said.err) == (2, True)
    assert started == []


def test_a_backend_begins_beside_one_that_is_nearly_done(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[tuple[int, int], ...]] = []
    started: list[children.Child] = []
    real = session.start

    def start(*arguments: Any) -> children.Child:
        begun.append(tuple(child.progress for child in started if child.process.poll() is None))
        started.append(real(*arguments))
        return started[-1]

    monkeypatch.setattr(session, "start", start)
    said = gauge("check", "mine.py:Right", "mine.py:Second", *QUICK, "--only", "attention")
    assert (said.status, [child.word for child in started]) == (0, ["mine.py:Right", "mine.py:Second"]), said
    assert [len(one) for one in begun] == [0, 1], "the first had not ended"
    assert all(total > 50 and 0.9 * total <= done for done, total in begun[1])


@pytest.mark.parametrize(
    ("profile", "case", "kept"), [("quick", "", "1"), ("thorough", "", None), ("quick", "x", None)]
)
def test_only_quick_answers_are_compiled_in_haste(
    profile: str, case: str, kept: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "JAX_DISABLE_MOST_OPTIMIZATIONS"
    monkeypatch.delenv(name, raising=False)
    request = session.Request(["jax"], [], [], profile, None, 1, None, case, "", None)
    assert children._environment(request, tmp_path).get(name) == kept
    monkeypatch.setenv(name, "0")
    assert children._environment(request, tmp_path)[name] == "0", "what the user has chosen stays"


def test_no_release_is_handed_a_flag_that_it_may_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"jaxlib=={children.TRIED}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    monkeypatch.setattr(children, "version", lambda _: "0.11.0")
    assert list(children._in_haste()) == ["JAX_DISABLE_MOST_OPTIMIZATIONS"]


def test_progress_is_shown_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(BACKENDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    request = session.Request(["mine.py:Right"], ["counting"], [], "quick", None, 1, 60.0, "", "", None)
    screen = StringIO()
    status = session.report(request, "terminal", Console(file=screen, force_terminal=True, width=100, soft_wrap=True))
    printed = screen.getvalue()
    assert (status, "mine.py:Right" in printed, "right: 1 pass" in printed) == (0, True, True)
    assert "\x1b[?25l" in printed, "the cursor is hidden while a bar moves"


def test_a_record_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    failure = {"got": float("nan"), "ratio": float("inf"), "index": [0, 1]}
    record = Record("counting", ("ATTN-COUNT",), "attention", "mine", "float32", "fail", failure=failure)
    path = tmp_path / "run.jsonl"
    assert records.read(path) == ([], 0)
    path.write_text(records.line(record) + '\n{"kind": "ce', encoding="utf-8")
    (line,), _ = records.read(path)
    assert line["failure"] == {"got": "nan", "ratio": "inf", "index": [0, 1]}
    again = records.cell(line)
    assert (again.clauses, again.outcome, again.notes) == (("ATTN-COUNT",), "fail", [])
    json.loads(records.line(again), parse_constant=pytest.fail)  # strict JSON: no NaN, no Infinity


def test_what_a_backend_says_of_itself_becomes_text() -> None:
    class Odd(NumpyBackend):
        def describe(self) -> Any:
            return {"device": Path("here"), 3: None}

    class Broken(NumpyBackend):
        def describe(self) -> Any:
            raise OSError("no driver")

    assert records.declared(Odd())["describe"] == {"device": "here", "3": "None"}
    with pytest.raises(ConfigError, match=r"^backends: describe\(\) of numpy raised OSError: no driver$"):
        records.declared(Broken())
