"""Backward passes of blocks in other orders, which the bounds of the gradients admit."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.taped import Step, Taped
from gaugeblock.conformance.unusual import BACKWARD, correct
from gaugeblock.conformance.unusual.attention_gradients import DeltaFromTheOutput


@correct
class Checkpointed(DeltaFromTheOutput, Taped):
    """Nothing is kept: every pullback makes the whole block again, with another softmax than the forward pass had."""

    dtypes = BACKWARD

    def vjp(self, function: Any, *primals: Any) -> Any:
        value = function(*primals)

        def pullback(dy: Array) -> Any:
            return super(Checkpointed, self).vjp(function, *primals)[1](dy)

        return value, pullback


@correct
class StreamAddedLast(Taped):
    """What several readers give an array is collected first, and added from the last reader's to the first's."""

    dtypes = BACKWARD

    def _reversed(self, tape: list[Step], found: dict[int, Array]) -> dict[int, Array]:
        waiting: dict[int, list[Array]] = {key: [g] for key, g in found.items()}
        for made, back in reversed(tape):
            if id(made) in waiting:
                for x, g in back(_sum(waiting[id(made)])):
                    if x is not None:
                        waiting.setdefault(id(x), []).append(g)
        return {key: _sum(parts) for key, parts in waiting.items()}


def _sum(parts: list[Array]) -> Array:
    total = np.zeros_like(parts[0])
    for part in reversed(parts):
        total = total + part
    return total
