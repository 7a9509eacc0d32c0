"""The specification in NumPy: for reading."""

from collections.abc import Mapping

import numpy as np

from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.backends.numpy.blocks import NumpyBlock
from gaugeblock.backends.numpy.cache import NumpyKVCache
from gaugeblock.backends.numpy.decoder import NumpyDecoder
from gaugeblock.backends.numpy.feedforward import NumpyActivations, NumpyFeedForward
from gaugeblock.backends.numpy.model import NumpyEncoder
from gaugeblock.backends.numpy.multihead import NumpyMultiHeadAttention
from gaugeblock.backends.numpy.normalization import NumpyLayerNorm, NumpyRMSNorm
from gaugeblock.backends.numpy.positions import NumpyAlibi, NumpyLearnedPositions, NumpySinusoidal
from gaugeblock.backends.numpy.rotary import NumpyRotary
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import HALF, Level
from gaugeblock.spec.traced import Recorder

COMPOSITIONS = ("multihead", "blocks", "model")  # whose intermediates are arrays of the io format


class NumpyBackend(
    NumpyEncoder,
    NumpyDecoder,
    NumpyBlock,
    NumpyMultiHeadAttention,
    Recorder,
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
    """Every component in NumPy; half precision is computed in float32, and each component rounds once."""

    name = "numpy"
    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})
    level = {
        **{dtype: Level.STRICT for dtype in HALF},
        **{f"{whole}@{dtype}": Level.STORED for whole in COMPOSITIONS for dtype in HALF},
    }

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        if variant:
            raise ConfigError(f"backends: numpy has no variants, got {variant!r}")

    def describe(self) -> Mapping[str, str]:
        return {"framework": f"numpy {np.__version__}", "device": "cpu"}
