"""Formats that are narrower than the declared level allows."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.attention import normalized
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfScores, stored
from gaugeblock.spec.attention import Dims
from gaugeblock.spec.precision import BFLOAT16, HALF, Level


def kept_bits(x: Array, bits: int) -> Array:
    """x rounded to a significand of so many bits."""
    significand, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(np.ldexp(significand, bits)), exponent - bits).astype(x.dtype))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-LARGE-LOGITS"))
class ProductsInTensorFloat32(NumpyBackend):
    """Queries and keys are rounded to the 11 bits of TF32 before they are multiplied."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d, kept_bits(q, 11), kept_bits(k, 11), scale)


@mutant(killed_by=("ATTN-FORMULA",))
class ValuesInTensorFloat32(NumpyBackend):
    """Weights and values are rounded to the 11 bits of TF32 before they are multiplied."""

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d, kept_bits(weights, 11), kept_bits(v, 11))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-LARGE-LOGITS"))
class ScoresInBfloat16(NumpyBackend):
    """Scores are rounded to bfloat16."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(stored(scores, BFLOAT16), visible)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"))
class WeightsInBfloat16(NumpyBackend):
    """Weights are rounded to bfloat16."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return stored(super()._softmax(scores, visible), BFLOAT16)


@mutant(killed_by=("ATTN-FORMULA",))
class ExponentialInaccurate(NumpyBackend):
    """The exponential is good to 16 bits."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        shown = np.where(visible, scores, -np.inf)
        highest = np.max(shown, axis=-1, keepdims=True, initial=-np.inf)
        return normalized(kept_bits(np.exp(shown - np.where(highest == -np.inf, 0, highest)), 16))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-CONVEX"), dtypes=("float64",))
class Float64InFloat32(NumpyBackend):
    """float64 is accepted, computed in float32 and converted back."""

    def attention(self, q: Array, k: Array, v: Array, *, bias: Array | None = None, **options: Any) -> Array:
        if q.dtype != np.float64:
            return super().attention(q, k, v, bias=bias, **options)
        narrow = [x.astype(np.float32) for x in (q, k, v)]
        bias = None if bias is None else bias.astype(np.float32)
        return super().attention(*narrow, bias=bias, **options).astype(np.float64)


@mutant(killed_by=("ATTN-SCALE-GIVEN", "ATTN-FORMULA"), dtypes=("float64",))
class ScaleInFloat32(NumpyBackend):
    """The scale is rounded to float32 in float64 as well."""

    def _scale(self, d: Dims, scale: float | None) -> float:
        return float(np.float32(super()._scale(d, scale)))


@mutant(killed_by=("ATTN-FORMULA", "ATTN-SCALE-GIVEN"), dtypes=HALF)
class QueriesStoredButDeclaredStrict(KnowsTheFormatOfScores):
    """Scaled queries are rounded to half precision, and level strict is declared."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d, stored(q * q.dtype.type(scale), self.io), k, 1.0)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-LARGE-LOGITS"), dtypes=HALF)
class ScoresStoredButDeclaredFused(KnowsTheFormatOfScores):
    """Scores are rounded to half precision, and level fused is declared."""

    level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(stored(scores, self.io), visible)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-CONVEX"), dtypes=HALF)
class WeightsStoredButDeclaredStrict(KnowsTheFormatOfScores):
    """Weights are rounded to half precision, and level strict is declared."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return stored(super()._softmax(scores, visible), self.io)


@mutant(killed_by=("ATTN-FORMULA",), reports=("nod-ai/amd-shark-ai#2062",), catalogue="M05", dtypes=HALF)
class SoftmaxInHalf(KnowsTheFormatOfScores):
    """Exponentials, their sum and the quotient are rounded to half precision; the default level is declared."""

    level = {}

    def _softmax(self, scores: Array, visible: Array) -> Array:
        shown = np.where(visible, scores, -np.inf)
        highest = np.max(shown, axis=-1, keepdims=True, initial=-np.inf)
        exps = stored(np.exp(shown - np.where(highest == -np.inf, 0, highest)), self.io)
        total = np.add.accumulate(exps.astype(self.io), axis=-1)[..., -1:].astype(exps.dtype)
        return stored(exps / np.where(total == 0, 1, total), self.io)


@mutant(killed_by=("ATTN-FORMULA",), dtypes=HALF)
class AccumulatedInHalf(KnowsTheFormatOfScores):
    """The weighted values are added up in half precision; the default level is declared."""

    level = {}

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        v = np.repeat(v, d.H // d.K, axis=1)
        total = np.zeros((d.B, d.H, d.T, d.E), self.io)
        for j in range(d.S):
            total = (total + weights[..., j : j + 1] * v[:, :, j : j + 1]).astype(self.io)
        return upcast(total)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-CONVEX"), dtypes=("bfloat16",))
class OutputTruncated(NumpyBackend):
    """The result is cut to bfloat16 instead of rounded."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        if q.dtype != BFLOAT16.dtype:
            return super().attention(q, k, v, **options)
        options = {n: upcast(x) if n == "bias" and x is not None else x for n, x in options.items()}
        wide = super().attention(*(upcast(x) for x in (q, k, v)), **options)
        return (wide.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(q.dtype)


@mutant(killed_by=("ATTN-FORMULA",), dtypes=("float16",))
class SubnormalsOfHalfFlushed(NumpyBackend):
    """Subnormal results of float16 are flushed to zero."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        result = super().attention(q, k, v, **options)
        return np.where(np.abs(result) < np.finfo(np.float16).tiny, 0, result) if q.dtype == np.float16 else result
