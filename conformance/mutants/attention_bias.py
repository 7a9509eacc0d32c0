"""Wrong biases."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims, Window

Given = Array | None


@mutant(killed_by=("ATTN-BIAS", "ATTN-INTERSECT"))
class BiasIgnored(NumpyBackend):
    """Finite biases are accepted and not used."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores


@mutant(killed_by=("ATTN-BIAS", "ATTN-INTERSECT"))
class BiasSubtracted(NumpyBackend):
    """The bias is subtracted."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores - np.where(bias == -np.inf, 0, upcast(bias))


@mutant(killed_by=("ATTN-BIAS", "ATTN-INTERSECT"))
class BiasScaled(NumpyBackend):
    """The bias is added before the scores are scaled, and scaled with them."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        self.scale = q.dtype.type(scale)
        return super()._scores(d, q, k, scale)

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + self.scale * np.where(bias == -np.inf, 0, upcast(bias))


@mutant(killed_by=("ATTN-BIAS", "ATTN-INTERSECT"))
class BiasNotInBaseTwo(NumpyBackend):
    """The exponential is one to base two; the scores are converted to it, the bias is not."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + upcast(bias) * scores.dtype.type(np.log(2))


@mutant(killed_by=("ATTN-BIAS",))
class BiasInHalfPrecision(NumpyBackend):
    """The bias is rounded to float16."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + bias.astype(np.float16).astype(scores.dtype)


@mutant(killed_by=("ATTN-BIAS",))
class BiasOfTheFirstHead(NumpyBackend):
    """The first head's bias is used for all."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + upcast(bias[:, :1])


@mutant(killed_by=("ATTN-BIAS", "ATTN-BATCH-ROWS"))
class BiasOfTheFirstRow(NumpyBackend):
    """The first batch row's bias is used for all."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + upcast(bias[:1])


@mutant(killed_by=("ATTN-BIAS", "ATTN-PERMUTE"), reports=("keras-team/keras-hub#2977",))
class BiasOfTheFirstQuery(NumpyBackend):
    """The first query's bias is used for all."""

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return scores if bias is None else scores + upcast(bias[:, :, :1])


@mutant(killed_by=("ATTN-INTERSECT",))
class BiasForgottenWithMask(NumpyBackend):
    """A mask takes the place of the bias."""

    def attention(
        self, q: Array, k: Array, v: Array, *, mask: Given = None, bias: Given = None, **options: Any
    ) -> Array:
        return super().attention(q, k, v, mask=mask, bias=bias if mask is None else None, **options)


@mutant(killed_by=("ATTN-INTERSECT",))
class MaskForgottenWithBias(NumpyBackend):
    """A bias takes the place of the mask."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask if bias is None else None, bias, causal, window)


@mutant(
    killed_by=("ATTN-BIAS-INF", "ATTN-MASKED-INERT"),
    reports=("pytorch/pytorch#92554", "mlverse/torch#1205"),
    catalogue="M18",
)
class InfiniteBiasIgnored(NumpyBackend):
    """-inf in a bias hides nothing: padding given as a float mask is attended."""

    def attention(self, q: Array, k: Array, v: Array, *, bias: Given = None, **options: Any) -> Array:
        finite = None if bias is None else np.where(bias == -np.inf, 0, bias).astype(bias.dtype)
        return super().attention(q, k, v, bias=finite, **options)


@mutant(killed_by=("ATTN-BIAS", "ATTN-BIAS-INF"), reports=("mlverse/torch#1205",), catalogue="M18")
class BiasReadAsMask(NumpyBackend):
    """A bias is read as a boolean mask: whatever is not zero may be attended."""

    def attention(
        self, q: Array, k: Array, v: Array, *, mask: Given = None, bias: Given = None, **options: Any
    ) -> Array:
        if bias is not None:
            mask = bias != 0 if mask is None else mask & (bias != 0)
        return super().attention(q, k, v, mask=mask, **options)


@mutant(killed_by=("ATTN-EMPTY-ROW",))
class InfiniteBiasIsALowNumber(NumpyBackend):
    """-inf in a bias is replaced by the lowest number, so that a row of nothing else is the mean of all values."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, None, causal, window)

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        low = np.finfo(scores.dtype).min
        return scores if bias is None else np.where(bias == -np.inf, low, scores + upcast(bias))
