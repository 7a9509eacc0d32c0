"""Attention that rounds more, decides otherwise or offers less than the canonical one, and says so."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfScores
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.attention import divided, finite
from gaugeblock.spec.attention import Dims, Window
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.precision import Level

Given = Array | None

FUSED = {"bfloat16": Level.FUSED, "float16": Level.FUSED}


class KeepsTheFormat(KnowsTheFormatOfScores):
    """Rounds intermediates to the format of the call, and declares that."""

    level = FUSED


@correct
class WeightsStored(KeepsTheFormat):
    """Weights are rounded to half precision; level fused is declared."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return self._stored(super()._softmax(scores, visible))


@correct
class ExponentialsStored(KeepsTheFormat):
    """Exponentials are rounded to half precision before the mixture, and divided by their unrounded sum after it."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        scores = np.where(visible, scores, -np.inf)
        exps = np.exp(scores - finite(np.max(scores, axis=-1, keepdims=True, initial=-np.inf)))
        self.total = np.sum(exps, axis=-1, keepdims=True)
        return self._stored(exps)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return divided(super()._mix(d, weights, v), self.total)


@correct
class ExponentialsStoredThenSummed(ExponentialsStored):
    """Exponentials are rounded to half precision, and so is what they are divided by."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        exps = super()._softmax(scores, visible)
        self.total = np.sum(exps, axis=-1, keepdims=True)
        return exps


@correct
class EverythingStored(KeepsTheFormat):
    """Scaled queries, scores, scores plus bias and weights are rounded to half precision; that is the default level."""

    level = {}

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return self._stored(super()._scores(d, self._stored(q * q.dtype.type(scale)), k, 1.0))

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        return self._stored(super()._add_bias(scores, bias))

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return self._stored(super()._softmax(scores, visible))


@correct
class RootsStored(EverythingStored):
    """Queries and keys are scaled by the root of the scale and rounded, scores and weights as well."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        root = np.sqrt(q.dtype.type(abs(scale)))
        q, k = self._stored(q * (root * q.dtype.type(np.sign(scale)))), self._stored(k * root)
        return self._stored(NumpyBackend._scores(self, d, q, k, 1.0))


@correct
class Eager(EverythingStored):
    """Products are rounded before they are scaled, and again afterwards: one operation at a time in half precision."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return self._stored(self._stored(NumpyBackend._scores(self, d, q, k, 1.0)) * q.dtype.type(scale))

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        c = scores.dtype.type(softcap)
        return self._stored(self._stored(np.tanh(self._stored(scores / c))) * c)


@correct
class ScalarsInFloat32(NumpyBackend):
    """The scale is rounded to float32 in float64 as well; that is declared."""

    conventions = Conventions(scalars="float32")

    def _scale(self, d: Dims, scale: float | None) -> float:
        return float(np.float32(super()._scale(d, scale)))

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return super()._soft_cap(scores, float(np.float32(softcap)))


@correct
class TopLeft(NumpyBackend):
    """Diagonal and window begin at the first key; that is declared."""

    conventions = Conventions(causal_alignment="top_left")

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        n = max(d.T, d.S)
        square = super()._visible(d._replace(T=n, S=n), None, None, causal, window)
        return super()._visible(d, mask, bias, False, None) & square[:, :, : d.T, : d.S]


@correct
class NanRows(NumpyBackend):
    """A row that sees no key is NaN; that is declared."""

    conventions = Conventions(empty_row="nan")

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return np.where(np.any(visible, axis=-1, keepdims=True), super()._softmax(scores, visible), np.nan)


@correct
class MeanRows(NumpyBackend):
    """A row that sees no key is the mean of all values; that is declared."""

    conventions = Conventions(empty_row="mean")

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(np.where(visible, scores, np.finfo(scores.dtype).min), np.ones_like(visible))


@correct
class NanRowsByBias(NumpyBackend):
    """A row that a bias alone has emptied is NaN, others are zeros; that is declared."""

    conventions = Conventions(empty_row={"bias": "nan"})

    def _add_bias(self, scores: Array, bias: Given) -> Array:
        if bias is None:
            return scores
        return super()._add_bias(np.where(np.all(bias == -np.inf, axis=-1, keepdims=True), np.nan, scores), bias)

    def _softmax(self, scores: Array, visible: Array) -> Array:
        weights = super()._softmax(scores, visible)
        return np.where(np.all(np.isnan(scores), axis=-1, keepdims=True), np.nan, weights)


@correct
class HeadsTiled(NumpyBackend):
    """Query head h reads key/value head h % K; that is declared."""

    conventions = Conventions(head_order="tiled")

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        return super()._scores(d._replace(K=d.H), q, np.tile(k, (1, d.H // d.K, 1, 1)), scale)

    def _mix(self, d: Dims, weights: Array, v: Array) -> Array:
        return super()._mix(d._replace(K=d.H), weights, np.tile(v, (1, d.H // d.K, 1, 1)))


class Refusing(NumpyBackend):
    """Refuses what _lacks says that it lacks."""

    def _lacks(self, d: Dims, given: dict[str, Any]) -> bool:
        raise NotImplementedError

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        d = self._check(q, k, v, *(options.get(name) for name in ("mask", "bias", "window", "scale")))
        given = {name: x for name, x in options.items() if x is not None and x is not False}
        if self._lacks(d, given):
            raise Unsupported("attention: this kernel serves the plain case")
        return super().attention(q, k, v, **options)


@correct
class PlainKernel(Refusing):
    """A kernel that serves square, ungrouped attention with D = E, shared masks and causal, and declares the rest."""

    unsupported = {
        f"attention.{feature}": "the kernel has no such path"
        for feature in (
            "mask.heads",
            "bias",
            "bias.infinite",
            "window",
            "scale.nonpositive",
            "rectangular",
            "grouped",
            "value_width",
            "empty.batch",
            "empty.queries",
            "empty.keys",
        )
    }

    def _lacks(self, d: Dims, given: dict[str, Any]) -> bool:
        heads = given["mask"].shape[1] > 1 if "mask" in given else False
        plain = d.T == d.S and d.H == d.K and d.D == d.E and d.B * d.T * d.S > 0 and given.get("scale", 1.0) > 0
        return heads or not plain or not given.keys() <= {"mask", "causal", "scale"}


@correct
class OneOptionAtATime(Refusing):
    """Any two of mask, bias, causal and window in one call are declared unsupported."""

    unsupported = {
        f"attention.{pair}": "one at a time"
        for pair in ("mask+bias", "mask+causal", "mask+window", "bias+causal", "bias+window", "causal+window")
    }

    def _lacks(self, d: Dims, given: dict[str, Any]) -> bool:
        return len(given.keys() & {"mask", "bias", "causal", "window"}) > 1


@correct
class NothingUnderAMask(Refusing):
    """No queries, keys or batch rows are refused where there is a mask or a diagonal, and declared unsupported."""

    unsupported = {f"attention.empty.{axis}": "not with a mask" for axis in ("batch", "queries", "keys")}

    def _lacks(self, d: Dims, given: dict[str, Any]) -> bool:
        return d.B * d.T * d.S == 0 and bool(given.keys() & {"mask", "causal"})
