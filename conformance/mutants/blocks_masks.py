"""Blocks in which causality, masks, positions or the context reach the wrong attention, or none."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, BlockConfig

Given = dict[str, Any]


class OtherCall(NumpyBackend):
    """Makes another call of the one it gets."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        raise NotImplementedError

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        super()._check_block(x, weights, config, *(given.get(name) for name in NAMES))
        other, keywords = self._other(config, dict(given))
        return super().block(x, weights, other, **keywords)


NAMES = ("context", "positions", "mask", "context_mask")


@mutant(killed_by=("BLOCK-CAUSAL", "BLOCK-FORMULA"))
class CausalDropped(OtherCall):
    """A causal block sees everything."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, causal=False), given


@mutant(killed_by=("BLOCK-CAUSAL",), reports=("keras-team/keras#23038",))
class CausalDroppedWithAMask(OtherCall):
    """A block that gets a mask is not causal."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, causal=config.causal and given.get("mask") is None), given


@mutant(killed_by=("BLOCK-CAUSAL",))
class CausalDroppedBesideTheContext(OtherCall):
    """A block with cross-attention is not causal."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, causal=config.causal and config.cross is None), given


@mutant(killed_by=("BLOCK-CAUSAL",))
class CausalDroppedWithAWindow(OtherCall):
    """A window takes the place of causality."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, causal=config.causal and config.attention.window is None), given


@mutant(killed_by=("BLOCK-BIDIRECTIONAL", "BLOCK-FORMULA"))
class AlwaysCausal(OtherCall):
    """Every block is causal."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, causal=True), given


@mutant(killed_by=("BLOCK-CAUSAL",))
class CausalByPosition(NumpyBackend):
    """Causality goes by position, not by column."""

    def _self_attention(
        self, x: Array, weights: Weights, c: AttentionConfig, view: View, remember: Remember | None = None
    ) -> Array:
        if view.causal:
            earlier = self._near(view, (None, 0))
            mask = earlier if view.mask is None else earlier & view.mask
            view = View(view.queries, view.keys, mask, causal=False)
        return super()._self_attention(x, weights, c, view, remember)


@mutant(killed_by=("BLOCK-CAUSAL",))
class CrossIsCausal(NumpyBackend):
    """A causal block hides later columns of the context as well."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        self._causal = config.causal
        return super().block(x, weights, config, **given)

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        if self._causal:
            T, S = x.shape[1], memory.keys.shape[2]
            earlier = (np.arange(S) <= np.arange(T)[:, None])[None, None]
            memory = memory._replace(mask=earlier if memory.mask is None else earlier & memory.mask)
        return super()._cross_attention(x, weights, c, memory)

    _causal = False


@mutant(killed_by=("BLOCK-MASK", "BLOCK-FORMULA"))
class MaskDropped(OtherCall):
    """The mask is ignored."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return config, {**given, "mask": None}


@mutant(killed_by=("BLOCK-MASK",))
class MaskDroppedWhenCausal(OtherCall):
    """A causal block ignores the mask."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return config, {**given, "mask": None if config.causal else given.get("mask")}


@mutant(killed_by=("BLOCK-MASK", "BLOCK-FORMULA"), reports=("neuro-galaxy/torch_brain#74",))
class MaskInvertedInABlock(OtherCall):
    """True in the mask means hidden."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        mask = given.get("mask")
        return config, {**given, "mask": None if mask is None else ~mask}


@mutant(killed_by=("BLOCK-MASK",))
class MaskOfTheFirstHeadInABlock(OtherCall):
    """All heads take the mask of the first."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        mask = given.get("mask")
        return config, {**given, "mask": None if mask is None else mask[:, :1]}


def fitting(mask: Array | None, columns: int) -> Array | None:
    """The mask where its last axis fits the number of columns."""
    return mask if mask is not None and mask.shape[3] in (1, columns) else None


@mutant(killed_by=("BLOCK-MASK",))
class MaskReachesTheContext(OtherCall):
    """The mask hides columns of the context as well, where it fits."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        context, own = given.get("context"), given.get("context_mask")
        mask = None if context is None else fitting(given.get("mask"), context.shape[1])
        return config, given if mask is None else {**given, "context_mask": mask if own is None else mask & own}


@mutant(killed_by=("BLOCK-CONTEXT-MASK",))
class ContextMaskHidesTokens(NumpyBackend):
    """The mask of the context hides columns of x as well, where it fits."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        mask, own = fitting(given.get("context_mask"), x.shape[1]), given.get("mask")
        if mask is not None and given.get("context") is not None:
            given = {**given, "mask": mask if own is None else mask & own}
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-CONTEXT-MASK", "BLOCK-FORMULA"))
class ContextMaskDropped(OtherCall):
    """The mask of the context is ignored."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return config, {**given, "context_mask": None}


@mutant(killed_by=("BLOCK-CONTEXT-MASK",))
class MasksExchanged(NumpyBackend):
    """Where both masks fit both attentions, each takes the other's."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        context = given.get("context")
        if context is not None and context.shape[1] == x.shape[1]:
            given = {**given, "mask": given.get("context_mask"), "context_mask": given.get("mask")}
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-CONTEXT-MASK",))
class HiddenContextLeaksALittle(NumpyBackend):
    """A hidden column of the context keeps a weight of a unit or so in the last place."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        if memory.mask is None:
            return super()._cross_attention(x, weights, c, memory)
        leak = x.dtype.type(1e-7) * np.sum(memory.values, axis=2, keepdims=True).mean(axis=1, keepdims=True)
        return super()._cross_attention(x, weights, c, memory._replace(values=memory.values + leak))
