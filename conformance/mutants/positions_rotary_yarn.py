"""Rotations by another YaRN than the one asked for."""

from dataclasses import replace
from math import log, log2, pi

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.positions_rotary_scaling import Rule
from gaugeblock.spec.config import Scaling, YaRN
from gaugeblock.spec.rotary import Dims


@mutant(
    killed_by=("ROPE-YARN-MAGNITUDE", "ROPE-YARN"),
    reports=("sgl-project/sglang#33558", "turboderp-org/exllamav3#259"),
    catalogue="M34",
)
class YarnMagnitudeMissing(NumpyBackend):
    """YaRN leaves the length of the vectors as it is."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        return 1.0


@mutant(
    killed_by=("ROPE-YARN-MAGNITUDE", "ROPE-YARN"),
    reports=("NVIDIA/TensorRT-LLM#16379", "vllm-project/vllm#48623"),
    catalogue="M34",
)
class YarnMagnitudeTwice(NumpyBackend):
    """YaRN's magnitude is applied twice."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        return super()._magnitude(scaling) ** 2


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",))
class YarnMagnitudeByTwos(NumpyBackend):
    """YaRN's magnitude has the logarithm to the base two."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        if isinstance(scaling, YaRN) and scaling.attention_factor is None and scaling.factor > 1:
            return 0.1 * log2(scaling.factor) + 1
        return super()._magnitude(scaling)


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",), reports=("kekzl/imp#880",))
class YarnMagnitudeOfItself(NumpyBackend):
    """An explicit attention_factor goes through the logarithm once more."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        m = super()._magnitude(scaling)
        return 0.1 * log(m) + 1 if isinstance(scaling, YaRN) and scaling.attention_factor is not None else m


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",), reports=("vllm-project/vllm#48351", "ml-explore/mlx-lm#1507"))
class YarnAttentionFactorIgnored(NumpyBackend):
    """An explicit attention_factor is ignored."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        return super()._magnitude(replace(scaling, attention_factor=None) if isinstance(scaling, YaRN) else scaling)


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",), reports=("vllm-project/vllm#48351",))
class YarnAttentionFactorOnTop(NumpyBackend):
    """An explicit attention_factor multiplies the magnitude that the factor gives."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        if not isinstance(scaling, YaRN) or scaling.attention_factor is None:
            return super()._magnitude(scaling)
        return scaling.attention_factor * super()._magnitude(replace(scaling, attention_factor=None))


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",))
class YarnMagnitudeOffByATenthPercent(NumpyBackend):
    """YaRN's magnitude is 0.1 % too large."""

    def _magnitude(self, scaling: Scaling | None) -> float:
        return super()._magnitude(scaling) * (1.001 if isinstance(scaling, YaRN) else 1.0)


@mutant(killed_by=("ROPE-YARN-MAGNITUDE",))
class YarnMagnitudeOnTheCosine(NumpyBackend):
    """YaRN's magnitude multiplies the cosine only."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        return super()._table(angles, magnitude)[0], np.sin(angles)


@mutant(killed_by=("ROPE-PARTIAL",))
class YarnMagnitudeOfTheRest(NumpyBackend):
    """YaRN's magnitude multiplies the components that are not rotated, too."""

    def rotate(self, x: Array, positions: Array, **options: object) -> Array:
        result = super().rotate(x, positions, **options)  # type: ignore[arg-type]
        scaling, R = options.get("scaling"), options.get("rotary_dim")
        if isinstance(scaling, YaRN) and isinstance(R, int):
            result[..., R:] = (result[..., R:] * self._magnitude(scaling)).astype(x.dtype)
        return result


@mutant(killed_by=("ROPE-YARN",))
class YarnRampInverted(NumpyBackend):
    """YaRN divides the fast pairs and keeps the slow ones."""

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        return np.asarray(1 - super()._yarn_share(d, base, s))


@mutant(killed_by=("ROPE-YARN",))
class YarnRampIsAStep(NumpyBackend):
    """YaRN's ramp is a step in its middle."""

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        return np.asarray(np.round(super()._yarn_share(d, base, s)))


@mutant(killed_by=("ROPE-YARN",))
class YarnNeverTruncated(Rule):
    """The ends of YaRN's ramp are never rounded."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, truncate=False) if isinstance(scaling, YaRN) else scaling


@mutant(killed_by=("ROPE-YARN",))
class YarnAlwaysTruncated(Rule):
    """The ends of YaRN's ramp are always rounded."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, truncate=True) if isinstance(scaling, YaRN) else scaling


@mutant(killed_by=("ROPE-YARN",))
class YarnTurnsFixed(Rule):
    """YaRN's ramp runs from 32 turns to 1, whatever is asked for."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, fast=32, slow=1) if isinstance(scaling, YaRN) else scaling


@mutant(killed_by=("ROPE-YARN",), reports=("panbanda/higgs#31",))
class YarnOriginalIn16Bits(Rule):
    """YaRN's original length is cut off at 32767."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, original=min(scaling.original, 32767)) if isinstance(scaling, YaRN) else scaling


@mutant(killed_by=("ROPE-YARN",))
class YarnOriginalTimesFactor(Rule):
    """YaRN's ramp is placed by the scaled length."""

    def _other(self, scaling: Scaling) -> Scaling:
        if isinstance(scaling, YaRN):
            return replace(scaling, original=scaling.original * scaling.factor)
        return scaling


@mutant(killed_by=("ROPE-YARN",))
class YarnBaseFixed(NumpyBackend):
    """YaRN's ramp is placed for the base 10000, whatever is asked for."""

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        return super()._yarn_share(d, 10000.0, s)


@mutant(killed_by=("ROPE-YARN",))
class YarnFactorOffByOnePercent(Rule):
    """YaRN divides by a factor that is 1 % too large."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, factor=1.01 * scaling.factor) if isinstance(scaling, YaRN) else scaling


@mutant(killed_by=("ROPE-YARN",))
class YarnRampByTurns(NumpyBackend):
    """YaRN's ramp is linear in the turns of a pair, as the paper writes it, not in its index."""

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        turns = s.original * self._frequencies(d, base) / (2 * pi)
        return np.clip((s.fast - turns) / (s.fast - s.slow), 0, 1)
