"""A hunt for a terminal: what went wrong, as it comes, and the table of what was tried."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from gaugeblock.conformance.children import ONE_THREAD
from gaugeblock.conformance.hunt import Hunt, hunt
from gaugeblock.conformance.records import WRONG, writable
from gaugeblock.conformance.report.failure import text
from gaugeblock.conformance.seeds import Piece, keep, read, table
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError

LEAST = ("float32", "bfloat16")  # that a record must hold


@dataclass(frozen=True)
class Request:
    """What `gaugeblock hunt` was asked for: count seeds from first on; record takes in what was tried."""

    hunt: Hunt
    count: int = 1
    first: int | None = None
    jobs: int | None = None
    record: Path | None = None

    def checked(self) -> Hunt:
        """The hunt, once it is known that it can run and be recorded.

        Raises ConfigError, NotAvailable.
        """
        if self.record:
            writable(self.record, "record")
            if self.record.exists():
                read(self.record)
            if not set(self.hunt.only) <= set(COMPONENTS):
                raise ConfigError(f"record: holds whole components, not {', '.join(self.hunt.only)}")
            if self.hunt.dtypes and not set(LEAST) <= set(self.hunt.dtypes):
                raise ConfigError(f"record: needs {' and '.join(LEAST)}, got {', '.join(self.hunt.dtypes)}")
        return self.hunt.checked()


def report(request: Request, console: Console) -> int:
    """Hunt, and give the exit status: 0 iff all conforms, 1 if something does not, 3 if something stays open.

    Raises ConfigError for what it does not know or a record that is none, NotAvailable for a backend that cannot run.
    """
    os.environ.update({name: os.environ.get(name, "1") for name in ONE_THREAD})  # for the processes to come
    asked, found, outcomes = request.checked(), list[Piece](), set[str]()
    first = secrets.randbelow(10**9) if request.first is None else request.first
    seeds = range(first, first + request.count)
    console.print(f"seeds {seeds[0]} to {seeds[-1]}", highlight=False)
    try:
        for pieces, open_ in hunt(asked, seeds, jobs=request.jobs or os.cpu_count() or 1):
            for record in open_:
                console.print(escape(f"seed {pieces[0].seed}: {text(record, 'case')}\n"), highlight=False)
            found += pieces
            outcomes |= {record.outcome for record in open_}
            if request.record:
                keep(request.record, pieces)
    finally:  # whoever ends it wants to know what was found
        console.print(table(found), highlight=False, markup=False, end="")
    return 1 if outcomes & set(WRONG) else 3 if outcomes or not found else 0
