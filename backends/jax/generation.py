"""Greedy generation in JAX: the host keeps the book of which rows go on."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from gaugeblock.spec.backend import Numpy

GRAIN = 16  # columns are rounded up to a multiple, so that prompts of like length run the same code

# ids and real (B, N), of which the columns before the one named are known -> (B, 1, V), the scores of what stands there
Scores = Callable[[Numpy, Numpy, int], Array]


def continued(
    scores: Scores, prompt: Numpy, fresh: Numpy, new: int, *, eos_id: int | None, pad_id: int | None
) -> Array:
    """The prompt (B, T) and new more columns, each row's likeliest ids up to eos_id and pads behind it."""
    (B, T), end = prompt.shape, prompt.shape[1] + new
    N = -(-end // GRAIN) * GRAIN
    pad = next((number for number in (pad_id, eos_id) if number is not None), 0)
    ids, real, done = np.full((B, N), pad, np.int64), np.zeros((B, N), bool), np.zeros(B, bool)
    ids[:, :T], real[:, :T] = prompt, fresh
    for column in range(T, end):
        if done.all():
            break
        chosen = np.asarray(_likeliest(scores(ids, real, column)))
        ids[:, column] = np.where(done, pad, chosen)
        real[:, column] = ~done  # a row that is done takes up no more positions while the others go on
        done |= chosen == eos_id
    placed: Array = jax.device_put(ids[:, :end])
    return placed


@jax.jit
def _likeliest(scores: Array) -> Array:
    """The first of the largest, (B, 1, V) -> (B,)."""
    return jnp.argmax(scores[:, 0], axis=-1)
