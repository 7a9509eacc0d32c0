"""The pytest plug-in: it acts on nothing but the checks of gaugeblock.conformance."""

import gc
import json
import math
import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from gaugeblock.conformance.checks import Check
    from gaugeblock.conformance.run import CellSpec, Run

RUN = pytest.StashKey["Run"]()
PROPERTY = "gaugeblock"
INCOMPLETE = 3  # as the command line has it: what was asked for could not be checked
CRASHED = "crashed while running"  # how pytest-xdist words the report of a worker that is gone


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gaugeblock", "gaugeblock: conformance of Transformer components")
    several = (
        ("backend", "NAME, module:attribute or path.py:attribute"),
        ("only", "component or clause"),
        ("dtype", "dtype"),
    )
    for name, meaning in several:
        group.addoption(f"--gauge-{name}", action="append", default=[], metavar="WORD", help=f"{meaning} (repeatable)")
    group.addoption("--gauge-profile", default="default", metavar="NAME", help="quick, default or thorough")
    group.addoption("--gauge-seed", type=int, default=None, metavar="N", help="draw these examples, not the usual ones")
    group.addoption("--gauge-case", default="", metavar="TEXT", help="run this one case")
    group.addoption("--gauge-known", default="", metavar="FILE", help="TOML list of known failures")
    group.addoption("--gauge-out", default="", metavar="FILE", help="write the record there, as JSON lines")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("gauge_backend"):
        return
    from gaugeblock.conformance.run import Run
    from gaugeblock.spec.errors import GaugeblockError

    if config.getoption("gauge_profile") == "thorough" and config.getoption("gauge_seed") is None:
        config.option.gauge_seed = secrets.randbelow(2**31)
    main = not hasattr(config, "workerinput")
    try:
        run = config.stash[RUN] = Run.of(config.option, main=main)
    except GaugeblockError as refusal:
        _refuse(config, str(refusal))
    if main:
        config.pluginmanager.register(Recorder(run, getattr(config.option, "timeout", None) or 0.0))


def pytest_report_header(config: pytest.Config) -> list[str]:
    run = config.stash.get(RUN, None)
    return [f"gaugeblock: {run.summary}"] if run else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    check = _check(metafunc.function)
    if check is None:
        return
    run = metafunc.config.stash.get(RUN, None)
    if run is None:
        raise pytest.Collector.CollectError("gaugeblock: say which backend to check with --gauge-backend")
    cells = run.cells(check)
    metafunc.parametrize("gauge", cells, ids=[f"{cell.name}-{cell.dtype}" for cell in cells])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the checks that nobody asked for; pytest would report their empty lists of cells as skipped."""
    unasked = [item for item in items if _has_no_cell(item)]
    if unasked:
        config.hook.pytest_deselected(items=unasked)
        items[:] = [item for item in items if item not in unasked]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is loaded by now stays, and frameworks are large: in a process of ours garbage is looked for less often."""
    if session.config.stash.get(RUN, None) and hasattr(session.config, "workerinput"):
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)


def _check(function: object) -> "Check | None":
    """The check that a test function is; a user's own function may have an attribute of that name."""
    found = getattr(function, "check", None)
    if found is None:
        return None
    from gaugeblock.conformance.checks import Check

    return found if isinstance(found, Check) else None


def _has_no_cell(item: pytest.Item) -> bool:
    if _check(getattr(item, "function", None)) is None:
        return False
    from gaugeblock.conformance.run import CellSpec

    call = getattr(item, "callspec", None)
    return call is None or not isinstance(call.params.get("gauge"), CellSpec)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a check on its cell, hang the record on the item, and tell pytest what became of it."""
    check = _check(pyfuncitem.function)
    if check is None:
        return None
    run = pyfuncitem.config.stash[RUN]
    spec = pyfuncitem.callspec.params["gauge"]
    record = run.record(check, cast("CellSpec", spec))
    pyfuncitem.user_properties.append((PROPERTY, json.dumps(asdict(record), default=str)))
    if record.outcome == "known-failure":
        pytest.xfail(record.reason)
    if record.outcome in ("unsupported", "not-available"):
        pytest.skip(record.reason)
    if record.outcome != "pass":
        from gaugeblock.conformance.report.failure import text

        pytest.fail(text(record), pytrace=False)
    return True


class Recorder:
    """Collects the records in the one process that every report reaches."""

    def __init__(self, run: "Run", timeout: float) -> None:
        self.run, self.timeout = run, timeout
        self.begun: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begun[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties).get(PROPERTY)
        if found is not None and report.when == "call":
            self.run.add(json.loads(str(found)))
        elif found is None and report.failed:
            self.run.lost(report.nodeid, self._why(report))

    def _why(self, report: pytest.TestReport) -> str:
        """Why there is no record; a process that is gone cannot say whether it died or was ended by the timeout."""
        if CRASHED not in str(report.longrepr):
            return _message(report)
        took = time.monotonic() - self.begun.get(report.nodeid, math.inf)
        late = 0 < self.timeout <= took
        return f"no result within {self.timeout:g} s" if late else "the process died during this check"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.run.finish():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.OK and self.run.missing:
            session.exitstatus = INCOMPLETE


def _message(report: pytest.TestReport) -> str:
    """What was raised, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr).strip().splitlines()
    return (lines[0] if crash else lines[-1]) if lines else "the process ended"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run = config.stash.get(RUN, None)
    for note in (*run.surprises, *run.missing) if run else ():
        terminalreporter.write_line(f"gaugeblock: {note}")


def _refuse(config: pytest.Config, message: str) -> None:
    """Say once why the run cannot be done as asked, also to the process that started this one."""
    out = config.getoption("gauge_out")
    if out:
        Path(out).write_text(json.dumps({"kind": "refused", "message": message}) + "\n", encoding="utf-8")
    raise pytest.UsageError(f"gaugeblock: {message}")
