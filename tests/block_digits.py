"""Blocks as the specification defines them, number by number, with as many digits as mpmath has at the moment."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.spec.config import AttentionConfig

Real = np.ndarray[Any, np.dtype[np.float64]]


class ManyDigits:
    """The same definition, number by number, in mpmath: nothing of the reference is used."""

    def __init__(self, case: BlockCase, inputs: Inputs) -> None:
        self.case, self.config, self.inputs = case, case.block, inputs
        self.weights = {name: self._of(x) for name, x in weights_of(inputs).items()}

    def _of(self, x: Any) -> Any:
        return np.vectorize(lambda v: mpmath.mpf(float(v)), otypes=[object])(x)

    def block(self) -> Real:
        x = self._of(self.inputs["x"])
        sublayers = {"attention": self._attention, "feed_forward": self._network}
        if self.config.cross is not None:
            sublayers = {"attention": self._attention, "cross": self._cross, "feed_forward": self._network}
        for name, f in sublayers.items():
            pre = self.config.placement == "pre"
            x = x + f(self._norm(x, name)) if pre else self._norm(x + f(x), name)
        return np.asarray(np.vectorize(float, otypes=[float])(x))

    def _norm(self, x: Any, name: str) -> Any:
        M, eps = x.shape[-1], mpmath.mpf(self.config.eps)
        out = np.empty_like(x)
        for row in np.ndindex(x.shape[:-1]):
            values = list(x[row])
            mean = mpmath.fsum(values) / M if self.config.norm == "layer" else mpmath.mpf(0)
            root = mpmath.sqrt(mpmath.fsum((v - mean) ** 2 for v in values) / M + eps)
            out[row] = [(v - mean) / root for v in values]
        y = out * self.weights[f"{name}_norm.weight"]
        return y + self.weights[f"{name}_norm.bias"] if self.config.norm == "layer" else y

    def _linear(self, x: Any, layer: str) -> Any:
        y = np.dot(x, self.weights[f"{layer}.weight"])
        return y + self.weights[f"{layer}.bias"] if f"{layer}.bias" in self.weights else y

    def _network(self, x: Any) -> Any:
        up = self._linear(x, "feed_forward.up")
        if self.config.gated:
            hidden = self._activated(self._linear(x, "feed_forward.gate"), "silu") * up
        else:
            hidden = self._activated(up, self.config.activation)
        return self._linear(hidden, "feed_forward.down")

    def _activated(self, x: Any, kind: str) -> Any:
        def tanh_gelu(m: Any) -> Any:
            inner = mpmath.sqrt(2 / mpmath.pi) * (m + mpmath.mpf("0.044715") * m**3)
            return m * (1 + mpmath.tanh(inner)) / 2

        functions: dict[str, Callable[[Any], Any]] = {
            "relu": lambda m: max(m, mpmath.mpf(0)),
            "silu": lambda m: m / (1 + mpmath.exp(-m)),
            "gelu": lambda m: m * mpmath.erfc(-m / mpmath.sqrt(2)) / 2,
            "gelu_tanh": tanh_gelu,
        }
        return np.vectorize(functions[kind], otypes=[object])(x)

    def _attention(self, x: Any) -> Any:
        case, c = self.case, self.config.attention
        at = np.broadcast_to(self.inputs.get("positions", np.arange(case.T)), (case.B, case.T))
        mask = np.broadcast_to(self.inputs.get("mask", True), (case.B, case.H, case.T, case.T))

        def sees(b: int, h: int, i: int, j: int) -> bool:
            left, right = c.window or (None, None)
            away = int(at[b, j] - at[b, i])
            near = (left is None or away >= -left) and (right is None or away <= right)
            return bool(mask[b, h, i, j] and near and (j <= i or not case.causal))

        def slope(h: int) -> Any:
            """The authors' rule, for the numbers of heads that are drawn: powers of two, and those between."""
            low = 2 ** (c.heads.bit_length() - 1)
            if h < low:
                return mpmath.mpf(2) ** (mpmath.mpf(-8) * (h + 1) / low)
            return mpmath.mpf(2) ** (mpmath.mpf(-8) * (2 * (h - low) + 1) / (2 * low))

        def bias(b: int, h: int, i: int, j: int) -> Any:
            return -slope(h) * abs(int(at[b, i] - at[b, j])) if c.alibi else mpmath.mpf(0)

        return self._heads(x, x, "attention", c, sees, bias, at if c.rotary else None)

    def _cross(self, x: Any) -> Any:
        case, c = self.case, self.config.cross
        assert c is not None
        mask = np.broadcast_to(self.inputs.get("context_mask", True), (case.B, case.H, case.T, case.S))
        context = self._of(self.inputs["context"])
        return self._heads(x, context, "cross", c, lambda *at: bool(mask[at]), lambda *at: mpmath.mpf(0), None)

    def _heads(self, x: Any, y: Any, name: str, c: AttentionConfig, sees: Any, bias: Any, at: Any) -> Any:
        q, k, v = (self._linear(z, f"{name}.{layer}") for z, layer in ((x, "query"), (y, "key"), (y, "value")))
        D, E, group = c.head_width, c.value_width, c.heads // c.kv_heads
        scale = 1 / mpmath.sqrt(D) if c.scale is None else mpmath.mpf(c.scale)
        mixed = np.full((*x.shape[:2], c.heads * E), mpmath.mpf(0), object)
        for b, h, i in np.ndindex(x.shape[0], c.heads, x.shape[1]):
            g = h // group
            query = self._turned(q[b, i, h * D : (h + 1) * D], at, b, i, c)
            keys = [j for j in range(y.shape[1]) if sees(b, h, i, j)]
            rows = [self._turned(k[b, j, g * D : (g + 1) * D], at, b, j, c) for j in keys]
            scores = [scale * mpmath.fdot(query, row) for row in rows]
            e = [mpmath.exp(s + bias(b, h, i, j)) for j, s in zip(keys, scores, strict=True)]
            total = mpmath.fsum(e)
            for weight, j in zip(e, keys, strict=True):
                mixed[b, i, h * E : (h + 1) * E] += weight / total * v[b, j, g * E : (g + 1) * E]
        return self._linear(mixed, f"{name}.output")

    def _turned(self, x: Any, at: Any, b: int, i: int, c: AttentionConfig) -> Any:
        if at is None or c.rotary is None:
            return x
        D, turned = len(x), np.array(x)
        for n in range(D // 2):
            first, second = (n, n + D // 2) if c.rotary.layout == "half" else (2 * n, 2 * n + 1)
            angle = int(at[b, i]) * mpmath.mpf(c.rotary.base) ** (mpmath.mpf(-2 * n) / D)
            turned[first] = x[first] * mpmath.cos(angle) - x[second] * mpmath.sin(angle)
            turned[second] = x[second] * mpmath.cos(angle) + x[first] * mpmath.sin(angle)
        return turned
