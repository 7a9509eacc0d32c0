"""What the matrix of mutants says of the suite: how much each clause and each component kills, and its record."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gaugeblock import __version__
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.mutants.matrix import Row, survivors
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError

DECLARED = "wrong declarations"


@dataclass(frozen=True)
class ClausePower:
    """How many mutants a clause kills, how many only it kills, how many name it first and how many name it at all.

    kills and alone are lower and upper bounds where a mutant was left alone after its first kill.
    """

    clause: str
    kills: int
    alone: int
    first: int
    named: int


@dataclass(frozen=True)
class ComponentPower:
    """Of the mutants of a component, how many the four obvious laws kill and how many the suite."""

    component: str
    mutants: int
    obvious: int
    suite: int


def by_clause(rows: Iterable[Row]) -> list[ClausePower]:
    """The power of every clause of kind MUST that has a check, of the components that the rows are about."""
    rows = list(rows)
    kills = Counter(clause for row in rows for clause in row.clauses)
    alone = Counter(row.clauses[0] for row in rows if len(row.clauses) == 1)
    first = Counter(row.killed_by[0] for row in rows)
    named = Counter(clause for row in rows for clause in row.killed_by)
    about = {row.component for row in rows}
    binding = (c.id for c in clauses().values() if c.kind == "MUST" and not c.unchecked and c.component in about)
    return [ClausePower(c, kills[c], alone[c], first[c], named[c]) for c in binding]


def by_component(rows: Iterable[Row]) -> list[ComponentPower]:
    """The power of the suite in each component that has rows, beside that of the four laws that everybody writes.

    Wrong declarations of right implementations stand by themselves: no law of the obvious ones is about them.
    """
    rows = list(rows)
    named = [(name, [row for row in rows if row.component == name and not declares(row)]) for name in COMPONENTS]
    named.append((DECLARED, [row for row in rows if declares(row)]))
    return [_power(name, mine) for name, mine in named if mine]


def declares(row: Row) -> bool:
    """Whether the mutant computes rightly and declares something else."""
    known = mutants().get(row.mutant)
    return known is not None and known.make.__module__.endswith("_declared")


def _power(name: str, rows: Sequence[Row]) -> ComponentPower:
    return ComponentPower(name, len(rows), sum(bool(row.obvious) for row in rows), len(rows) - len(survivors(rows)))


def dumps(rows: Sequence[Row], profile: str) -> str:
    """The record as JSON, a mutant a line."""
    head = json.dumps({"gaugeblock": __version__, "profile": profile})[1:-1]
    lines = ",\n".join(json.dumps(row.as_json(), ensure_ascii=False) for row in rows)
    return f'{{{head}, "rows": [\n{lines}\n]}}\n'


def read(path: Path) -> tuple[str, list[Row]]:
    """The profile and the rows of a record.

    Raises ConfigError if the file is not one.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return str(data["profile"]), [Row.from_json(row) for row in data["rows"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"mutants: {path} is not a record of mutants: {error}") from error


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The new rows, and the old ones of other mutants that are still there; in the order of the registry."""
    rows = {row.mutant: row for row in (*old, *new)}
    return [rows[name] for name in mutants() if name in rows]
