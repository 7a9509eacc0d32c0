"""Wrong memories: of another row or layer, normalised, cut, hidden by the wrong mask, or made up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.model import Model
from gaugeblock.backends.numpy.multihead import Memory, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, StackConfig
from gaugeblock.spec.weights import part

Pair = tuple[Array, Array]


@mutant(killed_by=("MODEL-MEMORY-MASK",))
class MaskOfTheMemoryIgnored(NumpyBackend):
    """The pads of the memory are seen."""

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        return super()._memories(projected, None)


@mutant(killed_by=("MODEL-MEMORY-MASK",))
class MaskOfTheMemoryTurnedOver(NumpyBackend):
    """True in the memory's mask is read as a pad."""

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        return super()._memories(projected, None if memory_mask is None else ~memory_mask)


@mutant(killed_by=("MODEL-MEMORY-MASK",))
class MaskOfTheFirstMemory(NumpyBackend):
    """The memory's mask of the first row serves every row."""

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        return super()._memories(projected, None if memory_mask is None else memory_mask[:1])


class OtherMemory(NumpyBackend):
    """Projects another memory than the one that it is given."""

    def _project_memories(self, model: Model, c: StackConfig, memory: Array | None) -> Sequence[Pair]:
        return super()._project_memories(model, c, None if memory is None else self._instead(memory, model, c))

    def _instead(self, memory: Array, model: Model, c: StackConfig) -> Array:
        raise NotImplementedError


@mutant(killed_by=("MODEL-MEMORY", "MODEL-ROWS"))
class MemoryOfTheNextRow(OtherMemory):
    """Each row reads the memory of the next."""

    def _instead(self, memory: Array, model: Model, c: StackConfig) -> Array:
        return np.roll(memory, 1, axis=0)


@mutant(killed_by=("MODEL-MEMORY",), reports=("facebookresearch/xformers#233",))
class MemoryNormalised(OtherMemory):
    """The memory passes the norm of the first cross-attention, which is for the queries."""

    def _instead(self, memory: Array, model: Model, c: StackConfig) -> Array:
        return self._normed(memory, part(model.weights, "decoder.layers.0.cross_norm"), c.block) if c.layers else memory


@mutant(killed_by=("MODEL-MEMORY",), reports=("huggingface/transformers#46111",))
class MemoryCutByTheWindow(OtherMemory):
    """A window of self-attention cuts the memory to its last rows."""

    def _instead(self, memory: Array, model: Model, c: StackConfig) -> Array:
        left, _ = c.block.attention.window or (None, None)
        if left is None or memory.shape[1] <= left + 1:
            return memory
        kept = np.arange(memory.shape[1]) >= memory.shape[1] - left - 1
        return np.where(kept[:, None], memory, 0).astype(memory.dtype)


@mutant(killed_by=("MODEL-STACK", "MODEL-MEMORY"))
class MemoryProjectedByTheFirstLayer(NumpyBackend):
    """Keys and values of the memory are projected by the first layer, for all."""

    def _project_memories(self, model: Model, c: StackConfig, memory: Array | None) -> Sequence[Pair]:
        made = super()._project_memories(model, c, memory)
        return [made[0] for _ in made]


@mutant(killed_by=("MODEL-MEMORY",))
class MemoryIsCausal(NumpyBackend):
    """The first token sees the first row of the memory, the second two, and so on."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        T, S = x.shape[1], memory.keys.shape[2]
        seen = np.tri(T, S, dtype=bool)[None, None]
        mask = seen if memory.mask is None else seen & memory.mask
        return super()._cross_attention(x, weights, c, memory._replace(mask=mask))


@mutant(killed_by=("MODEL-REFUSES",))
class MissingMemoryIsZero(NumpyBackend):
    """A memory that is missing is one row of zeros."""

    def logits(self, model: Model, tokens: Array, *, memory: Array | None = None, **keywords: Any) -> Array:
        decoder = model.config.decoder
        if memory is None and decoder is not None and decoder.block.cross is not None:
            memory = np.zeros((len(tokens), 1, decoder.block.width), model.dtype)
        return super().logits(model, tokens, memory=memory, **keywords)


@mutant(killed_by=("MODEL-REFUSES",))
class NeedlessMemoryIgnored(NumpyBackend):
    """A memory that nothing reads is ignored."""

    def logits(self, model: Model, tokens: Array, *, memory: Array | None = None, **keywords: Any) -> Array:
        decoder = model.config.decoder
        if decoder is not None and decoder.block.cross is None:
            return super().logits(model, tokens, **{**keywords, "memory_mask": None})
        return super().logits(model, tokens, memory=memory, **keywords)


@mutant(killed_by=("MODEL-REFUSES",))
class OneMemoryForAllRows(NumpyBackend):
    """A memory of one row is used for every row."""

    def logits(self, model: Model, tokens: Array, *, memory: Array | None = None, **keywords: Any) -> Array:
        if memory is not None and memory.ndim == 3 and len(memory) == 1:
            memory = np.repeat(memory, len(tokens), axis=0)
        return super().logits(model, tokens, memory=memory, **keywords)
