"""Encoders and decoders in JAX (source 5, 7, 8; Vaswani et al. 2017)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gaugeblock.backends.jax.arrays import on_host, owned
from gaugeblock.backends.jax.cache import Cache, JaxKVCache, known, plain
from gaugeblock.backends.jax.generation import afresh, decoded, opened
from gaugeblock.backends.jax.linear import linear
from gaugeblock.backends.jax.multihead import Weights
from gaugeblock.backends.jax.stack import Columns, JaxStack, Model, Stack, whole
from gaugeblock.spec import cache as cache_rules
from gaugeblock.spec import model as rules
from gaugeblock.spec.errors import CacheError, ConfigError, ShapeError, refuse
from gaugeblock.spec.model import Decoder, Encoder
from gaugeblock.spec.precision import FORMATS
from gaugeblock.spec.weights import part


class JaxEncoder(JaxStack, Encoder):
    """Every column at once."""

    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        stack = _there(model.encoder, "an encoder", "encode")
        fresh = self._fresh(stack, tokens_or_vectors, token_mask, "encode")
        config = stack.config.block.attention
        with self._within("encoder"):
            columns, sight = self._columns(stack, fresh)

            def attend(n: int, h: Array, w: Weights) -> Array:
                return self._self_attention(h, w, config, sight)

            return self._run(stack, tokens_or_vectors, columns, attend)


class JaxDecoder(JaxStack, JaxKVCache, Decoder):
    """A step attends over the whole capacity, so that steps of one length run the same code from first to last.

    It is a pure function of its model, tokens and cache: jax.jit(backend.step, donate_argnums=2) compiles it as one,
    writes the cache in place, and may stand in jax.lax.scan. Lengths are traced there, and what depends on them is
    left unchecked: beyond the capacity nothing is written, and the scores mean nothing.
    """

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
        stack = _there(model.decoder, "a decoder", "logits")
        fresh = self._fresh(stack, tokens, token_mask, "logits")
        _check_memory(model, tokens.shape[0], memory, memory_mask, "logits")
        block, crossing = stack.config.block, None if memory is None else _over_keys(memory.shape, memory_mask)
        with self._within("decoder"):
            columns, sight = self._columns(stack, fresh)

            def attend(n: int, h: Array, w: Weights) -> Array:
                return self._self_attention(h, w, block.attention, sight)

            def cross(n: int, h: Array, w: Weights) -> Array:
                assert block.cross is not None and memory is not None
                return self._cross_attention(h, w, block.cross, self._keys_values(memory, w, block.cross), crossing)

            x = self._run(stack, tokens, columns, attend, None if block.cross is None else cross)
        return self._scored(model, stack, x, columns, last_only)

    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Array | None = None,
        memory_mask: Array | None = None,
    ) -> Cache:
        stack = _there(model.decoder, "a decoder", "start")
        L, c = len(stack.layers), stack.config.block.attention
        widths = {"key_width": c.head_width, "value_width": c.value_width}
        sizes = {"layers": max(L, 1), "batch": batch, "kv_heads": c.kv_heads, "capacity": capacity, **widths}
        d = cache_rules.dims(**sizes, dtype=model.dtype)
        _check_memory(model, d.B, memory, memory_mask, "start")
        if L:
            cache = self.init_cache(**sizes, dtype=model.dtype)
        else:  # a layer that takes up nothing counts the columns
            nothing = (d.B, d.K, d.N, 0)
            kind = FORMATS[model.dtype].dtype
            cache = Cache([owned(np.zeros(nothing, kind))], [owned(np.zeros(nothing, kind))], [0])
        cache.real = jax.device_put(np.zeros((d.B, d.N), bool))
        if memory is not None:
            cache.cross = self._memorized(stack, memory)
            cache.memory_mask = None if memory_mask is None else owned(memory_mask)
        return cache

    def step(
        self, model: Model, tokens: Array, cache: Cache, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Cache]:
        stack = _there(model.decoder, "a decoder", "step")
        fresh = self._behind(stack, tokens, cache, token_mask)
        block, start = stack.config.block, plain(cache.lengths[0])
        crossing = _over_keys((cache.dims.B, cache.cross[0][0].shape[2]), cache.memory_mask) if cache.cross else None
        with self._within("decoder"):
            columns, sight = self._columns(stack, fresh, cache.real, start)

            def attend(n: int, h: Array, w: Weights) -> Array:
                def remember(k: Array, v: Array) -> tuple[Array, Array]:
                    self._write(cache, n, start, k, v)
                    return cache.keys[n], cache.values[n]

                return self._self_attention(h, w, block.attention, sight, remember)

            def cross(n: int, h: Array, w: Weights) -> Array:
                assert block.cross is not None
                return self._cross_attention(h, w, block.cross, cache.cross[n], crossing)

            x = self._run(stack, tokens, columns, attend, None if block.cross is None else cross)
        scores = self._scored(model, stack, x, columns, last_only)
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
        stack = _there(model.decoder, "a decoder", "generate")
        fresh = np.asarray(self._fresh(stack, tokens, token_mask, "generate"))
        numbers = {"max_new_tokens": max_new_tokens, "eos_id": eos_id, "pad_id": pad_id}
        rules.generation(tokens.shape, fresh, stack.config.vocabulary, numbers)
        _check_memory(model, tokens.shape[0], memory, memory_mask, "generate")
        pad = next((number for number in (pad_id, eos_id) if number is not None), 0)
        ending = {"eos": -1 if eos_id is None else eos_id, "pad": pad}
        book, end = opened(np.asarray(tokens), fresh, max_new_tokens, pad), tokens.shape[1] + max_new_tokens
        if use_cache and max_new_tokens:
            cache = self.start(model, *book.ids.shape, memory=memory, memory_mask=memory_mask)
            scores, cache = self.step(model, tokens, cache, token_mask=token_mask, last_only=True)
            book, _ = decoded(self._unshown, model, cache, scores, book, end, **ending)
            read = np.asarray(book.real)[:, : int(book.column) - 1]
            rules.room(int(read.sum(axis=1).max(initial=0)) - 1, stack.config, "generate")
        else:

            def scored(ids: Array, real: Array) -> Array:
                outside = {"memory": memory, "memory_mask": memory_mask}
                return self.logits(model, ids, token_mask=real, last_only=True, **outside)

            book = afresh(scored, book, max_new_tokens, **ending)
        placed: Array = jax.device_put(np.asarray(book.ids)[:, :end])
        return placed

    def _unshown(self, model: Model, tokens: Array, cache: Cache, token_mask: Array) -> tuple[Array, Cache]:
        """A step inside a compiled loop, which has nothing to show."""
        taps, self._taps = self._taps, None
        try:
            return self.step(model, tokens, cache, token_mask=token_mask, last_only=True)
        finally:
            self._taps = taps

    def _behind(self, stack: Stack, tokens: Array, cache: Cache, token_mask: Array | None) -> Array:
        """Refuse what cannot stand behind the columns of a cache; else which of it are tokens."""
        cache_rules.usable(cache.consumed, "step")
        if cache.real is None:
            raise refuse(CacheError, "MODEL-CACHED", "cache must come from start, got one of init_cache", "step")
        start, d = cache.lengths[0], cache.dims
        if tokens.shape[:1] != (d.B,):
            problem = f"tokens must have the {d.B} rows of the cache, got {tokens.shape}"
            raise refuse(ShapeError, "MODEL-SHAPES", problem, "step")
        real = on_host(cache.real)
        past = None if real is None else real[:, : known(start, 0)].sum(axis=1)
        fresh = self._fresh(stack, tokens, token_mask, "step", past)
        cache_rules.room(d, known(start, 0), tokens.shape[1], f"step({d})")
        return fresh

    def _memorized(self, stack: Stack, memory: Array) -> tuple[tuple[Array, Array], ...]:
        """The memory's keys and values in every layer."""
        config, made = stack.config.block.cross, []
        assert config is not None
        for n, weights in enumerate(stack.layers):
            with self._within("decoder", "layers", str(n), "cross"):
                made.append(self._keys_values(memory, part(weights, "cross"), config))
        return tuple(made)

    def _scored(self, model: Model, stack: Stack, x: Array, columns: Columns, last_only: bool) -> Array:
        table = stack.weights["embedding.weight"] if model.config.tied else model.head["weight"]
        last = columns.last if last_only else None
        y: Array = self._tap("logits", _head(x, table, model.head.get("bias"), last, model.config.tied))
        return y


