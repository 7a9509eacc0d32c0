"""The matrix of mutants and clauses, for a terminal, as Markdown and as JSON."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from gaugeblock.conformance.children import ONE_THREAD
from gaugeblock.conformance.mutants.exempt import EQUIVALENT, NOT_EXPRESSIBLE
from gaugeblock.conformance.mutants.matrix import Row, complete, idle, matrix, survivors
from gaugeblock.conformance.mutants.power import by_clause, by_component, dumps, merged, read
from gaugeblock.conformance.records import writable
from gaugeblock.conformance.report.mutants_markdown import cells, render
from gaugeblock.spec.errors import ConfigError

FORMATS = ("terminal", "markdown", "json")
EVERY = 30.0  # seconds between two writings of the record


@dataclass(frozen=True)
class Request:
    """What `gaugeblock mutants` was asked for.

    seed draws other examples than the usual ones, of which alone there are records; shown is a record to show instead
    of running anything; out where to write one, which update brings up to date instead of replacing it.
    """

    only: Sequence[str] = ()
    first: bool = False
    profile: str = "default"
    seed: int | None = None
    jobs: int | None = None
    shown: Path | None = None
    out: Path | None = None
    update: bool = False


def report(request: Request, form: str, console: Console) -> int:
    """Run the mutants, show what killed each and give the exit status: 0 iff all are killed as they say.

    Raises ConfigError for a word that names nothing, a form that is none, or a record that cannot be read.
    """
    if form not in FORMATS:
        raise ConfigError(f"mutants: format must be one of {', '.join(FORMATS)}, got {form!r}")
    if request.out and request.seed is not None:
        raise ConfigError(f"out: a record is of the usual examples, not of seed {request.seed}")
    writable(request.out, "out")
    old = read(request.out)[1] if request.out and request.update and request.out.exists() else []

    def keep(rows: Sequence[Row], profile: str = request.profile) -> None:
        if request.out:
            request.out.write_text(dumps(merged(old, rows), profile), encoding="utf-8")

    profile, rows = read(request.shown) if request.shown else (request.profile, _run(request, console, keep))
    keep(rows, profile)
    lazy = idle(row for row in rows if row.component in complete(rows))
    if form == "terminal":
        _terminal(console, rows, lazy)
    else:
        print(dumps(rows, profile) if form == "json" else render(rows, lazy), end="")
    return 1 if survivors(rows) or lazy or any(row.missed for row in rows) else 0


def _run(request: Request, console: Console, keep: Callable[[Sequence[Row]], None]) -> list[Row]:
    """The rows; an update keeps those that are there every now and then, so that little is lost where it is ended."""
    found: list[Row] = []
    kept = monotonic()
    os.environ.update({name: os.environ.get(name, "1") for name in ONE_THREAD})  # for the processes to come
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("mutants", total=None)

        def advance(row: Row, done: int, total: int) -> None:
            nonlocal kept
            progress.update(task, completed=done, total=total)
            found.append(row)
            if request.update and monotonic() >= kept + EVERY:
                keep(found)
                kept = monotonic()

        return matrix(
            request.only,
            profile=request.profile,
            seed=request.seed,
            first=request.first,
            jobs=request.jobs or os.cpu_count() or 1,
            progress=advance,
        )


def _terminal(console: Console, rows: Sequence[Row], lazy: Sequence[str]) -> None:
    names = ("mutant", "known as", "4 laws", "killed by", "first check", "dtype", "input", "margin", "s")
    console.print(_table(names, (cells(row) for row in rows)))
    clause_names = (
        "clause",
        "kills" if all(row.whole for row in rows) else "kills >=",
        "alone",
        "named first",
        "named",
    )
    console.print()
    console.print(_table(clause_names, ([str(x) for x in vars(power).values()] for power in by_clause(rows))))
    console.print()
    console.print(
        _table(
            ("component", "mutants", "4 laws", "suite"),
            ([str(x) for x in vars(power).values()] for power in by_component(rows)),
        )
    )
    console.print()
    for line in _summary(rows, lazy):
        console.print(escape(line), highlight=False)


def _table(names: Sequence[str], rows: Iterator[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for name in names:
        table.add_column(name, no_wrap=name != "input", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _summary(rows: Sequence[Row], lazy: Sequence[str]) -> Iterator[str]:
    obvious = sum(bool(row.obvious) for row in rows)
    killed = len(rows) - len(survivors(rows))
    seconds = sum(row.seconds for row in rows)
    yield (
        f"{len(rows)} mutants: {obvious} killed by the four obvious laws, {killed} by the suite; "
        f"{seconds:.0f} s of work"
    )
    yield from (f"survives   {row.mutant}: {row.fault}" for row in survivors(rows))
    for row in rows:
        if row.kills and row.missed:
            yield f"missed     {row.mutant} is not killed by {', '.join(row.missed)}"
    yield from (f"idle       {clause} kills nothing" for clause in lazy)
    yield from (f"no mutant  {name}: {reason}" for name, reason in NOT_EXPRESSIBLE.items())
    yield from (f"equivalent {name}: {reason}" for name, reason in EQUIVALENT.items())
