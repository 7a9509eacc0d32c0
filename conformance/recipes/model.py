"""The tokens and the padding of a model's cases: each recipe separates faults that plain random input hides."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Bits

Rng = np.random.Generator
Tokens = Callable[[int, int, int, Rng], Numpy]
Pads = Callable[[int, int, Rng], Bits]


def _distinct(B: int, T: int, V: int, rng: Rng) -> Numpy:
    """Ids in an order of their own for each row, none of them twice while there are enough."""
    return np.stack([np.resize(rng.permutation(V), T) for _ in range(B)]) if B else np.zeros((B, T), np.int64)


TOKENS: Mapping[str, Tokens] = {
    "random": lambda B, T, V, rng: rng.integers(V, size=(B, T)),
    "distinct": _distinct,
    "same": lambda B, T, V, rng: np.full((B, T), rng.integers(V)),
}


def lengths(B: int, T: int, rng: Rng) -> Numpy:
    """How many real tokens each row has, (B, 1): one at least, neighbours differ, and the first row has a pad."""
    first = rng.integers(max(T - 1, 1))
    return 1 + (first + np.arange(B)[:, None]) % max(T, 1)


def _left(B: int, T: int, rng: Rng) -> Bits:
    return np.asarray(np.arange(T) >= T - lengths(B, T, rng))


def _right(B: int, T: int, rng: Rng) -> Bits:
    return np.asarray(np.arange(T) < lengths(B, T, rng))


def _middle(B: int, T: int, rng: Rng) -> Bits:
    """Pads anywhere but at the ends."""
    real = rng.random((B, T)) < 0.4
    real[:, [0, -1]] = True
    return real


def _ragged(B: int, T: int, rng: Rng) -> Bits:
    """Pads anywhere, and a real token in every row."""
    real = rng.random((B, T)) < 0.6
    real[np.arange(B), rng.integers(T, size=B)] = True
    return real


def _row(B: int, T: int, rng: Rng) -> Bits:
    """One row is all pads, the others have none."""
    real = np.ones((B, T), bool)
    real[rng.integers(B)] = False
    return real


# True = real token; "full" is a mask that hides nothing
PADS: Mapping[str, Pads] = {
    "full": lambda B, T, rng: np.ones((B, T), bool),
    "left": _left,
    "right": _right,
    "middle": _middle,
    "ragged": _ragged,
    "row": _row,
}


def padded(recipe: str, B: int, T: int, rng: Rng) -> Bits:
    """Which of the tokens are real, (B, T); without rows or columns there is nothing to choose."""
    return PADS[recipe if B and T else "full"](B, T, rng)
