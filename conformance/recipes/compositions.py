"""Weights and inputs of compositions: recipes by name, from the names and shapes of spec.weights."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.weights import Shapes

Weights = dict[str, Numpy]
Generator = np.random.Generator
Fill = Callable[[str, tuple[int, ...], Generator], Numpy]


def filled(shapes: Shapes, recipe: str, random: Callable[[str], Generator]) -> Weights:
    """Every weight by a recipe, each from a generator of its own name."""
    return {name: WEIGHTS[recipe](name, shape, random(name)) for name, shape in shapes.items()}


def normal(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Projections that keep the size of a row, norms near one, biases and tables that show."""
    noise = rng.normal(size=shape)
    if len(shape) == 1:
        return 1 + 0.3 * noise if is_norm(name) and name.endswith("weight") else 0.5 * noise
    return noise if "embedding" in name or "positions" in name else noise / np.sqrt(shape[0])


def closed(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but every sublayer's last projection and its bias are zero: the sublayers give nothing."""
    last = any(part in name for part in ("output.", "feed_forward.down."))
    return np.zeros(shape) if last else normal(name, shape, rng)


def plain_norms(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but norms have weight one and bias zero."""
    if is_norm(name):
        return np.ones(shape) if name.endswith("weight") else np.zeros(shape)
    return normal(name, shape, rng)


def is_norm(name: str) -> bool:
    """Whether a weight belongs to a normalization."""
    return "_norm." in name


WEIGHTS: Mapping[str, Fill] = {"normal": normal, "closed": closed, "plain_norms": plain_norms}

ROWS: Mapping[str, Callable[[tuple[int, ...], Generator], Numpy]] = {
    "normal": lambda shape, rng: rng.normal(size=shape),
    "scaled": lambda shape, rng: rng.normal(size=shape) * np.exp2(rng.integers(-3, 4, size=(*shape[:-1], 1))),
    "zero": lambda shape, rng: np.zeros(shape),
}
