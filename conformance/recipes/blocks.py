"""What block cases take beside the recipes of all compositions: positions, and how arrays lie in memory."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.conformance.recipes.feedforward import LAYOUTS as LAYOUTS
from gaugeblock.spec.backend import Numpy

Generator = np.random.Generator


POSITIONS: Mapping[str, Callable[[int, int, Generator], Numpy]] = {
    "start": lambda B, T, rng: np.arange(T),
    "offset": lambda B, T, rng: rng.integers(1, 200) + np.arange(T),
    "gaps": lambda B, T, rng: rng.integers(0, 9) + np.cumsum(rng.integers(1, 4, T)),
    "backwards": lambda B, T, rng: rng.integers(1, 9) + np.arange(T)[::-1],
    "rows": lambda B, T, rng: rng.integers(0, 9, (B, 1)) + np.cumsum(rng.integers(1, 4, (B, T)), axis=1),
}
