"""What a backend lacks that raises where it should have given a result: found by leaving features out of the call."""

from collections.abc import Callable
from functools import partial, reduce
from itertools import combinations, permutations

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.checks import Check
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.features import FEATURES

Works = Callable[[Case], bool | None]


def missing(check: Check, cell: Cell, raised: BackendRaised) -> list[str]:
    """The features of the call that the backend seems not to offer, as it would declare them; empty if none is known.

    Those without any one of which it gives a result; where more is wrong, those with which alone it gives none. Without
    a case there is nothing to try, and the feature that the check is about is named.
    """
    case = raised.case
    if case is None:
        return [f"{cell.offer}.{feature}" for feature in sorted(check.needs, key=len)[-1:]]
    used = sorted(feature for feature in case.used() if f"{cell.offer}.{feature}" in FEATURES)
    # without the feature that it is about a check may call nothing; so the plain call is asked, if it raises as well
    law = _called if _same(_called, cell, raised) else check.body
    works = partial(_gives, law, cell)
    found = [feature for feature in used if works(without(works, case, feature))]
    # where a result is wrong the law may have ended before the call that raises
    found = [one for one in found if _conforms(law, cell, without(works, case, one))] or found
    blamed = _together(cell, works, case, found) if found else _each(cell, works, case, used)
    return [f"{cell.offer}.{feature}" for feature in blamed]


def _together(cell: Cell, works: Works, case: Case, found: list[str]) -> list[str]:
    """Of features each of which must go: those that never work, or the combination, or all of them."""
    other = {feature: without(works, case, feature).used() for feature in found}
    never = [feature for feature in found if not any(feature in other[one] for one in found if one != feature)]
    return never or _combined(cell, found) or found


def _each(cell: Cell, works: Works, case: Case, used: list[str]) -> list[str]:
    """The features that a case that is otherwise plain cannot have; else the combinations of two of them."""

    def alone(*kept: str) -> bool:
        others = (one for one in used if not any(f"{name}.".startswith(f"{one}.") for name in kept))
        left = reduce(partial(without, works), others, case)
        return left.used().issuperset(kept) and works(left) is False

    if not works(reduce(partial(without, works), used, case)):  # what takes the place of a choice may be missing too
        fewest = (some for size in (2, 3) for some in combinations(used, size))
        return list(next((some for some in fewest if works(reduce(partial(without, works), some, case))), ()))
    lacking = [feature for feature in used if alone(feature)]
    roots = [one for one in lacking if not any(one.startswith(f"{other}.") for other in lacking)]
    return roots or [pair for pair in _combined(cell, used) if alone(*pair.split("+"))]


def _combined(cell: Cell, features: list[str]) -> list[str]:
    pairs = (f"{a}+{b}" for a, b in permutations(features, 2))
    return [pair for pair in pairs if f"{cell.offer}.{pair}" in FEATURES]


def _called(cell: Cell, case: Case) -> None:
    cell.call(case)


def _same(law: Callable[..., None], cell: Cell, raised: BackendRaised) -> bool:
    try:
        law(fresh(cell), raised.case)
    except BackendRaised as again:
        return str(again) == str(raised)
    except Exception:  # no such call is made of this case
        return False
    return False


def without(works: Works, case: Case, feature: str) -> Case:
    """The nearest case without the feature; what takes its place goes in its turn, until it works."""
    seen: set[str] = set()
    while feature in case.used() and feature not in seen:
        seen.add(feature)
        before = case.used()
        try:
            case = case.without(feature)
        except (ConfigError, KeyError):  # without it this is no case: what the check is about
            break
        family = feature.rpartition(".")[0]
        new = [one for one in sorted(case.used() - before) if family and one.startswith(f"{family}.")]
        if not new or works(case):
            break
        feature = new[0]
    return case


def _gives(law: Callable[..., None], cell: Cell, case: Case) -> bool | None:
    """Whether the backend gives a result, right or wrong; None where the law knows no such case."""
    try:
        law(fresh(cell), case)
    except Nonconformance:
        return True
    except BackendRaised:
        return False
    except Exception:  # the law's own: whatever the backend raises comes as BackendRaised
        return None
    return True


def _conforms(law: Callable[..., None], cell: Cell, case: Case) -> bool:
    try:
        law(fresh(cell), case)
    except Exception:  # a result that is wrong, or the law's own
        return False
    return True


def fresh(cell: Cell) -> Cell:
    """One whose score nobody keeps."""
    return Cell(cell.backend, cell.component, cell.dtype, cell.needs, cell.offer)
