"""The pytest plug-in beside a user's own tests, and the same checks in this process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaugeblock import ConfigError, check_backend
from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Record
from gaugeblock.conformance.run import Run

pytest_plugins = ["pytester"]

SUITE = ("--pyargs", "gaugeblock.conformance", "--gauge-profile", "quick")
NUMPY = (*SUITE, "--gauge-backend", "numpy", "--gauge-only", "true_means_may_attend")
EMPTY = (*SUITE, "--gauge-backend", "mine.py:Mean", "--gauge-only", "row_emptied_by_mask", "--gauge-only", "counting")

MINE = '''
import numpy as np

from gaugeblock import Backend
from gaugeblock.backends.numpy.attention import NumpyAttention


class Mean(NumpyAttention, Backend):
    """Gives the mean of all values where no key is visible."""

    name = "mean"
    dtypes = frozenset({"float32"})

    def _softmax(self, scores, visible):
        weights = super()._softmax(scores, visible)
        return np.where(np.any(visible, axis=-1, keepdims=True), weights, 1 / max(scores.shape[-1], 1))
'''

# What a user's own repository may hold: an option, a fixture and an attribute of names that are close to ours.
THEIRS = {
    "conftest.py": """
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--backend", default="theirs")

        @pytest.fixture
        def gauge(request):
            return request.config.getoption("--backend")
        """,
    "test_theirs.py": """
        import sys

        def test_window(gauge):
            assert gauge == "theirs"

        test_window.check = "a word of their own"

        def test_nothing_of_the_suite_is_loaded():
            assert "gaugeblock.conformance.run" not in sys.modules
        """,
}


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a backend in it."""
    pytester.makefile(".ini", pytest="[pytest]\n")
    pytester.makepyfile(mine=MINE)
    return pytester


def pristine(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, as a user starts it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_suite_runs_under_pytest(folder: pytest.Pytester) -> None:
    done = folder.runpytest(*NUMPY)
    done.stdout.fnmatch_lines(["gaugeblock: numpy; profile quick"])
    done.assert_outcomes(passed=4)
    assert done.ret == 0


def test_the_options_are_told(folder: pytest.Pytester) -> None:
    done = folder.runpytest("--help")
    told = set(re.findall(r"^  (--gauge-\w+)=", "\n".join(done.outlines), flags=re.MULTILINE))
    assert told == {
        f"--gauge-{name}" for name in ("backend", "only", "dtype", "profile", "seed", "case", "known", "out")
    }


def test_without_a_backend_a_user_s_tests_run_alone(tmp_path: Path) -> None:
    for name, text in THEIRS.items():
        (tmp_path / name).write_text("\n".join(line[8:] for line in text.splitlines()), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-config --strict-markers -W error\n", encoding="utf-8"
    )
    alone = pristine(tmp_path, "-q", "test_theirs.py")
    assert (alone.returncode, "2 passed" in alone.stdout) == (0, True), alone.stdout + alone.stderr
    # and beside the suite, in two processes
    beside = pristine(tmp_path, "test_theirs.py", *NUMPY, "-n", "2", "--gauge-out", "run.jsonl", "-k", "not loaded")
    assert (beside.returncode, "5 passed" in beside.stdout) == (0, True), beside.stdout + beside.stderr
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["kind"] for line in lines] == ["run", "plan", *["cell"] * 4]
    assert sorted(line["dtype"] for line in lines[2:]) == ["bfloat16", "float16", "float32", "float64"]


