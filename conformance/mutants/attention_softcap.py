"""Wrong soft caps: in another place, of another shape, or not at all."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapIgnored(NumpyBackend):
    """The soft cap is accepted and not used."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return scores


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapClips(NumpyBackend):
    """Scores are clipped at the cap instead of bent."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return np.clip(scores, -softcap, softcap)


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapOfOne(NumpyBackend):
    """The hyperbolic tangent is not multiplied by the cap again."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return np.asarray(np.tanh(scores / scores.dtype.type(softcap)))


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapBySigmoid(NumpyBackend):
    """The logistic function bends twice as late: tanh(s / 2c) for tanh(s / c)."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return super()._soft_cap(scores / 2, softcap)


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapInHalf(NumpyBackend):
    """The hyperbolic tangent is taken in half precision."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        return np.asarray(
            np.tanh((scores / softcap).astype(np.float16)).astype(scores.dtype) * scores.dtype.type(softcap)
        )


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapBeforeScale(NumpyBackend):
    """The products are capped, and scaled afterwards."""

    def _scores(self, d: Dims, q: Array, k: Array, scale: float) -> Array:
        self.scale = scale
        return super()._scores(d, q, k, scale)

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        scale = scores.dtype.type(self.scale)
        return np.asarray(super()._soft_cap(scores / scale, softcap) * scale)


class CapsLater(NumpyBackend):
    """The cap is put off until the bias is there."""

    cap: float | None = None

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        self.cap = softcap
        return scores

    def _late(self, scores: Array) -> Array:
        cap, self.cap = self.cap, None
        return scores if cap is None else super()._soft_cap(scores, cap)


@mutant(killed_by=("ATTN-SOFTCAP",), reports=("microsoft/onnxruntime#28379",))
class CapAfterBias(CapsLater):
    """The bias is capped with the scores."""

    def _add_bias(self, scores: Array, bias: Array | None) -> Array:
        return self._late(super()._add_bias(scores, bias))


@mutant(
    killed_by=("ATTN-SOFTCAP",),
    reports=("onnx/onnx#7865", "microsoft/onnxruntime#28370"),
    catalogue="M04",
)
class CapAfterMask(CapsLater):
    """The cap comes after the mask, and makes a finite score of its -inf."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        if self.cap is None:
            return super()._softmax(scores, visible)
        return super()._softmax(self._late(np.where(visible, scores, -np.inf)), np.ones_like(visible))


@mutant(killed_by=("ATTN-SOFTCAP",))
class CapForgottenWithCausal(NumpyBackend):
    """The path of causal attention knows no cap."""

    def soft_capped_attention(self, q: Array, k: Array, v: Array, **options: object) -> Array:
        if options.get("causal"):
            options = {name: value for name, value in options.items() if name != "softcap"}
            return self.attention(q, k, v, **options)  # type: ignore[arg-type]
        return super().soft_capped_attention(q, k, v, **options)  # type: ignore[arg-type]


@mutant(killed_by=("ATTN-SOFTCAP",), dtypes=("bfloat16",))
class CappedScoresStoredTwice(NumpyBackend):
    """Scores and capped scores are rounded to half precision, and level strict is declared."""

    def _soft_cap(self, scores: Array, softcap: float) -> Array:
        half = scores.astype("bfloat16")
        return upcast(round_once(super()._soft_cap(upcast(half), softcap), half.dtype))
