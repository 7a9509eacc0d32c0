"""No fault hides behind a declaration: mutants fall under other conventions as they do under the canonical ones."""

import inspect
from collections.abc import Mapping
from dataclasses import fields, replace
from types import FunctionType

import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.mutants import Mutant, mutants
from gaugeblock.conformance.mutants.matrix import row
from gaugeblock.conformance.unusual import Unusual, unusual
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions

UNSAID = "no convention but zeros says the gradient of a row that sees no key"
DECLARED = "it is what is declared"
UNUSED = "what it changes is not used under this convention"
OTHER = "positions of the other calls are outside the contract where out_of_range is not raises"

# what each way of declaring lets live, and why
SPARED: Mapping[str, Mapping[str, str]] = {
    "SampleDeviationBackward": {"LayerNormOfOneElementIsThatElement": "a row of one has no sample deviation"},
    "OnePlusWeightDeclared": {},
    "EpsHeldInFloat32": {"EpsInFloat32": DECLARED},
    "TopLeft": {"CausalTopLeft": DECLARED, "CausalTopLeftInChunks": DECLARED, "WindowTopLeft": DECLARED},
    "MeanRows": {
        "EmptyRowIsTheMean": DECLARED,
        "InfiniteBiasIsALowNumber": DECLARED,
        "EmptyRowGivesNanBackward": UNSAID,
        "EmptyRowIsEvenBackward": UNSAID,
    },
    "HeadsTiled": {"HeadsTiled": DECLARED, "ValueHeadsTiled": DECLARED, "KeyHeadsTiled": DECLARED},
    "ProportionalDeclared": {
        "PairsOverAllComponents": DECLARED,
        "ScalingOverAllComponents": UNUSED,
        "YarnMagnitudeOfTheRest": UNUSED,
    },
    "HalvesKept": {},
    "OutsideIsNan": {
        "NegativePositionsAccepted": OTHER,
        "FarPositionsAccepted": OTHER,
        "NegativePositionsTaken": OTHER,
        "PositionsOfBiasUnchecked": OTHER,
        "AnyPositionDeclaredDeclaresOutOfRangeRaises": OTHER,
    },
    "SlopesAllGeometric": {"SlopesSorted": DECLARED},
    "KeyPositionsOnly": {"QueriesCountedAnew": UNUSED, "DistanceCapped": UNUSED},
}
CANONICAL = Conventions()


@pytest.mark.parametrize("name", SPARED)
def test_mutants_fall_under_other_conventions(name: str) -> None:
    way = unusual()[name]
    crossed = [cross for cross in (crossing(mutant, way) for mutant in mutants().values()) if cross]
    with remembering():
        alive = {mutant.name for mutant in crossed if not row(mutant, first=True).kills}
    assert alive == set(SPARED[name])
    assert len(crossed) > 80


def crossing(mutant: Mutant, way: Unusual) -> Mutant | None:
    """A mutant of what is declared: the fault on top of the way; None where one of them hides the other."""
    make, like = mutant.make, way.make
    apart = mutant.component == way.component and issubclass(make, NumpyBackend) and not issubclass(make, like)
    if not apart or declares(make) or make.unsupported or not reaches(make, like):
        return None
    levels = {**like.level, **make.__dict__.get("level", {})}
    made = type(make.__name__, (make, like), {"conventions": like.conventions, "level": levels})
    return replace(mutant, make=made)


def declares(make: type[Backend]) -> bool:
    return any(getattr(make.conventions, f.name) != getattr(CANONICAL, f.name) for f in fields(CANONICAL))


def reaches(make: type[Backend], like: type[Backend]) -> bool:
    """Whether what both of them change goes on, through super, from the one to the other."""
    mine, theirs = own(make), own(like)
    return all(f"super().{name}" in inspect.getsource(mine[name]) for name in mine.keys() & theirs.keys())


def own(make: type[Backend]) -> Mapping[str, FunctionType]:
    """The methods that a backend changes."""
    parts = [part for part in reversed(make.__mro__) if part not in NumpyBackend.__mro__]
    return {name: f for part in parts for name, f in vars(part).items() if isinstance(f, FunctionType)}
