"""`gaugeblock check`: pytest in processes of its own, for one backend behind the other, and one report of them all."""

import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gaugeblock.conformance import known as known_failures
from gaugeblock.conformance import records
from gaugeblock.conformance.checks import Plan, Record, registry
from gaugeblock.conformance.children import Child, end, start
from gaugeblock.conformance.load import load, names
from gaugeblock.conformance.report import markdown, terminal
from gaugeblock.conformance.selection import known_dtypes, selected
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS as DTYPES

FORMATS = ("terminal", "markdown", "json")
ASK = """
import sys
from gaugeblock.conformance.load import load
from gaugeblock.spec.errors import ConfigError
try:
    load(sys.argv[1])
except ConfigError as refusal:
    print(chr(0) + str(refusal))
"""
PATIENCE = 60.0  # seconds for a backend to load
NEARLY = 0.9  # of a backend's cells


@dataclass(frozen=True)
class Request:
    """What the user asked to be checked, and how."""

    backends: list[str]
    only: list[str]
    dtypes: list[str]
    profile: str
    seed: int | None
    jobs: int | None
    timeout: float | None
    case: str
    known: str
    out: Path | None

    def validated(self) -> "Request":
        """The request, with a fresh seed where a thorough run names none.

        Raises ConfigError for anything that can be seen to be wrong without loading a backend.
        """
        Plan(self.profile, self.seed)
        known_dtypes(self.dtypes)
        selected(self.only, self.case)
        if self.known:
            known_failures.read(self.known)
        records.writable(self.out, "out")
        if self.profile == "thorough" and self.seed is None and not self.case:
            return replace(self, seed=secrets.randbelow(2**31))
        return self


def report(request: Request, format: str, console: Console) -> int:
    """Run the checks, print the report and give the exit status.

    Raises ConfigError where the request or a backend cannot be used.
    """
    if format not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    request = request.validated()
    quiet = Console(stderr=True, soft_wrap=True) if format != "terminal" else console
    if request.seed is not None:
        quiet.print(f"profile {request.profile}, seed {request.seed}", highlight=False)
    lines = run(request, quiet)
    found = _ordered([records.cell(line) for line in lines if line["kind"] == "cell"])
    if format == "terminal":
        terminal.show(console, [line for line in lines if line["kind"] == "run"], found)
    elif format == "markdown":
        print(markdown.render(found))
    else:
        print("\n".join(records.line(line) for line in lines))
    if request.out:
        request.out.write_text("".join(records.line(line) + "\n" for line in lines), encoding="utf-8")
    return records.exit_status(r.outcome for r in found)


def _ordered(found: list[Record]) -> list[Record]:
    """By backend, then as the checks and the dtypes are listed; processes finish in any order."""
    names, checks = list(dict.fromkeys(r.backend for r in found)), list(registry())
    return sorted(found, key=lambda r: (names.index(r.backend), checks.index(r.check), list(DTYPES).index(r.dtype)))


def run(request: Request, console: Console) -> list[dict[str, Any]]:
    """Check one backend behind the other, each in a process with as many workers as there are jobs; their records.

    Raises ConfigError where a backend cannot be used, or where two go by one name.
    """
    waiting = list(dict.fromkeys(request.backends))
    _usable(waiting[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what follows is cleaned up
    children: list[Child] = []
    words: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="gaugeblock-") as place, _progress(console) as bars:
        try:
            while waiting or not all(child.over for child in children):
                running = [child for child in children if not child.over]
                if waiting and _has_room(running):
                    running.append(start(request, waiting.pop(0), Path(place) / str(len(children))))
                    children.append(running[-1])
                for child in running:
                    _watch(child, bars, words)
                time.sleep(0.1)
        finally:
            for child in children:
                end(child.process)
                child.process.wait()
        return [line for child in children for line in _finished(child)]


def _has_room(running: list[Child]) -> bool:
    """Whether another backend may begin: beside one that is nearly done, so that no core waits for it to start."""
    if not running:
        return True
    done, total = running[0].progress
    return len(running) == 1 and done >= NEARLY * max(total, 1)


def _usable(later: list[str]) -> None:
    """Refuse at once what would otherwise be refused only when the backends before it have been checked.

    Raises ConfigError. A backend of the user's is loaded in a process of its own; one that ends it without a word, or
    takes its time, is left to its turn.
    """
    for word in later:
        if ":" not in word and word.partition("@")[0] not in names():
            load(word)  # which refuses it
        with suppress(subprocess.TimeoutExpired):
            if ":" in word:
                asked = [sys.executable, "-c", ASK, word]
                done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE)
                _, refused, why = done.stdout.partition("\0")  # whatever else the module prints stands before it
                if refused:
                    raise ConfigError(why.strip())


def _watch(child: Child, bars: Any, words: dict[str, str]) -> None:
    """Show how far a process is.

    Raises ConfigError as soon as it has ended without a plan, or its backend goes by a name that is taken.
    """
    child.over = child.process.poll() is not None  # what it wrote is read after that, and so to the end
    bars(child)
    for name in child.names:
        records.distinct(words, name, child.word)
    if child.over:
        _finished(child)


def _finished(child: Child) -> list[dict[str, Any]]:
    """The lines of a finished process, with a not-run cell for every planned one that left none.

    Raises ConfigError if it refused to run, or never got as far as a plan.
    """
    lines = child.lines
    for line in lines:
        if line["kind"] == "refused":
            raise ConfigError(line["message"])
    if not any(line["kind"] == "plan" for line in lines):
        log = child.log.read_text(encoding="utf-8", errors="replace").strip()
        raise ConfigError(f"{child.word}: the checks could not be started\n" + "\n".join(log.splitlines()[-4:]))
    ran = {(line["check"], line["backend"], line["dtype"]) for line in lines if line["kind"] == "cell"}
    planned = [tuple(cell) for line in lines if line["kind"] == "plan" for cell in line["cells"]]
    lost = [
        Record(c, registry()[c].clauses, registry()[c].component, b, d) for c, b, d in planned if (c, b, d) not in ran
    ]
    for record in lost:
        record.outcome, record.reason = "not-run", "the process ended before this check"
    return lines + [{"kind": "cell", **vars(record)} for record in lost]


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
    """A live bar for each backend on a terminal; elsewhere one line when it begins and one when it ends."""
    if not console.is_terminal:
        said: set[str] = set()
        yield lambda child: _say(console, child, said)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def advance(child: Child) -> None:
            done, total = child.progress
            task = (
                tasks.setdefault(child.word, progress.add_task(child.word, total=None))
                if child.word not in tasks
                else tasks[child.word]
            )
            progress.update(task, total=total or None, completed=done)

        yield advance


def _say(console: Console, child: Child, said: set[str]) -> None:
    _, total = child.progress
    if total and child.word not in said:
        said.add(child.word)
        console.print(f"{child.word}: {total} cells", highlight=False, markup=False)
