"""What a backend lacks that raises where it should have given a result: found by leaving features out of the call."""

from collections.abc import Callable
from itertools import combinations

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.checks import Check
from gaugeblock.spec.features import FEATURES


def missing(check: Check, cell: Cell, case: Case) -> list[str]:
    """The features of the call that the backend seems not to offer, as it would declare them; empty if none is known.

    It gives a result without any one of them, or else, where two things are wrong at once, without a pair of them.
    """
    used = sorted(feature for feature in case.used() if f"{cell.offer}.{feature}" in FEATURES)
    # without the feature that it is about a check may call nothing; so the plain call is asked, if it raises as well
    law = _called if _gives(_called, cell, case) is False else check.body
    found = [feature for feature in used if _gives(law, cell, _without(case, feature))]
    if not found:
        pairs = (pair for pair in combinations(used, 2) if _gives(law, cell, _without(case, *pair)))
        return [f"{cell.offer}.{feature}" for feature in next(pairs, ())]
    return [f"{cell.offer}.{name}" for name in _narrowest(cell.offer, found)]


def _called(cell: Cell, case: Case) -> None:
    cell.call(case)


def _without(case: Case, *features: str) -> Case:
    for feature in features:
        if feature in case.used():
            case = case.without(feature)
    return case


def _gives(law: Callable[..., None], cell: Cell, case: Case) -> bool | None:
    """Whether the backend gives a result, right or wrong; None where the law knows no such case."""
    try:
        law(Cell(cell.backend, cell.component, cell.dtype, cell.needs, cell.offer), case)
    except Nonconformance:
        return True
    except BackendRaised:
        return False
    except Exception:
        return None
    return True


def _narrowest(offer: str, found: list[str]) -> list[str]:
    """Without those of which a part is found, and with a combination in the place of what it is made of."""
    leaves = [one for one in found if not any(other.startswith(f"{one}.") for other in found)]
    together = [f"{a}+{b}" for x, y in combinations(leaves, 2) for a, b in ((x, y), (y, x))]
    known = [pair for pair in together if f"{offer}.{pair}" in FEATURES]
    return known if len(known) == 1 and len(leaves) == 2 else leaves
