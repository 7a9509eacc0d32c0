"""The specification in NumPy: for reading."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.backends.numpy.cache import NumpyKVCache
from gaugeblock.backends.numpy.feedforward import NumpyActivations, NumpyFeedForward
from gaugeblock.backends.numpy.normalization import NumpyLayerNorm, NumpyRMSNorm
from gaugeblock.backends.numpy.positions import NumpyAlibi, NumpyLearnedPositions, NumpySinusoidal
from gaugeblock.backends.numpy.rotary import NumpyRotary
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Level


class NumpyBackend(
    NumpyAttention,
    NumpyActivations,
    NumpyFeedForward,
    NumpyRotary,
    NumpySinusoidal,
    NumpyLearnedPositions,
    NumpyAlibi,
    NumpyLayerNorm,
    NumpyRMSNorm,
    NumpyKVCache,
    Backend,
):
    """Every component in NumPy; half precision is computed in float32 and rounded once."""

    name = "numpy"
    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})
    level = {"bfloat16": Level.STRICT, "float16": Level.STRICT}

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        if variant:
            raise ConfigError(f"backends: numpy has no variants, got {variant!r}")

    def describe(self) -> Mapping[str, str]:
        return {"framework": f"numpy {np.__version__}", "device": "cpu"}
