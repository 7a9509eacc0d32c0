"""Encoders and decoders as one writes them down at first, with many digits: one row at a time, without padding."""

from collections.abc import Mapping
from math import floor, log2
from typing import Any

import mpmath
import numpy as np

from gaugeblock.spec.config import AttentionConfig, BlockConfig, Linear, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.weights import part

Rows = Any  # an object array (tokens, width) of mpmath numbers
Weights = Mapping[str, Any]


def many(x: Any) -> Any:
    """An array as numbers with many digits."""
    return np.vectorize(lambda v: mpmath.mpf(float(v)), otypes=[object])(np.asarray(x))


def encoded(weights: Weights, config: ModelConfig, x: Any) -> Rows:
    """What the encoder makes of ids (n,) or vectors (n, M)."""
    assert config.encoder is not None
    return stack(config.encoder, part(weights, "encoder"), x, None)


def scores(weights: Weights, config: ModelConfig, ids: Any, memory: Any = None) -> Rows:
    """The logits after each of the ids (n,), with a memory (S, M) where there is cross-attention."""
    assert config.decoder is not None
    hidden = stack(config.decoder, part(weights, "decoder"), ids, None if memory is None else many(memory))
    table = weights["decoder.embedding.weight"].T if config.tied else weights["head.weight"]
    y = hidden @ many(table)
    return y + many(weights["head.bias"]) if config.head_bias else y


def stack(c: StackConfig, w: Weights, x: Any, memory: Rows | None) -> Rows:
    n, M = len(x), c.block.width
    rows = many(x) if c.inputs == "vectors" else many(w["embedding.weight"])[x] * mpmath.mpf(c.embedding_scale)
    rows = rows.reshape(n, M)
    if c.positions == "learned":
        rows = rows + many(w["positions.weight"])[:n]
    if c.positions == "sinusoidal":
        rows = rows + np.array([[sinusoid(p, m, M) for m in range(M)] for p in range(n)], object).reshape(n, M)
    if c.embedding_norm:
        rows = norm(rows, part(w, "embedding_norm"), c.block)
    for layer in range(c.layers):
        rows = block(c.block, part(w, f"layers.{layer}"), rows, memory)
    return norm(rows, part(w, "final_norm"), c.block) if c.final_norm else rows


def sinusoid(position: int, m: int, M: int) -> Any:
    angle = position / mpmath.power(10000, mpmath.mpf(m - m % 2) / M)
    return mpmath.cos(angle) if m % 2 else mpmath.sin(angle)


def block(c: BlockConfig, w: Weights, x: Rows, memory: Rows | None) -> Rows:
    parts: dict[str, Any] = {"attention": lambda y: attention(c.attention, part(w, "attention"), y, y, c.causal)}
    if c.cross is not None:
        cross = c.cross
        parts["cross"] = lambda y: attention(cross, part(w, "cross"), y, memory, False)
    parts["feed_forward"] = lambda y: network(c, part(w, "feed_forward"), y)
    for name, f in parts.items():
        own = part(w, f"{name}_norm")
        x = x + f(norm(x, own, c)) if c.placement == "pre" else norm(x + f(x), own, c)
    return x


def norm(x: Rows, w: Weights, c: BlockConfig) -> Rows:
    weight, bias = many(w["weight"]), many(w.get("bias", np.zeros(len(w["weight"]))))
    made = np.empty(x.shape, object)
    for i, row in enumerate(x):
        row = row - sum(row) / len(row) if c.norm == "layer" else row
        made[i] = row / mpmath.sqrt(sum(row * row) / len(row) + mpmath.mpf(c.eps)) * weight + bias
    return made


def linear(x: Rows, w: Weights, name: str) -> Rows:
    y = x @ many(w[f"{name}.weight"])
    return y + many(w[f"{name}.bias"]) if f"{name}.bias" in w else y


def network(c: BlockConfig, w: Weights, x: Rows) -> Rows:
    bend = np.vectorize(lambda v: activated(v, "silu" if c.gated else c.activation), otypes=[object])
    if c.gated:
        return linear(bend(linear(x, w, "gate")) * linear(x, w, "up"), w, "down")
    return linear(bend(linear(x, w, "up")), w, "down")


def activated(v: Any, name: str) -> Any:
    if name == "relu":
        return max(v, mpmath.mpf(0))
    if name == "silu":
        return v / (1 + mpmath.exp(-v))
    if name == "gelu":
        return v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2
    return v * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3))) / 2


def attention(c: AttentionConfig, w: Weights, x: Rows, source: Rows | None, causal: bool) -> Rows:
    assert source is not None
    q, k, v = linear(x, w, "query"), linear(source, w, "key"), linear(source, w, "value")
    heads = []
    for h in range(c.heads):
        g = h // (c.heads // c.kv_heads)
        own = q[:, h * c.head_width : (h + 1) * c.head_width]
        keys, values = (y[:, g * n : (g + 1) * n] for y, n in ((k, c.head_width), (v, c.value_width)))
        heads.append(head(c, turned(own, c.rotary), turned(keys, c.rotary), values, slope(h, c), causal))
    return linear(np.concatenate(heads, axis=1), w, "output")


def head(c: AttentionConfig, q: Rows, k: Rows, v: Rows, m: Any, causal: bool) -> Rows:
    scale = 1 / mpmath.sqrt(c.head_width) if c.scale is None else mpmath.mpf(c.scale)
    left, right = c.window or (None, None)
    made = np.full((len(q), v.shape[1]), mpmath.mpf(0), object)
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if not causal or j <= i]
        seen = [j for j in seen if (left is None or j - i >= -left) and (right is None or j - i <= right)]
        if seen:
            e = [mpmath.exp(scale * sum(q[i] * k[j]) - m * abs(i - j)) for j in seen]
            made[i] = sum(p * v[j] for p, j in zip(e, seen, strict=True)) / sum(e)
    return made


def slope(h: int, c: AttentionConfig) -> Any:
    """The slope of a head by the rule of the authors; 0 where there is no bias."""
    if not c.alibi:
        return mpmath.mpf(0)
    near = 2 ** floor(log2(c.heads))
    exponent = mpmath.mpf(8 * (h + 1)) / near if h < near else mpmath.mpf(4 * (2 * (h - near) + 1)) / near
    return mpmath.power(2, -exponent)


def turned(x: Rows, c: RotaryConfig | None) -> Rows:
    if c is None:
        return x
    assert c.scaling is None or isinstance(c.scaling, Linear)
    made, R = x.copy(), c.rotary_dim or x.shape[1]
    for p, i in np.ndindex(len(x), R // 2):
        a, b = (i, i + R // 2) if c.layout == "half" else (2 * i, 2 * i + 1)
        angle = p * mpmath.power(mpmath.mpf(c.base), -mpmath.mpf(2 * i) / R) / (c.scaling.factor if c.scaling else 1)
        z = mpmath.mpc(x[p, a], x[p, b]) * mpmath.expj(angle)
        made[p, a], made[p, b] = z.real, z.imag
    return made
