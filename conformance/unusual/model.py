"""Models in other forms and orders, shown or not, which the reference admits."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.backends.numpy.multihead import Weights
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.model import Encoder
from gaugeblock.spec.precision import HALF, Level


class UnseenEncoder(Encoder, Backend):
    """Encodes as another backend does, and shows no intermediates."""

    dtypes = NumpyBackend.dtypes

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.inner = NumpyBackend()

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Any:
        return self.inner.load(weights, config)

    def encode(self, model: Any, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        return self.inner.encode(model, tokens_or_vectors, token_mask=token_mask)


@correct
class NothingShownOfAnEncoder(UnseenEncoder):
    """No intermediate of an encoder is shown; the result alone is judged."""


@correct
class WideFromEndToEnd(UnseenEncoder):
    """Encoders of half precision are computed in float32 from end to end, and rounded once."""

    dtypes = frozenset(HALF)
    level = dict.fromkeys(HALF, Level.STRICT)

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Any:
        self.inner.load(weights, config)  # to refuse what is to be refused
        kinds = {w.dtype for w in weights.values()}
        return self.inner.load({name: upcast(w) for name, w in weights.items()}, config), next(iter(kinds))

    def encode(self, model: Any, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        wide, dtype = model
        if tokens_or_vectors.dtype.kind in "iu":
            return round_once(self.inner.encode(wide, tokens_or_vectors, token_mask=token_mask), dtype)
        if tokens_or_vectors.dtype != dtype:
            raise TypeError(f"vectors must be {dtype}")
        return round_once(self.inner.encode(wide, upcast(tokens_or_vectors), token_mask=token_mask), dtype)


@correct
class RowsOneByOne(UnseenEncoder):
    """Each row is encoded by itself, without its pads; what is left of it is NaN."""

    def encode(self, model: Any, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        x, whole = tokens_or_vectors, self.inner.encode(model, tokens_or_vectors, token_mask=token_mask)
        made = np.full_like(whole, np.nan)
        for b in range(len(whole)):
            real = np.ones(whole.shape[1], bool) if token_mask is None else token_mask[b]
            made[b, real] = self.inner.encode(model, x[b : b + 1, real])[0]
        return made


@correct
class NanAtPads(NumpyBackend):
    """What comes back at pads is NaN."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        return self._without_pads(super().encode(model, tokens_or_vectors, token_mask=token_mask), token_mask)

    def logits(self, model: Model, tokens: Array, *, token_mask: Array | None = None, **keywords: Any) -> Array:
        made = super().logits(model, tokens, token_mask=token_mask, **keywords)
        return made if made.shape[1] != tokens.shape[1] else self._without_pads(made, token_mask)

    def _without_pads(self, made: Array, token_mask: Array | None) -> Array:
        return made if token_mask is None else np.where(token_mask[..., None], made, np.nan).astype(made.dtype)


@correct
class PadsStandAtTheEnd(NumpyBackend):
    """Pads have the position of their row's last token, and the embedding of the last id."""

    def _token_positions(self, real: Array) -> Array:
        before = np.cumsum(real, axis=1) - real
        last = np.maximum(np.sum(real, axis=1, keepdims=True) - 1, 0)
        return np.asarray(np.where(real, before, last))

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        return super()._embed(np.where(x < 0, c.vocabulary - 1, x) if c.inputs == "ids" else x, weights, c, positions)


@correct
class HeadByColumns(NumpyBackend):
    """The logits come three at a time, the bias in front of each sum."""

    def _head(self, hidden: Array, model: Model) -> Array:
        weight, wide = upcast(self._head_weight(model)), upcast(hidden)
        bias = upcast(model.weights.get("head.bias", np.zeros(weight.shape[1], hidden.dtype)))
        parts = [bias[n : n + 3] + wide @ weight[:, n : n + 3] for n in range(0, weight.shape[1], 3)]
        return self._tap("logits", round_once(np.concatenate(parts, axis=-1), hidden.dtype))


@correct
class EmbeddingByProduct(NumpyBackend):
    """Ids are looked up by a product with vectors of one one."""

    def _embedding_rows(self, ids: Array, weights: Weights) -> Array:
        table = weights["embedding.weight"]
        ones = np.clip(ids, 0, len(table) - 1)[..., None] == np.arange(len(table))
        return round_once(ones.astype(upcast(table).dtype) @ upcast(table), table.dtype)
