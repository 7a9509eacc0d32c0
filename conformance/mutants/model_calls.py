"""Models that accept what has no meaning, write to their inputs, remember calls, lose NaN, or say what is not so."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once
from gaugeblock.backends.numpy.model import Model
from gaugeblock.backends.numpy.multihead import View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.feedforward_elements import in_order_of_memory
from gaugeblock.spec import weights as names
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.precision import FLOAT16


@mutant(killed_by=("MODEL-WEIGHTS",))
class ShapesOfWeightsNotCompared(NumpyBackend):
    """A table with too few rows is read as far as it goes."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        return Model(dict(weights), config, next(iter(weights.values())).dtype.name)


@mutant(killed_by=("MODEL-WEIGHTS",))
class MissingWeightsMadeUp(NumpyBackend):
    """Weights that are missing are taken as ones, or as zeros where they are biases."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        wanted, dtype = names.shapes(config), next(iter(weights.values())).dtype
        made = {n: (np.zeros if n.endswith("bias") else np.ones)(shape, dtype) for n, shape in wanted.items()}
        return super().load({**made, **weights}, config)


@mutant(killed_by=("MODEL-WEIGHTS",))
class TransposedWeightsTurned(NumpyBackend):
    """A weight that fits the other way round is turned without a word."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        wanted = names.shapes(config)
        return super().load({n: w.T if w.T.shape == wanted.get(n) else w for n, w in weights.items()}, config)


class UncheckedIds(NumpyBackend):
    """Looks up ids that the vocabulary has not."""

    def _check_inputs(self, x: Array, token_mask: Array | None, c: StackConfig, model: Model, where: str) -> Array:
        free = replace(c, vocabulary=2**62) if c.inputs == "ids" else c
        known = np.abs(x) if c.inputs == "ids" else x
        return super()._check_inputs(known, token_mask, free, model, where)


@mutant(killed_by=("MODEL-IDS",))
class IdsClamped(UncheckedIds):
    """An id beyond the vocabulary is taken for its last, a negative one for its first."""


@mutant(killed_by=("MODEL-IDS",))
class IdsWrapAround(UncheckedIds):
    """Ids are taken modulo the size of the vocabulary."""

    def _embedding_rows(self, ids: Array, weights: Weights) -> Array:
        return super()._embedding_rows(ids % len(weights["embedding.weight"]), weights)


@mutant(killed_by=("MODEL-REFUSES",))
class ShortMaskFilledUp(NumpyBackend):
    """A token mask that is too short is filled up with real tokens."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        return super().encode(model, tokens_or_vectors, token_mask=self._filled(tokens_or_vectors, token_mask))

    def _filled(self, x: Array, mask: Array | None) -> Array | None:
        if mask is None or mask.ndim != 2 or x.ndim < 2:
            return mask
        missing = [(0, max(n - m, 0)) for n, m in zip(x.shape[:2], mask.shape, strict=True)]
        return np.pad(mask, missing, constant_values=True)


@mutant(killed_by=("MODEL-INPUTS-INTACT",))
class IdsOfPadsCleared(NumpyBackend):
    """The ids of pads are set to zero in the array that was given."""

    def _check_inputs(self, x: Array, token_mask: Array | None, c: StackConfig, model: Model, where: str) -> Array:
        real = super()._check_inputs(x, token_mask, c, model, where)
        if c.inputs == "ids" and x.flags.writeable:
            x[~real] = 0
        return real


@mutant(killed_by=("MODEL-INPUTS-INTACT",))
class EmbeddingScaledInPlace(NumpyBackend):
    """The rows of the embedding are scaled where they lie."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        made = super().load(weights, config)
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder)):
            table = made.weights.get(f"{name}.embedding.weight")
            if stack is not None and table is not None:
                table *= table.dtype.type(stack.embedding_scale)
        return made


@mutant(killed_by=("MODEL-INPUTS-INTACT",))
class MappingEmptied(NumpyBackend):
    """Weights are taken out of the mapping as they are loaded."""

    def load(self, weights: Any, config: ModelConfig) -> Model:
        made = super().load(weights, config)
        weights.clear()
        return made


@mutant(killed_by=("MODEL-STRIDES",))
class StridesOfTablesIgnored(NumpyBackend):
    """Weights are read as if they were contiguous."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        return super().load({name: in_order_of_memory(w) for name, w in weights.items()}, config)


@mutant(killed_by=("MODEL-EMPTY",))
class NothingIsRefused(NumpyBackend):
    """A call without rows or columns raises."""

    def _check_inputs(self, x: Array, token_mask: Array | None, c: StackConfig, model: Model, where: str) -> Array:
        if not x.size:
            raise ValueError("nothing to do")
        return super()._check_inputs(x, token_mask, c, model, where)


@mutant(killed_by=("MODEL-NONFINITE",))
class NanOfARowIsZero(NumpyBackend):
    """NaN is turned into zero before the last norm."""

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        return super()._outer_norm(np.nan_to_num(x, nan=0.0).astype(x.dtype), weights, c, name)

    def _head(self, hidden: Array, model: Model) -> Array:
        return super()._head(np.nan_to_num(hidden, nan=0.0).astype(hidden.dtype), model)


@mutant(killed_by=("MODEL-NONFINITE",))
class NanReachesAllBatchRows(NumpyBackend):
    """Zero times the sum over the batch is added to each residual."""

    def _residual(self, x: Array, y: Array) -> Array:
        lost = np.sum(x.astype(np.float64) + y.astype(np.float64)) * 0
        return super()._residual(x, round_once(y + lost, y.dtype))


@mutant(killed_by=("MODEL-TAPS",))
class TracedInHalfPrecision(NumpyBackend):
    """A traced call keeps its intermediates in float16."""

    def _tap(self, name: str, x: Any) -> Any:
        if self._taps is not None and isinstance(x, np.ndarray):
            x = x.astype(FLOAT16.dtype).astype(x.dtype)
        return super()._tap(name, x)


@mutant(killed_by=("MODEL-STATELESS",))
class LastModelForAll(NumpyBackend):
    """Every call uses the model that was loaded last."""

    latest: Model | None = None

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        self.latest = super().load(weights, config)
        return self.latest

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        return super().encode(self.latest or model, tokens_or_vectors, token_mask=token_mask)

    def _decoder_of(self, model: Model, where: str) -> StackConfig:
        return super()._decoder_of(self.latest or model, where)

    def _head_weight(self, model: Model) -> Array:
        return super()._head_weight(self.latest or model)


@mutant(killed_by=("MODEL-STATELESS",))
class LongestCallRemembered(NumpyBackend):
    """The rows of sinusoids and tables are divided by the longest sequence so far."""

    longest = 1

    def _position_rows(self, positions: Array, weights: Weights, c: StackConfig, dtype: str) -> Array:
        self.longest = max(self.longest, positions.shape[-1])
        rows = super()._position_rows(positions, weights, c, dtype)
        return round_once(rows.astype(np.float64) / self.longest, rows.dtype)


@mutant(killed_by=("MODEL-UNSUPPORTED",))
class WindowOfAModelAbsentButIgnored(NumpyBackend):
    """Windows are declared unsupported; configured all the same, they are silently ignored."""

    unsupported: Mapping[str, str] = {f"{stack}.window": "full attention only" for stack in ("encoder", "decoder")}

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view, None)


@mutant(killed_by=("MODEL-UNSUPPORTED",))
class TiedAbsentButRight(NumpyBackend):
    """Tied heads are declared unsupported, and work."""

    unsupported: Mapping[str, str] = {"decoder.tied": "not needed"}
