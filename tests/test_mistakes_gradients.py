"""What a diagnosis says of a wrong gradient."""

from typing import Any

import pytest

from gaugeblock.conformance.checks import Plan, registry, run
from gaugeblock.conformance.mutants import mutants

SAID = {
    "ScaleMissingBackward": "the scale is missing in the gradients of q and k",
    "DenominatorHeldConstant": "the row term delta is missing: ds = p dp",
    "MeanOfTheGroupBackward": "the gradients of a group of heads are averaged, not summed",
    "MeanHeldConstant": "the mean is held constant",
    "WeightOfTheLastRow": "weight and bias have the gradient of the last row",
    "SlopeOfGeluByTanh": "the slope is that of gelu by tanh",
    "BetaForgottenBackward": "beta is ignored on the way back",
    "GateOnlyBackward": "the gradient of x comes back through the gate alone",
    "RotatesOnBackward": "the cotangent is rotated on, not back",
    "MagnitudeMissingBackward": "the magnitude of the scaling is missing on the way back",
    "LastReaderOfARow": "a row has the gradient of its last reader, not the sum",
    "KeysNotTurnedBack": "the gradient of the keys is not rotated back",
    "GroupNotSummed": "the gradients of a group of heads are not summed: the last one's is taken",
    "SquareOutputNotTransposed": "the output projection is not transposed on the way back",
    "BiasOfOneRow": "biases have the gradient of the last token, not the sum",
    "MaskForgottenWhenMadeAgain": "the mask is forgotten when attention is made again",
    "ResidualDroppedBackward": "the gradient does not come back past the sublayers: the residual is lost",
    "TiedTableAsTheHeadOnly": "the tied table has the gradient of the head alone",
    "FirstLayerFrozen": "the weights of layer 0 have no gradient",
    "MemoryDetached": "memory has no gradient",
}


@pytest.mark.parametrize(("name", "text"), SAID.items(), ids=list(SAID))
def test_the_mistake_is_named(name: str, text: str) -> None:
    mutant = mutants()[name]
    dtype = "float64" if "float64" in mutant.dtypes else mutant.dtypes[0]
    checks = [c for c in registry().values() if set(c.clauses) & set(mutant.killed_by) and c.capability]
    own = [c for c in checks if c.component == mutant.component]
    said: list[Any] = []
    for check in own:
        record = run(check, mutant.make(), dtype, Plan())
        said += [hint["text"] for hint in (record.failure or {}).get("likely", ())]
    assert text in said
