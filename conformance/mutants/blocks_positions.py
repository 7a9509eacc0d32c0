"""Blocks in which positions, or what the self-attention knows of them, reach the wrong attention, or none."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.blocks_masks import Given, OtherCall
from gaugeblock.spec.config import AttentionConfig, BlockConfig, RotaryConfig


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


@mutant(killed_by=("BLOCK-POSITIONS",))
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
