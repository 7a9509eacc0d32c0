"""How fast the suite itself is: examples a second by component, and what the time goes into."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import Plan, registry, run
from gaugeblock.conformance.children import ONE_THREAD
from gaugeblock.conformance.load import load
from gaugeblock.conformance.records import writable
from gaugeblock.spec.components import COMPONENTS, offers
from gaugeblock.spec.errors import ConfigError

EVERY = 0.005  # seconds of CPU time between two looks at the stack
PARTS = ("backend", "reference", "hypothesis", "suite")
# outside the calls of a backend: whoever comes first, from the innermost frame outwards, has the time
PLACES = (("/spec/reference/", "reference"), ("/hypothesis/", "hypothesis"), ("/conformance/", "suite"))


@dataclass
class Pace:
    """What the checks of one component took: CPU seconds, and how often each part was found at work."""

    backend: str
    component: str
    cells: int = 0
    examples: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, Any]:
        """The pace as what json.dumps takes."""
        return {**vars(self), "seen": dict(self.seen)}

    def share(self, part: str) -> float:
        """The share of a part in the time, between 0 and 1."""
        return self.seen[part] / max(1, sum(self.seen.values()))


def at_work(frame: FrameType | None) -> str:
    """The part that a stack belongs to; whatever happens within the call of a backend is the backend's."""
    found = "suite"
    for one in reversed(list(_outwards(frame))):
        if one.f_code is Cell.guarded.__code__:
            return "backend"
        found = next((part for place, part in PLACES if place in one.f_code.co_filename), found)
    return found


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@contextmanager
def watched(seen: Counter[str]) -> Iterator[None]:
    """Look at the stack of this thread every so much CPU time."""

    def look(_: int, frame: FrameType | None) -> None:
        seen[at_work(frame)] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def paces(word: str, profile: str, only: Sequence[str] = COMPONENTS) -> Iterator[Pace]:
    """Every check of each component on a backend, in this process and one after the other.

    Raises ConfigError for an unknown profile or backend, NotAvailable for a backend that cannot run here.
    """
    backend, plan = load(word), Plan(profile)
    for component in only:
        pace = Pace(word, component)
        asked = [c for c in registry().values() if c.component == component]
        start = time.process_time()
        with watched(pace.seen):
            for check in asked:
                if offers(backend, component, check.offer, check.capability):
                    records = [run(check, backend, dtype, plan) for dtype in sorted(backend.dtypes)]
                    pace.cells += len(records)
                    pace.examples += sum(record.examples for record in records)
        pace.seconds = time.process_time() - start
        if pace.cells:
            yield pace


def report(words: Sequence[str], profile: str, out: Path | None, console: Console) -> int:
    """Measure each backend in a process of its own with one thread; show a table, write JSON; the exit status.

    Raises ConfigError for what cannot be measured.
    """
    Plan(profile)
    if not hasattr(signal, "setitimer"):
        raise ConfigError("bench: the time of the suite can be measured only where there are interval timers")
    writable(out, "out")
    found: list[Pace] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("suite", total=len(words) * len(COMPONENTS))
        for word in words:
            found += _apart(word, profile, lambda text: progress.update(task, advance=1, description=text))
    console.print(table(found))
    if out:
        out.write_text(json.dumps([pace.as_json() for pace in found], indent=1) + "\n", encoding="utf-8")
    return 0


def _apart(word: str, profile: str, tick: Callable[[str], None]) -> Iterator[Pace]:
    command = [sys.executable, "-m", "gaugeblock.conformance.speed", word, profile]
    environment = {**dict.fromkeys(ONE_THREAD, "1"), **os.environ}
    with tempfile.TemporaryFile("w+") as log:  # not a pipe, which would stop a child that says much
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as child:
            assert child.stdout is not None
            for line in child.stdout:
                told: dict[str, Any] = json.loads(line)
                pace = Pace(**{**told, "seen": Counter(told["seen"])})
                tick(f"{pace.backend} {pace.component}")
                yield pace
        log.seek(0)
        wrong = log.read().strip()
    if child.returncode:
        raise ConfigError(f"bench: {word} cannot be measured: {wrong.splitlines()[-1] if wrong else 'it died'}")


def table(found: Sequence[Pace]) -> Table:
    """A line for each component of each backend."""
    made = Table(title="The suite's own speed, by CPU time")
    for name in ("backend", "component", "cells", "examples", "seconds", "examples/s", *PARTS):
        made.add_column(name, justify="left" if name in ("backend", "component") else "right")
    for pace in found:
        speed = pace.examples / pace.seconds if pace.seconds else 0.0
        shares = [f"{pace.share(part):.0%}" for part in PARTS]
        numbers = [str(pace.cells), str(pace.examples), f"{pace.seconds:.1f}", f"{speed:.0f}", *shares]
        made.add_row(pace.backend, pace.component, *numbers)
    return made


if __name__ == "__main__":
    for one in paces(*sys.argv[1:]):
        print(json.dumps(one.as_json()), flush=True)
