"""The command line: what it prints, what it writes, and with which status it ends."""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import children, cli, records, session
from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.checks import Record, registry
from gaugeblock.conformance.selection import selected
from gaugeblock.spec.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
NAIVE = ROOT / "examples" / "naive_numpy.py"

# What a user might bring: one right backend, and what can be wrong with one.
BACKENDS = '''
import os
import time

import numpy as np

from gaugeblock import Backend
from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.spec.attention import Attention


class Right(NumpyAttention, Backend):
    name = "right"
    dtypes = frozenset({"float32"})


class Second(Right):
    name = "second"


class MeanOfAll(Right):
    """Gives the mean of all values where no key is visible."""

    name = "mean of all"

    def _softmax(self, scores, visible):
        weights = super()._softmax(scores, visible)
        return np.where(np.any(visible, axis=-1, keepdims=True), weights, 1 / max(scores.shape[-1], 1))


class Dies(Right):
    name = "dies"

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        if window is not None:
            os._exit(7)
        return super().attention(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale)


class Hangs(Right):
    name = "hangs"

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        if bias is not None:
            time.sleep(600)
        return super().attention(q, k, v, mask=mask, causal=causal, window=window, scale=scale)


class Half(NumpyAttention, Backend):
    name = "half"
    dtypes = frozenset({"float16"})


class NoMethod(Attention, Backend):
    dtypes = frozenset({"float32"})


class OtherNames(Attention, Backend):
    dtypes = frozenset({"float32"})

    def attention(self, query, key, value, *, attn_mask=None, causal=False, window=None, scale=None):
        return value


class UnknownFeature(Right):
    unsupported = {"attention.dropout": "never"}
'''


