"""Encoders and decoders in PyTorch (source 5, 7, 8; Vaswani et al. 2017)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from gaugeblock.backends.torch.arrays import name_of, on_host
from gaugeblock.backends.torch.cache import Cache, TorchKVCache
from gaugeblock.backends.torch.multihead import Extend, Pair
from gaugeblock.backends.torch.products import linear
from gaugeblock.backends.torch.stack import Model, Stack, TorchStack
from gaugeblock.spec import cache as cache_rules
from gaugeblock.spec import model as rules
from gaugeblock.spec.errors import ConfigError, ShapeError, refuse
from gaugeblock.spec.model import LOGITS, Decoder, Encoder

Reader = Callable[[int, int], Tensor]


class TorchEncoder(TorchStack, Encoder):
    """A stack whose tokens all see each other."""

    def encode(self, model: Model, tokens_or_vectors: Tensor, *, token_mask: Tensor | None = None) -> Tensor:
        stack = _stack_of(model, "encoder", "encode")
        self._check_tokens(model, stack, tokens_or_vectors, token_mask, "encode")
        T = tokens_or_vectors.shape[1]
        self._check_room(stack, tokens_or_vectors, token_mask, T, "encode")
        with self._within("encoder"):
            return self._hidden(model, stack, tokens_or_vectors, token_mask, S=T)


class TorchDecoder(TorchStack, TorchKVCache, Decoder):
    """Steps write into buffers that start allocates; nothing waits for a device once the ids are there."""

    def logits(
        self,
        model: Model,
        tokens: Tensor,
        *,
        token_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        last_only: bool = False,
    ) -> Tensor:
        stack = _stack_of(model, "decoder", "logits")
        self._check_tokens(model, stack, tokens, token_mask, "logits")
        B, T = tokens.shape
        _check_memory(model, B, memory, memory_mask, "logits")
        self._check_room(stack, tokens, token_mask, T, "logits")
        with self._within("decoder"):
            x = self._hidden(model, stack, tokens, token_mask, S=T, context=memory, context_mask=memory_mask)
        return self._head(model, x, token_mask, last_only)

    @torch.no_grad()
    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Cache:
        stack = _stack_of(model, "decoder", "start")
        c = stack.config.block.attention
        cache = self.init_cache(
            layers=max(1, stack.config.layers),
            batch=batch,
            kv_heads=c.kv_heads,
            capacity=capacity,
            key_width=c.head_width,
            value_width=c.value_width,
            dtype=name_of(model.dtype),
        )
        _check_memory(model, batch, memory, memory_mask, "start")
        if not stack.layers:  # what remains of a cache is its length
            cache = replace(cache, keys=[cache.keys[0][..., :0]], values=[cache.values[0][..., :0]])
        cross = () if memory is None else tuple(self._project_memory(stack, memory))
        return replace(cache, cross=cross, memory_mask=None if memory_mask is None else memory_mask.clone())

    @torch.no_grad()
    def step(
        self, model: Model, tokens: Tensor, cache: Cache, *, token_mask: Tensor | None = None, last_only: bool = False
    ) -> tuple[Tensor, Cache]:
        cache_rules.usable(cache.consumed, "step")
        stack = _stack_of(model, "decoder", "step")
        self._check_tokens(model, stack, tokens, token_mask, "step")
        _check_cache(stack, tokens, cache)
        past, T = self.cache_length(cache), tokens.shape[1]
        cache_rules.room(cache.dims, past, T, "step")
        real = _remember(cache, past, T, token_mask)
        seen = None if real is None else real[:, : past + T]
        self._check_room(stack, tokens, seen, past + T, "step")
        after = replace(cache, lengths=[past + T] * len(cache.lengths), real=real)
        extends = [self._extend(after, n, past) for n in range(len(stack.layers))]
        context, far = after.cross or None, after.memory_mask
        with self._within("decoder"):
            x = self._hidden(model, stack, tokens, seen, S=past + T, extends=extends, context=context, context_mask=far)
        scores = self._head(model, x, token_mask, last_only)
        self._consume(cache)
        return scores, after

    @torch.no_grad()
    def generate(
        self,
        model: Model,
        tokens: Tensor,
        *,
        max_new_tokens: int,
        token_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        use_cache: bool = True,
    ) -> Tensor:
        stack = _stack_of(model, "decoder", "generate")
        self._check_tokens(model, stack, tokens, token_mask, "generate")
        (B, T), n = tokens.shape, max_new_tokens
        _check_memory(model, B, memory, memory_mask, "generate")
        known = None if token_mask is None else on_host(token_mask)
        numbers = {"max_new_tokens": n, "eos_id": eos_id, "pad_id": pad_id}
        rules.generation(tokens.shape, known, stack.config.vocabulary, numbers)
        rest = next((id for id in (pad_id, eos_id) if id is not None), 0)
        ids = torch.cat((tokens.long(), tokens.new_full((B, n), rest, dtype=torch.long)), dim=1)  # (B, T + n)
        if n == 0 or B == 0:
            return ids
        real = None
        # a row that has ended takes no further rows of a learned table
        if token_mask is not None or (eos_id is not None and stack.config.positions == "learned"):
            real = torch.ones_like(ids, dtype=torch.bool)
            real[:, :T] = True if token_mask is None else token_mask
        read = self._reader(model, ids, real, memory, memory_mask, use_cache)
        _continue(read, ids, real, T, eos_id, rest)
        return ids

    def _reader(
        self,
        model: Model,
        ids: Tensor,
        real: Tensor | None,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        use_cache: bool,
    ) -> Reader:
        """What gives the last logits (B, V) once the columns from start to end are there, too."""

        def part(start: int, end: int) -> tuple[Tensor, Tensor | None]:
            return ids[:, start:end], None if real is None else real[:, start:end]

        def read_all(_: int, end: int) -> Tensor:
            tokens, mask = part(0, end)
            distant = {"memory": memory, "memory_mask": memory_mask}
            return self.logits(model, tokens, token_mask=mask, last_only=True, **distant)[:, 0]

        if not use_cache:
            return read_all
        cache = self.start(model, len(ids), ids.shape[1] - 1, memory=memory, memory_mask=memory_mask)

        def read_new(start: int, end: int) -> Tensor:
            nonlocal cache
            tokens, mask = part(start, end)
            scores, cache = self.step(model, tokens, cache, token_mask=mask, last_only=True)
            return scores[:, 0]

        return read_new

    def _extend(self, cache: Cache, layer: int, start: int) -> Extend:
        """What writes a layer's new columns behind the first ones and gives all that the layer now holds."""

        def extend(k: Tensor, v: Tensor) -> Pair:
            self._write(cache, layer, start, k, v)
            return self._view(cache, layer)

        return extend

    def _project_memory(self, stack: Stack, memory: Tensor) -> list[Pair]:
        pairs = []
        for n, parts in enumerate(stack.layers):
            cross = stack.config.block.cross
            assert cross is not None
            with self._within("decoder", "layers", str(n), "cross"):
                pairs.append(self._project(memory, parts["cross"], cross))
        return pairs

    def _head(self, model: Model, x: Tensor, token_mask: Tensor | None, last_only: bool) -> Tensor:
        """(B, T, V), or (B, 1, V) with last_only."""
        return self._tap(LOGITS, linear(_last(x, token_mask) if last_only else x, model.head, "head"))


