"""Whole layers, blocks and models differentiated by hand: every step of the NumPy backend with a backward pass.

Steps are recorded as they are called, with the arrays that they read, and gone through in reverse; an array that is
read more than once collects what its readers give it. Each step is a seam for faults, as are those of the components.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants.handwritten import (
    Back,
    HandwrittenAttention,
    HandwrittenNetworks,
    HandwrittenNorms,
    HandwrittenPositions,
    gradient,
)

Step = tuple[Array, Callable[[Array], Back]]


class Taped(HandwrittenAttention, HandwrittenPositions, HandwrittenNorms, HandwrittenNetworks):
    """Components by their own backward passes, and the steps between them by those below."""

    tape: list[Step]

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.tape = []

    def vjp(self, function: Callable[..., Array], *primals: Any) -> tuple[Array, Callable[[Array], tuple[Any, ...]]]:
        self.tape = []
        value = function(*primals)
        tape = self.tape

        def pullback(dy: Array) -> tuple[Any, ...]:
            with np.errstate(all="ignore"):
                found = self._reversed(tape, {id(value): upcast(dy)})
            return tuple(gradient(p, found) for p in primals)

        return value, pullback

    def _reversed(self, tape: list[Step], found: dict[int, Array]) -> dict[int, Array]:
        for made, back in reversed(tape):
            if id(made) in found:
                for x, g in back(found[id(made)]):
                    if x is not None:
                        found[id(x)] = self._added(found[id(x)], g) if id(x) in found else g
        return found

    def _added(self, one: Array, other: Array) -> Array:
        """What two readers of an array give it."""
        return one + other

    def _recorded(self, y: Array, back: Callable[[Array], Back] | None = None) -> Array:
        self.tape.append((y, back or self._back))
        return y

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return self._recorded(super().attention(q, k, v, **options))

    def rotate(self, x: Array, positions: Array, **options: Any) -> Array:
        return self._recorded(super().rotate(x, positions, **options))

    def learned_positions(self, table: Array, positions: Array) -> Array:
        return self._recorded(super().learned_positions(table, positions))

    def layer_norm(self, x: Array, weight: Array | None, bias: Array | None, *, eps: float) -> Array:
        return self._recorded(super().layer_norm(x, weight, bias, eps=eps))

    def rms_norm(self, x: Array, weight: Array | None, *, eps: float) -> Array:
        return self._recorded(super().rms_norm(x, weight, eps=eps))

    def relu(self, x: Array) -> Array:
        return self._recorded(super().relu(x))

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return self._recorded(super().gelu(x, approximate=approximate))

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        return self._recorded(super().silu(x, beta=beta))

    def feed_forward(self, x: Array, weights: Mapping[str, Array], *, activation: str) -> Array:
        return self._recorded(super().feed_forward(x, weights, activation=activation))

    def swiglu(self, x: Array, weights: Mapping[str, Array]) -> Array:
        return self._recorded(super().swiglu(x, weights))

    def _project(self, x: Array, weights: Mapping[str, Array], layer: str) -> Array:
        y = super()._project(x, weights, layer)
        return self._recorded(y, lambda dy: self._project_back(x, dy, weights, layer))

    def _project_back(self, x: Array, dy: Array, weights: Mapping[str, Array], layer: str) -> Back:
        return [(x, self._linear_back(dy, weights, layer)), *self._layer_back(upcast(x), dy, weights, layer)]

    def _split(self, x: Array, heads: int) -> Array:
        return self._recorded(super()._split(x, heads), lambda dy: [(x, self._split_back(dy))])

    def _split_back(self, dy: Array) -> Array:
        """(B, H, T, D) -> (B, T, H * D)."""
        B, H, T, D = dy.shape
        return dy.swapaxes(1, 2).reshape(B, T, H * D)

    def _join(self, mixed: Array) -> Array:
        heads = mixed.shape[1]
        return self._recorded(super()._join(mixed), lambda dy: [(mixed, self._join_back(dy, heads))])

    def _join_back(self, dy: Array, heads: int) -> Array:
        """(B, T, H * E) -> (B, H, T, E)."""
        B, T, width = dy.shape
        return dy.reshape(B, T, heads, width // heads).swapaxes(1, 2)

    def _residual(self, x: Array, y: Array) -> Array:
        return self._recorded(super()._residual(x, y), lambda dy: self._residual_back(x, y, dy))

    def _residual_back(self, x: Array, y: Array, dy: Array) -> Back:
        return [(x, dy), (y, dy)]

    def _add_positions(self, x: Array, rows: Array) -> Array:
        return self._recorded(super()._add_positions(x, rows), lambda dy: [(x, dy), (rows, dy)])

    def _scaled_embedding(self, rows: Array, scale: float) -> Array:
        y = super()._scaled_embedding(rows, scale)
        return self._recorded(y, lambda dy: [(rows, self._scale_back(dy, scale))])

    def _scale_back(self, dy: Array, scale: float) -> Array:
        return np.asarray(dy * dy.dtype.type(scale))

    def _embedding_rows(self, ids: Array, weights: Mapping[str, Array]) -> Array:
        table = weights["embedding.weight"]
        kept = np.clip(ids, 0, len(table) - 1)
        return self._recorded(
            super()._embedding_rows(ids, weights), lambda dy: [(table, self._readers(table, kept, dy))]
        )

    def _head(self, x: Array, model: Model) -> Array:
        return self._recorded(super()._head(x, model), lambda dy: self._head_back(x, model, dy))

    def _head_back(self, x: Array, model: Model, dy: Array) -> Back:
        w, tied = model.weights, model.config.tied
        table = w["decoder.embedding.weight"] if tied else w["head.weight"]
        rows, g = upcast(x).reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        own = g.T @ rows if tied else rows.T @ g
        dx = dy @ (upcast(table) if tied else upcast(table).T)
        return [(x, dx), (table, own), (w.get("head.bias"), self._over_positions(g))]
