"""Stacks and the encoder in NumPy (source 5.1, 8; Vaswani et al. 2017)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.blocks import NumpyBlock
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights, kind, kinds, shape, shapes
from gaugeblock.spec import model as rules
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.errors import ConfigError, refuse
from gaugeblock.spec.model import Encoder
from gaugeblock.spec.positions import LearnedPositions, Sinusoidal
from gaugeblock.spec.weights import part

RememberLayer = Callable[[int, Array, Array], tuple[Array, Array]]  # the layer, then as Remember


@dataclass(frozen=True)
class Model:
    """Weights by name, what they are the weights of, and the name of their dtype."""

    weights: Mapping[str, Array]
    config: ModelConfig
    dtype: str


class NumpyStack(NumpyBlock, Sinusoidal, LearnedPositions):
    """What encoder and decoder share: what goes into the first block, the blocks, the last norm."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        return Model(dict(weights), config, rules.weights(shapes(weights), kinds(weights), config))

    def _stack(
        self,
        x: Array,
        weights: Weights,
        c: StackConfig,
        view: View,
        memories: Sequence[Memory] = (),
        remember: RememberLayer | None = None,
    ) -> Array:
        """Ids (B, T) or vectors (B, T, M) through the whole stack: (B, T, M)."""
        x = self._embed(x, weights, c, view.queries)
        for n in range(c.layers):
            with self._within("layers", str(n)):
                memory = memories[n] if memories else None
                x = self._sublayers(x, part(weights, f"layers.{n}"), c.block, view, memory, _of_layer(remember, n))
        return self._outer_norm(x, weights, c, "final_norm") if c.final_norm else x

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        """Rows of the embedding, or the vectors; plus those of the positions; normalised where configured."""
        if c.inputs == "ids":
            x = self._scaled_embedding(self._embedding_rows(x, weights), c.embedding_scale)
        x = self._tap("embedding", x)
        if c.positions is not None:
            rows = self._tap("positions", self._position_rows(positions, weights, c, x.dtype.name))
            x = self._tap("embedded", self._add_positions(x, rows))
        return self._outer_norm(x, weights, c, "embedding_norm") if c.embedding_norm else x

    def _embedding_rows(self, ids: Array, weights: Weights) -> Array:
        table = weights["embedding.weight"]
        return np.asarray(table[np.clip(ids, 0, len(table) - 1)])  # a pad may have any id

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        return round_once(upcast(rows) * scale, rows.dtype)

    def _position_rows(self, positions: Array, weights: Weights, c: StackConfig, dtype: str) -> Array:
        if c.positions == "learned":
            return np.asarray(self.learned_positions(weights["positions.weight"], positions))
        return np.asarray(self.sinusoidal(positions, c.block.width, dtype=dtype))

    def _add_positions(self, x: Array, rows: Array) -> Array:
        return round_once(upcast(x) + upcast(rows), x.dtype)

    def _outer_norm(self, x: Array, weights: Weights, c: StackConfig, name: str) -> Array:
        return self._tap(name, self._normed(x, part(weights, name), c.block))

    def _real(self, x: Array, token_mask: Array | None) -> Array:
        """Which columns are tokens and not padding: bool (B, T)."""
        return np.ones(x.shape[:2], bool) if token_mask is None else token_mask

    def _token_positions(self, real: Array) -> Array:
        """The number of real tokens before each one, (B, T); 0 for a pad, so that every table has a row for it."""
        before = np.cumsum(real, axis=1) - real
        return np.asarray(np.where(real, before, 0))

    def _key_mask(self, real: Array) -> Array:
        """No query sees a pad: bool (B, 1, 1, S)."""
        return real[:, None, None, :]

    def _check_inputs(self, x: Array, token_mask: Array | None, c: StackConfig, model: Model, where: str) -> Array:
        """Which columns are real, of inputs that nothing is wrong with."""
        rules.inputs(x.shape, x.dtype.name, c, model.dtype, shape(token_mask), where)
        rules.mask_kind("token_mask", kind(token_mask), where)
        if c.inputs == "ids":
            rules.ids(x, token_mask, c.vocabulary, where)
        return self._real(x, token_mask)

    def _check_room(self, real: Array, positions: Array, c: StackConfig, where: str) -> None:
        rules.room(int(np.max(positions, initial=-1, where=real)), c, where)


class NumpyEncoder(NumpyStack, Encoder):
    """A stack in which every token sees every other."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        c = model.config.encoder
        if c is None:
            raise refuse(ConfigError, "MODEL-ERRORS", "the model must have an encoder", "encode")
        real = self._check_inputs(tokens_or_vectors, token_mask, c, model, "encode")
        at = self._token_positions(real)
        self._check_room(real, at, c, "encode")
        with self._within("encoder"):
            view = View(at, at, self._key_mask(real))
            return self._stack(tokens_or_vectors, part(model.weights, "encoder"), c, view)


def _of_layer(remember: RememberLayer | None, n: int) -> Remember | None:
    if remember is None:
        return None

    def remember_here(k: Array, v: Array) -> tuple[Array, Array]:
        return remember(n, k, v)

    return remember_here
