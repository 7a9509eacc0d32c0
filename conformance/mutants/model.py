"""Wrong stacks: what goes into the first block, the order of the layers, the norms around them, who sees whom."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.blocks import Function, Sum
from gaugeblock.backends.numpy.model import Model, RememberLayer
from gaugeblock.backends.numpy.multihead import Memory, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.weights import part


@mutant(killed_by=("MODEL-EMBEDDING",))
class EmbeddingScaleMissing(NumpyBackend):
    """The embedding is not scaled."""

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        return rows


@mutant(killed_by=("MODEL-EMBEDDING",), reports=("Lightning-AI/litgpt#1031",), dtypes=("bfloat16",))
class EmbeddingScaleRounded(NumpyBackend):
    """The scale of the embedding is rounded to the format of the model first."""

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        return super()._scaled_embedding(rows, float(np.asarray(scale, rows.dtype)))


@mutant(killed_by=("MODEL-EMBEDDING",))
class EmbeddingDividedByScale(NumpyBackend):
    """The embedding is divided by its scale."""

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        return super()._scaled_embedding(rows, 1 / scale)


@mutant(killed_by=("MODEL-EMBEDDING",))
class EmbeddingOfTheEncoderForBoth(NumpyBackend):
    """A decoder looks its ids up in the encoder's embedding where there is one."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        made = super().load(weights, config)
        shared = made.weights.get("encoder.embedding.weight")
        if shared is None or "decoder.embedding.weight" not in made.weights:
            return made
        return replace(made, weights={**made.weights, "decoder.embedding.weight": shared})


@mutant(killed_by=("MODEL-POSITIONS",))
class PositionsScaledWithTheEmbedding(NumpyBackend):
    """The scale of the embedding is applied to the sum with the positions."""

    factor = 1.0

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        self.factor = scale
        return super()._scaled_embedding(rows, scale)

    def _add_positions(self, x: Array, rows: Array) -> Array:
        return super()._add_positions(x, round_once(upcast(rows) * self.factor, rows.dtype))


@mutant(killed_by=("MODEL-NORMS",))
class EmbeddingNormSkipped(NumpyBackend):
    """The norm before the first block is not applied."""

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        return self._tap(name, x) if name == "embedding_norm" else super()._outer_norm(x, weights, c, name)


@mutant(killed_by=("MODEL-NORMS",), reports=("NVIDIA-NeMo/Speech#2197",), catalogue="M43")
class FinalNormSkipped(NumpyBackend):
    """The norm behind the last block is not applied."""

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        return self._tap(name, x) if name == "final_norm" else super()._outer_norm(x, weights, c, name)


@mutant(killed_by=("MODEL-NORMS",))
class OuterNormsHaveTheirOwnEps(NumpyBackend):
    """The norms around the blocks use eps 1e-5, whatever is configured."""

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        return super()._outer_norm(x, weights, replace(c, block=replace(c.block, eps=1e-5)), name)


@mutant(killed_by=("MODEL-NORMS",))
class FinalNormIsTheFirst(NumpyBackend):
    """The norm behind the last block has the weights of the one before the first, where there are both."""

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        both = c.embedding_norm and name == "final_norm"
        shared = {f"final_norm.{n}": w for n, w in part(weights, "embedding_norm").items()} if both else {}
        return super()._outer_norm(x, {**weights, **shared}, c, name)


@mutant(killed_by=("MODEL-POSITIONS",))
class EmbeddingNormBeforePositions(NumpyBackend):
    """The embedding is normalised before the positions are added to it."""

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        if not c.embedding_norm or c.positions is None:
            return super()._embed(x, weights, c, positions)
        plain = super()._embed(x, weights, replace(c, positions=None), positions)
        rows = self._position_rows(positions, weights, c, plain.dtype.name)
        return self._tap("embedded", self._add_positions(plain, self._tap("positions", rows)))


class OtherLayers(NumpyBackend):
    """Reads the weights of its layers in another order."""

    def _stack(
        self,
        x: Array,
        weights: Weights,
        c: StackConfig,
        view: View,
        memories: Sequence[Memory] = (),
        remember: RememberLayer | None = None,
    ) -> Array:
        moved: dict[str, Array] = {}
        for n in range(c.layers):
            taken = part(weights, f"layers.{self._layer(n, c.layers)}")
            moved |= {f"layers.{n}.{name}": w for name, w in taken.items()}
        return super()._stack(x, {**weights, **moved}, c, view, memories, remember)

    def _layer(self, n: int, layers: int) -> int:
        raise NotImplementedError


@mutant(killed_by=("MODEL-STACK",))
class LayersReversed(OtherLayers):
    """The last layer is applied first."""

    def _layer(self, n: int, layers: int) -> int:
        return layers - 1 - n


