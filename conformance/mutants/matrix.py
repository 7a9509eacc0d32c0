"""Which checks kill which mutant: pure data, for the command line, the report and the tests."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from math import isfinite
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from gaugeblock.conformance.checks import SUITE_IS_WRONG, Check, Plan, Record, registry, run
from gaugeblock.conformance.diagnosis import BROKEN
from gaugeblock.conformance.memory import remember, remembering
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

    ratio is error over allowed error; None where the law is exact, the result not finite or the backend raised. case
    are the inputs: what follows the name of the check in the text that reproduces it, "" for a check without cases.
    """

    clause: str
    check: str
    dtype: str
    outcome: str
    ratio: float | None
    case: str


@dataclass(frozen=True)
class Row:
    """A mutant and what killed it.

    killed_by are the clauses that it names; kills the cells that do not conform, all of them if whole, else the first
    that was found. obvious are the letters of the laws that everybody writes which it breaks.
    """

    mutant: str
    component: str
    fault: str
    catalogue: str
    reports: tuple[str, ...]
    killed_by: tuple[str, ...]
    kills: tuple[Kill, ...]
    whole: bool
    obvious: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The row as what json.dumps takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Row":
        """The row that as_json gave."""
        lists = {name: tuple(data[name]) for name in ("reports", "killed_by", "obvious")}
        return cls(**{**data, **lists, "kills": tuple(Kill(**kill) for kill in data["kills"])})

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clauses that kill it, in the order in which they were tried."""
        return tuple(dict.fromkeys(kill.clause for kill in self.kills))

    @property
    def first(self) -> Kill | None:
        """The first kill."""
        return next(iter(self.kills), None)

    @property
    def margin(self) -> float | None:
        """The largest error over allowed error among the kills; None if no kill has one."""
        return max((kill.ratio for kill in self.kills if kill.ratio is not None), default=None)

    @property
    def missed(self) -> tuple[str, ...]:
        """The clauses that are named and do not kill; none unless every check was tried."""
        return tuple(clause for clause in self.killed_by if clause not in self.clauses) if self.whole else ()


def matrix(
    only: Iterable[str] = (),
    *,
    dtypes: Iterable[str] = (),
    profile: str = "default",
    seed: int | None = None,
    first: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Run the checks of its component on every mutant.

    only are names of mutants, components, clauses (that a mutant is to be killed by) or numbers of the catalogue, all
    if there are none; dtypes those to try instead of the ones in which a mutant shows; seed draws other examples than
    the usual ones. With first a mutant is left alone once it is killed, the checks of the clauses that it names being
    tried first; a clause that comes off with nothing is then tried on the mutants that name it. progress is called
    with each row as it comes, how many there are so far and how many there will be; the rows come in the order of the
    registry.
    Raises ConfigError for a word that names nothing.
    """
    chosen, work = [m.name for m in selected(only)], Work(tuple(dtypes), profile, seed, first)
    rows: dict[str, Row] = {}
    with _workers(jobs if len(chosen) > 1 else 1) as run_all:
        for row in run_all(_row, ((name, work) for name in chosen)):
            rows[row.mutant] = row
            if progress:
                progress(row, len(rows), len(chosen))
        if first:
            spared = idle(row for row in rows.values() if row.component in complete(rows.values()))
            for name, kill in filter(None, run_all(_spared, ((clause, work) for clause in spared))):
                rows[name] = replace(rows[name], kills=(*rows[name].kills, kill))
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


def row(
    mutant: Mutant,
    dtypes: Sequence[str] = (),
    profile: str = "default",
    seed: int | None = None,
    first: bool = False,
) -> Row:
    """Run every check of its component on a mutant, or those until the first kill."""
    start = perf_counter()
    cells = product(_checks(mutant), dtypes or mutant.dtypes)
    found = kills(mutant, cells, profile, seed)
    return Row(
        mutant=mutant.name,
        component=mutant.component,
        fault=mutant.fault,
        catalogue=mutant.catalogue,
        reports=mutant.reports,
        killed_by=mutant.killed_by,
        kills=tuple(islice(found, 1) if first else found),
        whole=not first,
        obvious=obvious(mutant.make()),
        seconds=round(perf_counter() - start, 2),
    )


