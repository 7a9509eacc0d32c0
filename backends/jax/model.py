"""Encoders and decoders in JAX (source 5, 7, 8; Vaswani et al. 2017)."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gaugeblock.backends.jax.arrays import on_host
from gaugeblock.backends.jax.cache import Cache, JaxKVCache
from gaugeblock.backends.jax.linear import linear
from gaugeblock.backends.jax.multihead import Sight, Weights
from gaugeblock.backends.jax.stack import Columns, JaxStack, Model, Stack, no_such, whole
from gaugeblock.spec import cache as cache_rules
from gaugeblock.spec import model as rules
from gaugeblock.spec.errors import ShapeError, refuse
from gaugeblock.spec.model import Decoder, Encoder

GRAIN = 16  # generation rounds the number of columns up, so that prompts of like length run the same code


class JaxEncoder(JaxStack, Encoder):
    """Every column at once."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        if model.encoder is None:
            raise no_such("an encoder", "encode")
        stack, block = model.encoder, model.encoder.config.block
        fresh = self._fresh(stack, tokens_or_vectors, token_mask, "encode")

        def layer(n: int, x: Array, weights: Weights) -> Array:
            return self._through(x, weights, block, lambda h, w: self._self_attention(h, w, block.attention, sight))

        with self._within("encoder"):
            columns, sight = self._columns(stack, fresh)
            return self._run(stack, tokens_or_vectors, columns, layer)


class JaxDecoder(JaxStack, JaxKVCache, Decoder):
    """A step attends over the whole capacity, so that steps of one length run the same code from first to last."""

    def logits(
        self,
        model: Model,
        tokens: Array,
        *,
        token_mask: Array | None = None,
        memory: Array | None = None,
        memory_mask: Array | None = None,
        last_only: bool = False,
    ) -> Array:
        stack = _decoder(model, "logits")
        fresh = self._fresh(stack, tokens, token_mask, "logits")
        _check_memory(model, tokens.shape[0], memory, memory_mask, "logits")
        block, cross = stack.config.block, stack.config.block.cross

        def layer(n: int, x: Array, weights: Weights) -> Array:
            def attend(h: Array, w: Weights) -> Array:
                return self._self_attention(h, w, block.attention, sight)

            def look(h: Array, w: Weights) -> Array:
                assert cross is not None
                return self._cross_attention(h, w, cross, self._keys_values(memory, w, cross), shown)

            return self._through(x, weights, block, attend, None if cross is None else look)

        shown = None if memory is None else _shown(memory.shape[:2], memory_mask)
        with self._within("decoder"):
            columns, sight = self._columns(stack, fresh)
            x = self._run(stack, tokens, columns, layer)
        return self._scored(model, x, columns, last_only)

    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Array | None = None,
        memory_mask: Array | None = None,
    ) -> Cache:
        stack = _decoder(model, "start")
        c = stack.config.block.attention
        sizes = {"batch": batch, "capacity": capacity, "kv_heads": c.kv_heads, "key_width": c.head_width}
        sizes |= {"value_width": c.value_width, "layers": max(stack.config.layers, 1)}
        cache_rules.dims(**sizes, dtype=model.dtype)
        _check_memory(model, batch, memory, memory_mask, "start")
        if stack.layers:
            cache = self.init_cache(**sizes, dtype=model.dtype)
        else:
            nothing = jnp.zeros((batch, c.kv_heads, capacity, 0), model.dtype)  # counts the columns, and no bytes
            cache = Cache([nothing], [jnp.array(nothing)], [0])
        cache.real = jax.device_put(np.zeros((batch, capacity), bool))
        if memory is not None:
            cache.cross, cache.memory_mask = self._looked_at(stack, memory), memory_mask
        return cache

    def step(
        self, model: Model, tokens: Array, cache: Cache, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Cache]:
        stack = _decoder(model, "step")
        cache_rules.usable(cache.consumed, "step")
        start, fresh = self._behind(stack, tokens, cache, token_mask)
        block, cross = stack.config.block, stack.config.block.cross

        def layer(n: int, x: Array, weights: Weights) -> Array:
            def remember(k: Array, v: Array) -> tuple[Array, Array]:
                self._write(cache, n, start, k, v)
                return cache.keys[n], cache.values[n]

            def attend(h: Array, w: Weights) -> Array:
                return self._self_attention(h, w, block.attention, sight, remember)

            def look(h: Array, w: Weights) -> Array:
                assert cross is not None
                return self._cross_attention(h, w, cross, cache.cross[n], shown)

            return self._through(x, weights, block, attend, None if cross is None else look)

        shown = _shown((tokens.shape[0], cache.cross[0][0].shape[2]), cache.memory_mask) if cache.cross else None
        with self._within("decoder"):
            columns, sight = self._columns(stack, fresh, cache.real, start)
            x = self._run(stack, tokens, columns, layer)
        scores = self._scored(model, x, columns, last_only)
        after = self._consume(cache)
        after.real, after.lengths = columns.real, [start + tokens.shape[1]] * len(cache.lengths)
        return scores, after

    def generate(
        self,
        model: Model,
        tokens: Array,
        *,
        max_new_tokens: int,
        token_mask: Array | None = None,
        memory: Array | None = None,
        memory_mask: Array | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        use_cache: bool = True,
    ) -> Array:
        stack = _decoder(model, "generate")
        fresh = np.asarray(self._fresh(stack, tokens, token_mask, "generate"))
        numbers = {"max_new_tokens": max_new_tokens, "eos_id": eos_id, "pad_id": pad_id}
        rules.generation(tokens.shape, fresh, stack.config.vocabulary, numbers)
        _check_memory(model, tokens.shape[0], memory, memory_mask, "generate")
        (B, T), n = tokens.shape, max_new_tokens
        N = -(-(T + n) // GRAIN) * GRAIN
        ids, real, done = np.zeros((B, N), np.int64), np.zeros((B, N), bool), np.zeros(B, bool)
        ids[:, :T], real[:, :T] = np.asarray(tokens), fresh
        look = {"memory": memory, "memory_mask": memory_mask}
        scores = (self._stepwise if use_cache else self._afresh)(model, ids, real, look)
        for column in range(T, T + n):
            if done.all():
                ids[:, column] = eos_id if pad_id is None else pad_id or 0
                continue
            chosen = np.asarray(_likeliest(scores(column)))
            ids[:, column] = chosen if eos_id is None else np.where(done, eos_id if pad_id is None else pad_id, chosen)
            real[:, column] = ~done  # nothing follows a row that is done, but the others go on
            done |= chosen == (-1 if eos_id is None else eos_id)
        return jax.device_put(ids[:, : T + n])
