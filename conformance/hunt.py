"""Hunting rare faults and false alarms: thorough runs of a component with seed after seed, on all backends at once.

What does not depend on the backend is made once for all of them, the examples and what the reference gives; no
process is started for a run; and a check runs with several seeds in a row, so that compiled programs come back. In
exchange nothing protects a hunt from a backend that hangs or ends its process, a hunt that is ended loses the seeds
that it has begun, and examples are not made simpler: `gaugeblock check` with the seed does all this.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import ceil
from multiprocessing import get_context

from gaugeblock.conformance.checks import SUITE_IS_WRONG, Check, Plan, Record, label, run
from gaugeblock.conformance.load import load
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.records import OPEN, WRONG, distinct
from gaugeblock.conformance.seeds import Piece, piece
from gaugeblock.conformance.selection import dtypes_of, known_dtypes, of_backend, selected
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import NotAvailable

PROFILE = "thorough"
UNUSUAL = "unusual"  # stands for all correct but unusual implementations of the suite: one piece of the record
TOGETHER = 8  # seeds of a check in a row: JAX forgets programs when too many others come, as those of all checks are


@dataclass(frozen=True)
class Hunt:
    """Which checks to run on which backends, in which dtypes; all that a backend computes in, where there are none.

    Among the backends UNUSUAL stands for the unusual implementations of each component.
    """

    backends: tuple[str, ...]
    only: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def checked(self) -> "Hunt":
        """Itself, once it is known that it can run.

        Raises ConfigError for a word that names nothing and for two backends of one name, NotAvailable for one that
        cannot run here, or computes in none of the dtypes.
        """
        known_dtypes(self.dtypes)
        selected(self.only)
        words: dict[str, str] = {}
        for word in self.backends:
            distinct(words, word if word == UNUSUAL else label(_backend(word)), word)
            if word != UNUSUAL and self.dtypes and not self.dtypes_of(_backend(word)):
                raise NotAvailable(f"{label(_backend(word))} does not compute in {', '.join(self.dtypes)}")
        return self

    @property
    def components(self) -> tuple[str, ...]:
        """Those that its checks are about."""
        asked = {check.component for check in selected(self.only)}
        return tuple(name for name in COMPONENTS if name in asked)

    def dtypes_of(self, backend: Backend) -> list[str]:
        """Those to run on a backend."""
        return [dtype for dtype in dtypes_of(backend, self.dtypes) if dtype in backend.dtypes]

    def cells(self, check: Check) -> Iterator[tuple[str, str, str]]:
        """What a check is run on: the name of the piece, the word of the backend, the dtype."""
        for word in dict.fromkeys(self.backends):
            for one in _ways(check.component) if word == UNUSUAL else (word,):
                backend = _backend(one)
                if of_backend(check, backend):
                    name = UNUSUAL if word == UNUSUAL else label(backend)
                    yield from ((name, one, dtype) for dtype in self.dtypes_of(backend))


def hunt(asked: Hunt, seeds: Iterable[int], *, jobs: int = 1) -> Iterator[tuple[list[Piece], list[Record]]]:
    """For each seed and component, as it comes: a piece for each backend, and the records that are not in order."""
    tasks = [(asked, component, some) for some, component in product(_together(list(seeds), jobs), asked.components)]
    if jobs <= 1:
        for task in tasks:
            yield from _tried(*task)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"))
    try:
        for done in as_completed([pool.submit(_tried, *task) for task in tasks]):
            yield from done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _together(seeds: Sequence[int], jobs: int) -> list[Sequence[int]]:
    """The seeds in groups of at most TOGETHER, and one for every process if there are so many."""
    size = max(1, min(TOGETHER, ceil(len(seeds) / max(1, jobs))))
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]


def _tried(asked: Hunt, component: str, seeds: Sequence[int]) -> list[tuple[list[Piece], list[Record]]]:
    return [_told(component, seed, found) for seed, found in records(asked, component, seeds).items()]


def _told(component: str, seed: int, found: Mapping[str, Sequence[Record]]) -> tuple[list[Piece], list[Record]]:
    open_ = [record for mine in found.values() for record in mine if record.outcome in (*WRONG, *OPEN)]
    return [piece(component, name, seed, mine) for name, mine in found.items()], open_


def records(asked: Hunt, component: str, seeds: Sequence[int]) -> dict[int, dict[str, list[Record]]]:
    """The records of a component by the seed, and by the name of the backend, or UNUSUAL."""
    found: dict[int, dict[str, list[Record]]] = {seed: {} for seed in seeds}
    for check in (check for check in selected(asked.only) if check.component == component):
        for seed, mine in found.items():
            with remembering():
                for name, word, dtype in asked.cells(check):
                    mine.setdefault(name, []).append(_record(check, word, dtype, seed))
    return found


def _record(check: Check, word: str, dtype: str, seed: int) -> Record:
    """A cell; what neither the backend nor the suite should have raised ends it, and not the hunt."""
    backend = _backend(word)
    try:
        record = run(check, backend, dtype, Plan(PROFILE, seed, shrink=False))
    except Exception as error:
        reason = f"{SUITE_IS_WRONG}: {type(error).__name__}: {error}"
        record = Record(check.name, check.clauses, check.component, label(backend), dtype, "error", reason)
    record.target = word
    return record


def _ways(component: str) -> list[str]:
    """The words of the unusual implementations of a component."""
    mine = (way.make for way in unusual().values() if way.component == component)
    return [f"{make.__module__}:{make.__qualname__}" for make in mine]


@cache
def _backend(word: str) -> Backend:
    """One for the process, as in a run of the checks."""
    return load(word)
