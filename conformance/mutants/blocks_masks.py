"""Blocks in which causality, masks, positions or the context reach the wrong attention, or none."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, BlockConfig, RotaryConfig

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


@mutant(killed_by=("BLOCK-CAUSAL", "BLOCK-POSITIONS"))
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


@mutant(killed_by=("BLOCK-CAUSAL", "BLOCK-ORDER"))
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


@mutant(killed_by=("BLOCK-POSITIONS", "BLOCK-FORMULA"))
class PositionsDropped(OtherCall):
    """Positions are always those of the columns."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return config, {**given, "positions": None}


@mutant(killed_by=("BLOCK-POSITIONS",), reports=("Blaizzy/mlx-vlm#1883",), catalogue="M37")
class PositionsOfTheFirstRow(OtherCall):
    """All batch rows have the positions of the first."""

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        at = given.get("positions")
        return config, {**given, "positions": at[0] if at is not None and at.ndim == 2 and len(at) else at}


@mutant(killed_by=("BLOCK-POSITIONS", "BLOCK-FORMULA"))
class WindowByColumn(NumpyBackend):
    """The window goes by column, not by position."""

    def _near(self, view: View, window: Any) -> Array:
        columns = np.arange(view.keys.shape[-1])
        return super()._near(view._replace(queries=columns, keys=columns), window)


@mutant(killed_by=("BLOCK-POSITIONS",))
class BiasByColumn(NumpyBackend):
    """ALiBi goes by column, not by position."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        columns = np.arange(view.keys.shape[-1])
        return super()._distance_bias(view._replace(queries=columns, keys=columns), c, dtype)


class OtherSelfAttention(OtherCall):
    """Changes the configuration of the self-attention."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        raise NotImplementedError

    def _other(self, config: BlockConfig, given: Given) -> tuple[BlockConfig, Given]:
        return replace(config, attention=self._self(config.attention)), given


@mutant(killed_by=("BLOCK-POSITIONS", "BLOCK-FORMULA"))
class RotationDropped(OtherSelfAttention):
    """Nothing rotates."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        return replace(c, rotary=None)


@mutant(killed_by=("BLOCK-POSITIONS", "BLOCK-FORMULA"))
class AlwaysInHalves(OtherSelfAttention):
    """The layout of the rotation is always half."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        return replace(c, rotary=c.rotary and RotaryConfig())


@mutant(killed_by=("BLOCK-POSITIONS",))
class BiasesDropped(OtherSelfAttention):
    """There are no linear biases."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        return replace(c, alibi=False)


@mutant(killed_by=("BLOCK-POSITIONS", "BLOCK-FORMULA"))
class WindowDropped(OtherSelfAttention):
    """There is no window."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        return replace(c, window=None)


@mutant(killed_by=("BLOCK-FORMULA",))
class ScaleDropped(OtherSelfAttention):
    """The scale of the scores is always one over the root of the width."""

    def _self(self, c: AttentionConfig) -> AttentionConfig:
        return replace(c, scale=None)


class CrossKnowsTheOrder(NumpyBackend):
    """Remembers what the self-attention of a block is configured to."""

    _around: BlockConfig | None = None

    def _sublayers(
        self,
        x: Array,
        weights: Weights,
        c: BlockConfig,
        view: View,
        memory: Memory | None = None,
        remember: Remember | None = None,
    ) -> Array:
        self._around = c
        return super()._sublayers(x, weights, c, view, memory, remember)


@mutant(killed_by=("BLOCK-CROSS-PLAIN",), reports=("lucidrains/x-transformers#219",))
class CrossRotates(CrossKnowsTheOrder):
    """Queries of the cross-attention are rotated as those of the self-attention are, and its keys by their columns."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        rotary = self._around.attention.rotary if self._around else None
        if rotary is None:
            return super()._cross_attention(x, weights, c, memory)
        keys = self._rotate_heads(memory.keys, np.arange(memory.keys.shape[2]), rotary)
        q = self._rotate_heads(self._split(self._project(x, weights, "query"), c.heads), np.arange(x.shape[1]), rotary)
        self._tap("query", q)
        mixed = self._tap("mixed", self.attention(q, keys, memory.values, mask=memory.mask, scale=c.scale))
        return self._output(mixed, weights)


@mutant(killed_by=("BLOCK-CROSS-PLAIN",), reports=("huggingface/transformers#46111",))
class CrossHasTheWindow(CrossKnowsTheOrder):
    """Cross-attention inherits the window of the self-attention."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        window = self._around.attention.window if self._around else None
        if window is not None:
            near = self._near(View(np.arange(x.shape[1]), np.arange(memory.keys.shape[2])), window)
            memory = memory._replace(mask=near if memory.mask is None else near & memory.mask)
        return super()._cross_attention(x, weights, c, memory)


@mutant(killed_by=("BLOCK-CROSS-PLAIN",))
class CrossHasTheBiases(CrossKnowsTheOrder):
    """Cross-attention has the linear biases of the self-attention."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Memory) -> Array:
        if self._around is None or not self._around.attention.alibi:
            return super()._cross_attention(x, weights, c, memory)
        q = self._tap("query", self._split(self._project(x, weights, "query"), c.heads))
        positions = np.arange(x.shape[1]), np.arange(memory.keys.shape[2])
        bias = self.alibi_bias(c.heads, *positions, dtype=x.dtype.name)
        mixed = self.attention(q, memory.keys, memory.values, mask=memory.mask, bias=bias, scale=c.scale)
        return self._output(self._tap("mixed", mixed), weights)