def _there(stack: Stack | None, wanted: str, where: str) -> Stack:
    if stack is None:
        raise refuse(ConfigError, "MODEL-ERRORS", f"the model must have {wanted}, got one without", where)
    return stack


def _check_memory(model: Model, batch: int, memory: Array | None, mask: Array | None, where: str) -> None:
    rules.memory(
        None if memory is None else memory.shape,
        None if memory is None else memory.dtype.name,
        None if mask is None else mask.shape,
        config=model.config,
        batch=batch,
        model_dtype=model.dtype,
        where=where,
    )
    rules.mask_kind("memory_mask", None if mask is None else mask.dtype.name, where)


def _over_keys(memory: tuple[int, ...], mask: Array | None) -> Array:
    """What cross-attention sees of a memory (B, S, ...); a mask even where nothing is hidden compiles once."""
    B, S = memory[:2]
    return whole((B, 1, 1, S)) if mask is None else jnp.expand_dims(mask, (1, 2))


@partial(jax.jit, static_argnames="tied")
def _head(x: Array, table: Array, bias: Array | None, last: Array | None, tied: bool) -> Array:
    """The scores in every column (B, T, V), or in one column of each row (B, 1, V)."""
    x = x if last is None else _at(x, last)
    return linear(x, table.T if tied else table, bias)


def _at(x: Array, columns: Array) -> Array:
    """One column of each row, (B, T, M) -> (B, 1, M); zeros where there is none to take."""
    B, T, M = x.shape
    return x[jnp.arange(B), columns][:, None] if T else jnp.zeros((B, 1, M), x.dtype)
