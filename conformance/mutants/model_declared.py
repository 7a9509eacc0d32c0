"""Decoders that declare what they do not do, encoders and decoders that take what they declare to lack."""

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.mutants.declared import declares, forgets, ignores
from gaugeblock.conformance.mutants.ignoring import STACKS, IgnoresInModels, IgnoresPads, dropped, of_stack
from gaugeblock.conformance.unusual.model_decoding import RecomputesEverything, StepsNeverConsume, TextOfAnyLength
from gaugeblock.conformance.unusual.model_families import BertLike, GPTLike, LlamaLike

CONSUMED, CAPACITY = ("MODEL-CONSUMED",), ("MODEL-STEP-ATOMIC",)

declares(
    NumpyBackend, __name__, killed_by=CONSUMED, convention="consumed_cache", value="valid", name="StepsDeclareValid"
)
declares(
    NumpyBackend, __name__, killed_by=CAPACITY, convention="capacity", value="grows", name="StepsDeclareThatTheyGrow"
)
declares(RecomputesEverything, __name__, killed_by=CONSUMED, convention="consumed_cache", value="valid")
declares(RecomputesEverything, __name__, killed_by=CAPACITY, convention="capacity", value="grows")
declares(StepsNeverConsume, __name__, killed_by=CONSUMED, convention="consumed_cache", value="raises")
declares(TextOfAnyLength, __name__, killed_by=CAPACITY, convention="capacity", value="fixed")
forgets(RecomputesEverything, __name__, {"decoder.bytes": "CACHE-BYTES"})
forgets(
    BertLike,
    __name__,
    {
        "encoder.bias.none": "MODEL-ENCODE",
        "encoder.feed_forward.bias.none": "MODEL-ENCODE",
        "encoder.embedding_norm.none": "MODEL-ENCODE",
    },
)
forgets(GPTLike, __name__, {"decoder.bias.none": "MODEL-LOGITS", "decoder.feed_forward.bias.none": "MODEL-LOGITS"})
forgets(LlamaLike, __name__, {"decoder.bias": "MODEL-LOGITS", "decoder.embedding_norm": "MODEL-LOGITS"})
for offer in ("encoder", "decoder"):
    changes = {name: of_stack(offer, change) for name, change in STACKS.items()}
    ignores(IgnoresInModels, __name__, offer, changes, "MODEL-UNSUPPORTED")
    ignores(IgnoresPads, __name__, offer, {"token_mask": dropped("token_mask")}, "MODEL-UNSUPPORTED")
ignores(IgnoresPads, __name__, "decoder", {"memory_mask": dropped("memory_mask")}, "MODEL-UNSUPPORTED")
