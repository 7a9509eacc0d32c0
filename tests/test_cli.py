"""The command line: what it prints, what it writes, and with which status it ends."""

import json
import re
import shlex
from pathlib import Path

import pytest
from commanding import BACKENDS, QUICK, Gauge, cells, outcomes

from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.checks import Record, registry
from gaugeblock.conformance.selection import selected

ROOT = Path(__file__).resolve().parents[1]
NAIVE = ROOT / "examples" / "naive_numpy.py"

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
    "mutants into no folder": (("mutants", "--out", "gone/x.json"), "out: must be a file in a folder that exists"),
    "mutate into a folder": (("mutate", "cache", "--record", "."), "record: must be a file in a folder that exists"),
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


def test_a_dtype_that_is_not_computed_is_not_available(gauge: Gauge) -> None:
    said = gauge("check", "mine.py:Right", *QUICK, "--only", "counting", "--dtype", "float16")
    assert said.status == 3
    assert "right: not-available: right does not compute in float16; it declares float32" in said.out


def test_a_cell_that_no_bound_decides_ends_with_3(gauge: Gauge) -> None:
    overflowing = "large_logits B=1 H=1 K=1 T=1 S=2 D=8192 E=1 qk=high"
    said = gauge("check", "mine.py:Half", "--case", overflowing)
    assert said.status == 3
    assert re.search(r"^ATTN-LARGE-LOGITS +undetermined$", said.out, flags=re.MULTILINE)


def test_a_seed_draws_other_examples(gauge: Gauge, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        asked = ("check", "mine.py:Right", *QUICK, "--only", "formula", "--seed", seed, "--out", f"{seed}.jsonl")
        said = gauge(*asked)
        assert (said.status, said.out.startswith(f"profile quick, seed {seed}\n")) == (0, True)
    one, other = (cells(tmp_path / f"{seed}.jsonl")[0]["headroom"] for seed in ("1", "2"))
    assert one != other


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
