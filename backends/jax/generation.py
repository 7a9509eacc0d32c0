"""Greedy generation in JAX: one compiled loop over the cache, or the host's book of which rows go on."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from gaugeblock.backends.jax.cache import Cache
from gaugeblock.spec.backend import Numpy

GRAIN = 16  # columns are rounded up to a multiple, so that prompts of like length run the same code

# a model, ids and their token mask (B, 1), the cache -> (B, 1, V), the scores of what follows, and the cache
Step = Callable[[Any, Array, Cache, Array], tuple[Array, Cache]]
# ids and real (B, N), of which the columns before the one named are known -> (B, 1, V), the scores of what stands there
Scores = Callable[[Array, Array], Array]


class Book(NamedTuple):
    """How far the rows are.

    ids, real  (B, N): the ids so far, pads behind them, and which are tokens and not padding;
    done       (B,): which rows have ended;
    column     the first column that is still open.
    """

    ids: Array
    real: Array
    done: Array
    column: Array


def opened(prompt: Numpy, fresh: Numpy, new: int, pad: int) -> Book:
    """The book of a prompt (B, T) that new more columns shall follow."""
    B, T = prompt.shape
    N = -(-(T + new) // GRAIN) * GRAIN
    ids, real = np.full((B, N), pad, np.int64), np.zeros((B, N), bool)
    ids[:, :T], real[:, :T] = prompt, fresh
    return Book(*jax.device_put((ids, real, np.zeros(B, bool), np.int32(T))))


@partial(jax.jit, static_argnums=0, donate_argnames="cache", compiler_options={"xla_allow_excess_precision": False})
def decoded(
    step: Step, model: Any, cache: Cache, scores: Array, book: Book, end: int, eos: int, pad: int
) -> tuple[Book, Cache]:
    """The book with every column before end in it, by steps over a cache that holds the prompt.

    scores (B, 1, V) are those behind the prompt.
    """

    def going(state: tuple[Book, Cache]) -> Array:
        book, _ = state
        return (book.column < end) & ~jnp.all(book.done)

    def onwards(state: tuple[Book, Cache]) -> tuple[Book, Cache]:
        book, cache = state
        ids, real = (lax.dynamic_slice_in_dim(x, book.column - 1, 1, axis=1) for x in (book.ids, book.real))  # (B, 1)
        scores, cache = step(model, ids, cache, real)
        return noted(book, scores, eos, pad), cache

    final: tuple[Book, Cache] = lax.while_loop(going, onwards, (noted(book, scores, eos, pad), cache))
    return final


@jax.jit
def noted(book: Book, scores: Array, eos: int, pad: int) -> Book:
    """The first of the largest scores (B, 1, V) in the open column; a row that is done takes up no more positions."""
    ids, real, done, column = book
    chosen = jnp.argmax(scores[:, 0], axis=-1).astype(ids.dtype)  # (B,)
    ids = lax.dynamic_update_index_in_dim(ids, jnp.where(done, pad, chosen), column, axis=1)
    real = lax.dynamic_update_index_in_dim(real, ~done, column, axis=1)
    return Book(ids, real, done | (chosen == eos), column + 1)


def afresh(scores: Scores, book: Book, new: int, eos: int, pad: int) -> Book:
    """The book with new more columns in it, each from all the columns before it."""
    for _ in range(new):
        if np.all(book.done):
            break
        book = noted(book, scores(book.ids, book.real), eos, pad)
    return book
