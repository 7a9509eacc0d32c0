"""Backward passes of decoders that disagree with the forward pass, which is right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import Back
from gaugeblock.conformance.mutants.multihead_gradients import OfALayer
from gaugeblock.conformance.mutants.taped import Taped

ALL = ("float32", "float64", "bfloat16", "float16")
Weights = Mapping[str, Array]


@mutant(killed_by=("MODEL-GRADIENT-TIED",))
class TiedTableAsTheEmbeddingOnly(Taped):
    """A tied table has the gradient of the embedding alone."""

    def _head_back(self, x: Array, model: Model, dy: Array) -> Back:
        found = super()._head_back(x, model, dy)
        return [found[0], found[2]] if model.config.tied else found


@mutant(killed_by=("MODEL-GRADIENT-TIED",))
class TiedTableAsTheHeadOnly(Taped):
    """A tied table has the gradient of the head alone."""

    tied: Array | None = None

    def _head(self, x: Array, model: Model) -> Array:
        self.tied = model.weights["decoder.embedding.weight"] if model.config.tied else None
        return super()._head(x, model)

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        total = super()._readers(table, positions, dy)
        return np.zeros_like(total) if table is self.tied else total


@mutant(killed_by=("MODEL-GRADIENT-TIED", "MODEL-GRADIENT"))
class EmbeddingScaleMissingBackward(Taped):
    """The gradient of the embedding lacks its scale."""

    def _scale_back(self, dy: Array, scale: float) -> Array:
        return dy


@mutant(killed_by=("MODEL-GRADIENT",), reports=("pytorch/pytorch#1631",))
class LastTokenOfARow(Taped):
    """A row of the embedding has the gradient of the last token that reads it."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        total = np.zeros(table.shape, dy.dtype)
        total[positions] = dy
        return total


@mutant(killed_by=("MODEL-GRADIENT",))
class FirstLayerFrozen(Taped):
    """The weights of the first layer have no gradient, though it hands one on."""

    def vjp(self, function: Any, *primals: Any) -> Any:
        value, pullback = super().vjp(function, *primals)

        def frozen(dy: Array) -> Any:
            return tuple(_without(g, "layers.0.") for g in pullback(dy))

        return value, frozen


def _without(found: Any, part: str) -> Any:
    """Gradients by name with zeros for those whose names hold a part."""
    if not isinstance(found, Mapping):
        return found
    return {name: np.zeros_like(g) if part in name else g for name, g in found.items()}


@mutant(killed_by=("MODEL-GRADIENT",))
class NormWeightsFrozen(Taped):
    """The weights of norms have no gradient."""

    def _over_rows(self, g: Array) -> Array:
        return np.zeros(g.shape[-1], g.dtype)


@mutant(killed_by=("MODEL-GRADIENT",))
class MemoryDetached(Taped):
    """The memory has no gradient, as if the encoder before it were frozen."""

    def _project_memory(self, context: Array, weights: Weights, c: Any) -> tuple[Array, Array]:
        return super()._project_memory(context.copy(), weights, c)


@mutant(killed_by=("MODEL-GRADIENT",))
class HeadBiasAveraged(Taped):
    """The bias of the head has the mean over the tokens, not the sum."""

    def _head_back(self, x: Array, model: Model, dy: Array) -> Back:
        found = super()._head_back(x, model, dy)
        count = dy.dtype.type(max(dy.size // dy.shape[-1], 1))
        return [*found[:2], (found[2][0], found[2][1] / count)]


@mutant(killed_by=("MODEL-GRADIENT",))
class HeadOfTheLastToken(Taped):
    """The head has the gradient of the last column alone."""

    def _head_back(self, x: Array, model: Model, dy: Array) -> Back:
        found = super()._head_back(x, model, dy)
        rows, g = upcast(x)[:, -1], dy[:, -1]
        return [found[0], (found[1][0], g.T @ rows if model.config.tied else rows.T @ g), found[2]]


@mutant(killed_by=("MODEL-GRADIENT-UNREAD", "MODEL-GRADIENT"), dtypes=ALL)
class UnreadRowsDecay(Taped):
    """A thousandth of the table is added to its gradient, as weight decay would have it."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        return super()._readers(table, positions, dy) + upcast(table) / 1024


@mutant(killed_by=("MODEL-GRADIENT-UNREAD",), dtypes=ALL)
class NextRowIsTrained(Taped):
    """The gradient of a row of a table is written to the row behind it."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        return np.roll(super()._readers(table, positions, dy), 1, axis=0)


@mutant(killed_by=("MODEL-GRADIENT-CAUSAL", "MODEL-GRADIENT"), dtypes=ALL)
class DecoderMadeAgainWithoutCausality(OfALayer):
    """A checkpointed decoder is made again without causality."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "causal": False}


@mutant(killed_by=("MODEL-GRADIENT",))
class LastBlockOnly(Taped):
    """The stream is detached between two blocks: the last one alone is trained."""

    def _sublayers(self, x: Array, *rest: Any) -> Array:
        return super()._sublayers(x.copy(), *rest)


@mutant(killed_by=("MODEL-GRADIENT",))
class EmbeddingPassedByHalfTheCotangent(Taped):
    """Between the first block and the tables half the gradient is lost."""

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        return super()._readers(table, positions, dy / 2)


@mutant(killed_by=("MODEL-GRADIENT-UNREAD", "MODEL-GRADIENT"), dtypes=("float32", "float64", "bfloat16"))
class ModelMadeAgainWithoutItsPads(OfALayer):
    """A checkpointed model is made again without the mask that hides pads."""

    def _again(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "mask": None}


@mutant(killed_by=("MODEL-GRADIENT",))
class OuterNormsSkippedBackward(Taped):
    """Norms outside the blocks hand on the cotangent times their weight, as if they divided by one."""

    def _outer_norm(self, x: Array, weights: Weights, c: Any, name: str) -> Array:
        y = super()._outer_norm(x, weights, c, name)
        weight = weights[f"{name}.weight"]
        bias = weights.get(f"{name}.bias")
        right = self.tape[-1][1]
        self.tape[-1] = (y, lambda dy: [(x, dy * upcast(weight)), *_of(right(dy), weight, bias)])
        return y


def _of(found: Back, *arrays: Array | None) -> Back:
    """Those of the gradients that belong to these arrays."""
    return [(x, g) for x, g in found if x is not None and any(x is a for a in arrays)]
