"""What encoders and decoders in JAX share: loading, what is looked up, the layers in turn (source 5, 8)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from gaugeblock.backends.jax.arrays import on_host
from gaugeblock.backends.jax.blocks import JaxBlock
from gaugeblock.backends.jax.cache import Length
from gaugeblock.backends.jax.multihead import Sight, Weights, kinds, shapes, sides
from gaugeblock.spec import model as rules
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.positions import LIMIT, Integers, LearnedPositions, Sinusoidal
from gaugeblock.spec.weights import part

Attend = Callable[[int, Array, Weights], Array]  # of layer n: its input, its own weights


@partial(jax.tree_util.register_dataclass, data_fields=["weights", "layers"], meta_fields=["config", "dtype"])
@dataclass(frozen=True)
class Stack:
    """An encoder or decoder: its configuration, its weights, and those of each layer by themselves."""

    config: StackConfig
    dtype: str
    weights: dict[str, Array]
    layers: list[dict[str, Array]]


@partial(jax.tree_util.register_dataclass, data_fields=["encoder", "decoder", "head"], meta_fields=["config", "dtype"])
@dataclass(frozen=True)
class Model:
    """What load makes; a pytree, so that it can be handed through jax.jit and jax.grad."""

    config: ModelConfig
    dtype: str
    encoder: Stack | None
    decoder: Stack | None
    head: dict[str, Array]


@dataclass(frozen=True)
class Columns:
    """Where the tokens of a call stand among all columns so far.

    fresh      bool (B, T): which of the new columns are tokens and not padding;
    real       bool (B, N): which of all N columns are;
    positions  (B, T) and keys (B, N): the number of tokens before each;
    visible    bool (B, 1, T, N): which columns each new one sees;
    last       (B,): the last new column that is a token, 0 where none is.
    """

    fresh: Array
    real: Array
    positions: Array
    keys: Array
    visible: Array
    last: Array


class JaxStack(JaxBlock, Sinusoidal, LearnedPositions):
    """A missing token mask is one that holds everywhere, so that padding compiles nothing anew."""

    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Model:
        dtype = rules.weights(shapes(weights), kinds(weights), config)

        def stack(name: str, c: StackConfig | None) -> Stack | None:
            if c is None:
                return None
            own = part(weights, name)
            return Stack(c, dtype, own, [part(own, f"layers.{n}") for n in range(c.layers)])

        encoder, decoder = stack("encoder", config.encoder), stack("decoder", config.decoder)
        return Model(config, dtype, encoder, decoder, part(weights, "head"))

    def _columns(
        self, stack: Stack, fresh: Array, past: Array | None = None, start: Length = 0
    ) -> tuple[Columns, Sight]:
        """The new columns behind the first start ones of the past, and what self-attention sees of them all."""
        block = stack.config.block
        limit = stack.config.max_positions if stack.config.positions == "learned" else LIMIT
        found = _surveyed(past, fresh, start, block.causal, *sides(block.attention.window), limit)
        columns = Columns(fresh, *found)
        bias = self._distances(stack.dtype, block.attention, columns.positions, columns.keys)
        filled = start + fresh.shape[1] if past is not None and isinstance(start, int) else None
        return columns, Sight(columns.positions, columns.visible, bias, columns=filled)

    def _run(self, stack: Stack, x: Array, columns: Columns, attend: Attend, cross: Attend | None = None) -> Array:
        """Tokens or vectors through the whole stack."""
        c = stack.config
        x = self._embedded(stack, x, columns)
        if c.embedding_norm:
            x = self._tap("embedding_norm", self._normalized(x, part(stack.weights, "embedding_norm"), c.block))
        for n, weights in enumerate(stack.layers):
            with self._within("layers", str(n)):
                x = self._through(x, weights, c.block, partial(attend, n), cross and partial(cross, n))
        if c.final_norm:
            x = self._tap("final_norm", self._normalized(x, part(stack.weights, "final_norm"), c.block))
        return x

    def _embedded(self, stack: Stack, x: Array, columns: Columns) -> Array:
        """What the first layer's stream is made of: rows of the embedding, or vectors, and of the positions."""
        c = stack.config
        if c.inputs == "ids":
            x = _looked_up(stack.weights["embedding.weight"], x, columns.fresh, c.embedding_scale)
        self._tap("embedding", x)
        if c.positions is None:
            return x
        if c.positions == "learned":
            rows = self.learned_positions(stack.weights["positions.weight"], columns.positions)
        else:
            rows = self.sinusoidal(columns.positions, c.block.width, dtype=stack.dtype)
        x = self._tap("embedded", x + self._tap("positions", rows))
        return x

    def _fresh(
        self, stack: Stack, x: Array, token_mask: Array | None, where: str, past: Integers | None = None
    ) -> Array:
        """Refuse inputs that have no meaning; else which of them are tokens.

        past (B,) is the number of tokens in earlier columns, where it is known.
        """
        c, shape = stack.config, None if token_mask is None else token_mask.shape
        rules.inputs(x.shape, x.dtype.name, c, stack.dtype, shape, where)
        rules.mask_kind("token_mask", None if token_mask is None else token_mask.dtype.name, where)
        fresh = whole(x.shape[:2]) if token_mask is None else token_mask
        real = on_host(fresh)
        if real is None:
            return fresh
        if c.inputs == "ids":
            rules.ids(on_host(x), real, c.vocabulary, where)
        counted = real.sum(axis=1) + (0 if past is None else past)
        rules.room(int(counted.max(initial=0)) - 1, c, where)
        return fresh