def test_without_a_backend_the_suite_says_so(folder: pytest.Pytester) -> None:
    done = folder.runpytest(*SUITE)
    printed = "\n".join(done.outlines)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert "gaugeblock: say which backend to check with --gauge-backend" in printed
    assert ".py:" not in printed.split("= ERRORS =", 1)[1].split("short test summary", 1)[0], "no traceback"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--gauge-backend", "nump"), "gaugeblock: backends: there is no backend 'nump'; installed are"),
        (("--gauge-backend", "mine.py:Gone"), "gaugeblock: backends: mine.py has no attribute 'Gone'; it has Mean"),
        (("--gauge-backend", "numpy", "--gauge-only", "ATTN-MAKS"), "gaugeblock: clauses: there is no clause"),
        (("--gauge-backend", "numpy", "--gauge-dtype", "float8"), "gaugeblock: dtype: must be one of float64"),
        (("--gauge-backend", "numpy", "--gauge-case", "formula B=x"), "gaugeblock: case: B must be an integer >= 0"),
        (("--gauge-backend", "numpy", "--gauge-known", "gone.toml"), "gaugeblock: known: gone.toml cannot be read"),
        (("--gauge-backend", "mine.py:Mean", "--gauge-backend", "./mine.py:Mean"), "are both called 'mean'"),
    ],
)
def test_misuse_is_a_usage_error(arguments: tuple[str, ...], told: str, folder: pytest.Pytester) -> None:
    done = folder.runpytest(*SUITE, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert told in "\n".join(done.errlines)
    assert len([line for line in done.errlines if line.strip()]) <= 5


def test_a_failing_backend_prints_the_block(folder: pytest.Pytester) -> None:
    done = folder.runpytest(*EMPTY)
    done.assert_outcomes(failed=1, passed=1)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(
        [
            "FAIL  ATTN-EMPTY-ROW   mean  float32",
            "      A query that sees no key gives zeros.",
            "      clause          spec/clauses/attention.md#attn-empty-row",
            "      smallest case   row_emptied_by_mask B=1 H=1 K=1 T=1 S=1 D=1 E=1 mask=*",
            "      element         (0, 0, 0, 0)  expected 0   got *   must be equal",
            "      likely          empty row is mean",
            '      to declare it   conventions = Conventions(empty_row="mean")',
            "      reproduce       gaugeblock check mine.py:Mean --dtype float32 --case 'row_emptied_by_mask B=1 *'",
        ]
    )


def test_known_failures_are_expected_and_no_more(folder: pytest.Pytester) -> None:
    entry = '[[known]]\nclause = "{}"\nreason = "as the library has it"\n'
    folder.makefile(".toml", known=entry.format("ATTN-EMPTY-ROW"), more=entry.format("ATTN-COUNT"))
    done = folder.runpytest(*EMPTY, "--gauge-known", "known.toml", "-rx")
    done.assert_outcomes(xfailed=1, passed=1)
    assert done.ret == 0
    done.stdout.fnmatch_lines(["XFAIL *row_emptied_by_mask[[]mean-float32[]] - as the library has it"])
    more = folder.runpytest(
        *EMPTY, "--gauge-known", "more.toml", "--gauge-only", "counting", "--gauge-out", "run.jsonl"
    )
    assert more.ret == pytest.ExitCode.TESTS_FAILED
    told = "ATTN-COUNT is listed as a known failure (as the library has it), but holds"
    more.stdout.fnmatch_lines([f"gaugeblock: {told}"])
    assert told in (folder.path / "run.jsonl").read_text(encoding="utf-8")


def test_what_is_not_available_is_neither_passed_nor_forgotten(folder: pytest.Pytester) -> None:
    done = folder.runpytest(*EMPTY, "--gauge-dtype", "float16", "-rs")
    done.assert_outcomes(skipped=2)
    assert done.ret == 3
    done.stdout.fnmatch_lines(
        ["gaugeblock: mean in float16 is not available: mean does not compute in float16; it declares float32"]
    )


def test_a_case_is_run_alone(folder: pytest.Pytester) -> None:
    done = folder.runpytest(*SUITE, "--gauge-backend", "mine.py:Mean", "--gauge-case", "row_emptied_by_mask mask=none")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["      smallest case   row_emptied_by_mask B=1 H=1 K=1 T=1 S=1 D=1 E=1 mask=none"])


def test_a_thorough_run_says_its_seed(folder: pytest.Pytester) -> None:
    asked = ("--gauge-backend", "mine.py:Mean", "--gauge-only", "no_queries", "--gauge-profile", "thorough")
    done = folder.runpytest(*SUITE, *asked)
    done.assert_outcomes(passed=1)
    done.stdout.re_match_lines([r"gaugeblock: mean; profile thorough, seed \d+$"])


def test_a_lost_cell_is_recorded_as_an_error(folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Run, *arguments: Any) -> Record:
        raise SystemExit("out of memory")

    monkeypatch.setattr(Run, "record", stop)
    done = folder.runpytest(*EMPTY, "--gauge-out", "run.jsonl")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    lines = [json.loads(line) for line in (folder.path / "run.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {line["check"]: (line["outcome"], line["target"]) for line in lines if line["kind"] == "cell"}
    assert found == dict.fromkeys(("row_emptied_by_mask", "counting"), ("error", "mine.py:Mean"))
    assert "out of memory" in lines[-1]["reason"]


class Zeros(NumpyBackend):
    """Zeros, whatever was asked."""

    name = "zeros"
    dtypes = frozenset({"float32", "float16"})

    def attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        super().attention(q, k, v, **options)
        return np.zeros((*q.shape[:3], v.shape[3]), q.dtype)


def test_check_backend_gives_the_records() -> None:
    found = check_backend(NumpyBackend(), only=["ATTN-COUNT", "true_means_may_attend"], profile="quick")
    assert {(r.check, r.outcome, r.backend) for r in found} == {
        ("counting", "pass", "numpy"),
        ("true_means_may_attend", "pass", "numpy"),
    }
    assert [r.dtype for r in found] == [d for d in ("float64", "float32", "bfloat16", "float16") for _ in range(2)]


def test_check_backend_runs_one_case_in_one_dtype() -> None:
    wrong = check_backend(Zeros(), only=["counting"], dtypes=["float16"], profile="quick")
    assert [r.outcome for r in wrong] == ["fail"]
    assert wrong[0].failure is not None
    (again,) = check_backend(Zeros(), dtypes=["float16"], case=wrong[0].failure["case"])
    assert (again.examples, again.failure) == (1, wrong[0].failure)


def test_check_backend_is_repeatable() -> None:
    one, same, other = (
        check_backend(NumpyBackend(), only=["formula"], dtypes=["float32"], profile="quick", seed=seed)[0]
        for seed in (1, 1, 2)
    )
    assert one.headroom == same.headroom != other.headroom


@pytest.mark.parametrize(
    "asked",
    [{"dtypes": ["float8"]}, {"only": ["ATTN-MAKS"]}, {"profile": "slow"}, {"case": "formula B=x"}, {"case": "B=1"}],
)
def test_check_backend_refuses_what_it_does_not_know(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check_backend(NumpyBackend(), **asked)
