"""What a check is, and how one is run on a cell: outside pytest, so that mutants and check_backend can use it too."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from math import ceil
from pkgutil import iter_modules
from typing import Any

from hypothesis.strategies import SearchStrategy

import gaugeblock.conformance as files
from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance, SuiteError, UnexpectedPass
from gaugeblock.conformance.drawing import try_examples
from gaugeblock.conformance.strategies import Draw
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.features import FEATURES, unsupported_by
from gaugeblock.spec.precision import HALF, Level

EXAMPLES: Mapping[str, int] = {"quick": 3, "default": 14, "thorough": 60}
SUITE_IS_WRONG = "the suite is wrong"


@dataclass(frozen=True)
class Check:
    """A named law: the clauses that it enforces, the features that it needs, its inputs and its body.

    capability is what a backend must offer, or promise, beside the component (spec.components.CAPABILITIES, PROMISES).
    """

    name: str
    clauses: tuple[str, ...]
    component: str
    offer: str
    needs: frozenset[str]
    cases: Callable[[Draw], SearchStrategy[Any]] | None
    case_type: type[Case] | None
    body: Callable[..., None]
    effort: float
    capability: str = ""


@dataclass(frozen=True)
class Plan:
    """How thoroughly to run: profile, seed (None: the same examples every time), one case or many.

    Where shrink is not set a failing example is neither made simpler nor explained: enough for who asks if one fails.
    """

    profile: str = "default"
    seed: int | None = None
    shrink: bool = True
    case: str = ""

    def __post_init__(self) -> None:
        if self.profile not in EXAMPLES:
            raise ConfigError(f"profile must be one of {', '.join(EXAMPLES)}, got {self.profile!r}")


@dataclass
class Record:
    """What became of a cell."""

    check: str
    clauses: tuple[str, ...]
    component: str
    backend: str
    dtype: str
    outcome: str = "pass"
    reason: str = ""
    level: str = ""
    held: str = ""
    headroom: float = 0.0
    examples: int = 0
    undetermined: int = 0
    vacuous: int = 0
    nondeterministic: int = 0
    notes: list[str] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    target: str = ""
    seconds: float = 0.0


_registry: dict[str, Check] = {}


def checks(
    *clauses: str,
    component: str,
    offer: str = "",
    cases: Callable[[Draw], SearchStrategy[Any]] | None = None,
    case_type: type[Case] | None = None,
    needs: tuple[str, ...] = (),
    effort: float = 1.0,
    capability: str = "",
) -> Callable[[Callable[..., None]], Callable[[Any], None]]:
    """Make a function of (cell, case), or of (cell) where there are no cases, into a check of these clauses."""

    def register(body: Callable[..., None]) -> Callable[[Any], None]:
        name = body.__name__.removeprefix("test_")
        needed = frozenset(needs)
        check = Check(name, clauses, component, offer or component, needed, cases, case_type, body, effort, capability)
        if name in _registry and _file(_registry[name].body) != _file(body):
            raise ValueError(f"check {name} stands in {_file(_registry[name].body)} and in {_file(body)}")
        _registry[name] = check

        def test(gauge: Callable[[Check], None]) -> None:
            gauge(check)

        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        test.check = check  # type: ignore[attr-defined]
        return test

    return register


def _file(body: Callable[..., None]) -> str:
    return body.__module__.rpartition(".")[2]


@cache
def registry() -> Mapping[str, Check]:
    """Every check by name, in the order in which the files define them."""
    for module in iter_modules(files.__path__):
        if module.name.startswith("test_"):
            import_module(f"{files.__name__}.{module.name}")
    return dict(sorted(_registry.items(), key=lambda item: COMPONENTS.index(item[1].component)))


def parse_case(text: str) -> tuple[Check, Case]:
    """The check and the case that a one-line text names: the check's name, then the case.

    Raises ConfigError.
    """
    name, _, rest = text.strip().partition(" ")
    check = registry().get(name)
    if check is None or check.cases is None or check.case_type is None:
        raise ConfigError(f"case: the first word must name a check with cases, got {name!r} [{text}]")
    try:
        return check, check.case_type.parse(rest)
    except TypeError as error:
        raise ConfigError(f"case: {error} [{text}]") from error


def run(check: Check, backend: Backend, dtype: str, plan: Plan = Plan()) -> Record:
    """Run one check on one backend in one dtype; whatever happens becomes a record."""
    record = Record(check.name, check.clauses, check.component, label(backend), dtype)
    missing = unsupported_by(backend.unsupported, check.offer, dtype, check.needs)
    if missing:
        record.outcome, record.reason = "unsupported", reason(backend, check.offer, missing[0], dtype)
        return record
    cell = Cell(backend, check.component, dtype, check.needs, check.offer)
    start = time.perf_counter()
    try:
        _examples(check, cell, plan)
        _conclude(cell)
    except Nonconformance as failure:
        record.outcome, record.failure = "fail", describe(check, cell, failure, explain=plan.shrink)
    except BackendRaised as raised:
        record.outcome, record.reason = "error", str(raised)
        lacking = _to_declare(check, cell, raised) if plan.shrink else []
        record.failure = {"case": case_text(check, raised.case), "likely": lacking}
    except UnexpectedPass as works:
        record.outcome, record.reason = "unexpected-pass", str(works)
    except SuiteError as wrong:
        record.outcome, record.reason = "error", f"{SUITE_IS_WRONG}: {wrong}"
    backend.rest()
    return _complete(record, cell, time.perf_counter() - start)


def _to_declare(check: Check, cell: Cell, raised: BackendRaised) -> list[dict[str, str]]:
    """A backend that raises may lack what the call uses: the lines that say so."""
    from gaugeblock.conformance.diagnosis import broken
    from gaugeblock.conformance.missing import missing

    try:
        known = [name for name in missing(check, cell, raised) if name in FEATURES]
    except Exception as error:  # whatever it is, what the backend raised must not be lost with it
        return [{"text": broken(error), "declare": ""}]
    return [{"text": f"{name} is not offered", "declare": f'unsupported = {{"{name}": "why"}}'} for name in known]


def label(backend: Backend) -> str:
    """How reports call a backend: its name, and its variant after an @."""
    return f"{backend.name}@{backend.variant}" if getattr(backend, "variant", "") else backend.name


def reason(backend: Backend, offer: str, option: str, dtype: str) -> str:
    """Why the backend says that it does not offer an option."""
    key = f"{offer}.{option}"
    return f"{key}: {backend.unsupported.get(f'{key}@{dtype}') or backend.unsupported[key]}"


def case_text(check: Check, case: Case | None) -> str:
    """The one-line text that reproduces a case of a check."""
    return f"{check.name} {case}" if case else ""


def _examples(check: Check, cell: Cell, plan: Plan) -> None:
    if check.cases is None or check.case_type is None:
        check.body(cell)
        return
    if plan.case:
        _example(check, cell, parse_case(plan.case)[1])
        return

    def example(case: Case) -> None:
        _example(check, cell, cell.fit(case))

    count = max(2, ceil(EXAMPLES[plan.profile] * check.effort))
    try_examples(cases_of(check, plan.profile), example, count, plan.seed, plan.shrink)


@cache
def cases_of(check: Check, profile: str) -> SearchStrategy[Any]:
    """What a check draws from: dear to make, and the same in every dtype and for every backend."""
    assert check.cases is not None
    return check.cases(Draw(profile))


def _example(check: Check, cell: Cell, case: Case) -> None:
    cell.tally.examples += 1
    check.body(cell, case)


def _conclude(cell: Cell) -> None:
    tally = cell.tally
    if tally.in_empty_rows:
        raise tally.in_empty_rows
    if tally.vacuous and tally.vacuous >= tally.judged:
        raise SuiteError(f"the bounds of all {tally.vacuous} examples are vacuous at level {cell.level}")
    if cell.level is Level.NAIVE and cell.dtype in HALF and tally.judged:
        raise Nonconformance(f"holds at level naive only, which no {cell.dtype} implementation may declare", None)


def _complete(record: Record, cell: Cell, seconds: float) -> Record:
    tally = cell.tally
    if record.outcome == "pass" and tally.judged and tally.undetermined >= tally.judged:
        record.outcome, record.reason = "undetermined", "the bound of every example overflows"
    return replace(
        record,
        level=str(cell.level),
        held=str(tally.held),
        headroom=tally.headroom,
        examples=tally.examples,
        undetermined=tally.undetermined,
        vacuous=tally.vacuous,
        nondeterministic=tally.nondeterministic,
        notes=tally.notes,
        seconds=seconds,
    )


def describe(check: Check, cell: Cell, failure: Nonconformance, *, explain: bool) -> dict[str, Any]:
    """A failure as data: clause, case, worst element, and where it is to be explained the likely mistakes."""
    from gaugeblock.conformance.diagnosis import likely

    verdict = failure.verdict
    shown: dict[str, Any] = {
        "clause": failure.clause or check.clauses[0],
        "problem": failure.problem,
        "case": case_text(check, failure.case),
        "advice": failure.advice,
    }
    if verdict:
        shown |= {
            "index": list(verdict.index),
            "expected": verdict.expected,
            "got": verdict.actual,
            "allowed": verdict.allowed,
            "ratio": verdict.ratio,
            "wrong": verdict.wrong,
            "in_empty_rows": verdict.in_empty_rows,
        }
    shown["likely"] = [vars(hint) for hint in likely(cell, failure)] if explain else []
    return shown
