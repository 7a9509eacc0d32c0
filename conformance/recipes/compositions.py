"""Weights and inputs of compositions: recipes by name, from the names and shapes of spec.weights."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.blocks import SUBLAYERS
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
    return np.zeros(shape) if is_last(name) else normal(name, shape, rng)


def quiet(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but the sublayers give a sixteenth: even in bfloat16 the bound of a whole block tells something."""
    return normal(name, shape, rng) / (16 if is_last(name) else 1)


def plain_norms(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but norms have weight one and bias zero."""
    if is_norm(name):
        return np.ones(shape) if name.endswith("weight") else np.zeros(shape)
    return normal(name, shape, rng)


def closed_plain(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Sublayers that give nothing, norms of weight one and bias zero."""
    return (plain_norms if is_norm(name) else closed)(name, shape, rng)


def only(sublayer: str) -> Fill:
    """Like normal, but all sublayers but this one give nothing."""

    def fill(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
        return (normal if f"{sublayer}." in name else closed)(name, shape, rng)

    return fill


def integers(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Small integers: where x holds such as well every projection is exact, so that no bound hides a wrong index.

    Values and outputs are positive: no sum cancels, and a bound stays small beside the result.
    """
    least = 1 if "value." in name or "output." in name else -2
    return rng.integers(least, least + 5, shape).astype(np.float64)


def even(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but queries are zero: all scores are, and the attention weights count the visible keys."""
    return np.zeros(shape) if "query." in name else normal(name, shape, rng)


def positive(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Small queries, and positive values and outputs: where x is positive no sum cancels, so that bounds stay small."""
    filled = normal(name, shape, rng) * (0.25 if "query." in name else 1.0)
    return np.abs(filled) if "value." in name or "output." in name else filled


def peaked(name: str, shape: tuple[int, ...], rng: Generator) -> Numpy:
    """Like normal, but queries and keys are three times as large: few keys take most of the weight."""
    return normal(name, shape, rng) * (3.0 if "query." in name or "key." in name else 1.0)


def is_last(name: str) -> bool:
    """Whether a weight belongs to the last projection of a sublayer."""
    return any(part in name for part in ("output.", "feed_forward.down."))


def is_norm(name: str) -> bool:
    """Whether a weight belongs to a normalization."""
    return "_norm." in name


WEIGHTS: Mapping[str, Fill] = {
    "normal": normal,
    "closed": closed,
    "quiet": quiet,
    "plain_norms": plain_norms,
    "integers": integers,
    "even": even,
    "positive": positive,
    "peaked": peaked,
    "closed_plain": closed_plain,
    **{f"only_{sublayer}": only(sublayer) for sublayer in SUBLAYERS},
}

ROWS: Mapping[str, Callable[[tuple[int, ...], Generator], Numpy]] = {
    "normal": lambda shape, rng: rng.normal(size=shape),
    "scaled": lambda shape, rng: rng.normal(size=shape) * np.exp2(rng.integers(-3, 4, size=(*shape[:-1], 1))),
    "small": lambda shape, rng: rng.normal(size=shape) * 2.0**-9,  # so that an eps of 1e-5 outweighs the variance
    "zero": lambda shape, rng: np.zeros(shape),
    "integers": lambda shape, rng: rng.integers(1, 4, shape).astype(np.float64),
    "positive": lambda shape, rng: 0.25 + np.abs(rng.normal(size=shape)),
}
