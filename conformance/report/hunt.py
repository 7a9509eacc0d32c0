"""A hunt for a terminal: what went wrong, as it comes, and the table of what was tried."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from gaugeblock.conformance.children import ONE_THREAD
from gaugeblock.conformance.hunt import Hunt, hunt
from gaugeblock.conformance.records import writable
from gaugeblock.conformance.report.failure import text
from gaugeblock.conformance.seeds import Piece, dumps, read, table


@dataclass(frozen=True)
class Request:
    """What `gaugeblock hunt` was asked for: count seeds from first on; record takes in what was tried."""

    hunt: Hunt
    count: int = 1
    first: int | None = None
    jobs: int | None = None
    record: Path | None = None


def report(request: Request, console: Console) -> int:
    """Hunt, and give the exit status: 0 iff everything conforms.

    Raises ConfigError for what it does not know or a record that is none, NotAvailable for a backend that cannot run.
    """
    os.environ.update({name: os.environ.get(name, "1") for name in ONE_THREAD})  # for the processes to come
    writable(request.record, "record")
    chosen, found, failed = request.hunt.checked(), list[Piece](), False
    old = read(request.record) if request.record and request.record.exists() else []
    first = secrets.randbelow(10**9) if request.first is None else request.first
    console.print(f"seeds {first} to {first + request.count - 1}", highlight=False)
    for pieces, wrong in hunt(chosen, range(first, first + request.count), jobs=request.jobs or os.cpu_count() or 1):
        for record in wrong:
            console.print(escape(f"seed {pieces[0].seed}: {text(record)}\n"), highlight=False)
        found, failed = [*found, *pieces], failed or bool(wrong)
        _keep(request.record, [*old, *found])
    console.print(table(found), highlight=False, markup=False, end="")
    return 1 if failed else 0


def _keep(record: Path | None, pieces: Sequence[Piece]) -> None:
    """At once, so that nothing is lost where a hunt is ended."""
    if record:
        record.write_text(dumps(pieces), encoding="utf-8")
