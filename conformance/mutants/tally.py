"""What became of the generic mutants, file by file: the record."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gaugeblock import __version__
from gaugeblock.conformance.mutants.generic import FILES, Found, sample
from gaugeblock.spec.errors import ConfigError


@dataclass(frozen=True)
class Tally:
    """The generic mutants of a file.

    digest    of all changes that can be made, so that a record of another text is known;
    changes   how many those are, tried of them, drawn by the seed;
    killed    by a check that fails, or because they ran too long;
    noted     by a note of a check of a clause of kind SHOULD, which fails nobody;
    open      what nothing notices and nothing excuses: line, before, after;
    seconds   of one processor.
    """

    file: str
    digest: str
    changes: int
    tried: int
    seed: int
    killed: int
    noted: int
    equivalent: int
    open: Sequence[Mapping[str, Any]]
    seconds: float

    @property
    def share(self) -> float:
        """Which part is killed of those that are not excused, 1 where there are none."""
        return self.killed / max(self.killed + len(self.open), 1) if self.tried else 1.0


def tally(module: str, seed: int, found: Iterable[Found], seconds: float) -> Tally:
    """Count what became of the mutants of a file that were tried."""
    found = list(found)
    fates = Counter(one.fate for one in found)
    left = [{"line": one.line, "before": one.before, "after": one.after} for one in found if one.fate == "survives"]
    return Tally(
        module,
        digest(module),
        len(sample(module, None, 0)),
        len(found),
        seed,
        fates["killed"] + fates["timeout"],
        fates["noted"],
        fates["equivalent"],
        sorted(left, key=lambda one: (one["line"], one["after"])),
        round(seconds, 1),
    )


def digest(module: str) -> str:
    """Of the changes that can be made to a file; comments and docstrings do not count."""
    lines = (f"{m.kind} {m.before} {m.after}" for m in sample(module, None, 0))
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def read(path: Path) -> list[Tally]:
    """The tallies of a record.

    Raises ConfigError if the file is not one.
    """
    try:
        return [Tally(**one) for one in json.loads(path.read_text(encoding="utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"mutate: {path} is not a record of mutations: {error}") from error


def write(path: Path, profile: str, new: Iterable[Tally]) -> None:
    """Write a record; what it says of other files stays.

    Raises ConfigError if there is a file that is not a record.
    """
    kept = {one.file: one for one in (*(read(path) if path.exists() else ()), *new)}
    lines = ",\n".join(json.dumps(asdict(kept[file]), ensure_ascii=False) for file in FILES if file in kept)
    head = json.dumps({"gaugeblock": __version__, "profile": profile})[1:-1]
    path.write_text(f'{{{head}, "files": [\n{lines}\n]}}\n', encoding="utf-8")


def table(tallies: Iterable[Tally]) -> str:
    """The record as a table in Markdown."""
    tallies = list(tallies)
    head = ("file", "changes", "tried", "killed", "noted", "equivalent", "open", "killed of those that count", "CPU s")
    lines = [_line(head), _line("---" for _ in head), *map(_row, tallies)]
    return "\n".join([*lines, _row(_total(tallies))]) + "\n"


def _total(tallies: Sequence[Tally]) -> Tally:
    def whole(name: str) -> int:
        return sum(getattr(one, name) for one in tallies)

    left = [change for one in tallies for change in one.open]
    seconds = sum(one.seconds for one in tallies)
    counts = {name: whole(name) for name in ("changes", "tried", "killed", "noted", "equivalent")}
    return Tally("all", "", seed=0, open=left, seconds=seconds, **counts)


def _row(one: Tally) -> str:
    counts = (one.changes, one.tried, one.killed, one.noted, one.equivalent, len(one.open))
    return _line([one.file, *map(str, counts), f"{100 * one.share:.1f} %", f"{one.seconds:.0f}"])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]))), end="")
