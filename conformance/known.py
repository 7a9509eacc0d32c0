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

    def explains(self, record: Record) -> bool:
        """Whether what went wrong in this cell breaks the entry's clause; an error may break any of the check's."""
        blamed = (record.failure or {}).get("clause")
        return self.concerns(record) and self.clause in ((blamed,) if blamed else record.clauses)


def read(path: str) -> list[Known]:
    """The entries of a file: tables [[known]] with clause, reason and optionally backend and dtype.

    Raises ConfigError that names the file and what is wrong in it.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"known: {path} cannot be read: {error}") from error
    tables = data.pop("known", [])
    if data or not isinstance(tables, list):
        raise ConfigError(
            f"known: a file holds tables [[known]] and nothing else, got {', '.join(data) or tables} [{path}]"
        )
    return [_entry(table, number, path) for number, table in enumerate(tables, 1)]


def apply(known: Iterable[Known], record: Record) -> Record:
    """Turn a failure that is known into known-failure, with the reason."""
    for entry in known:
        if record.outcome in ("fail", "error") and entry.explains(record):
            record.outcome, record.reason = "known-failure", entry.reason
    return record


def passing(known: Iterable[Known], records: Iterable[Record]) -> list[tuple[Known, Record]]:
    """The entries whose clause was checked and did not fail anywhere: each with a cell that passed."""
    records = list(records)
    found = []
    for entry in known:
        mine = [r for r in records if entry.concerns(r)]
        excused = any(r.outcome == "known-failure" and entry.explains(r) for r in mine)
        passed = [r for r in mine if r.outcome == "pass" and entry.clause in r.clauses]
        if passed and not excused:
            found.append((entry, passed[0]))
    return found


def _entry(table: Any, number: int, path: str) -> Known:
    where = f"[{path}, entry {number}]"
    if not _has_what_it_needs(table):
        raise ConfigError(f"known: an entry has clause, reason and optionally backend and dtype; got {table} {where}")
    if table.get("dtype", "float32") not in FORMATS:
        raise ConfigError(f"known: dtype must be one of {', '.join(FORMATS)}, got {table['dtype']!r} {where}")
    return Known(**{**table, "clause": clause(table["clause"]).id})


def _has_what_it_needs(table: Any) -> bool:
    if not isinstance(table, dict) or not all(isinstance(value, str) and value for value in table.values()):
        return False
    return {"clause", "reason"} <= set(table) <= {"clause", "reason", "backend", "dtype"}
