"""Multi-head attention that refuses what it declares to offer, and that takes what it declares to lack."""

from gaugeblock.conformance.mutants.declared import forgets, ignores
from gaugeblock.conformance.mutants.ignoring import HEADS, IgnoresInHeads
from gaugeblock.conformance.unusual.multihead import BiasesEverywhere, PlainSelfAttention

forgets(
    PlainSelfAttention,
    __name__,
    {
        "multihead.context": "MHA-CONTEXT",
        "multihead.alibi": "MHA-ALIBI",
        "multihead.window": "MHA-WINDOW",
        "multihead.mask.heads": "MHA-SPLIT",
        "multihead.causal+mask": "MHA-CAUSAL",
        "multihead.positions.rows": "MHA-BATCH-ROWS",
        "multihead.rotary.interleaved": "MHA-BIAS",
        "multihead.rotary.partial": "MHA-ROTARY",
        "multihead.rotary.scaling": "MHA-ROTARY",
        "multihead.bias.some": "MHA-BIAS",
        "multihead.grouped": "MHA-GROUPED",
        "multihead.value_width": "MHA-SPLIT",
        "multihead.inner_width": "MHA-SPLIT",
        "multihead.scale": "MHA-SCALE",
        "multihead.empty.batch": "MHA-EMPTY-AXES",
        "multihead.empty.queries": "MHA-EMPTY-AXES",
    },
)
forgets(BiasesEverywhere, __name__, {"multihead.bias.some": "MHA-BIAS", "multihead.bias.none": "MHA-SPLIT"})
ignores(IgnoresInHeads, __name__, "multihead", HEADS, "MHA-UNSUPPORTED")
