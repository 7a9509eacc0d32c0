"""What a backend is told to declare is what it does."""

import pytest

from gaugeblock import Level
from gaugeblock.conformance.propose import propose
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.conventions import Conventions

ROTATIONS = {f"encoder.rotary.{name}" for name in ("interleaved", "partial", "scaling")}  # no rotation at all says so
NARROW = ("ScalarsInFloat32", "EpsHeldInFloat32", "BaseInFloat32")


def proposed(name: str) -> list[str]:
    make = unusual()[name].make
    return propose(f"{make.__module__}:{make.__qualname__}", [])


@pytest.mark.parametrize("name", NARROW)
def test_numbers_held_in_float32_are_proposed(name: str) -> None:
    assert proposed(name)[0].endswith(', scalars="float32")')


def test_numbers_held_in_float64_are_not_mentioned() -> None:
    lines = propose("numpy", [])
    assert "scalars" not in lines[0] and len(lines) == 2


@pytest.mark.parametrize("name", ["TopLeft", "OnePlusWeightDeclared", "OutsideIsNan"])
def test_the_conventions_of_an_unusual_implementation_are_proposed(name: str) -> None:
    make = unusual()[name].make
    (line, *_) = proposed(name)
    assert eval(line.removeprefix("conventions = "), {"Conventions": Conventions}) == make.conventions


@pytest.mark.parametrize(
    ("name", "offer", "more"),
    [
        ("BiasesEverywhere", "multihead.", set()),
        ("LayersWithBiases", "feed_forward.", set()),
        ("PlainSelfAttention", "multihead.", set()),
        ("BertLike", "encoder.", {"encoder.token_mask", *ROTATIONS}),  # a mask is tried where pads stand first
    ],
)
def test_what_a_family_lacks_is_proposed(
    name: str, offer: str, more: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found from a case that the family knows: one without biases would raise whatever else it is about."""
    make, space = unusual()[name].make, dict[str, object]()
    lacks = set(make.unsupported)
    monkeypatch.setattr(make, "unsupported", {})
    exec("\n".join(proposed(name)), {"Conventions": Conventions, "Level": Level}, space)
    found = space["unsupported"]
    assert isinstance(found, dict)
    assert {feature for feature in found if feature.startswith(offer)} == lacks | more
