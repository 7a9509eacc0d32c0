"""The decoder in NumPy, whole, token by token, and on its own output (source 5.2, 7, 8)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.cache import Cache, NumpyKVCache
from gaugeblock.backends.numpy.model import Model, NumpyStack
from gaugeblock.backends.numpy.multihead import Memory, View, kind, shape
from gaugeblock.spec import cache as cache_rules
from gaugeblock.spec import model as rules
from gaugeblock.spec.config import StackConfig
from gaugeblock.spec.errors import ConfigError, ShapeError, refuse
from gaugeblock.spec.model import Decoder
from gaugeblock.spec.weights import part

Pair = tuple[Array, Array]


class NumpyDecoder(NumpyStack, NumpyKVCache, Decoder):
    """A stack in which no token sees a later one, and a head."""

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
        c = self._decoder_of(model, "logits")
        real = self._check_inputs(tokens, token_mask, c, model, "logits")
        self._check_memory(model, memory, memory_mask, len(tokens), "logits")
        at = self._token_positions(real)
        self._check_room(real, at, c, "logits")
        memories = self._memories(self._project_memories(model, c, memory), memory_mask)
        with self._within("decoder"):
            view = View(at, at, self._key_mask(real), c.block.causal)
            hidden = self._stack(tokens, part(model.weights, "decoder"), c, view, memories)
        return self._head(self._last_real(hidden, real) if last_only else hidden, model)

    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Array | None = None,
        memory_mask: Array | None = None,
    ) -> Cache:
        c = self._decoder_of(model, "start")
        inner = c.block.attention
        cache = self.init_cache(
            layers=max(c.layers, 1),
            batch=batch,
            kv_heads=inner.kv_heads,
            capacity=capacity,
            key_width=inner.head_width,
            value_width=inner.value_width,
            dtype=model.dtype,
        )
        self._check_memory(model, memory, memory_mask, batch, "start")
        if not c.layers:
            cache = self._emptied(cache)
        return replace(
            cache,
            real=np.zeros((batch, capacity), bool),
            cross=self._project_memories(model, c, memory),
            memory_mask=None if memory_mask is None else memory_mask.copy(),
        )

    def step(
        self, model: Model, tokens: Array, cache: Cache, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Cache]:
        cache_rules.usable(cache.consumed, "step")
        c = self._decoder_of(model, "step")
        new = self._check_inputs(tokens, token_mask, c, model, "step")
        start = self._check_fits(tokens, cache)
        noted = self._noted_columns(cache, start, new)
        after = replace(cache, lengths=list(cache.lengths), real=noted)
        if not c.layers:
            after.lengths = [start + tokens.shape[1]]
        real = noted[:, : start + tokens.shape[1]]  # (B, S)
        at = self._token_positions(real)
        self._check_room(real, at, c, "step")
        memories = self._memories(cache.cross, cache.memory_mask)
        with self._within("decoder"):
            view = View(self._new_positions(at, start), at, self._key_mask(real), c.block.causal)
            remember = partial(self._remember, after)
            hidden = self._stack(tokens, part(model.weights, "decoder"), c, view, memories, remember)
        scores = self._head(self._last_real(hidden, new) if last_only else hidden, model)
        self._consume(cache)  # last, so that a call that raises consumes nothing
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
        numbers = {"max_new_tokens": max_new_tokens, "eos_id": eos_id, "pad_id": pad_id}
        real = self._check_generation(model, tokens, token_mask, memory, memory_mask, numbers)
        B, T = tokens.shape
        capacity = T + max(max_new_tokens - 1, 0)  # the last new token is not read again
        seen = {"memory": memory, "memory_mask": memory_mask}
        cache = self.start(model, B, capacity, **seen) if use_cache and max_new_tokens else None
        ids, done = tokens.astype(np.int64), np.zeros(B, bool)
        for _ in range(max_new_tokens):
            if cache is None:
                scores = self.logits(model, ids, token_mask=real, last_only=True, **seen)
            else:
                scores, cache = self._step_on(model, ids, real, cache)
            new = self._after_eos(self._pick(scores[:, 0]), done, eos_id, pad_id)
            ids = self._with_column(ids, new)
            real = self._with_column(real, ~done)  # what a finished row holds is padding
            done = self._finished(done, new, eos_id)
        return ids

    def _step_on(self, model: Model, ids: Array, real: Array, cache: Cache) -> tuple[Array, Cache]:
        """A step over the columns that the cache does not hold yet."""
        held = self.cache_length(cache)
        return self.step(model, ids[:, held:], cache, token_mask=real[:, held:], last_only=True)

    def _pick(self, scores: Array) -> Array:
        """The likeliest id of each row, the lowest of equals: (B, V) -> (B,)."""
        return np.asarray(np.argmax(upcast(scores), axis=-1))

    def _after_eos(self, new: Array, done: Array, eos_id: int | None, pad_id: int | None) -> Array:
        """The new ids, and padding where the row has finished."""
        filler = eos_id if pad_id is None else pad_id
        return new if filler is None else np.where(done, filler, new)

    def _finished(self, done: Array, new: Array, eos_id: int | None) -> Array:
        return done if eos_id is None else done | (new == eos_id)

    def _with_column(self, columns: Array, new: Array) -> Array:
        return np.concatenate([columns, new[:, None]], axis=1)  # (B, T + 1)

    def _head(self, hidden: Array, model: Model) -> Array:
        """hidden @ head.weight + head.bias, rounded once: (B, T, M) -> (B, T, V)."""
        scores = upcast(hidden) @ upcast(self._head_weight(model))
        bias = model.weights.get("head.bias")
        return self._tap("logits", round_once(scores if bias is None else scores + upcast(bias), hidden.dtype))

    def _head_weight(self, model: Model) -> Array:
        """(M, V): the transposed embedding where they are tied."""
        return model.weights["decoder.embedding.weight"].T if model.config.tied else model.weights["head.weight"]

    def _last_real(self, hidden: Array, real: Array) -> Array:
        """What stands at the last real token of each row: (B, T, M) -> (B, 1, M)."""
        B, T, M = hidden.shape
        if T == 0:
            return np.zeros((B, 1, M), hidden.dtype)
        return hidden[np.arange(B), self._last_columns(real)][:, None]

    def _last_columns(self, real: Array) -> Array:
        """The column of each row's last real token, (B,); the first one where there is none."""
        return np.asarray(np.max(np.where(real, np.arange(real.shape[1]), 0), axis=1))

    def _project_memories(self, model: Model, c: StackConfig, memory: Array | None) -> Sequence[Pair]:
        """The keys and values of the memory for each layer."""
        cross = c.block.cross
        if memory is None or cross is None:
            return ()
        projected = []
        for n in range(c.layers):
            with self._within("decoder", "layers", str(n), "cross"):
                weights = part(model.weights, f"decoder.layers.{n}.cross")
                projected.append(self._project_memory(memory, weights, cross))
        return tuple(projected)

    def _memories(self, projected: Sequence[Pair], memory_mask: Array | None) -> Sequence[Memory]:
        mask = None if memory_mask is None else self._key_mask(memory_mask)
        return [Memory(k, v, mask) for k, v in projected]

    def _remember(self, cache: Cache, layer: int, k: Array, v: Array) -> Pair:
        """Write new keys and values behind those that the layer holds; read all of them."""
        start = cache.lengths[layer]
        self._write(cache, layer, start, k, v)
        cache.lengths[layer] = start + k.shape[2]
        keys, values = self._view(cache, layer)
        if self._taps is not None:  # later steps write to what lies behind them
            self._tap("keys", keys.copy())
            self._tap("values", values.copy())
        return keys, values

    def _emptied(self, cache: Cache) -> Cache:
        """What remains of a cache without layers is its length: one layer that takes up nothing counts the columns."""
        return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])

    def _noted_columns(self, cache: Cache, start: int, new: Array) -> Array:
        """Which columns of the buffers are real tokens once the new ones are there: bool (B, N)."""
        d = cache.dims
        real = np.ones((d.B, d.N), bool) if cache.real is None else cache.real.copy()
        real[:, start : start + new.shape[1]] = new
        return real

    def _new_positions(self, positions: Array, start: int) -> Array:
        """Those of the new columns, of all."""
        return positions[:, start:]

    def _decoder_of(self, model: Model, where: str) -> StackConfig:
        if model.config.decoder is None:
            raise refuse(ConfigError, "MODEL-ERRORS", "the model must have a decoder", where)
        return model.config.decoder

    def _check_memory(
        self, model: Model, memory: Array | None, memory_mask: Array | None, batch: int, where: str
    ) -> None:
        dtype, mask = kind(memory), shape(memory_mask)
        rules.memory(shape(memory), dtype, mask, config=model.config, batch=batch, model_dtype=model.dtype, where=where)
        rules.mask_kind("memory_mask", kind(memory_mask), where)

    def _check_fits(self, tokens: Array, cache: Cache) -> int:
        """Where new tokens begin in a cache that has the rows and the room for them."""
        d, start = cache.dims, self.cache_length(cache)
        if len(tokens) != d.B:
            problem = f"tokens must have the {d.B} rows of the cache, got {len(tokens)}"
            raise refuse(ShapeError, "MODEL-SHAPES", problem, "step")
        cache_rules.room(d, start, tokens.shape[1], f"step({d})")
        return start

    def _check_generation(
        self,
        model: Model,
        tokens: Array,
        token_mask: Array | None,
        memory: Array | None,
        memory_mask: Array | None,
        numbers: Mapping[str, int | None],
    ) -> Array:
        """Which columns of the prompt are real, in a call that nothing is wrong with to its last token."""
        c = self._decoder_of(model, "generate")
        real = self._check_inputs(tokens, token_mask, c, model, "generate")
        rules.generation(tokens.shape, real, c.vocabulary, numbers)
        self._check_memory(model, memory, memory_mask, len(tokens), "generate")
        longest = int(np.max(np.sum(real, axis=1), initial=0))
        rules.room(longest - 1 + max((numbers["max_new_tokens"] or 0) - 1, 0), c, "generate")
        return real
