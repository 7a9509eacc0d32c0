"""Blocks that keep the stream, a sum or a norm in a format narrower than the declared level allows."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.formats import stored
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.precision import BFLOAT16, FLOAT16, HALF


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-IDENTITY", "BLOCK-FORMULA"))
class StreamInBfloat16(NumpyBackend):
    """The stream of float32 is kept in bfloat16."""

    def _residual(self, x: Array, y: Array) -> Array:
        return stored(super()._residual(x, y), BFLOAT16.dtype)


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-FORMULA"))
class SublayersInFloat16(NumpyBackend):
    """What a sublayer gives is rounded to float16 before it is added."""

    def _residual(self, x: Array, y: Array) -> Array:
        return super()._residual(x, stored(y, FLOAT16.dtype))


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-IDENTITY"), dtypes=("float64",))
class StreamInFloat32(NumpyBackend):
    """The stream of float64 is kept in float32."""

    def _residual(self, x: Array, y: Array) -> Array:
        return stored(super()._residual(x, y), np.dtype(np.float32))


@mutant(killed_by=("BLOCK-FORMULA", "BLOCK-FEED-FORWARD"), dtypes=("float64",))
class NetworkInFloat32(NumpyBackend):
    """The feed-forward network of float64 is computed in float32."""

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        narrow = {name: w.astype(np.float32) for name, w in weights.items()}
        return super()._network(x.astype(np.float32), narrow, c).astype(x.dtype)


@mutant(killed_by=("BLOCK-RESIDUAL",), dtypes=("bfloat16",))
class StreamTruncated(NumpyBackend):
    """Sums are cut to bfloat16 instead of rounded."""

    def _residual(self, x: Array, y: Array) -> Array:
        total = upcast(x) + upcast(y)
        return (total.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(x.dtype)


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-IDENTITY"), dtypes=("float16",))
class StreamInBfloat16OfFloat16(NumpyBackend):
    """The stream of float16 passes bfloat16."""

    def _residual(self, x: Array, y: Array) -> Array:
        return super()._residual(x, y).astype(BFLOAT16.dtype).astype(x.dtype)


@mutant(killed_by=("BLOCK-NORMS-IN-TURN",), dtypes=HALF)
class NormsOfBlocksInHalf(NumpyBackend):
    """Norms are computed in half precision, each operation rounded."""

    def _normed(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        centred = x if c.norm == "rms" else (x - round_once(np.mean(upcast(x), axis=-1, keepdims=True), x.dtype))
        square = round_once(np.mean(upcast(centred * centred), axis=-1, keepdims=True), x.dtype)
        root = round_once(1 / np.sqrt(upcast(square + x.dtype.type(c.eps))), x.dtype)
        y = centred * root * weights["weight"]
        return np.asarray(y + weights["bias"] if "bias" in weights else y).astype(x.dtype)
