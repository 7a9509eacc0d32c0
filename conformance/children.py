"""The processes in which backends are checked: pytest on one backend each, and as many workers as there are jobs."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaugeblock.conformance import records

if TYPE_CHECKING:
    from gaugeblock.conformance.session import Request

SETTINGS = "[pytest]\npython_files = test_*.py\nfilterwarnings = default\n"
PLUGINS = ("gaugeblock.conformance.plugin", "xdist.plugin", "pytest_timeout")
RESTARTS = 10_000  # more than there are cells
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TRIED = "0.10.2"  # the release of jaxlib that knows the flag of XLA below; XLA ends a process for one that it does not


@dataclass
class Child:
    """One pytest process on one backend."""

    word: str
    out: Path
    log: Path
    process: subprocess.Popen[bytes]
    known: list[dict[str, Any]] = field(default_factory=list)
    read: int = 0
    over: bool = False

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its record so far; only what is new is read, since a run is asked many times."""
        more, self.read = records.read(self.out, self.read)
        self.known += more
        return self.known

    @property
    def names(self) -> list[str]:
        """What its backends call themselves, once they are loaded."""
        return [one["name"] for line in self.lines if line["kind"] == "run" for one in line["backends"]]

    @property
    def progress(self) -> tuple[int, int]:
        """How many of its cells are done, and how many there are, 0 as long as nobody knows."""
        lines = self.lines
        total = sum(len(line["cells"]) for line in lines if line["kind"] == "plan")
        return sum(line["kind"] == "cell" for line in lines), total


def start(request: "Request", word: str, place: Path) -> Child:
    """Start the checks of one backend; settings, record and log lie in a new folder."""
    place.mkdir()
    (place / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    out, log = place / "run.jsonl", place / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            _command(request, word, place, out),
            stdout=file,
            stderr=subprocess.STDOUT,
            env=_environment(request, place),
            start_new_session=True,
        )
    return Child(word, out, log, process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a pytest process and its workers, which would go on with their check otherwise."""
    if os.name == "posix":
        with suppress(ProcessLookupError):  # it has ended, and its workers with it
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _command(request: "Request", word: str, place: Path, out: Path) -> list[str]:
    pytest = [sys.executable, "-m", "pytest", "-q", "-c", str(place / "pytest.ini"), "--rootdir", str(place)]
    without = ("no:cacheprovider", "no:unraisableexception")  # the latter collects garbage five times at the end
    plugins = [part for name in (*without, *PLUGINS) for part in ("-p", name)]
    isolated = ["--noconftest", *plugins, "--pyargs", "gaugeblock.conformance"]
    # a hanging or dying backend ends its worker, not the run: hence a worker also for one job, and as many as it takes
    parallel = [
        "-n",
        str(1 if request.case else request.jobs or os.cpu_count() or 1),
        "--max-worker-restart",
        str(RESTARTS),
        "--dist",
        "worksteal",  # neighbours share compiled shapes
    ]
    parallel += ["--timeout", str(_timeout(request)), "--timeout-method", "thread"]
    options = {"profile": request.profile, "case": request.case, "known": request.known, "out": str(out)}
    gauge = [f"--gauge-backend={word}", *(f"--gauge-{name}={value}" for name, value in options.items() if value)]
    gauge += [f"--gauge-only={word}" for word in request.only] + [f"--gauge-dtype={name}" for name in request.dtypes]
    return [*pytest, *isolated, *parallel, *gauge, *([] if request.seed is None else [f"--gauge-seed={request.seed}"])]


def _timeout(request: "Request") -> float:
    """The longest that one check may take: long enough for a slow machine that others use too."""
    return request.timeout or (1800.0 if request.profile == "thorough" else 300.0)


def _environment(request: "Request", place: Path) -> dict[str, str]:
    """The user's environment without their pytest settings; one thread each, so that workers do not fight.

    What runs once on small arrays is not worth optimizing: only thorough runs and single cases compile as users do.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis")}
    hasty = {} if request.profile == "thorough" or request.case else _in_haste()
    return {**dict.fromkeys(ONE_THREAD, "1"), **hasty, **kept, **own}


def _in_haste() -> dict[str, str]:
    """What makes JAX compile in a third of the time, into slower code."""
    hasty = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    with suppress(PackageNotFoundError):
        if version("jaxlib") == TRIED:
            hasty["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"
    return hasty
