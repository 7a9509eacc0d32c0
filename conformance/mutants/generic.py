"""Generic mutants: every small change of a file of the NumPy backend, and whether any check notices."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from random import Random
from time import process_time
from typing import Any

from gaugeblock.conformance.checks import SUITE_IS_WRONG, Plan, registry, run
from gaugeblock.conformance.memory import remember
from gaugeblock.conformance.mutants.ast_mutation import DEMOTED, SCALED, Mutation, mutations
from gaugeblock.conformance.mutants.equivalent import excuse
from gaugeblock.conformance.mutants.reach import Reach, Visit, reach
from gaugeblock.conformance.mutants.reasons import NO_NUMBERS
from gaugeblock.conformance.mutants.swapped import changed, path
from gaugeblock.conformance.records import WRONG
from gaugeblock.spec.backend import Backend

FILES = (
    "arrays",
    "normalization",
    "positions",
    "rotary",
    "attention",
    "feedforward",
    "multihead",
    "blocks",
    "cache",
    "model",
    "decoder",
)
# the components whose checks are to notice a change of a file, where they are not the one of that name
NOTICED_BY: Mapping[str, tuple[str, ...]] = {
    "arrays": ("normalization", "feedforward", "attention"),
    "rotary": ("positions",),
    "multihead": ("multihead", "model"),
    "blocks": ("blocks", "model"),
    "cache": ("cache", "model"),
    "decoder": ("model",),
}
TIMEOUT = 60.0


@dataclass(frozen=True)
class Found:
    """A generic mutant and what became of it.

    fate is killed, timeout, noted, equivalent or survives; by the check and dtype that killed, the note (of a clause of
    kind SHOULD), or why it is equivalent.
    """

    file: str
    line: int
    kind: str
    before: str
    after: str
    fate: str
    by: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """As what json.dumps takes."""
        return asdict(self)

    @property
    def diff(self) -> str:
        """The statement before and after."""
        return "\n".join([*(f"-{x}" for x in self.before.splitlines()), *(f"+{x}" for x in self.after.splitlines())])


class TooLong(BaseException):
    """A mutant ran too long; no Exception, so that nothing takes it for what a backend raises."""


@dataclass
class Odds:
    """How often each check has killed, in all and on each line: what to try first."""

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: Counter[tuple[str, str]] = field(default_factory=Counter)
    near: dict[int, Visit] = field(default_factory=dict)

    def ordered(self, line: int, visits: Iterable[Visit]) -> list[Visit]:
        """What last killed on this line, then by kills per second: the order in which a kill is soonest expected."""
        return sorted(visits, key=lambda visit: (visit != self.near.get(line), -self._rate(visit)))

    def _rate(self, visit: Visit) -> float:
        key = visit.check, visit.dtype
        return (self.kills[key] + 0.2) / (self.tries[key] + 1) / (visit.seconds + 0.01)

    def note(self, line: int, visit: Visit, killed: bool) -> None:
        """Remember what came of a check."""
        self.tries[visit.check, visit.dtype] += 1
        if killed:
            self.kills[visit.check, visit.dtype] += 1
            self.near[line] = visit


def sample(module: str, count: int | None, seed: int) -> list[Mutation]:
    """The mutations of a module of the NumPy backend, or so many of them; a larger sample holds the smaller ones.

    Raises ConfigError if there is no such module.
    """
    found = mutations(path(module).read_text(encoding="utf-8"))
    chosen = range(len(found)) if count is None else Random(seed).sample(range(len(found)), len(found))[:count]
    return [found[n] for n in sorted(chosen)]


def survey(trial: "Trial", chosen: Sequence[Mutation], *, jobs: int = 1) -> Iterator[Found]:
    """What becomes of each mutation of a file, as it comes."""
    if jobs <= 1:
        yield from map(trial, chosen)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _take, (trial,))
    try:
        yield from (done.result() for done in as_completed([pool.submit(_taken, mutation) for mutation in chosen]))
    finally:
        pool.shutdown(cancel_futures=True)


def _take(trial: "Trial") -> None:
    global _trial
    _trial = trial
    remember()


def _taken(mutation: Mutation) -> Found:
    return _trial(mutation)


def trials(modules: Sequence[str], profile: str = "default", timeout: float = TIMEOUT) -> list["Trial"]:
    """The checks that the mutants of each file will meet.

    Raises ConfigError if the NumPy backend has no such module.
    """
    reached = reach({module: NOTICED_BY.get(module, (module,)) for module in modules}, profile)
    return [Trial(module, reached[module], profile, timeout) for module in modules]


@dataclass
class Trial:
    """The mutants of a file before the checks that reach their line; timeout is in seconds of a check."""

    module: str
    reach: Reach
    profile: str = "default"
    timeout: float = TIMEOUT
    odds: Odds = field(default_factory=Odds)

    def __call__(self, mutation: Mutation) -> Found:
        """Run the checks until one fails."""
        start = process_time()
        reason = self._excuse(mutation)
        fate, by = ("equivalent", reason) if reason else self._fate(mutation)
        seconds = round(process_time() - start, 2)
        name = f"backends/numpy/{self.module}.py"
        return Found(name, mutation.line, mutation.kind, mutation.before, mutation.after, fate, by, seconds)

    def _excuse(self, mutation: Mutation) -> str:
        line = mutation.line
        if line in self.reach.visits and mutation.kind.startswith("result"):
            helper = DEMOTED if mutation.kind == "result demoted" else SCALED
            if helper not in self.reach.numbers.get(line, ()):
                return NO_NUMBERS
        return excuse(self.module, mutation, arrays=line not in self.reach.converted)

    def _fate(self, mutation: Mutation) -> tuple[str, str]:
        try:
            make = changed(self.module, mutation.source)
        except Exception as error:
            return "killed", f"raised {type(error).__name__} when it was imported"
        visits = self.reach.visits.get(mutation.line, ())
        noted = ""
        for visit in self.odds.ordered(mutation.line, visits):
            try:
                with _limit(self.timeout):
                    killed, notes = self._tried(visit, make)
            except Exception as error:  # the check itself breaks on it
                return "killed", f"{visit.check} {visit.dtype} raised {type(error).__name__}"
            except TooLong:
                return "timeout", f"{visit.check} {visit.dtype} ran longer than {self.timeout:.0f} s"
            self.odds.note(mutation.line, visit, killed)
            if killed:
                return "killed", f"{visit.check} {visit.dtype}"
            noted = noted or "; ".join(sorted(notes - visit.notes))
        if noted:
            return "noted", noted
        return "survives", "" if visits else "no check comes there"

    def _tried(self, visit: Visit, make: type[Backend]) -> tuple[bool, frozenset[str]]:
        record = run(registry()[visit.check], make(), visit.dtype, Plan(self.profile, shrink=False))
        killed = record.outcome in WRONG and not record.reason.startswith(SUITE_IS_WRONG)
        return killed, frozenset(record.notes)


_trial: Trial  # of a process of the pool


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TooLong after so many seconds of this process, where the system can tell."""
    import signal

    def stop(*_: Any) -> None:
        raise TooLong

    if not hasattr(signal, "setitimer"):
        yield
        return
    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