def kills(
    mutant: Mutant, cells: Iterable[tuple[Check, str]], profile: str = "default", seed: int | None = None
) -> Iterator[Kill]:
    """The checks and dtypes in which a mutant fails, each on a backend of its own; an error of the suite is no kill."""
    for check, dtype in cells:
        record = run(check, mutant.make(), dtype, Plan(profile, seed, shrink=False))
        if record.outcome in WRONG and not record.reason.startswith(SUITE_IS_WRONG):
            if BROKEN in str(record.failure):
                raise AssertionError(f"{mutant.name}, {check.name}, {dtype}: {record.failure}")
            case = str((record.failure or {}).get("case", "")).partition(" ")[2]
            yield Kill(blamed(record), check.name, dtype, record.outcome, _ratio(record), case)


def killed_by(mutant: Mutant, clause: str, profile: str = "default") -> Kill | None:
    """The first failure that is blamed on a clause, sought among its own checks first; None if there is none."""
    checks = sorted(_checks(mutant), key=lambda check: clause not in check.clauses)
    found = kills(mutant, product(checks, mutant.dtypes), profile)
    return next((kill for kill in found if kill.clause == clause), None)


def survivors(rows: Iterable[Row]) -> list[Row]:
    """The mutants that no check has killed."""
    return [row for row in rows if not row.kills]


def complete(rows: Iterable[Row]) -> set[str]:
    """The components all of whose mutants are among the rows."""
    names = {row.mutant for row in rows}
    return set(COMPONENTS) - {mutant.component for mutant in mutants().values() if mutant.name not in names}


def idle(rows: Iterable[Row]) -> list[str]:
    """The clauses of kind MUST that have a check and kill nothing, of the components that the rows are about."""
    rows = list(rows)
    killing = {kill.clause for row in rows for kill in row.kills}
    binding = (c for c in clauses().values() if c.kind == "MUST" and not c.unchecked)
    return [c.id for c in binding if c.component in {row.component for row in rows} and c.id not in killing]


@dataclass(frozen=True)
class Work:
    """How to try each mutant."""

    dtypes: tuple[str, ...]
    profile: str
    seed: int | None
    first: bool


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """A function that calls another on each tuple of arguments, in so many processes; results come as they are done."""
    if jobs <= 1:
        with remembering():
            yield lambda function, tasks: (function(*task) for task in tasks)
        return
    # spawned, not forked: frameworks that the parent has loaded hold locks and threads
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), remember)
    try:
        yield lambda function, tasks: (
            done.result() for done in as_completed([pool.submit(function, *task) for task in tasks])
        )
    finally:
        pool.shutdown(cancel_futures=True)


def _row(name: str, work: Work) -> Row:
    return row(mutants()[name], work.dtypes, work.profile, work.seed, work.first)


def _spared(clause: str, work: Work) -> tuple[str, Kill] | None:
    """A mutant that names the clause, and how the clause's own checks kill it."""
    for mutant in (m for m in mutants().values() if clause in m.killed_by):
        mine = [check for check in _checks(mutant) if clause in check.clauses]
        for kill in kills(mutant, product(mine, mutant.dtypes), work.profile, work.seed):
            if kill.clause == clause:
                return mutant.name, kill
    return None


def _checks(mutant: Mutant) -> list[Check]:
    """The checks of its component, those of the clauses that it names first."""
    named = {clause: i for i, clause in enumerate(mutant.killed_by)}
    backend = mutant.make()
    mine = [c for c in registry().values() if c.component == mutant.component and of_backend(c, backend)]
    return sorted(mine, key=lambda check: min(named.get(clause, len(named)) for clause in check.clauses))


def _named(mutant: Mutant, word: str) -> bool:
    names = (mutant.name, mutant.catalogue, *mutant.killed_by)
    return word == mutant.component if word in COMPONENTS else word.upper() in {name.upper() for name in names if name}


def _ratio(record: Record) -> float | None:
    ratio = float((record.failure or {}).get("ratio", "inf"))
    return ratio if isfinite(ratio) else None
