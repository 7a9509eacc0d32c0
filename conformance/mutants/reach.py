"""Which checks reach which lines of a file of the NumPy backend, at what cost, and where numbers pass."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from gaugeblock.conformance.checks import Check, Plan, registry, run
from gaugeblock.conformance.mutants.ast_mutation import CONVERTED, DEMOTED, FACTORS, PASSED, REACHED, SCALED, probed
from gaugeblock.conformance.mutants.swapped import demoted, path, scaled, swapped
from gaugeblock.conformance.selection import of_backend
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.precision import HALF

DTYPES = ("float32", "float64", *HALF)


@dataclass(frozen=True)
class Visit:
    """A check in a dtype that reaches a line; on the right backend, the time that it takes and what it notes."""

    check: str
    dtype: str
    seconds: float
    notes: frozenset[str]


@dataclass(frozen=True)
class Reach:
    """What the checks do in a file.

    visits     for each line the checks that reach it;
    numbers    for each line the helpers (scale, demote) that would change what is assigned or returned there;
    converted  the lines where np.asarray is given something that is not an array yet;
    seconds    what it took to find out.
    """

    visits: Mapping[int, Sequence[Visit]]
    numbers: Mapping[int, frozenset[str]]
    converted: frozenset[int]
    seconds: float = 0.0


@dataclass
class _Probe:
    reached: set[int] = field(default_factory=set)
    numbers: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    converted: set[int] = field(default_factory=set)

    def helpers(self) -> Mapping[str, Callable[..., Any]]:
        return {REACHED: self.reached.add, PASSED: self.passed, CONVERTED: self.array}

    def passed(self, x: Any, line: int) -> Any:
        for helper, change in CHANGES:
            if helper not in self.numbers[line] and not _same(change(x), x):
                self.numbers[line].add(helper)
        return x

    def array(self, x: Any, line: int) -> Any:
        if not isinstance(x, np.ndarray):
            self.converted.add(line)
        return x

    def found(self, visits: Mapping[int, Sequence[Visit]], seconds: float) -> Reach:
        numbers = {line: frozenset(helpers) for line, helpers in self.numbers.items()}
        return Reach(dict(visits), numbers, frozenset(self.converted), seconds)


CHANGES: Sequence[tuple[str, Callable[[Any], Any]]] = (
    *((SCALED, partial(scaled, factor=factor)) for factor in FACTORS[:2]),
    (DEMOTED, demoted),
)


def _same(x: Any, y: Any) -> bool:
    if type(x) in (tuple, list):
        return all(_same(a, b) for a, b in zip(x, y, strict=True))
    return x is y or not isinstance(x, float | np.ndarray | np.generic) or bool(np.array_equal(x, y, equal_nan=True))


def reach(modules: Mapping[str, Sequence[str]], profile: str = "default") -> Mapping[str, Reach]:
    """Run checks once on a backend that tells where it passes; what they do in each module.

    modules names the components of the checks that count for each.
    Raises ConfigError if the NumPy backend has no such module.
    """
    probes = {module: _Probe() for module in modules}
    text = {module: probed(path(module).read_text(encoding="utf-8")) for module in modules}
    make = swapped({module: (text[module], probe.helpers()) for module, probe in probes.items()})
    components = {component for counted in modules.values() for component in counted}
    visits = {module: defaultdict[int, list[Visit]](list) for module in modules}
    begun = process_time()
    for check in [c for c in registry().values() if c.component in components and of_backend(c, make())]:
        for dtype in DTYPES:
            visit = _visit(check, make, dtype, profile, list(probes.values()))
            for module in (m for m, counted in modules.items() if check.component in counted):
                for line in probes[module].reached:
                    visits[module][line].append(visit)
    seconds = (process_time() - begun) / len(modules)
    return {module: probe.found(visits[module], seconds) for module, probe in probes.items()}


def _visit(check: Check, make: type[Backend], dtype: str, profile: str, probes: Sequence[_Probe]) -> Visit:
    for probe in probes:
        probe.reached.clear()
    start = process_time()
    notes = run(check, make(), dtype, Plan(profile, shrink=False)).notes
    return Visit(check.name, dtype, process_time() - start, frozenset(notes))