def whole(shape: tuple[int, ...]) -> Array:
    """A mask that hides nothing."""
    placed: Array = jax.device_put(np.ones(shape, bool))
    return placed


def _surveyed(past: Array | None, fresh: Array, start: Length, causal: bool, *reach: int) -> tuple[Array, ...]:
    """The fields of Columns from real on; on the CPU NumPy finds them, and nothing is compiled for it."""
    before, new = (None if x is None else on_host(x) for x in (past, fresh))
    if new is None or (past is not None and before is None):
        there: tuple[Array, ...] = _survey_there(past, fresh, start, causal, *reach)
        return there
    real = new
    if before is not None:
        real = before & (np.arange(before.shape[1]) < start)
        real[:, start : start + new.shape[1]] = new
    here: tuple[Array, ...] = jax.device_put(_survey(np, real, new, start, causal, *reach))
    return here


@jax.jit
def _survey_there(past: Array | None, fresh: Array, start: int, causal: bool, *reach: int) -> tuple[Array, ...]:
    real = fresh
    if past is not None:
        real = past & (jnp.arange(past.shape[1]) < start)
        real = lax.dynamic_update_slice_in_dim(real, fresh, start, axis=1)
    return _survey(jnp, real, fresh, start, causal, *reach)


def _survey(
    xp: Any, real: Any, fresh: Any, start: Any, causal: bool, left: int, right: int, limit: int
) -> tuple[Any, ...]:
    """The same in jax.numpy or in numpy."""
    T, columns = fresh.shape[1], xp.arange(real.shape[1])
    keys = xp.cumsum(real, axis=1) - real  # (B, N)
    positions = xp.take(keys, start + xp.arange(T), axis=1)
    distance = keys[:, None, None, :] - positions[:, None, :, None]  # (B, 1, T, N)
    visible = real[:, None, None, :] & (distance >= -left) & (distance <= right)
    visible = visible & ((columns <= start + xp.arange(T)[:, None]) | xp.logical_not(causal))
    last = xp.max(xp.where(fresh, xp.arange(T), 0), axis=1, initial=0)
    # behind the last token of a full table a pad has no row of its own
    return real, xp.where(fresh, positions, xp.minimum(positions, limit - 1)), keys, visible, last


@jax.jit
def _looked_up(table: Array, ids: Array, fresh: Array, scale: float) -> Array:
    """Rows of the table times scale, rounded once; an id of a token that is none gives NaN."""
    wide, known = jnp.promote_types(table.dtype, jnp.float32), jnp.where(fresh, ids, 0)
    rows = table.at[known].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)  # (B, T, M)
    return (rows.astype(wide) * jnp.asarray(scale, wide)).astype(table.dtype)
