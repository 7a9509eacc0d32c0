"""Backward passes of multi-head attention in other orders, which the bounds of the gradients admit."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants.handwritten import Back
from gaugeblock.conformance.mutants.taped import Step, Taped
from gaugeblock.conformance.unusual import BACKWARD, correct
from gaugeblock.spec.config import AttentionConfig

Weights = Mapping[str, Array]


@correct
class ProjectionsPackedBackward(Taped):
    """What queries, keys and values of one sequence hand back comes from one product with packed weights."""

    dtypes = BACKWARD

    memory: Array | None = None

    def vjp(self, function: Any, *primals: Any) -> Any:
        self.packed: list[tuple[Array, Array]] = []
        return super().vjp(function, *primals)

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        self.memory = context
        return super()._project_memory(context, weights, c)

    def _project_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        crosses = self.memory is not None
        if layer == "output" or (layer == "query" and crosses):
            return super()._project_back(x, dy, weights, layer)
        own = self._layer_back(upcast(x), dy, weights, layer)
        self.packed.append((dy, upcast(weights[f"{layer}.weight"])))
        if layer != ("key" if crosses else "query"):  # the projection that comes back last
            return own
        g, w = (np.concatenate(parts, axis=-1) for parts in zip(*self.packed, strict=True))
        self.packed = []
        return [(x, g @ w.T), *own]


@correct
class OneTokenAfterTheOther(Taped):
    """Weights and biases collect their gradients token by token, the last one first."""

    dtypes = BACKWARD

    def _layer_back(self, x: Array, dy: Array, weights: Weights, layer: str) -> Back:
        rows, g = (a.reshape(-1, a.shape[-1])[::-1] for a in (x, dy))
        w = weights[f"{layer}.weight"]
        total, bias = np.zeros(w.shape, dy.dtype), np.zeros(w.shape[1], dy.dtype)
        for row, part in zip(rows, g, strict=True):
            total, bias = total + row[:, None] * part, bias + part
        return [(w, total), (weights.get(f"{layer}.bias"), bias)]


@correct
class CotangentsInTheFormat(Taped):
    """What goes from one step of the backward pass to the one before it is rounded to the format of the call."""

    dtypes = BACKWARD

    def _reversed(self, tape: list[Step], found: dict[int, Array]) -> dict[int, Array]:
        stored = [(made, self._storing(back, made.dtype)) for made, back in tape]
        return super()._reversed(stored, found)

    def _storing(self, back: Callable[[Array], Back], io: Any) -> Callable[[Array], Back]:
        return lambda dy: [(x, upcast(round_once(g, io))) for x, g in back(upcast(round_once(dy, io)))]
