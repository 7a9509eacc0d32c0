"""The record of a run: JSON lines, one for the run, one for its plan, one for each cell."""

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gaugeblock import __version__
from gaugeblock.conformance.checks import Plan, Record, label
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import ConfigError

SCHEMA = 1
OUTCOMES = (
    "pass",
    "fail",
    "error",
    "undetermined",
    "unsupported",
    "known-failure",
    "unexpected-pass",
    "not-available",
    "not-run",
)
WRONG = ("fail", "error", "unexpected-pass")
OPEN = ("undetermined", "not-available", "not-run")


def header(backends: Iterable[Backend], plan: Plan) -> dict[str, Any]:
    """The first line: what was run, on what, how."""
    return {
        "kind": "run",
        "schema": SCHEMA,
        "gaugeblock": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "profile": plan.profile,
        "seed": plan.seed,
        "backends": [declared(backend) for backend in backends],
    }


def declared(backend: Backend) -> dict[str, Any]:
    """What a backend says of itself."""
    return {
        "name": label(backend),
        "dtypes": sorted(backend.dtypes),
        "level": {key: str(level) for key, level in backend.level.items()},
        "conventions": str(backend.conventions),
        "unsupported": dict(backend.unsupported),
        "describe": _described(backend),
    }


def _described(backend: Backend) -> dict[str, str]:
    try:
        return {str(name): str(value) for name, value in backend.describe().items()}
    except Exception as error:
        raise ConfigError(f"backends: describe() of {label(backend)} raised {type(error).__name__}: {error}") from error


def distinct(words: dict[str, str], name: str, word: str) -> None:
    """Enter by which word the backend of this name was asked for.

    Raises ConfigError if another word has the name: a report could not tell the two apart.
    """
    if words.setdefault(name, word) != word:
        raise ConfigError(f"backends: {words[name]} and {word} are both called {name!r}; give one of them another name")


def writable(path: Path | None, option: str) -> None:
    """Refuse a place where no file can be, before work is done that would be lost; None is fine.

    Raises ConfigError.
    """
    if path and (path.is_dir() or not path.parent.is_dir()):
        raise ConfigError(f"{option}: must be a file in a folder that exists, got {path}")
    if path and not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{option}: must be a file that may be written, got {path}")


def line(record: Record | Mapping[str, Any]) -> str:
    """One line of JSON; what is infinite or not a number becomes a string, which JSON can hold."""
    data = {"kind": "cell", **asdict(record)} if isinstance(record, Record) else dict(record)
    return json.dumps(_finite(data), ensure_ascii=False)


def read(path: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The lines of a record from a byte on, and the byte after them; a last line that is not complete is left out."""
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        complete, newline, _ = file.read().rpartition(b"\n")
    return [json.loads(one) for one in complete.splitlines()], start + len(complete) + len(newline)


def cell(data: Mapping[str, Any]) -> Record:
    """A cell's record from its line."""
    known = {f.name for f in fields(Record)}
    record = Record(**{name: value for name, value in data.items() if name in known})
    record.clauses = tuple(record.clauses)
    return record


def exit_status(outcomes: Iterable[str]) -> int:
    """0 conforms, 1 does not conform, 3 incomplete or not available."""
    seen = set(outcomes)
    return 1 if seen & set(WRONG) else 3 if seen & set(OPEN) or not seen else 0


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data
