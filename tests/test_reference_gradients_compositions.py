"""The reference's gradients of compositions: the complex step of the plain formulas gives the same."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_reference_gradients import agree

from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig
from gaugeblock.spec.precision import EXACT, FLOAT32, FLOAT64, Contract
from gaugeblock.spec.reference import formulas, multihead
from gaugeblock.spec.reference import model as models
from gaugeblock.spec.reference.gradients import blocks as block_gradients
from gaugeblock.spec.reference.gradients import model as model_gradients
from gaugeblock.spec.reference.gradients import multihead as multihead_gradients
from gaugeblock.spec.reference.multihead import View
from gaugeblock.spec.reference.positions import alibi_bias, sinusoidal
from gaugeblock.spec.weights import part

Numbers = Any
Weights = Mapping[str, Any]

LAYERS: tuple[dict[str, Any], ...] = (
    {"rotary": "half", "bias": "all", "causal": True},
    {"rotary": "interleaved", "rotary_dim": 2, "K": 1, "window": (1, 1), "positions": "near-rows", "scale": 0.7},
    {"alibi": True, "mask": "random", "bias": "key+output"},
    {"K": 4, "E": 1, "context": True, "S": 3, "mask": "queries", "bias": "query+value"},
)
BLOCKS: tuple[dict[str, Any], ...] = (
    {"placement": "post", "norm": "layer", "activation": "gelu", "ffn_bias": True, "causal": True, "bias": "all"},
    {"placement": "pre", "norm": "rms", "gated": True, "cross": True, "S": 3, "rotary": "half", "mask": "random"},
    {"placement": "post", "norm": "rms", "activation": "relu", "cross": True, "S": 2, "context_mask": "random"},
    {"placement": "pre", "norm": "layer", "activation": "gelu_tanh", "alibi": True, "eps": 0.1, "window": (1, 0)},
)
MODELS: tuple[dict[str, Any], ...] = (
    {"L": 2, "placement": "pre", "norm": "rms", "gated": True, "rotary": "half", "tied": True, "embedding_scale": 2.3},
    {"kind": "both", "S": 3, "memory_pads": "left", "positions": "learned", "head_bias": True, "pads": "ragged"},
    {"placement": "post", "norm": "layer", "positions": "sinusoidal", "embedding_norm": True, "tied": True},
)


def attend(x: Numbers, w: Weights, c: AttentionConfig, seen: View, context: Numbers = None) -> Numbers:
    source = x if context is None else context
    q = formulas.split(formulas.linear(x, w, "query"), c.heads)
    k, v = (formulas.split(formulas.linear(source, w, name), c.kv_heads) for name in ("key", "value"))
    if c.rotary is not None and context is None:
        q, k = (formulas.rotate(y, seen.queries, c.rotary) for y in (q, k))
    near = alibi_bias(c.heads, seen.queries, seen.keys).value if c.alibi and context is None else None
    mixed = formulas.attention(q, k, v, visible=seen.visible, scale=c.scale, bias=near)
    return formulas.linear(formulas.join(mixed), w, "output")


def passed(x: Numbers, w: Weights, c: BlockConfig, seen: View, crossing: View, context: Numbers = None) -> Numbers:
    layers: dict[str, Any] = {"attention": lambda y: attend(y, part(w, "attention"), c.attention, seen)}
    if c.cross is not None:
        cross = c.cross
        layers["cross"] = lambda y: attend(y, part(w, "cross"), cross, crossing, context)
    layers["feed_forward"] = lambda y: formulas.feed_forward(y, part(w, "feed_forward"), c.activation, gated=c.gated)
    for name, f in layers.items():
        own = part(w, f"{name}_norm")
        if c.placement == "pre":
            x = x + f(formulas.norm(x, own, c.norm, c.eps))
        else:
            x = formulas.norm(x + f(x), own, c.norm, c.eps)
    return x


def scored(w: Weights, config: ModelConfig, now: models.Tokens, memory: Numbers, hides: Numbers) -> Numbers:
    """The logits; a table comes as (V, M), or pushed as (n, 1, V, M)."""
    c = config.decoder
    assert c is not None
    below, at = part(w, "decoder"), np.where(now.new_real, np.atleast_2d(now.positions), 0)
    x = rows(below["embedding.weight"], np.where(now.new_real, now.ids, 0)) * c.embedding_scale
    if c.positions == "learned":
        x = x + rows(below["positions.weight"], at)
    if c.positions == "sinusoidal":
        x = x + sinusoidal(at, c.block.width).value
    if c.embedding_norm:
        x = formulas.norm(x, part(below, "embedding_norm"), c.block.norm, c.block.eps)
    seen = multihead.view(now.positions, now.positions, causal=True, window=c.block.attention.window, real=now.real)
    crossing = View(np.ones((1, 1, 1, 1), bool) if hides is None else hides[:, None, None, :], 0, 0)
    for n in range(c.layers):
        x = passed(x, part(below, f"layers.{n}"), c.block, seen, crossing, memory)
    if c.final_norm:
        x = formulas.norm(x, part(below, "final_norm"), c.block.norm, c.block.eps)
    head = np.swapaxes(below["embedding.weight"], -1, -2) if config.tied else w["head.weight"]
    return x @ head + (w["head.bias"] if config.head_bias else 0)


def encoded(w: Weights, config: ModelConfig, now: models.Tokens, vectors: Numbers) -> Numbers:
    c = config.encoder
    assert c is not None
    below, at = part(w, "encoder"), np.where(now.new_real, np.atleast_2d(now.positions), 0)
    x = vectors
    if c.inputs == "ids":
        x = rows(below["embedding.weight"], np.where(now.new_real, now.ids, 0)) * c.embedding_scale
    if c.positions == "learned":
        x = x + rows(below["positions.weight"], at)
    seen = multihead.view(now.positions, now.positions, causal=False, window=None, real=now.real)
    for n in range(c.layers):
        x = passed(x, part(below, f"layers.{n}"), c.block, seen, seen)
    return formulas.norm(x, part(below, "final_norm"), c.block.norm, c.block.eps)


def rows(table: Numbers, ids: Numbers) -> Numbers:
    return np.take(table[:, 0] if table.ndim == 4 else table, ids, axis=-2)


def cotangent(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(shape).normal(size=shape)


@pytest.mark.parametrize("fields", LAYERS)
def test_multi_head_attention(fields: dict[str, Any]) -> None:
    sizes = {"B": 2, "T": 4, "M": 5, "H": 4, "K": 2, "D": 4, "E": 3}
    case = MultiHeadCase(**{**sizes, **fields}, seed=3)
    inputs = case.inputs(FLOAT64)
    (x, w, c), keywords = case.arguments(inputs)
    context = {name: inputs[name] for name in ("context",) if name in inputs}
    others = {name: value for name, value in keywords.items() if name != "context"}
    seen = multihead.sight({"x": x, **context}, w, c, **others)
    dy = cotangent(x.shape)
    found = multihead_gradients.multi_head_attention(x, w, c, dy, **keywords)
    arrays = {"x": x, **context, **w}
    assert set(found) == set(arrays)
    agree(lambda x, context=None, **w: attend(x, w, c, seen, context), arrays, found, dy)


@pytest.mark.parametrize("fields", BLOCKS)
def test_block(fields: dict[str, Any]) -> None:
    sizes = {"B": 2, "T": 3, "M": 5, "H": 4, "K": 2, "D": 2, "E": 3, "F": 4}
    case = BlockCase(**{**sizes, **fields}, seed=5, w="quiet")
    inputs = case.inputs(FLOAT64)
    (x, w, c), keywords = case.arguments(inputs)
    context = {name: inputs[name] for name in ("context",) if name in inputs}
    hiding = {name: value for name, value in keywords.items() if name != "context"}
    from gaugeblock.spec.reference.blocks import sight

    seen, crossing = sight({"x": x, **context}, w, c, **hiding)
    dy = cotangent(x.shape)
    found = block_gradients.block(x, w, c, dy, **keywords)
    arrays = {"x": x, **context, **w}
    assert set(found) == set(arrays)
    agree(lambda x, context=None, **w: passed(x, w, c, seen, crossing, context), arrays, found, dy)


@pytest.mark.parametrize("fields", MODELS)
def test_logits(fields: dict[str, Any]) -> None:
    sizes = {"B": 2, "T": 4, "M": 6, "H": 2, "K": 1, "D": 4, "E": 3, "F": 5, "V": 7, "L": 1}
    case = ModelCase(**{**sizes, **fields}, seed=7, w="quiet")
    inputs = case.inputs(FLOAT64)
    given = {name: inputs[name] for name in ("token_mask", "memory", "memory_mask") if name in inputs}
    now = models.Tokens.of(inputs["tokens"], given.get("token_mask"))
    dy = cotangent((2, 4, 7)) * now.new_real[..., None]
    weights = {n: w for n, w in weights_of(inputs).items() if not n.startswith("encoder.")}
    found = model_gradients.logits(weights, case.model, inputs["tokens"], dy, **given)
    arrays = {**weights, **{name: given[name] for name in ("memory",) if name in given}}
    assert set(found) == set(arrays)
    hides = given.get("memory_mask")
    agree(lambda memory=None, **w: scored(w, case.model, now, memory, hides), arrays, found, dy)


@pytest.mark.parametrize("vectors", [False, True])
def test_encode(vectors: bool) -> None:
    sizes = {"B": 2, "T": 3, "M": 6, "H": 2, "K": 1, "D": 4, "E": 3, "F": 5, "V": 7, "L": 1}
    fields: dict[str, Any] = {**sizes, "positions": "learned", "rotary": "half", "pads": "right", "w": "quiet"}
    case = ModelCase(kind="encoder", vectors=vectors, norm="layer", **fields, seed=11)
    inputs = case.inputs(FLOAT64)
    read = inputs[case.reads]
    now = models.Tokens.of(read, inputs["token_mask"])
    dy = cotangent((2, 3, 6)) * now.new_real[..., None]
    found = model_gradients.encode(weights_of(inputs), case.model, read, dy, token_mask=inputs["token_mask"])
    arrays = {**weights_of(inputs), **({"vectors": read} if vectors else {})}
    assert set(found) == set(arrays)
    agree(lambda vectors=read, **w: encoded(w, case.model, now, vectors), arrays, found, dy)


def test_rows_that_are_not_read_get_nothing() -> None:
    case = ModelCase(B=2, T=3, M=4, H=2, K=2, D=2, E=2, F=3, V=9, L=1, positions="learned", pads="right", seed=2)
    inputs = case.inputs(FLOAT32)
    real = inputs["token_mask"]
    dy = cotangent((2, 3, 9)) * real[..., None]
    options: dict[str, Any] = {"token_mask": real, "contract": Contract(FLOAT32)}
    for tied in (False, True):
        config = replace(case.model, tied=tied)
        found = model_gradients.logits(weights_of(inputs), config, inputs["tokens"], dy, **options)
        unread = np.setdiff1d(np.arange(9), inputs["tokens"][real])
        for name, at in (("embedding", unread), ("positions", np.arange(int(real.sum(axis=1).max()), 64))):
            g = found[f"decoder.{name}.weight"]
            assert (tied and name == "embedding") or not (g.value[at].any() or g.err[at].any())
            assert len(at)


def share(found: Mapping[str, Any], held: Mapping[str, Any]) -> float:
    """The largest error of any gradient in float32, relative to its own largest element, where that is not nothing."""
    sizes = {name: np.max(np.abs(b.value), initial=0.0) for name, b in held.items()}
    told = {name: size for name, size in sizes.items() if size > 1e3 * np.max(held[name].err, initial=0.0)}
    return float(max(np.max(found[name].err) / size for name, size in told.items()))


@pytest.mark.parametrize(("io", "allowed"), [(FLOAT32, 1e-2), (FLOAT64, 2e-11)])
@pytest.mark.parametrize("fields", LAYERS)
def test_bounds_of_a_layer_tell_something(fields: dict[str, Any], io: Any, allowed: float) -> None:
    sizes = {"B": 2, "T": 4, "M": 5, "H": 4, "K": 2, "D": 4, "E": 3}
    for seed in range(5):
        case = MultiHeadCase(**{**sizes, **fields}, seed=seed)
        (x, w, c), keywords = case.arguments(case.inputs(io))
        dy = cotangent(x.shape)
        made = [
            multihead_gradients.multi_head_attention(x, w, c, dy, **keywords, contract=k) for k in (Contract(io), EXACT)
        ]
        assert share(*made) < allowed


@pytest.mark.parametrize(
    ("io", "w", "allowed"), [(FLOAT32, "quiet", 0.03), (FLOAT64, "quiet", 1e-10), (FLOAT64, "normal", 1e-7)]
)
@pytest.mark.parametrize("fields", BLOCKS)
def test_bounds_of_a_block_tell_something(fields: dict[str, Any], io: Any, w: str, allowed: float) -> None:
    sizes = {"B": 2, "T": 3, "M": 5, "H": 4, "K": 2, "D": 2, "E": 3, "F": 4}
    for seed in range(5):
        case = BlockCase(**{**sizes, **fields}, w=w, seed=seed)
        (x, held, c), keywords = case.arguments(case.inputs(io))
        dy = cotangent(x.shape)
        made = [block_gradients.block(x, held, c, dy, **keywords, contract=k) for k in (Contract(io), EXACT)]
        assert share(*made) < allowed
