"""Backward passes of attention that disagree with the forward pass, which is right."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.handwritten import HandwrittenAttention
from gaugeblock.spec.attention import Dims


@mutant(killed_by=("ATTN-JACOBIAN", "ATTN-GRADIENT"), dtypes=("float32", "float64"))
class DenominatorHeldConstant(HandwrittenAttention):
    """The softmax's denominator is taken for a constant: the row term is missing."""

    def _row_term(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return np.zeros_like(dp[..., :1])


@mutant(killed_by=("ATTN-GRADIENT",))
class RowTermOnePercentTooLarge(HandwrittenAttention):
    """The row term is 1 % too large."""

    def _row_term(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return np.asarray(super()._row_term(p, dp, dy, y) * p.dtype.type(1.01))


@mutant(killed_by=("ATTN-GRADIENT",))
class SoftmaxHeldConstant(HandwrittenAttention):
    """The weights are detached: queries, keys and bias have no gradient."""

    def _scores_back(self, p: Array, dp: Array, dy: Array, y: Array) -> Array:
        return np.zeros_like(p)


@mutant(killed_by=("ATTN-GRADIENT",))
class ScaleMissingBackward(HandwrittenAttention):
    """The scale is missing in the gradients of queries and keys."""

    def _scaled_back(self, c: Any) -> Any:
        return type(c)(1)


@mutant(killed_by=("ATTN-GRADIENT",))
class ScaleTwiceBackward(HandwrittenAttention):
    """The scale is applied twice in the gradients of queries and keys."""

    def _scaled_back(self, c: Any) -> Any:
        return c * c


@mutant(killed_by=("ATTN-GRADIENT-MASKED", "ATTN-GRADIENT"), dtypes=("float32", "bfloat16", "float16"))
class MaskForgottenBackward(HandwrittenAttention):
    """Weights are made again without the mask."""

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        return self._softmax(np.where(scores == -np.inf, -1e4, scores), np.ones_like(visible))


@mutant(
    killed_by=("ATTN-GRADIENT-EMPTY",),
    reports=("pytorch/pytorch#41508",),
    dtypes=("float32", "float64", "bfloat16", "float16"),
)
class EmptyRowGivesNanBackward(HandwrittenAttention):
    """Rows that see no key are zeros, but their backward pass goes through 0 / 0."""

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        hidden = np.where(visible, scores, -np.inf)
        exps = np.exp(hidden - np.max(hidden, axis=-1, keepdims=True, initial=-np.inf))
        return np.asarray(exps / np.sum(exps, axis=-1, keepdims=True))


@mutant(killed_by=("ATTN-GRADIENT-EMPTY",), dtypes=("float32", "bfloat16"))
class EmptyRowIsEvenBackward(HandwrittenAttention):
    """Weights are made again with a finite minimum in the place of -inf: a row that sees no key is even."""

    def _weights_again(self, scores: Array, visible: Array) -> Array:
        least = np.finfo(np.float32).min
        return self._softmax(np.where(visible, scores, least), np.ones_like(visible))


@mutant(killed_by=("ATTN-GRADIENT-GROUPED", "ATTN-GRADIENT"), reports=("marin-community/levanter#449",))
class FirstHeadOfTheGroupBackward(HandwrittenAttention):
    """Shared keys and values get the gradient of the first head that reads them."""

    def _over_group(self, d: Dims, g: Array) -> Array:
        return np.asarray(g.reshape(d.B, d.K, d.H // d.K, *g.shape[2:])[:, :, 0])


@mutant(killed_by=("ATTN-GRADIENT-GROUPED",), reports=("XunhaoLai/native-sparse-attention-triton#27",))
class HeadsTiledBackward(HandwrittenAttention):
    """Shared keys and values sum over the heads h % K instead of h // (H / K)."""

    def _over_group(self, d: Dims, g: Array) -> Array:
        return np.asarray(np.sum(g.reshape(d.B, d.H // d.K, d.K, *g.shape[2:]), axis=1))


@mutant(killed_by=("ATTN-GRADIENT-GROUPED",))
class MeanOfTheGroupBackward(HandwrittenAttention):
    """Shared keys and values get the mean over the heads that read them."""

    def _over_group(self, d: Dims, g: Array) -> Array:
        return np.asarray(super()._over_group(d, g) / g.dtype.type(d.H // d.K))


@mutant(killed_by=("ATTN-GRADIENT-BIAS",), reports=("HKUSTDial/flash-sparse-attention#194",))
class LastWriterOfTheBias(HandwrittenAttention):
    """A bias that is broadcast has the gradient of the last row, head and query that read it."""

    def _over_broadcast(self, ds: Array, shape: tuple[int, ...]) -> Array:
        return np.asarray(ds[tuple(slice(-1, None) if own == 1 else slice(None) for own in shape)])


@mutant(killed_by=("ATTN-GRADIENT-BIAS",))
class BiasNotSummedOverTheBatch(HandwrittenAttention):
    """A bias for all batch rows has the gradient of the first of them."""

    def _over_broadcast(self, ds: Array, shape: tuple[int, ...]) -> Array:
        return super()._over_broadcast(ds[:1] if shape[0] == 1 else ds, shape)


class Remembering(HandwrittenAttention):
    """A pullback that knows what it gave before."""

    def vjp(self, function: Any, *primals: Any) -> Any:
        value, pullback = super().vjp(function, *primals)
        given: list[Any] = []

        def remembering(dy: Array) -> Any:
            given.append(pullback(dy))
            return self._from(given)

        return self._value(value), remembering

    def _value(self, value: Array) -> Array:
        return value

    def _from(self, given: list[Any]) -> Any:
        """What is given back, of all that was found so far."""
        return given[-1]


@mutant(killed_by=("ATTN-GRADIENT-CALL",), dtypes=("float32", "float64"))
class GradientsPileUp(Remembering):
    """Each call of the pullback adds to what earlier calls gave."""

    def _from(self, given: list[Any]) -> Any:
        return tuple(np.asarray(sum(parts)) for parts in zip(*given, strict=True))


@mutant(killed_by=("ATTN-GRADIENT-CALL",), dtypes=("float32", "float64"))
class FirstGradientsKept(Remembering):
    """The pullback gives what its first call gave, whatever the cotangent."""

    def _from(self, given: list[Any]) -> Any:
        return given[0]


@mutant(killed_by=("ATTN-GRADIENT-CALL",), dtypes=("float32", "float64", "bfloat16", "float16"))
class PullbackOnceOnly(Remembering):
    """What was kept for the pullback is freed with its first call."""

    def _from(self, given: list[Any]) -> Any:
        if len(given) > 1:
            raise RuntimeError("the graph has been freed")
        return given[0]


@mutant(killed_by=("ATTN-GRADIENT-CALL",), dtypes=("float32", "float64", "bfloat16", "float16"))
class DropsOutWhenDifferentiated(Remembering):
    """Under vjp a tenth of the outputs is dropped, and the others made larger."""

    def _value(self, value: Array) -> Array:
        kept = np.random.default_rng(0).random(value.shape) >= 0.1
        return np.asarray((value * kept / 0.9).astype(value.dtype))
