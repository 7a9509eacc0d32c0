"""Multi-head attention element by element, with as many digits as mpmath has at the moment."""

from collections.abc import Mapping, Sequence
from typing import Any

import mpmath
import numpy as np

from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.reference.program import Step

Real = np.ndarray[Any, np.dtype[np.float64]]


class ManyDigits:
    """The steps of a call, element by element, from arrays of numbers of any kind, with many digits."""

    def __init__(self, case: MultiHeadCase, inputs: Mapping[str, Any]) -> None:
        self.case, self.c, self.inputs = case, case.config, inputs
        self.weights = {name: w.astype(float) for name, w in weights_of(inputs).items()}
        self.at = np.atleast_2d(inputs.get("positions", np.arange(case.T)))

    def step(self, name: str, *read: Any) -> Any:
        if name in ("query", "key", "value"):
            return self.project(read[0], name, self.c.heads if name == "query" else self.c.kv_heads)
        if name == "output":
            B, H, T, E = read[0].shape
            return self.linear(np.swapaxes(read[0], 1, 2).reshape(B, T, H * E), name)
        if name == "bias":
            return self.bias()
        return self.mix(*read) if name == "mixed" else self.rotate(*read)

    def linear(self, x: Any, name: str) -> Any:
        w = self.weights[f"{name}.weight"]
        bias = self.weights.get(f"{name}.bias", np.zeros(w.shape[1]))
        out = np.empty((*x.shape[:-1], w.shape[1]), object)
        for index in np.ndindex(out.shape):
            row, column = list(x[index[:-1]]), w[:, index[-1]].tolist()
            out[index] = mpmath.fdot(row, column) + mpmath.mpf(float(bias[index[-1]]))
        return out

    def project(self, x: Any, name: str, heads: int) -> Any:
        flat = self.linear(x, name)
        width = flat.shape[-1] // heads
        parts = [flat[..., h * width : (h + 1) * width] for h in range(heads)]
        return np.stack(parts, axis=1)  # (B, heads, T, width)

    def rotate(self, x: Any) -> Any:
        rotary, out = self.c.rotary, x.copy()
        assert rotary is not None
        R = rotary.rotary_dim or x.shape[-1]
        for b, h, t, i in np.ndindex(*x.shape[:3], R // 2):
            first, second = (2 * i, 2 * i + 1) if rotary.layout == "interleaved" else (i, i + R // 2)
            angle = int(self.at[b % len(self.at), t]) * mpmath.mpf(rotary.base) ** (mpmath.mpf(-2 * i) / R)
            c, s = mpmath.cos(angle), mpmath.sin(angle)
            one, two = x[b, h, t, first], x[b, h, t, second]
            out[b, h, t, first], out[b, h, t, second] = one * c - two * s, two * c + one * s
        return out

    def bias(self) -> Any:
        H, n = self.c.heads, 2 ** int(np.log2(self.c.heads))
        powers = [mpmath.mpf(8 * (h + 1)) / n for h in range(n)]
        powers += [mpmath.mpf(8 * (h + 1)) / (2 * n) for h in range(0, 2 * (H - n), 2)]
        out = np.empty((len(self.at), H, self.case.T, self.case.T), object)
        for b, h, i, j in np.ndindex(out.shape):
            out[b, h, i, j] = -(mpmath.mpf(2) ** -powers[h]) * abs(int(self.at[b, i]) - int(self.at[b, j]))
        return out

    def sees(self, b: int, h: int, i: int, j: int) -> bool:
        away = 0 if self.case.context else int(self.at[b % len(self.at), j]) - int(self.at[b % len(self.at), i])
        left, right = self.case.window or (None, None)
        mask = self.inputs.get("mask", np.ones((1, 1, 1, 1), bool))
        b, h, row, column = (n % size for n, size in zip((b, h, i, j), mask.shape, strict=True))
        shown = bool(mask[b, h, row, column]) and (j <= i or not self.case.causal)
        return shown and (left is None or away >= -left) and (right is None or away <= right)

    def mix(self, q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        B, H, T, D = q.shape
        scale = 1 / mpmath.sqrt(D) if self.c.scale is None else mpmath.mpf(self.c.scale)
        out = np.full((B, H, T, v.shape[-1]), mpmath.mpf(0), object)
        for b, h, i in np.ndindex(B, H, T):
            g = h // (H // self.c.kv_heads)
            keys = [j for j in range(k.shape[2]) if self.sees(b, h, i, j)]
            near = [0 if bias is None else bias[b % len(bias), h, i, j] for j in keys]
            scores = [scale * mpmath.fdot(q[b, h, i], k[b, g, j]) for j in keys]
            e = [mpmath.exp(score + more) for score, more in zip(scores, near, strict=True)]
            for n in range(v.shape[-1] if keys else 0):
                out[b, h, i, n] = mpmath.fdot(e, [v[b, g, j, n] for j in keys]) / mpmath.fsum(e)
        return out

    def result(self, program: Sequence[Step], given: Mapping[str, Any], **fixed: Any) -> Any:
        """The last step, where fixed stand in place of the steps of their names."""
        known = dict(given)
        for step in program:
            known[step.name] = fixed.get(step.name)
            if known[step.name] is None:
                known[step.name] = self.step(step.name, *(wide(known[name]) for name in step.reads))
        return known[program[-1].name]


def wide(x: Any) -> Any:
    return x if x.dtype == object else np.vectorize(mpmath.mpf, otypes=[object])(x.astype(float))


def as_floats(x: Any) -> Real:
    return np.asarray(x.astype(float))
