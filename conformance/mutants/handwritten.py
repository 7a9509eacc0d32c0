"""Backward passes written by hand, as kernels have them, beside the forward passes of the NumPy backend.

A function under vjp may call one method; it is recorded, and its backward pass is a formula with seams for faults.
Nothing of it knows what autograd knows, so that forward and backward pass can disagree here as they do in the field.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.spec.attention import Dims, dims
from gaugeblock.spec.gradients import Gradients
from gaugeblock.spec.rotary import dims as rotary_dims

Back = list[tuple[Array | None, Array]]  # the arrays of a call, and their gradients


class Handwritten(NumpyBackend, Gradients):
    """Records the last call of a component, and hands its cotangent to the backward pass of that component."""

    def vjp(self, function: Callable[..., Array], *primals: Any) -> tuple[Array, Callable[[Array], tuple[Any, ...]]]:
        value = function(*primals)
        back = self._back

        def pullback(dy: Array) -> tuple[Any, ...]:
            with np.errstate(all="ignore"):
                found = {id(x): g for x, g in back(upcast(dy)) if x is not None}
            return tuple(gradient(p, found) for p in primals)

        return value, pullback

    def _back(self, dy: Array) -> Back:
        return []


def gradient(primal: Any, found: Mapping[int, Array]) -> Any:
    """The gradient of a primal, rounded once to its dtype, from those of arrays by identity; zero where none is."""
    if isinstance(primal, Mapping):
        return {name: gradient(x, found) for name, x in primal.items()}
    return round_once(found.get(id(primal), np.zeros_like(primal)), primal.dtype)


class HandwrittenAttention(Handwritten):
    """Weights are made again; the row term is taken from the weights and their cotangents."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        self._back = lambda dy: self._attention_back(dy, q, k, v, **options)  # type: ignore[method-assign]
        return super().attention(q, k, v, **options)

    def _attention_back(
        self,
        dy: Array,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        window: Any = None,
        scale: float | None = None,
    ) -> Back:
        d = dims(q.shape, k.shape, v.shape)
        c = q.dtype.type(self._scale(d, scale)) if q.dtype == np.float64 else np.float32(self._scale(d, scale))
        visible = np.broadcast_to(self._visible(d, mask, bias, causal, window), (d.B, d.H, d.T, d.S))
        keys, values = (np.repeat(upcast(x), d.H // d.K, axis=1) for x in (k, v))  # (B, H, S, D), (B, H, S, E)
        scores = self._add_bias(self._scores(d, upcast(q), upcast(k), float(c)), bias)
        p = self._weights_again(scores, visible)
        ds = self._scores_back(p, dy @ values.swapaxes(-1, -2), dy, p @ values)
        found: Back = [
            (q, self._scaled_back(c) * (ds @ keys)),
            (k, self._over_group(d, self._scaled_back(c) * (ds.swapaxes(-1, -2) @ upcast(q)))),
            (v, self._over_group(d, p.swapaxes(-1, -2) @ dy)),
        ]
        return found if bias is None else [*found, (bias, self._over_broadcast(ds, bias.shape))]

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        return self._softmax(scores, visible)

    def _scores_back(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return np.asarray(p * (dp - self._row_term(p, dp, dy, y)))

    def _row_term(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        """delta, (B, H, T, 1)."""
        return np.asarray(np.sum(p * dp, axis=-1, keepdims=True))

    def _scaled_back(self, c: Any) -> Any:
        return c

    def _over_group(self, d: Dims, g: Array) -> Array:
        """The sum over the query heads of a group, (B, H, S, D) -> (B, K, S, D)."""
        return np.asarray(np.sum(g.reshape(d.B, d.K, d.H // d.K, *g.shape[2:]), axis=2))

    def _over_broadcast(self, ds: Array, shape: tuple[int, ...]) -> Array:
        axes = tuple(n for n, own in enumerate(shape) if own != ds.shape[n])
        return np.asarray(np.sum(ds, axis=axes, keepdims=True))


class HandwrittenNorms(Handwritten):
    """dx = r (h - mean(h) - x̂ mean(h x̂)), without the mean of h for RMSNorm."""

    def layer_norm(self, x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
        def back(dy: Array) -> Back:
            wide = upcast(x)
            centred = wide - self._mean(wide)
            r = self._inverse_deviation(self._variance(wide, centred), eps)
            h = self._weighted(dy, weight)
            return [
                (x, self._row_back(h, centred, r)),
                (weight, self._over_rows(dy * centred * r)),
                (bias, self._over_rows(dy)),
            ]

        self._back = back  # type: ignore[method-assign]
        return super().layer_norm(x, weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Array | None, *, eps: float) -> Array:
        def back(dy: Array) -> Back:
            wide = upcast(x)
            r = self._inverse_rms(self._mean_square(wide), eps)
            h = self._weighted(dy, weight)
            return [(x, self._input_back(h, wide * r, r)), (weight, self._over_rows(dy * wide * r))]

        self._back = back  # type: ignore[method-assign]
        return super().rms_norm(x, weight, eps=eps)

    def _weighted(self, dy: Array, weight: Array | None) -> Array:
        return dy if weight is None else dy * upcast(weight)

    def _row_back(self, h: Array, centred: Array, r: Array) -> Array:
        """The gradient of a row of LayerNorm."""
        return self._input_back(h - self._mean_back(h), centred * r, r)

    def _mean_back(self, h: Array) -> Array:
        return np.asarray(np.mean(h, axis=-1, keepdims=True))

    def _input_back(self, h: Array, normal: Array, r: Array) -> Array:
        return np.asarray(r * (h - normal * np.mean(h * normal, axis=-1, keepdims=True)))

    def _over_rows(self, g: Array) -> Array:
        return np.asarray(np.sum(g, axis=tuple(range(g.ndim - 1))))


class HandwrittenNetworks(Handwritten):
    """Each slope from its own formula; weights from sums over all positions."""

    def relu(self, x: Array) -> Array:
        self._back = lambda dy: [(x, dy * self._slope(upcast(x), "relu", 1.0))]  # type: ignore[method-assign]
        return super().relu(x)

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        kind = "gelu" if approximate == "none" else "gelu_tanh"
        self._back = lambda dy: [(x, dy * self._slope(upcast(x), kind, 1.0))]  # type: ignore[method-assign]
        return super().gelu(x, approximate=approximate)

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        self._back = lambda dy: [(x, dy * self._slope(upcast(x), "silu", beta))]  # type: ignore[method-assign]
        return super().silu(x, beta=beta)

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        def back(dy: Array) -> Back:
            hidden = self._linear(upcast(x), weights, "up")
            dh = self._linear_back(dy, weights, "down") * self._slope(hidden, activation, 1.0)
            activated = self._activate(hidden, activation)
            return [
                (x, self._linear_back(dh, weights, "up")),
                *self._layer_back(upcast(x), dh, weights, "up"),
                *self._layer_back(activated, dy, weights, "down"),
            ]

        self._back = back  # type: ignore[method-assign]
        return super().feed_forward(x, weights, activation=activation)

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        def back(dy: Array) -> Back:
            z, h = (self._linear(upcast(x), weights, layer) for layer in ("gate", "up"))
            da = self._linear_back(dy, weights, "down")
            dz, dh = da * h * self._slope(z, "silu", 1.0), da * self._silu(z, 1.0)
            return [
                (x, self._both_reads(self._linear_back(dz, weights, "gate"), self._linear_back(dh, weights, "up"))),
                *self._layer_back(upcast(x), dz, weights, "gate"),
                *self._layer_back(upcast(x), dh, weights, "up"),
                *self._layer_back(self._gated(z, h), dy, weights, "down"),
            ]

        self._back = back  # type: ignore[method-assign]
        return super().swiglu(x, weights)

    def _both_reads(self, by_gate: Array, by_up: Array) -> Array:
        return by_gate + by_up

    def _slope(self, x: Array, kind: str, beta: float) -> Array:
        if kind == "relu":
            return np.asarray(x > 0).astype(x.dtype)
        if kind == "silu":
            return self._slope_silu(x, beta)
        return self._slope_gelu(x) if kind == "gelu" else self._slope_gelu_tanh(x)

    def _slope_silu(self, x: Array, beta: float) -> Array:
        z = x.dtype.type(beta) * x
        return np.asarray(self._sigmoid(z) * (1 + z * self._sigmoid(-z)))

    def _slope_gelu(self, x: Array) -> Array:
        density = np.exp(-x * x / 2) * x.dtype.type(1 / np.sqrt(2 * np.pi))
        return np.asarray(self._normal_cdf(x) + x * density)

    def _slope_gelu_tanh(self, x: Array) -> Array:
        root, cubic = x.dtype.type(np.sqrt(2 / np.pi)), x.dtype.type(0.044715)
        t = np.tanh(root * (x + cubic * x * x * x))
        return np.asarray((1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * cubic * x * x))

    def _linear_back(self, dy: Array, weights: Mapping[str, Array], layer: str) -> Array:
        return np.asarray(dy @ upcast(weights[f"{layer}.weight"]).T)

    def _layer_back(self, x: Array, dy: Array, weights: Mapping[str, Array], layer: str) -> Back:
        rows, g = (a.reshape(-1, a.shape[-1]) for a in (x, dy))
        return [(weights[f"{layer}.weight"], rows.T @ g), (weights.get(f"{layer}.bias"), self._over_positions(g))]

    def _over_positions(self, g: Array) -> Array:
        return np.asarray(np.sum(g, axis=0))


class HandwrittenPositions(Handwritten):
    """A rotation is turned back by its own table; a table's rows are summed one reader after the other."""

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        self._back = lambda dy: [(x, self._rotate_back(dy, positions, **options))]  # type: ignore[method-assign]
        return super().rotate(x, positions, **options)

    def _rotate_back(
        self,
        dy: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        layout: Any = "half",
        rotary_dim: int | None = None,
        scaling: Any = None,
    ) -> Array:
        d = rotary_dims(dy.shape, positions.shape, rotary_dim=rotary_dim)
        frequencies = self._scaled(self._frequencies(d, base), d, base, scaling)
        cos, sin = self._table(self._angles(positions, frequencies), self._magnitude(scaling))
        return self._turned(d, dy, cos.astype(dy.dtype), self._backwards(sin.astype(dy.dtype)), layout)

    def _backwards(self, sin: Array) -> Array:
        return -sin

    def learned_positions(self, table: Array, positions: Array) -> Array:
        self._back = lambda dy: [(table, self._readers(table, positions, dy))]  # type: ignore[method-assign]
        return super().learned_positions(table, positions)

    def _readers(self, table: Array, positions: Array, dy: Array) -> Array:
        total = np.zeros(table.shape, dy.dtype)
        np.add.at(total, positions, dy)
        return total