@mutant(killed_by=("MODEL-STACK",))
class FirstLayerForAll(OtherLayers):
    """Every layer has the weights of the first."""

    def _layer(self, n: int, layers: int) -> int:
        return 0


class OtherView(NumpyBackend):
    """Lets queries see other keys than the specification does."""

    def _stack(
        self,
        x: Array,
        weights: Weights,
        c: StackConfig,
        view: View,
        memories: Sequence[Memory] = (),
        remember: RememberLayer | None = None,
    ) -> Array:
        return super()._stack(x, weights, c, self._seen(view, c), memories, remember)

    def _seen(self, view: View, c: StackConfig) -> View:
        raise NotImplementedError


@mutant(killed_by=("MODEL-REACH", "MODEL-ENCODE"))
class EncoderIsCausal(OtherView):
    """An encoder's tokens see no later one."""

    def _seen(self, view: View, c: StackConfig) -> View:
        return view._replace(causal=True)


@mutant(killed_by=("MODEL-REACH",))
class EncoderSeesItsNeighbours(OtherView):
    """An encoder's tokens see eight tokens to either side, though no window is configured."""

    def _seen(self, view: View, c: StackConfig) -> View:
        columns = np.arange(view.keys.shape[-1])
        near = np.abs(columns - columns[:, None]) <= 8
        return view if c.block.causal or view.mask is None else view._replace(mask=view.mask & near)


@mutant(killed_by=("MODEL-CAUSAL", "MODEL-ORDER", "MODEL-STACK"), reports=("osaurus-ai/vmlx-swift#185",))
class DecoderIsNotCausal(OtherView):
    """A decoder's tokens see later ones."""

    def _seen(self, view: View, c: StackConfig) -> View:
        return view._replace(causal=False)


@mutant(killed_by=("MODEL-CAUSAL",))
class DecoderSeesOneAhead(OtherView):
    """A decoder's tokens see the next one."""

    def _seen(self, view: View, c: StackConfig) -> View:
        if not view.causal or view.mask is None:
            return view
        T, S = view.queries.shape[-1], view.keys.shape[-1]
        return view._replace(causal=False, mask=view.mask & np.tri(T, S, S - T + 1, dtype=bool))


@mutant(killed_by=("MODEL-CAUSAL",), reports=("keras-team/keras#23038", "keras-team/keras#23040"), catalogue="M08")
class NotCausalWherePadded(OtherView):
    """A decoder whose tokens are padded sees later ones."""

    def _seen(self, view: View, c: StackConfig) -> View:
        return view if view.mask is None or np.all(view.mask) else view._replace(causal=False)


@mutant(killed_by=("MODEL-ENCODE",))
class EncoderBuiltAsTheDecoder(NumpyBackend):
    """Beside a decoder the encoder has its norms where the decoder has them."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        encoder, decoder = model.config.encoder, model.config.decoder
        if encoder is not None and decoder is not None:
            block = replace(encoder.block, placement=decoder.block.placement)
            model = replace(model, config=replace(model.config, encoder=replace(encoder, block=block)))
        return super().encode(model, tokens_or_vectors, token_mask=token_mask)


@mutant(killed_by=("MODEL-STACK", "MODEL-ENCODE"))
class NormsBehindWhereTheyBelongBefore(NumpyBackend):
    """A stack with its norms before the sublayers has them behind the residual sums."""

    def _pre(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        return self._post(x, f, norm, add)


@mutant(
    killed_by=("MODEL-EQUIVARIANT", "MODEL-CAUSAL"), reports=("jsbaan/transformer-from-scratch#6",), catalogue="M24"
)
class HeadsOfAModelMergedFlat(NumpyBackend):
    """The heads are joined without putting tokens before heads, which mixes the tokens."""

    def _join(self, mixed: Array) -> Array:
        B, H, T, E = mixed.shape
        return mixed.reshape(B, T, H * E)


@mutant(
    killed_by=("MODEL-CAUSAL", "MODEL-ENCODE"),
    reports=("labmlai/annotated_deep_learning_paper_implementations#146",),
    catalogue="M03",
)
class SoftmaxOverTheTokensThatAsk(NumpyBackend):
    """In a model the softmax of attention runs over the queries."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores.swapaxes(-1, -2), visible.swapaxes(-1, -2)).swapaxes(-1, -2)


@mutant(killed_by=("MODEL-CLOSED", "MODEL-PADDING"))
class NeighboursMixed(NumpyBackend):
    """A tenth of the column before is added to what enters the blocks."""

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        made: Any = upcast(super()._embed(x, weights, c, positions)).copy()
        made[:, 1:] += made[:, :-1] / 10
        return round_once(made, next(iter(weights.values())).dtype) if weights else made
