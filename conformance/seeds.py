"""The seeds that thorough runs have drawn, and what came of them: the record."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gaugeblock.conformance.checks import Record
from gaugeblock.conformance.records import OPEN, WRONG, cell
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS

WANTED = 200  # seeds of every component on every backend


@dataclass(frozen=True)
class Piece:
    """A thorough run of one component on one backend, with one seed.

    worst     per dtype the largest error over allowed error; of numbers that are rounded once and hit the bound, 1;
    wrong     the checks that do not conform, not_run those of which nothing is known, each as check-dtype.
    """

    component: str
    backend: str
    seed: int
    cells: int
    examples: int
    worst: Mapping[str, float]
    wrong: Sequence[str]
    not_run: Sequence[str]


def pieces(lines: Iterable[Mapping[str, Any]]) -> list[Piece]:
    """The pieces of a record that `gaugeblock check --out` has written.

    Raises ConfigError unless it is one of a thorough run.
    """
    lines = list(lines)
    runs = [line for line in lines if line["kind"] == "run"]
    if not runs or any(run["profile"] != "thorough" or run["seed"] is None for run in runs):
        raise ConfigError("seeds: expected the record of a thorough run with a seed")
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in (cell(line) for line in lines if line["kind"] == "cell"):
        found[record.component, record.backend].append(record)
    return [piece(*key, runs[0]["seed"], mine) for key, mine in found.items()]


def piece(component: str, backend: str, seed: int, mine: Sequence[Record]) -> Piece:
    """What the records of a component, a backend and a seed add up to; of a group of backends, where they differ."""

    def named(outcomes: Sequence[str]) -> list[str]:
        return [_name(record, backend) for record in mine if record.outcome in outcomes]

    dtypes = [dtype for dtype in FORMATS if dtype in {record.dtype for record in mine}]
    worst = {dtype: round(max(r.headroom for r in mine if r.dtype == dtype), 3) for dtype in dtypes}
    examples = sum(record.examples for record in mine)
    return Piece(component, backend, seed, len(mine), examples, worst, named(WRONG), named(OPEN))


def _name(record: Record, backend: str) -> str:
    name = f"{record.check}-{record.dtype}"
    return name if record.backend == backend else f"{record.backend}: {name}"


def read(path: Path) -> list[Piece]:
    """The pieces of a record.

    Raises ConfigError if the file is not one.
    """
    try:
        return [Piece(**one) for one in json.loads(path.read_text(encoding="utf-8"))["pieces"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"seeds: {path} is not a record of seeds: {error}") from error


def dumps(found: Iterable[Piece]) -> str:
    """The record as JSON, a piece a line; of two of the same seed the larger one counts, or the later of equals."""
    order = sorted(found, key=lambda one: one.cells)
    kept = {(COMPONENTS.index(one.component), one.backend, one.seed): one for one in order}
    lines = ",\n".join(json.dumps(asdict(kept[key])) for key in sorted(kept))
    return f'{{"pieces": [\n{lines}\n]}}\n'


def keep(path: Path, found: Iterable[Piece]) -> None:
    """Take pieces into the record, which may not be there yet; whoever ends it meanwhile leaves the old one.

    Raises ConfigError if the file is not a record.
    """
    known = read(path) if path.exists() else []
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(dumps([*known, *found]), encoding="utf-8")
    beside.replace(path)


def table(found: Iterable[Piece]) -> str:
    """How many seeds each component has had on each backend, and how near they came to the bounds, in Markdown."""
    groups: dict[tuple[str, str], list[Piece]] = defaultdict(list)
    for one in found:
        groups[one.component, one.backend].append(one)
    order = sorted(groups, key=lambda key: (COMPONENTS.index(key[0]), key[1]))
    head = ("component", "backend", "seeds", "examples", *FORMATS, "wrong")
    rows = [head, ("---",) * len(head), *(_row(*key, groups[key]) for key in order)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(component: str, backend: str, mine: Sequence[Piece]) -> tuple[str, ...]:
    def near(dtype: str) -> Iterator[float]:
        return (one.worst[dtype] for one in mine if dtype in one.worst)

    worst = (f"{max(near(dtype)):.2f}" if any(dtype in one.worst for one in mine) else "" for dtype in FORMATS)
    examples, wrong = sum(one.examples for one in mine), sum(len(one.wrong) for one in mine)
    return (component, backend, f"{len(mine)} of {WANTED}", str(examples), *worst, str(wrong))


if __name__ == "__main__":  # RECORD [RUN.jsonl ...]: take the runs into the record, and print the table
    place, *new = map(Path, sys.argv[1:])
    for path in new:
        keep(place, pieces(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()))
    print(table(read(place)), end="")
