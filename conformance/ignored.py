"""Options that a backend takes and ignores: its result is what the call without them should give."""

from functools import partial, reduce
from itertools import permutations

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.missing import fresh, without
from gaugeblock.conformance.verdict import Status, judge
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.reference.bounded import Expected


def ignored(cell: Cell, case: Case, inputs: Inputs, got: Numpy) -> tuple[str, Expected] | None:
    """The feature without which the call should give just this wrong result, as one declares it, and what that is.

    Where it is heeded in a call that is otherwise plain: the pair of features that is ignored together, if any is.
    """
    size = case.size(inputs)
    if gives(got, cell.expected(case, inputs), size):
        return None

    def matching(other: Case) -> Expected | None:
        expected = unasked(cell, case, other, inputs)
        return expected if expected is not None and gives(got, expected, size) else None

    known = (feature for feature in case.used() if f"{cell.offer}.{feature}" in FEATURES)
    used = sorted(known, key=lambda feature: (feature.count("."), feature))  # what others are kinds of comes first
    for feature in used:
        expected = matching(without(lambda other: matching(other) is not None, case, feature))
        name = _named(cell, case, used, feature) if expected is not None else ""
        if name and expected is not None:
            return f"{cell.offer}.{name}", expected
    return None


def unasked(cell: Cell, case: Case, other: Case, inputs: Inputs) -> Expected | None:
    """What the other case should give for these arrays; None where it takes others.

    An array that the feature is about, as positions are, is the other's own.
    """
    made, wanted = case.inputs(cell.io), other.inputs(cell.io)
    if any(name not in inputs or inputs[name].shape != x.shape for name, x in wanted.items()):
        return None
    same = {name for name, x in wanted.items() if name in made and np.array_equal(x, made[name])}
    try:
        return cell.expected(other, {name: inputs[name] if name in same else x for name, x in wanted.items()})
    except (IndexError, ValueError):  # these arrays mean nothing without the feature, as too many tokens for a table
        return None


def gives(got: Numpy, expected: Expected, size: float) -> bool:
    """Whether the result is the expected one, by a bound that tells something."""
    if got.shape != expected.value.shape:
        return False
    verdict = judge(got, expected, size=size)
    return verdict.status is Status.PASS and not verdict.vacuous and not bool(expected.free.all())


def _named(cell: Cell, case: Case, used: list[str], feature: str) -> str:
    """The feature, unless it is heeded where it stands alone; then it with another, or none."""
    if not _heeded(cell, case, used, feature):
        return feature
    pairs = ((f"{a}+{b}", b if a == feature else a) for a, b in permutations(used, 2) if feature in (a, b))
    known = ((pair, other) for pair, other in pairs if f"{cell.offer}.{pair}" in FEATURES)
    return next((pair for pair, other in known if not _heeded(cell, case, used, feature, other)), "")


def _heeded(cell: Cell, case: Case, used: list[str], feature: str, *beside: str) -> bool:
    """Whether the result shows the feature, and is right, where no others are used than these and those they need."""
    kept = (feature, *beside)
    plain = reduce(partial(_spared, kept), (one for one in used if one not in kept), case)
    inputs = plain.inputs(cell.io)
    try:
        got = fresh(cell).judge(plain, inputs)
    except (BackendRaised, Nonconformance):
        return False
    expected = unasked(cell, plain, without(lambda _: True, plain, feature), inputs)
    return expected is None or not gives(got, expected, plain.size(inputs))


def _spared(kept: tuple[str, ...], case: Case, other: str) -> Case:
    """The case without another feature, unless it cannot be without it and keep these."""
    fewer = without(lambda _: True, case, other)
    return fewer if fewer.used().issuperset(kept) else case
