"""Known failures: a strict list in a TOML file, each with its clause and its reason."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaugeblock.conformance.checks import Record
from gaugeblock.spec.clause import clause
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS


@dataclass(frozen=True)
class Known:
    """A clause that is known not to hold, for a backend and a dtype or ("") for all of them."""

    clause: str
    reason: str
    backend: str = ""
    dtype: str = ""

    def concerns(self, record: Record) -> bool:
        """Whether the entry speaks of this cell's backend and dtype."""
        return self.backend in ("", record.backend) and self.dtype in ("", record.dtype)

    def excuses(self, record: Record) -> bool:
        """Whether the entry covers the failure that this cell shows."""
        failed = record.outcome in ("fail", "error")
        clauses = {(record.failure or {}).get("clause"), *(record.clauses if record.outcome == "error" else ())}
        return failed and self.concerns(record) and self.clause in clauses


def read(path: str) -> list[Known]:
    """The entries of a file: tables [[known]] with clause, reason and optionally backend and dtype.

    Raises ConfigError that names the file and what is wrong in it.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"known: {path} cannot be read: {error}") from error
    return [_entry(table, number, path) for number, table in enumerate(data.get("known", []), 1)]


def apply(known: Iterable[Known], record: Record) -> Record:
    """Turn a failure that is known into known-failure, with the reason."""
    for entry in known:
        if entry.excuses(record):
            record.outcome, record.reason = "known-failure", entry.reason
    return record


def passing(known: Iterable[Known], records: Iterable[Record]) -> list[tuple[Known, Record]]:
    """The entries whose clause was checked and did not fail anywhere: each with a cell that passed."""
    records = list(records)
    found = []
    for entry in known:
        mine = [r for r in records if entry.concerns(r)]
        excused = any(r.outcome == "known-failure" and r.reason == entry.reason for r in mine)
        passed = [r for r in mine if r.outcome == "pass" and entry.clause in r.clauses]
        if passed and not excused:
            found.append((entry, passed[0]))
    return found


def _entry(table: dict[str, Any], number: int, path: str) -> Known:
    where = f"[{path}, entry {number}]"
    unknown = set(table) - {"clause", "reason", "backend", "dtype"}
    if unknown or not table.get("reason") or not table.get("clause"):
        raise ConfigError(f"known: an entry has clause, reason and optionally backend and dtype; got {table} {where}")
    if table.get("dtype", "float32") not in FORMATS:
        raise ConfigError(f"known: dtype must be one of {', '.join(FORMATS)}, got {table['dtype']!r} {where}")
    return Known(**{**table, "clause": clause(table["clause"]).id})
