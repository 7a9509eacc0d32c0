"""Wrong heads: tied where they should not be, untied where they should, scaled, and without their bias."""

from dataclasses import replace

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.precision import HALF


@mutant(
    killed_by=("MODEL-TIED", "MODEL-LOGITS"),
    reports=("huggingface/transformers#43429", "vllm-project/vllm#5621"),
    catalogue="M46",
)
class TiedHeadIsItsOwn(NumpyBackend):
    """A tied head is another matrix than the embedding."""

    def _head_weight(self, model: Model) -> Array:
        weight = super()._head_weight(model)
        own = np.random.default_rng(0).normal(size=weight.shape) / np.sqrt(len(weight))
        return own.astype(weight.dtype) if model.config.tied else weight


@mutant(
    killed_by=("MODEL-UNTIED", "MODEL-LOGITS"), reports=("pegainfer-project/pegainfer#544", "Comfy-Org/ComfyUI#15048")
)
class OwnHeadIsTied(NumpyBackend):
    """A head of its own is not used, but the embedding."""

    def _head_weight(self, model: Model) -> Array:
        return np.asarray(model.weights["decoder.embedding.weight"].T)


@mutant(killed_by=("MODEL-TIED", "MODEL-LOGITS"))
class HeadTiedToTheEncoder(NumpyBackend):
    """A tied head is the embedding of the encoder where that has one."""

    def _head_weight(self, model: Model) -> Array:
        other = model.weights.get("encoder.embedding.weight")
        return other.T if model.config.tied and other is not None else super()._head_weight(model)


class OtherHead(NumpyBackend):
    """Does something to the logits."""

    def _head(self, hidden: Array, model: Model) -> Array:
        with self._within("unchanged"):
            scores = super()._head(hidden, model)
        return self._tap("logits", self._instead(scores, hidden, model))

    def _instead(self, scores: Array, hidden: Array, model: Model) -> Array:
        raise NotImplementedError


@mutant(killed_by=("MODEL-HEAD-BIAS", "MODEL-LOGITS"), reports=("vllm-project/vllm#46835",), catalogue="M46")
class BiasOfATiedHeadLost(NumpyBackend):
    """The bias of a tied head is dropped."""

    def _head(self, hidden: Array, model: Model) -> Array:
        kept = {name: w for name, w in model.weights.items() if name != "head.bias" or not model.config.tied}
        return super()._head(hidden, replace(model, weights=kept))


@mutant(killed_by=("MODEL-HEAD-BIAS", "MODEL-LOGITS"))
class HeadBiasShifted(NumpyBackend):
    """Each logit gets the bias of the next id."""

    def _head(self, hidden: Array, model: Model) -> Array:
        moved = {name: np.roll(w, -1) if name == "head.bias" else w for name, w in model.weights.items()}
        return super()._head(hidden, replace(model, weights=moved))


@mutant(killed_by=("MODEL-LOGITS",), reports=("ml-explore/mlx-examples#591", "huggingface/transformers#43681"))
class UntiedHeadScaled(OtherHead):
    """The logits of an untied head are divided by the root of the width, as some tied ones are."""

    def _instead(self, scores: Array, hidden: Array, model: Model) -> Array:
        scale = 1.0 if model.config.tied else float(hidden.shape[-1] ** -0.5)
        return round_once(upcast(scores) * np.float32(scale), scores.dtype)


@mutant(killed_by=("MODEL-LOGITS",), reports=("jadore801120/attention-is-all-you-need-pytorch#138",))
class TiedHeadScaledLikeTheEmbedding(NumpyBackend):
    """A tied head is scaled as the embedding is."""

    def _head_weight(self, model: Model) -> Array:
        weight, decoder = super()._head_weight(model), model.config.decoder
        scale = decoder.embedding_scale if decoder is not None and model.config.tied else 1.0
        return round_once(upcast(weight) * np.float32(scale), weight.dtype)


@mutant(killed_by=("MODEL-LOGITS", "MODEL-HEAD-BIAS"))
class LogitsAreLogarithmsOfProbabilities(OtherHead):
    """The logits come back as logarithms of probabilities."""

    def _instead(self, scores: Array, hidden: Array, model: Model) -> Array:
        wide = upcast(scores)
        return round_once(wide - np.log(np.sum(np.exp(wide), axis=-1, keepdims=True)), scores.dtype)


@mutant(killed_by=("MODEL-LOGITS",))
class LastIdHasNoLogit(OtherHead):
    """The logit of the last id is zero."""

    def _instead(self, scores: Array, hidden: Array, model: Model) -> Array:
        return np.where(np.arange(scores.shape[-1]) < scores.shape[-1] - 1, scores, 0).astype(scores.dtype)


@mutant(killed_by=("MODEL-LOGITS",), dtypes=HALF)
class HeadSummedInHalfPrecision(NumpyBackend):
    """The sums of the head are kept in half precision."""

    def _head(self, hidden: Array, model: Model) -> Array:
        weight, bias = self._head_weight(model), model.weights.get("head.bias")
        total = np.zeros((*hidden.shape[:-1], weight.shape[1]), hidden.dtype)
        for n in range(hidden.shape[-1]):
            total = total + hidden[..., n : n + 1] * weight[n]
        return self._tap("logits", total if bias is None else total + bias)


@mutant(killed_by=("MODEL-DTYPE",), dtypes=HALF)
class LogitsAreWide(OtherHead):
    """Logits of half precision come back as float32."""

    def _instead(self, scores: Array, hidden: Array, model: Model) -> Array:
        return upcast(scores)
