"""Generic mutants for a terminal and as JSON lines."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from gaugeblock.conformance.children import ONE_THREAD
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.mutants.generic import TIMEOUT, Found, sample, survey, trials
from gaugeblock.conformance.mutants.tally import Tally, table, tally, write
from gaugeblock.conformance.records import writable


@dataclass(frozen=True)
class Request:
    """What `gaugeblock mutate` was asked for.

    sample is how many mutations of each module to draw, None for all; out takes every mutant, record the counts.
    """

    modules: Sequence[str]
    sample: int | None = None
    seed: int = 0
    profile: str = "default"
    jobs: int | None = None
    timeout: float = TIMEOUT
    out: Path | None = None
    record: Path | None = None


def report(request: Request, console: Console) -> int:
    """Try the mutations, show what survives and give the exit status: 0 iff nothing does.

    Raises ConfigError for a module that there is not, or a place to which nothing can be written.
    """
    writable(request.out, "out")
    writable(request.record, "record")
    os.environ.update({name: os.environ.get(name, "1") for name in ONE_THREAD})  # for the processes to come
    chosen = {module: sample(module, request.sample, request.seed) for module in request.modules}
    jobs = request.jobs or os.cpu_count() or 1
    found: list[Found] = []
    tallies: list[Tally] = []
    for trial in trials(list(chosen), request.profile, request.timeout):
        mine = []
        with remembering():
            for one in survey(trial, chosen[trial.module], jobs=jobs):
                mine.append(one)
                if one.fate == "survives":
                    console.print(escape(f"{one.file}:{one.line}  {one.kind}\n{one.diff}\n"), highlight=False)
        seconds = trial.reach.seconds + sum(one.seconds for one in mine)
        tallies.append(tally(trial.module, request.seed, mine, seconds))
        found += mine
    console.print(table(tallies), highlight=False, markup=False)
    if request.out:
        lines = (json.dumps(one.as_json(), ensure_ascii=False) for one in found)
        request.out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if request.record:
        write(request.record, request.profile, tallies)
    return 1 if any(one.fate == "survives" for one in found) else 0
