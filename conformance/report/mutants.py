"""The matrix of mutants and clauses, for a terminal and as JSON."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from gaugeblock.conformance.mutants import NOT_EXPRESSIBLE
from gaugeblock.conformance.mutants.matrix import Row, idle, matrix, survivors

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def report(only: Sequence[str], jobs: int | None, out: Path | None, console: Console) -> int:
    """Run the mutants, print what killed each and give the exit status: 0 iff all are killed as they say.

    Raises ConfigError for a word that names nothing.
    """
    os.environ.update({name: os.environ.get(name, "1") for name in ONE_THREAD})  # for the processes to come
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("mutants", total=None)
        rows = matrix(
            only,
            jobs=jobs or os.cpu_count() or 1,
            progress=lambda row, done, total: progress.update(task, completed=done, total=total),
        )
    console.print(_table(rows))
    lazy = [] if only else idle(rows)
    _summary(console, rows, lazy)
    if out:
        out.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", encoding="utf-8")
    return 1 if survivors(rows) or lazy or any(row.missed for row in rows) else 0


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("mutant", "known as", "obvious", "killed by", "margin", "fault"):
        table.add_column(name, no_wrap=name != "fault", overflow="fold")
    for row in rows:
        named = [clause for clause in row.killed_by if clause in row.clauses]
        others = len(row.clauses) - len(named[:3])
        killers = ", ".join(named[:3]) + (f" +{others}" if others else "")
        margin = "exact" if row.margin is None else f"{row.margin:.1e}"
        known = row.catalogue or next(iter(row.reports), "")
        cells = (
            row.mutant,
            known,
            ",".join(row.obvious) or "-",
            killers if row.kills else "SURVIVES",
            margin if killers else "",
        )
        table.add_row(*map(escape, cells), escape(row.fault))
    return table


def _summary(console: Console, rows: Sequence[Row], lazy: Sequence[str]) -> None:
    obvious = sum(bool(row.obvious) for row in rows)
    killed = len(rows) - len(survivors(rows))
    console.print(
        f"\n{len(rows)} mutants: {obvious} killed by the four obvious laws, {killed} by the suite", highlight=False
    )
    for row in survivors(rows):
        console.print(f"survives  {row.mutant}: {escape(row.fault)}", highlight=False)
    for row in rows:
        if row.kills and row.missed:
            console.print(f"missed    {row.mutant} is not killed by {', '.join(row.missed)}", highlight=False)
    for clause in lazy:
        console.print(f"idle      {clause} kills nothing", highlight=False)
    for name, reason in NOT_EXPRESSIBLE.items():
        console.print(f"no mutant {name}: {escape(reason)}", highlight=False)
