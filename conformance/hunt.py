"""Hunting rare faults and false alarms: thorough runs of a component with seed after seed, on all backends at once.

What does not depend on the backend is made once for all of them, the examples and what the reference gives; and no
process is started for a run. In exchange nothing protects a hunt from a backend that hangs or ends its process, and
examples are not made simpler: `gaugeblock check` with the seed does both.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context

from gaugeblock.conformance.checks import Check, Plan, Record, label, run
from gaugeblock.conformance.load import load
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.records import WRONG, distinct
from gaugeblock.conformance.seeds import Piece, piece
from gaugeblock.conformance.selection import dtypes_of, known_dtypes, of_backend, selected
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS

PROFILE = "thorough"
UNUSUAL = "unusual"  # stands for all correct but unusual implementations of the suite: one piece of the record


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
        cannot run here.
        """
        known_dtypes(self.dtypes)
        selected(self.only)
        words: dict[str, str] = {}
        for word in self.backends:
            distinct(words, word if word == UNUSUAL else label(_backend(word)), word)
        return self

    @property
    def components(self) -> tuple[str, ...]:
        """Those that its checks are about."""
        asked = {check.component for check in selected(self.only)}
        return tuple(name for name in COMPONENTS if name in asked)

    def cells(self, check: Check) -> Iterator[tuple[str, str]]:
        """The words of the backends and the dtypes in which a check is run."""
        for word in self._words(check.component):
            backend = _backend(word)
            if of_backend(check, backend):
                yield from ((word, dtype) for dtype in dtypes_of(backend, self.dtypes) if dtype in backend.dtypes)

    def _words(self, component: str) -> Iterator[str]:
        for word in self.backends:
            if word != UNUSUAL:
                yield word
                continue
            mine = (way.make for way in unusual().values() if way.component == component)
            yield from (f"{make.__module__}:{make.__qualname__}" for make in mine)


def hunt(hunt: Hunt, seeds: Iterable[int], *, jobs: int = 1) -> Iterator[tuple[list[Piece], list[Record]]]:
    """For each seed and component, as it comes: a piece for each backend, and the records that do not conform."""
    tasks = [(hunt, component, seed) for seed, component in product(seeds, hunt.components)]
    if jobs <= 1:
        yield from (_tried(*task) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from (done.result() for done in as_completed([pool.submit(_tried, *task) for task in tasks]))


def _tried(hunt: Hunt, component: str, seed: int) -> tuple[list[Piece], list[Record]]:
    found = records(hunt, component, seed)
    wrong = [record for mine in found.values() for record in mine if record.outcome in WRONG]
    return [piece(component, name, seed, mine) for name, mine in found.items()], wrong


def records(hunt: Hunt, component: str, seed: int) -> dict[str, list[Record]]:
    """The records of a component with a seed, by the name of the backend, or UNUSUAL."""
    plan = Plan(PROFILE, seed, shrink=False)
    found: dict[str, list[Record]] = {}
    for check in (check for check in selected(hunt.only) if check.component == component):
        with remembering():
            for word, dtype in hunt.cells(check):
                record = run(check, _backend(word), dtype, plan)
                record.target = word
                found.setdefault(record.backend if word in hunt.backends else UNUSUAL, []).append(record)
    return found


@cache
def _backend(word: str) -> Backend:
    """One for the process, as in a run of the checks."""
    return load(word)
