"""The features of models: every one can be used, and left out, and the cases say truly which of them they use."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.load import load
from gaugeblock.conformance.recipes.model import PADS, padded
from gaugeblock.conformance.refusals.model import DECODER, ENCODER, USES, using
from gaugeblock.conformance.strategies import Draw
from gaugeblock.conformance.strategies.model import ModelCase, cases
from gaugeblock.conformance.strategies.model_features import NEAREST, pads
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.features import FEATURES

OFFERS = {"encoder": ENCODER, "decoder": DECODER}
NAMED = {offer: {f.partition(".")[2] for f in FEATURES if f.startswith(f"{offer}.")} for offer in OFFERS}


def test_every_feature_of_whole_sequences_is_known() -> None:
    known = set(NEAREST) | {name for name in USES if name.startswith("padding.")}
    assert set(USES) == known
    assert known <= NAMED["encoder"] | NAMED["decoder"]
    assert NAMED["encoder"] <= known


@pytest.mark.parametrize("offer", OFFERS)
def test_every_feature_can_be_used_and_left_out(offer: str) -> None:
    cell = Cell(load("numpy"), "model", "float32", offer=offer)
    for feature in sorted(NAMED[offer] & set(USES)):
        case = using(cell, feature)
        assert feature in case.used(), feature
        assert feature not in case.without(feature).used(), feature


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases(Draw(), kind=("decoder", "encoder", "both"), encode=(False, True), pads=("", *PADS)))
def test_any_case_does_without_any_of_its_features(case: ModelCase) -> None:
    assert ModelCase.parse(str(case)) == case
    offer = "encoder" if case.encodes else "decoder"
    assert case.used() <= NAMED[offer]
    for feature in case.used():
        assert feature not in case.without(feature).used(), feature


@pytest.mark.parametrize("recipe", PADS)
@pytest.mark.parametrize(("B", "T"), [(1, 1), (1, 4), (2, 3), (3, 5), (0, 3), (2, 0)])
def test_pads_stand_where_they_are_said_to(recipe: str, B: int, T: int) -> None:
    for seed in range(8):
        real = padded(recipe, B, T, np.random.default_rng(seed))
        assert real.shape == (B, T)
        allowed = {"full": set[str](), "ragged": {"left", "right", "middle"}, "row": {"rows"}}.get(recipe, {recipe})
        assert pads(real) <= allowed
        assert recipe == "row" or not B or not T or real.any(axis=1).all()
        if recipe in ("left", "right") and T > 1 and B:
            assert pads(real) == {recipe} and (B < 2 or len(set(real.sum(axis=1).tolist())) > 1)


def test_a_model_without_weights_is_none() -> None:
    nothing = replace(ENCODER, vectors=True, positions="sinusoidal", L=0, no_final_norm=True, embedding_norm=True)
    assert nothing.model.encoder is not None and nothing.model.encoder.has_weights
    with pytest.raises(ConfigError, match="a model must have weights"):
        replace(nothing, embedding_norm=False)
    assert nothing.without("embedding_norm").L == 1


@pytest.mark.parametrize("positions", ["", "learned"])
def test_an_encoder_built_otherwise_keeps_added_positions_only(positions: str) -> None:
    """Its decoder turns heads; whoever cannot do without positions is not to be handed such an encoder."""
    case = ModelCase(kind="both", apart=True, D=2, E=2, M=2, rotary="half", positions=positions, norm="layer")
    assert ("positionless" in case.used()) is (not positions)
    assert "positionless" not in case.without("positionless").used()
