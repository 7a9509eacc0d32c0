"""Blocks that refuse what they declare to offer, and that take what they declare to lack."""

from gaugeblock.conformance.mutants.declared import forgets, ignores
from gaugeblock.conformance.mutants.ignoring import BLOCKS, IgnoresInBlocks
from gaugeblock.conformance.unusual.blocks import BertBlocksOnly, LlamaBlocksOnly

forgets(
    LlamaBlocksOnly,
    __name__,
    {
        "block.context": "BLOCK-ORDER",
        "block.layer": "BLOCK-IDENTITY",
        "block.post": "BLOCK-NORMS-IN-TURN",
        "block.ungated": "BLOCK-IDENTITY",
        "block.ffn_bias": "BLOCK-IDENTITY",
        "block.bidirectional": "BLOCK-BIDIRECTIONAL",
        "block.mask": "BLOCK-MASK",
        "block.rotary.interleaved": "BLOCK-FORMULA",
        "block.alibi": "BLOCK-FORMULA",
        "block.window": "BLOCK-FORMULA",
        "block.scale": "BLOCK-FORMULA",
        "block.bias": "BLOCK-IDENTITY",
        "block.value_width": "BLOCK-IDENTITY",
        "block.inner_width": "BLOCK-IDENTITY",
        "block.eps.zero": "BLOCK-EPS",
        "block.empty.batch": "BLOCK-EMPTY",
        "block.empty.tokens": "BLOCK-EMPTY",
    },
)
forgets(
    BertBlocksOnly,
    __name__,
    {
        "block.context": "BLOCK-ORDER",
        "block.rms": "BLOCK-NORMS-IN-TURN",
        "block.pre": "BLOCK-IDENTITY",
        "block.gated": "BLOCK-NORMS-IN-TURN",
        "block.causal": "BLOCK-CAUSAL",
        "block.mask.heads": "BLOCK-FORMULA",
        "block.positions": "BLOCK-POSITIONS",
        "block.rotary": "BLOCK-FORMULA",
        "block.bias.some": "BLOCK-NORMS-IN-TURN",
        "block.bias.none": "BLOCK-NORMS-IN-TURN",
        "block.ffn_bias.none": "BLOCK-NORMS-IN-TURN",
        "block.grouped": "BLOCK-NORMS-IN-TURN",
        "block.activation.relu": "BLOCK-NORMS-IN-TURN",
        "block.activation.gelu_tanh": "BLOCK-FORMULA",
        "block.activation.silu": "BLOCK-FEED-FORWARD",
    },
)
ignores(IgnoresInBlocks, __name__, "block", BLOCKS, "BLOCK-UNSUPPORTED")
