"""A cell of the report: one check on one backend in one dtype, and what a check may ask of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.verdict import Status, Verdict, judge, same_bits
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.features import FEATURES, unsupported_by
from gaugeblock.spec.precision import EXACT, FLOAT32, FORMATS, HALF, Contract, Format, Level, declared_level
from gaugeblock.spec.reference.bounded import Bits, Expected

C = TypeVar("C", bound=Case)

REPEATS = 16
INPUTS_ROUNDED = 4  # times the bound of float32, to which what goes in is rounded as well


class Nonconformance(AssertionError):
    """A result that the specification forbids.

    clause is the clause that it breaks where that is another than the check's; got and inputs are what a diagnosis
    needs; verdict is None where the law is exact and knows no bound; advice is an explanation that the law has itself,
    and declare what would make the result honest.
    """

    def __init__(
        self,
        problem: str,
        case: Case | None,
        *,
        clause: str = "",
        verdict: Verdict | None = None,
        inputs: Inputs | None = None,
        got: Numpy | None = None,
        advice: str = "",
        declare: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem, self.case, self.clause, self.verdict = problem, case, clause, verdict
        self.inputs, self.got, self.advice, self.declare = inputs, got, advice, declare


class BackendRaised(Exception):
    """The backend raised where it should have given a result."""

    def __init__(self, case: Case | None, cause: Exception) -> None:
        super().__init__(f"raised {type(cause).__name__}: {cause}")
        self.case, self.cause = case, cause


class UnexpectedPass(Exception):
    """Something that is declared not to work does."""


class SuiteError(Exception):
    """The suite, not the backend, is wrong: a family of inputs whose bounds tell nothing."""


@dataclass
class Tally:
    """What the examples of a cell added up to."""

    examples: int = 0
    judged: int = 0
    undetermined: int = 0
    vacuous: int = 0
    nondeterministic: int = 0
    headroom: float = 0.0
    held: Level = Level.STRICT
    notes: list[str] = field(default_factory=list)
    in_empty_rows: Nonconformance | None = None


class Cell:
    """One check on one backend in one dtype: calls the backend, compares, and keeps the score."""

    def __init__(
        self, backend: Backend, component: str, dtype: str, needs: frozenset[str] = frozenset(), offer: str = ""
    ) -> None:
        self.backend, self.component, self.dtype, self.needs = backend, component, dtype, needs
        self.offer = offer or component
        self.level = declared_level(backend.level, component, dtype)
        self.tally = Tally()
        self.strict_empty_rows = False

    @property
    def io(self) -> Format:
        return FORMATS[self.dtype]

    def contract(self, level: Level | None = None) -> Contract:
        """The promise to which results are held; at another level if given."""
        narrow = self.backend.conventions.scalars == "float32"
        return Contract(self.io, self.level if level is None else level, float32_scalars=narrow)

    def fit(self, case: C) -> C:
        """The case without the features that the backend declares unsupported; the check's own needs stay."""
        for _ in FEATURES:  # to be without one feature may mean to use another, which goes in its turn
            used = unsupported_by(self.backend.unsupported, self.offer, self.dtype, case.used())
            spare = [feature for feature in used if feature not in self.needs]
            if not spare:
                break
            case = case.without(spare[0])
        return case

    def raw(self, case: Case, inputs: Inputs) -> Any:
        """Call the backend's method; whatever it raises is raised."""
        # a copy, so that a backend that writes to its inputs cannot change what it is compared with
        arrays = {n: self.backend.asarray(x.copy() if x.flags.c_contiguous else x) for n, x in inputs.items()}
        return self.invoke(case, arrays)

    def invoke(self, case: Case, arrays: Mapping[str, Any]) -> Any:
        """Call the case's method on arrays of the backend's own kind."""
        method, first, keywords = case.prepared(self.backend, arrays)
        return getattr(self.backend, method)(*first, **keywords, **case.asked(self.io))

    def call(self, case: Case, inputs: Inputs | None = None) -> Numpy:
        """The backend's result as a NumPy array of the right shape and dtype.

        Raises BackendRaised, Nonconformance.
        """
        inputs = case.inputs(self.io) if inputs is None else inputs
        got: Numpy = self.guarded(case, lambda: self.backend.asnumpy(self.raw(case, inputs)))
        self._of_right_kind(case, got, inputs)
        return got

    def guarded(self, case: Case, call: Callable[[], Any]) -> Any:
        """Make a call of the backend's; what it raises becomes BackendRaised."""
        try:
            return call()
        except Exception as cause:
            raise BackendRaised(case, cause) from cause

    def judge(self, case: Case, inputs: Inputs | None = None, got: Numpy | None = None) -> Numpy:
        """Run the case and compare with the reference by the bound; the result is returned.

        Raises BackendRaised, Nonconformance.
        """
        inputs = case.inputs(self.io) if inputs is None else inputs
        got = self.call(case, inputs) if got is None else got
        self.against(case, got, self.expected(case, inputs), inputs)
        return got

    def expected(self, case: Case, inputs: Inputs, level: Level | None = None) -> Expected:
        """What the reference gives at the declared level, or another one."""
        return case.expected(inputs, self.contract(level), self.backend.conventions)

    def own(self, case: Case, inputs: Inputs) -> Any:
        """The reference's own float64 bound."""
        return case.own(inputs, self.backend.conventions)

    def against(self, case: Case, got: Numpy, expected: Expected, inputs: Inputs, law: str = "") -> None:
        """Compare a result with an expectation and keep the score; law says what the expectation follows from.

        A result that is wrong only in rows that see no key is set aside, so that one convention does not hide other
        faults; the cell fails with it in the end if nothing else is wrong.
        """
        size = 0.0 if self.level is Level.NAIVE else case.size(inputs)
        own = partial(self.own, case, inputs)
        verdict = _judged(got, expected, own, size)
        self._keep(verdict)
        self._hold(verdict, lambda level: _judged(got, self.expected(case, inputs, level), own))
        if verdict.status is not Status.FAIL:
            return
        clause = case.empty_row_clause if verdict.in_empty_rows else ""
        failure = Nonconformance(law, case, clause=clause, verdict=verdict, inputs=inputs, got=got)
        if not clause or self.strict_empty_rows:
            raise failure
        self.tally.in_empty_rows = self.tally.in_empty_rows or failure

    def compare(
        self, case: Case, got: Numpy, expected: Callable[[Contract], Expected], law: str, inputs: Inputs, clause: str
    ) -> None:
        """Compare an intermediate of a case with what it should be under a contract, and keep the score."""

        def at(level: Level) -> Verdict:
            return _judged(got, expected(self.contract(level)), lambda: expected(EXACT).err)

        verdict = at(self.level)
        self._keep(verdict)
        if verdict.status is Status.FAIL:
            advice = self._advice(got, expected)
            raise Nonconformance(law, case, clause=clause, verdict=verdict, inputs=inputs, **advice)
        self._hold(verdict, at)

    @property
    def in_float32(self) -> dict[str, Any]:
        """The advice for what computes in float32 where it should in float64."""
        others = [f'"{dtype}"' for dtype in FORMATS if dtype in self.backend.dtypes and dtype != "float64"]
        declare = f"dtypes = frozenset({{{', '.join(others)}}})" if others else ""
        return {"advice": "float64 is computed in float32", "declare": declare}

    def _advice(self, got: Numpy, expected: Callable[[Contract], Expected]) -> dict[str, Any]:
        if self.dtype != "float64":
            return {}
        try:
            narrow = expected(replace(self.contract(), io=FLOAT32))
            found = judge(got, replace(narrow, err=INPUTS_ROUNDED * narrow.err)).status
        except Exception:  # whatever it is, the failure that was to be explained must not be lost with it
            return {}
        return self.in_float32 if found is Status.PASS else {}

    def same(
        self, case: Case, inputs: Inputs, changed: Inputs, law: str, where: Bits | None = None, to: Case | None = None
    ) -> None:
        """Require that two calls agree bit for bit (+0 = -0) in the elements of where, by the law stated.

        If the identical call repeated differs as well, the backend is nondeterministic: recorded, and judged by the
        sum of both bounds. to is the second call's case where its options differ.
        """
        first, second = self.call(case, inputs), self.call(to or case, changed)
        agree = same_bits(first, second)
        wanted = np.ones(first.shape, bool) if where is None else np.broadcast_to(where, first.shape)
        self.tally.judged += 1
        if np.all(agree | ~wanted):
            return
        if self.tally.nondeterministic or not self._repeats(case, inputs, first):
            self.tally.nondeterministic += 1
            self._within_both(case, inputs, first, second, wanted)
            return
        raise self._difference(case, inputs, law, first, second, wanted & ~agree)

    def _repeats(self, case: Case, inputs: Inputs, first: Numpy) -> bool:
        """Whether the identical call gives the identical result; asked often, since chance may agree with itself."""
        return all(bool(np.all(same_bits(first, self.call(case, inputs)))) for _ in range(REPEATS))

    def _within_both(self, case: Case, inputs: Inputs, first: Numpy, second: Numpy, wanted: Bits) -> None:
        err = self.expected(case, inputs).err
        both = Expected(first.astype(np.float64), 2 * err, free=~wanted)
        self.against(case, second, both, inputs)

    def _difference(
        self, case: Case, inputs: Inputs, law: str, first: Numpy, second: Numpy, differ: Bits
    ) -> Nonconformance:
        index = tuple(int(i) for i in np.argwhere(differ)[0])
        before, after = float(first[index]), float(second[index])
        verdict = Verdict(Status.FAIL, np.inf, index, after, before, 0.0, int(np.sum(differ)))
        return Nonconformance(law, case, verdict=verdict, inputs=inputs, got=first)

    def fail(self, problem: str, case: Case | None, **details: Any) -> Nonconformance:
        """The failure to raise for a law of the check's own."""
        return Nonconformance(problem, case, **details)

    def note(self, text: str) -> None:
        """Record advice: a SHOULD that does not hold, a convention shown."""
        if text not in self.tally.notes:
            self.tally.notes.append(text)

    def _of_right_kind(self, case: Case, got: Numpy, inputs: Inputs) -> None:
        shape, own = case.result(inputs)
        dtype = own or self.io.dtype
        if got.shape != shape:
            problem = f"the result must have shape {shape}, got {got.shape}"
            raise Nonconformance(problem, case, clause=case.shape_clause, inputs=inputs)
        if got.dtype != dtype:
            problem = f"the result must have dtype {dtype.name}, got {got.dtype.name}"
            raise Nonconformance(problem, case, clause=case.dtype_clause, inputs=inputs)

    def _keep(self, verdict: Verdict) -> None:
        self.tally.judged += 1
        self.tally.undetermined += verdict.status is Status.UNDETERMINED
        self.tally.vacuous += verdict.vacuous
        if np.isfinite(verdict.ratio):
            self.tally.headroom = max(self.tally.headroom, verdict.ratio)

    def _hold(self, verdict: Verdict, at: Callable[[Level], Verdict]) -> None:
        """Note the tightest level that holds; at judges the same result at another level."""
        if self.dtype not in HALF or verdict.status is not Status.PASS:
            return
        while self.tally.held > self.level:
            if at(self.tally.held).status is Status.PASS:
                return
            self.tally.held = Level(self.tally.held.value - 1)


def _judged(got: Numpy, expected: Expected, own: Callable[[], Any], size: float = 0.0) -> Verdict:
    """A comparison; the reference's own errors, which cost as much as the reference, are asked for where they count."""
    without = judge(got, expected, size=size)
    return judge(got, expected, own=own(), size=size) if without.ratio > 1 else without


def change(inputs: Inputs, **arrays: Numpy) -> Mapping[str, Numpy]:
    """The inputs with these arrays in place of their own."""
    return {**inputs, **arrays}