def _continue(read: Reader, ids: Tensor, real: Tensor | None, T: int, eos_id: int | None, rest: int) -> None:
    """Fill the columns from T on, in place; a row that has ended keeps rest and hides its further columns."""
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for start, column in zip((0, *range(T, ids.shape[1])), range(T, ids.shape[1]), strict=False):
        likeliest = read(start, column).argmax(dim=-1)  # the first of equals
        ids[:, column] = torch.where(ended, rest, likeliest)
        if real is not None:
            real[:, column] = ~ended
        if eos_id is not None:
            ended = ended | (likeliest == eos_id)
            values = on_host(ended)
            if values is not None and values.all():
                return


def _last(x: Tensor, token_mask: Tensor | None) -> Tensor:
    """Each row at its last real token, (B, 1, M); a row without any gives anything."""
    B, T, M = x.shape
    if T == 0:
        return x.new_zeros(B, 1, M)
    if token_mask is None:
        return x[:, -1:]
    columns = torch.arange(T, device=x.device)
    return x.take_along_dim((columns * token_mask).amax(dim=1)[:, None, None], dim=1)


def _remember(cache: Cache, start: int, T: int, token_mask: Tensor | None) -> Tensor | None:
    """Which columns are no pads, (B, N), with T new ones; what lies behind the cache's length is free to be written."""
    if cache.real is None and token_mask is None:
        return None
    real = cache.real
    if real is None:
        real = torch.ones((cache.dims.B, cache.dims.N), dtype=torch.bool, device=cache.keys[0].device)
    real[:, start : start + T] = True if token_mask is None else token_mask
    return real


def _stack_of(model: Model, kind: Literal["encoder", "decoder"], where: str) -> Stack:
    stack = model.encoder if kind == "encoder" else model.decoder
    if stack is None:
        raise refuse(ConfigError, "MODEL-ERRORS", f"model must have one {kind}, got none", where)
    return stack


def _check_cache(stack: Stack, tokens: Tensor, cache: Cache) -> None:
    if len(tokens) != cache.dims.B:
        problem = f"tokens must have the cache's batch {cache.dims.B}, got {len(tokens)}"
        raise refuse(ShapeError, "MODEL-SHAPES", problem, "step")
    if stack.config.block.cross is not None and len(cache.cross) != len(stack.layers):
        raise refuse(
            ConfigError, "MODEL-MEMORY", "cache must hold the memory of this model: take it from start", "step"
        )


def _check_memory(model: Model, batch: int, memory: Tensor | None, memory_mask: Tensor | None, where: str) -> None:
    shape, dtype = (None, None) if memory is None else (memory.shape, name_of(memory))
    mask = None if memory_mask is None else memory_mask.shape
    kind = name_of(model.dtype)
    rules.memory(shape, dtype, mask, config=model.config, batch=batch, model_dtype=kind, where=where)
    rules.mask_kind("memory_mask", None if memory_mask is None else name_of(memory_mask), where)
