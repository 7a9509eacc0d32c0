"""Networks that declare what they do not do."""

from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.declared import forgets
from gaugeblock.conformance.unusual.feedforward import LayersStored, LayersWithBiases, OneActivationOnly
from gaugeblock.spec.precision import HALF, Level


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"), dtypes=HALF)
class LayersStoredButDeclaredStrict(LayersStored):
    """Every layer's result is rounded to half precision, and level strict is declared."""

    level = dict.fromkeys(HALF, Level.STRICT)


forgets(
    OneActivationOnly,
    __name__,
    {
        "feed_forward.activation.relu": "FFN-INTEGERS",
        "feed_forward.activation.gelu": "FFN-ROWS",
        "feed_forward.activation.gelu_tanh": "FFN-ROWS",
        "feed_forward.bias": "FFN-BIAS",
        "feed_forward.swiglu.bias": "FFN-BIAS",
        "feed_forward.rank": "SWIGLU-SHUT",
        "feed_forward.empty": "FFN-EMPTY",
        "activations.gelu": "ACT-GELU",
        "activations.beta": "ACT-SILU-BETA",
        "activations.empty": "ACT-EMPTY",
    },
)
forgets(
    LayersWithBiases,
    __name__,
    {
        "feed_forward.bias.some": "FFN-BIAS",
        "feed_forward.bias.none": "FFN-FORMULA",
        "feed_forward.swiglu.bias.some": "FFN-BIAS",
        "feed_forward.swiglu.bias.none": "SWIGLU-FORMULA",
    },
)
