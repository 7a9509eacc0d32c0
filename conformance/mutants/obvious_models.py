"""The laws of leak and cache as everybody writes them for a layer, a block, a cache and a small Llama."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gaugeblock.spec import weights as sizes
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.components import offers
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig

CLOSE = 1e-4
LENGTH, CHANGED, VOCABULARY = 8, 5, 11

ATTENTION = AttentionConfig(width=16, heads=4, kv_heads=4, head_width=4, value_width=4, rotary=RotaryConfig())
BLOCK = BlockConfig(attention=ATTENTION, causal=True, ffn_width=32)
MODEL = ModelConfig(decoder=StackConfig(block=BLOCK, layers=2, vocabulary=VOCABULARY))

Weights = Mapping[str, Any]


def leaks(backend: Backend) -> Iterator[bool]:
    """Whether what comes before token CHANGED stays as it is when that token and all later ones change."""
    if offers(backend, "multihead", "multihead"):
        layer = placed(backend, sizes.attention(ATTENTION))
        yield _rows_keep(backend, lambda x: backend.multi_head_attention(x, layer, ATTENTION, causal=True))  # type: ignore[attr-defined]
    if offers(backend, "blocks", "block"):
        block = placed(backend, sizes.block(BLOCK))
        yield _rows_keep(backend, lambda x: backend.block(x, block, BLOCK))  # type: ignore[attr-defined]
    if offers(backend, "model", "decoder"):
        tokens = _tokens()
        later = np.where(np.arange(LENGTH) < CHANGED, tokens, (tokens + 1) % VOCABULARY)
        model = _model(backend)
        before, after = (_logits(backend, model, ids) for ids in (tokens, later))
        yield close(before[:, :CHANGED], after[:, :CHANGED])


def steps(backend: Backend) -> Iterator[bool]:
    """Whether a cache gives back what was appended, and a decoder token by token what it gives for the whole."""
    if offers(backend, "cache", "kv_cache"):
        yield _kept(backend)
    if offers(backend, "model", "decoder"):
        model, tokens = _model(backend), _tokens()
        full = _logits(backend, model, tokens)
        cache = backend.start(model, 1, LENGTH)  # type: ignore[attr-defined]
        for t in range(LENGTH):
            step, cache = backend.step(model, backend.asarray(tokens[:, t : t + 1].copy()), cache)  # type: ignore[attr-defined]
            yield close(_read(backend, step)[:, 0], full[:, t])


def close(a: Numpy, b: Numpy) -> bool:
    """Whether two arrays agree as well as one asks by eye."""
    return bool(np.all(np.abs(a - b) < CLOSE))


def placed(backend: Backend, shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Weights of these shapes, small and random; gains are one."""
    rng = np.random.default_rng(2)
    made = {name: 0.3 * rng.normal(size=s) if len(s) > 1 else np.ones(s) for name, s in shapes.items()}
    return {name: backend.asarray(x.astype(np.float32)) for name, x in made.items()}


def _rows_keep(backend: Backend, layer: Callable[[Any], Any]) -> bool:
    x = np.random.default_rng(3).normal(size=(1, LENGTH, ATTENTION.width)).astype(np.float32)
    later = x.copy()
    later[:, CHANGED:] += 1
    before, after = (_read(backend, layer(backend.asarray(y))) for y in (x, later))
    return close(before[:, :CHANGED], after[:, :CHANGED])


def _kept(backend: Any) -> bool:
    k, v = np.random.default_rng(4).normal(size=(2, 1, 2, LENGTH, 4)).astype(np.float32)
    sizes = {"layers": 1, "batch": 1, "kv_heads": 2, "capacity": LENGTH, "key_width": 4, "value_width": 4}
    cache = backend.init_cache(**sizes, dtype="float32")
    for t in range(LENGTH):
        token = (backend.asarray(np.ascontiguousarray(x[:, :, t : t + 1])) for x in (k, v))
        cache = backend.append(cache, 0, *token)
    return all(close(_read(backend, got), x) for got, x in zip(backend.read(cache, 0), (k, v), strict=True))


def _model(backend: Any) -> Any:
    return backend.load(placed(backend, sizes.shapes(MODEL)), MODEL)


def _tokens() -> Numpy:
    return np.random.default_rng(5).integers(VOCABULARY, size=(1, LENGTH))


def _logits(backend: Any, model: Any, tokens: Numpy) -> Numpy:
    return _read(backend, backend.logits(model, backend.asarray(tokens)))


def _read(backend: Backend, x: Any) -> Numpy:
    return backend.asnumpy(x).astype(np.float64)