class Said(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str


Gauge = Callable[..., Said]


@pytest.fixture
def gauge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gauge:
    """The command line, in a folder that holds the backends above as mine.py."""
    (tmp_path / "mine.py").write_text(BACKENDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["gaugeblock", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Said(int(end.value.code or 0), out, err)

    return call


QUICK = ("--profile", "quick", "-j", "1")


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a record, in order, without the seconds that they took."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line["kind"] == "cell"]
    return sorted(
        ({k: v for k, v in c.items() if k != "seconds"} for c in found), key=lambda c: (c["check"], c["dtype"])
    )


def outcomes(path: Path) -> dict[str, str]:
    return {cell["check"]: cell["outcome"] for cell in cells(path)}


MISUSE = {
    "unknown name": (("check", "nump"), "there is no backend 'nump'; installed are jax, numpy, torch"),
    "import error": (
        ("check", "broken.py:X"),
        "importing broken.py raised ModuleNotFoundError: No module named 'gone'",
    ),
    "death at import": (("check", "dying.py:X"), "dying.py:X: the checks could not be started"),
    "no such file": (("check", "gone.py:X"), "there is no file gone.py"),
    "missing method": (("check", "mine.py:NoMethod"), "attention: is missing\n  paste: def attention(self, q, k, v, *"),
    "wrong parameter name": (
        ("check", "mine.py:OtherNames"),
        "attention: must take self, q, k, v in this order; lacks",
    ),
    "unknown feature": (("check", "mine.py:UnknownFeature"), "unknown key 'attention.dropout' in unsupported"),
    "two of one name": (("check", "mine.py:Right", "./mine.py:Right"), "are both called 'right'; give one of them"),
    "unknown clause": (
        ("check", "numpy", "--only", "ATTN-MAKS"),
        "there is no clause 'ATTN-MAKS'; did you mean ATTN-M",
    ),
    "unchecked clause": (("check", "numpy", "--only", "level-strict"), "only: LEVEL-STRICT has no check: "),
    "unknown dtype": (("check", "numpy", "--dtype", "float8"), "dtype: must be one of float64, float32, bfloat16"),
    "unknown profile": (
        ("check", "numpy", "--profile", "slow"),
        "profile must be one of quick, default, thorough, got",
    ),
    "unknown format": (("check", "numpy", "--format", "html"), "format must be one of terminal, markdown, json, got"),
    "bad case": (("check", "numpy", "--case", "formula B=x"), "case: B must be an integer >= 0, got 'x' [B=x]"),
    "case of no check": (("check", "numpy", "--case", "B=1"), "the first word must name a check with cases, got 'B=1'"),
    "no known file": (("check", "numpy", "--known", "gone.toml"), "known: gone.toml cannot be read: "),
    "known file not TOML": (("check", "numpy", "--known", "mine.py"), "known: mine.py cannot be read: "),
    "out in no folder": (("check", "numpy", "--out", "gone/run.jsonl"), "out: must be a file in a folder that exists"),
    "out is a folder": (("check", "numpy", "--out", "."), "out: must be a file in a folder that exists, got ."),
    "unknown option": (("check", "numpy", "--fast"), "No such option: --fast"),
    "no backend": (("check",), "Missing argument 'BACKEND...'"),
    "a word for a number": (("check", "numpy", "--seed", "x"), "Invalid value for '--seed': "),
    "no job": (("check", "numpy", "-j", "0"), "Invalid value for '-j': "),
    "unknown command": (("chek", "numpy"), "No such command 'chek'"),
    "explain what there is not": (("explain", "ATTN-MAKS"), "there is no clause 'ATTN-MAKS'; did you mean ATTN-MASK"),
    "propose for what there is not": (("propose", "nump"), "there is no backend 'nump'"),
    "propose for an unknown dtype": (("propose", "numpy", "--dtype", "float8"), "dtype: must be one of float64"),
    "list what there is not": (("list", "--papers"), "No such option: --papers"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_one_clear_message(name: str, gauge: Gauge, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import gone\n", encoding="utf-8")
    (tmp_path / "dying.py").write_text("import os; os._exit(7)\n", encoding="utf-8")
    arguments, told = MISUSE[name]
    said = gauge(*arguments)
    assert (said.status, told in said.err) == (2, True), said
    assert len(said.err.strip().splitlines()) <= 5


KNOWN = {
    "an unknown clause": ('[[known]]\nclause = "ATTN-MAKS"\nreason = "r"\n', "there is no clause 'ATTN-MAKS'"),
    "no reason": ('[[known]]\nclause = "ATTN-MASK"\n', "an entry has clause, reason and optionally backend and dtype"),
    "an empty reason": ('[[known]]\nclause = "ATTN-MASK"\nreason = ""\n', "an entry has clause, reason"),
    "no clause": ('[[known]]\nreason = "r"\n', "an entry has clause, reason"),
    "a reason that is no text": ('[[known]]\nclause = "ATTN-MASK"\nreason = 3\n', "an entry has clause, reason"),
    "an unknown key": ('[[known]]\nclause = "ATTN-MASK"\nreason = "r"\ndtypes = "float32"\n', "an entry has clause"),
    "an unknown dtype": ('[[known]]\nclause = "ATTN-MASK"\nreason = "r"\ndtype = "half"\n', "dtype must be one of"),
    "a table of another name": ('[[knwon]]\nclause = "ATTN-MASK"\nreason = "r"\n', "tables [[known]] and nothing else"),
    "one table": ('[known]\nclause = "ATTN-MASK"\nreason = "r"\n', "tables [[known]] and nothing else"),
    "a list of words": ('known = ["ATTN-MASK"]\n', "an entry has clause, reason"),
    "no table at all": ("known = 3\n", "tables [[known]] and nothing else"),
    "no TOML": ("known failures\n", "cannot be read"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_bad_list_of_known_failures_is_refused(name: str, gauge: Gauge, tmp_path: Path) -> None:
    text, told = KNOWN[name]
    (tmp_path / "known.toml").write_text(text, encoding="utf-8")
    said = gauge("check", "numpy", "--known", "known.toml")
    assert (said.status, told in said.err, "known.toml" in said.err or "clause" in told) == (2, True, True), said
    assert len(said.err.strip().splitlines()) <= 5


def test_a_conforming_backend_ends_with_0_and_leaves_nothing_behind(gauge: Gauge, tmp_path: Path) -> None:
    said = gauge("check", "mine.py:Right", *QUICK, "--only", "true_means_may_attend")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("mine.py:Right: 1 cells\nright\nclause")
    assert re.search(r"^ATTN-MASK +pass \d\.\d\d$", said.out, flags=re.MULTILINE)
    assert re.search(r"^right: 1 pass; worst error / allowed: float32 \d\.\d\d; \d+\.\d s$", said.out, re.MULTILINE)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["mine.py"]


FIELDS = {
    *("kind", "check", "clauses", "component", "backend", "dtype", "outcome", "reason", "level", "held", "headroom"),
    *("examples", "undetermined", "vacuous", "nondeterministic", "notes", "failure", "target", "seconds"),
}


def test_a_failure_is_printed_recorded_and_reproduced(gauge: Gauge, tmp_path: Path) -> None:
    asked = ("check", "mine.py:MeanOfAll", *QUICK, "--only", "ATTN-EMPTY-ROW", "--only", "counting")
    first = gauge(*asked, "--out", "first.jsonl")
    assert first.status == 1
    # the block of the failure, its numbers, and a second run from the line that it prints
    block = first.out[first.out.index("FAIL  ATTN-EMPTY-ROW   mean of all  float32") :]
    assert "A query that sees no key gives zeros." in block
    assert 'to declare it   conventions = Conventions(empty_row="mean")' in block
    rows = {
        name: line for name in ("smallest case", "element", "reproduce") for line in block.splitlines() if name in line
    }
    command = shlex.split(rows["reproduce"].split("reproduce", 1)[1])
    assert command[:3] == ["gaugeblock", "check", "mine.py:MeanOfAll"]
    again = gauge(*command[1:], "--out", "again.jsonl")
    assert again.status == 1
    assert rows["element"] in again.out and rows["smallest case"] in again.out
    (cell,) = cells(tmp_path / "again.jsonl")
    was = next(c for c in cells(tmp_path / "first.jsonl") if c["check"] == cell["check"])
    assert cell["failure"] == was["failure"]
    # the record: one line for the run, its plan, one for each cell
    lines = [json.loads(line) for line in (tmp_path / "first.jsonl").read_text(encoding="utf-8").splitlines()]
    kinds = [line["kind"] for line in lines]
    assert (kinds[:2], set(kinds[2:])) == (["run", "plan"], {"cell"})
    assert (lines[0]["schema"], lines[0]["profile"], lines[0]["seed"]) == (1, "quick", None)
    assert lines[0]["backends"][0]["name"] == "mean of all"
    assert sorted(map(tuple, lines[1]["cells"])) == [
        (c["check"], c["backend"], "float32") for c in cells(tmp_path / "first.jsonl")
    ]
    assert all(set(line) == FIELDS for line in lines[2:])
    # the same run gives the same record
    same = gauge(*asked, "--format", "json")
    (tmp_path / "same.jsonl").write_text(same.out, encoding="utf-8")
    assert same.status == 1
    assert cells(tmp_path / "same.jsonl") == cells(tmp_path / "first.jsonl")


def test_a_known_failure_ends_with_0(gauge: Gauge, tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(
        '[[known]]\nclause = "attn-empty-row"\nreason = "as the library has it"\nbackend = "mean of all"\n',
        encoding="utf-8",
    )
    asked = ("check", "mine.py:MeanOfAll", *QUICK, "--only", "row_emptied_by_mask", "--only", "counting")
    said = gauge(*asked, "--known", "known.toml", "--format", "markdown", "--out", "run.jsonl")
    assert said.status == 0
    assert outcomes(tmp_path / "run.jsonl") == {"row_emptied_by_mask": "known-failure", "counting": "pass"}
    assert said.out.startswith("## mean of all\n\n| clause | float32 |\n|---|---|\n")
    assert "| [ATTN-EMPTY-ROW](spec/clauses/attention.md#attn-empty-row) | known-failure |" in said.out
    assert "mean of all: 1 pass, 1 known-failure; " in said.out


def test_a_known_failure_that_passes_ends_with_1(gauge: Gauge, tmp_path: Path) -> None:
    # the same reason stands at a clause that does fail: it excuses that one alone
    entry = '[[known]]\nclause = "{}"\nreason = "as the library has it"\n'
    listed = "".join(map(entry.format, ("ATTN-EMPTY-ROW", "ATTN-COUNT")))
    (tmp_path / "known.toml").write_text(listed, encoding="utf-8")
    asked = ("check", "mine.py:MeanOfAll", *QUICK, "--only", "row_emptied_by_mask", "--only", "counting")
    said = gauge(*asked, "--known", "known.toml", "--out", "run.jsonl")
    assert said.status == 1
    told = "ATTN-COUNT is listed as a known failure (as the library has it), but holds"
    assert "UNEXPECTED-PASS  ATTN-COUNT   mean of all  float32" in said.out and told in said.out
    assert "UNEXPECTED-PASS  ATTN-EMPTY-ROW" not in said.out
    found = [(c["outcome"], c["clauses"]) for c in cells(tmp_path / "run.jsonl") if c["outcome"] == "unexpected-pass"]
    assert found == [("unexpected-pass", ["ATTN-COUNT"])]


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


def test_a_dtype_that_is_not_computed_is_not_available(gauge: Gauge) -> None:
    said = gauge("check", "mine.py:Right", *QUICK, "--only", "counting", "--dtype", "float16")
    assert said.status == 3
    assert "right: not-available: right does not compute in float16; it declares float32" in said.out


def test_a_cell_that_no_bound_decides_ends_with_3(gauge: Gauge) -> None:
    overflowing = "large_logits B=1 H=1 K=1 T=1 S=2 D=8192 E=1 qk=high"
    said = gauge("check", "mine.py:Half", "--case", overflowing)
    assert said.status == 3
    assert re.search(r"^ATTN-LARGE-LOGITS +undetermined$", said.out, flags=re.MULTILINE)


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


def test_a_seed_draws_other_examples(gauge: Gauge, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        asked = ("check", "mine.py:Right", *QUICK, "--only", "formula", "--seed", seed, "--out", f"{seed}.jsonl")
        said = gauge(*asked)
        assert (said.status, said.out.startswith(f"profile quick, seed {seed}\n")) == (0, True)
    one, other = (cells(tmp_path / f"{seed}.jsonl")[0]["headroom"] for seed in ("1", "2"))
    assert one != other


def test_progress_is_shown_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(BACKENDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    request = session.Request(["mine.py:Right"], ["counting"], [], "quick", None, 1, 60.0, "", "", None)
    screen = StringIO()
    status = session.report(request, "terminal", Console(file=screen, force_terminal=True, width=100, soft_wrap=True))
    printed = screen.getvalue()
    assert (status, "mine.py:Right" in printed, "right: 1 pass" in printed) == (0, True, True)
    assert "\x1b[?25l" in printed, "the cursor is hidden while a bar moves"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["ATTN-COUNT"], ["counting"]),
        (["attn-count"], ["counting"]),
        (["counting"], ["counting"]),
        (["counting", "ATTN-COUNT", "no_keys"], ["counting", "no_keys"]),
    ],
)
def test_only_takes_clauses_and_checks(words: list[str], names: list[str]) -> None:
    assert [check.name for check in selected(words)] == names


def test_only_takes_components() -> None:
    found = selected(["attention"])
    assert len(found) > 40 and {check.component for check in found} == {"attention"}
    assert selected([]) == list(registry().values())
    assert [check.name for check in selected(["ATTN-MASK"], case="formula B=2")] == ["formula"]


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


def declared(folder: Path, text: str) -> Record:
    """What becomes of the check of unsupported options on a backend that declares some."""
    from gaugeblock.conformance.load import load

    (folder / "declared.py").write_text(BACKENDS + text, encoding="utf-8")
    (record,) = check_backend(load(f"{folder / 'declared.py'}:X"), only=["ATTN-UNSUPPORTED"])
    return record


def test_what_is_declared_unsupported_and_works_is_an_unexpected_pass(tmp_path: Path) -> None:
    record = declared(tmp_path, '\nclass X(Right):\n    unsupported = {"attention.window": "none yet"}\n')
    assert (record.outcome, record.reason) == ("unexpected-pass", "declared unsupported, but right: attention.window")


IGNORES = """
class X(Right):
    unsupported = {"attention.window": "none yet"}

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        return super().attention(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale)
"""


def test_what_is_declared_unsupported_and_ignored_fails(tmp_path: Path) -> None:
    record = declared(tmp_path, IGNORES)
    assert record.outcome == "fail" and record.failure
    assert record.failure["problem"] == "attention.window is declared unsupported, and silently does something else"
    assert [hint["text"] for hint in record.failure["likely"]] == ["the window is ignored"]


def test_what_is_declared_unsupported_and_refused_passes(tmp_path: Path) -> None:
    record = declared(tmp_path, IGNORES.replace("        return", "        if window: raise KeyError\n        return"))
    assert (record.outcome, record.notes) == ("pass", ["attention.window: refused with KeyError"])
