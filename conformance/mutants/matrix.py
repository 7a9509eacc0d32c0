"""Which checks kill which mutant: pure data, for the command line, the report and the tests."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from math import isfinite
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from gaugeblock.conformance.checks import Check, Plan, Record, registry, run
from gaugeblock.conformance.mutants import Mutant, mutants
from gaugeblock.conformance.mutants.obvious import obvious
from gaugeblock.conformance.records import WRONG
from gaugeblock.conformance.report.failure import blamed
from gaugeblock.conformance.selection import of_backend
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError

Progress = Callable[["Row", int, int], None]


@dataclass(frozen=True)
class Kill:
    """A cell that does not conform: the clause that it blames, check, dtype, outcome.

    ratio is error over allowed error; None where the law is exact, the result not finite or the backend raised.
    """

    clause: str
    check: str
    dtype: str
    outcome: str
    ratio: float | None


@dataclass(frozen=True)
class Row:
    """A mutant and what killed it.

    killed_by are the clauses that it names, kills all the cells that do not conform; first is the check that kills
    first, margin the largest ratio, missed the clauses that are named and do not kill. obvious are the letters of the
    laws that everybody writes which it breaks.
    """

    mutant: str
    component: str
    fault: str
    catalogue: str
    reports: tuple[str, ...]
    killed_by: tuple[str, ...]
    kills: tuple[Kill, ...]
    first: str
    margin: float | None
    missed: tuple[str, ...]
    obvious: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The row as what json.dumps takes."""
        return asdict(self)

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clauses that kill it, in the order of the checks."""
        return tuple(dict.fromkeys(kill.clause for kill in self.kills))


def matrix(
    only: Iterable[str] = (),
    *,
    dtypes: Iterable[str] = (),
    profile: str = "default",
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Run the checks of its component on every mutant.

    only are names of mutants, components, clauses (that a mutant is to be killed by) or numbers of the catalogue, all
    if there are none; dtypes those to try instead of the ones in which a mutant shows. progress is called with each
    row as it comes, how many there are so far and how many there will be; the rows come in the order of the registry.
    Raises ConfigError for a word that names nothing.
    """
    chosen, tried = [m.name for m in selected(only)], tuple(dtypes)
    rows: dict[str, Row] = {}
    for row in _rows(chosen, tried, profile, jobs):
        rows[row.mutant] = row
        if progress:
            progress(row, len(rows), len(chosen))
    return [rows[name] for name in chosen]


def selected(only: Iterable[str]) -> list[Mutant]:
    """The mutants that the words name; all if there are no words.

    Raises ConfigError for a word that names none.
    """
    words = list(only)
    lost = [word for word in words if not any(_named(mutant, word) for mutant in mutants().values())]
    if lost:
        raise ConfigError(f"mutants: {', '.join(lost)} names no mutant; expected its name, a component or a clause")
    return [m for m in mutants().values() if not words or any(_named(m, word) for word in words)]


def row(mutant: Mutant, dtypes: Sequence[str] = (), profile: str = "default") -> Row:
    """Run every check of its component on a mutant."""
    start = perf_counter()
    found = [kill for dtype in dtypes or mutant.dtypes for kill in kills(mutant, _checks(mutant), dtype, profile)]
    ratios = [kill.ratio for kill in found if kill.ratio is not None]
    by = {kill.clause for kill in found}
    return Row(
        mutant=mutant.name,
        component=mutant.component,
        fault=mutant.fault,
        catalogue=mutant.catalogue,
        reports=mutant.reports,
        killed_by=mutant.killed_by,
        kills=tuple(found),
        first=found[0].check if found else "",
        margin=max(ratios, default=None),
        missed=tuple(clause for clause in mutant.killed_by if clause not in by),
        obvious=obvious(mutant.make()),
        seconds=perf_counter() - start,
    )


def kills(
    mutant: Mutant, checks: Iterable[Check], dtype: str, profile: str = "default", seed: int | None = None
) -> Iterator[Kill]:
    """The checks that a mutant fails in a dtype, each on a backend of its own."""
    for check in checks:
        record = run(check, mutant.make(), dtype, Plan(profile, seed, shrink=False))
        if record.outcome in WRONG:
            yield Kill(blamed(record), check.name, dtype, record.outcome, _ratio(record))


def killed_by(mutant: Mutant, clause: str, profile: str = "default") -> Kill | None:
    """The first failure that is blamed on a clause, sought among its own checks first; None if there is none."""
    checks = sorted(_checks(mutant), key=lambda check: clause not in check.clauses)
    found = (kill for dtype in mutant.dtypes for kill in kills(mutant, checks, dtype, profile))
    return next((kill for kill in found if kill.clause == clause), None)


def survivors(rows: Iterable[Row]) -> list[Row]:
    """The mutants that no check has killed."""
    return [row for row in rows if not row.kills]


def idle(rows: Iterable[Row]) -> list[str]:
    """The clauses of kind MUST that have a check and kill nothing, of the components that the rows are about."""
    rows = list(rows)
    killing = {kill.clause for row in rows for kill in row.kills}
    binding = (c for c in clauses().values() if c.kind == "MUST" and not c.unchecked)
    return [c.id for c in binding if c.component in {row.component for row in rows} and c.id not in killing]


def _rows(names: list[str], dtypes: tuple[str, ...], profile: str, jobs: int) -> Iterator[Row]:
    if jobs <= 1 or len(names) < 2:
        yield from (_row(name, dtypes, profile) for name in names)
        return
    # spawned, not forked: frameworks that the parent has loaded hold locks and threads
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_row, name, dtypes, profile) for name in names]
        yield from (done.result() for done in as_completed(waiting))


def _row(name: str, dtypes: tuple[str, ...], profile: str) -> Row:
    return row(mutants()[name], dtypes, profile)


def _checks(mutant: Mutant) -> list[Check]:
    backend = mutant.make()
    return [c for c in registry().values() if c.component == mutant.component and of_backend(c, backend)]


def _named(mutant: Mutant, word: str) -> bool:
    names = (mutant.name, mutant.catalogue, *mutant.killed_by)
    return word == mutant.component if word in COMPONENTS else word.upper() in {name.upper() for name in names if name}


def _ratio(record: Record) -> float | None:
    ratio = float((record.failure or {}).get("ratio", "inf"))
    return ratio if isfinite(ratio) else None
