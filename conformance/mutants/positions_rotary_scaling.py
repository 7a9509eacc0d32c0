"""Rotations that scale their frequencies by another rule than the one asked for."""

from dataclasses import replace
from math import floor, pi

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import NTK, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.rotary import Dims


@mutant(killed_by=("ROPE-LINEAR", "ROPE-NTK", "ROPE-YARN", "ROPE-LLAMA3"), reports=("felafax/felafax#59",))
class ScalingIgnored(NumpyBackend):
    """The frequencies are never scaled."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        return w


class Rule(NumpyBackend):
    """Scales by another rule of the same kind."""

    def _other(self, scaling: Scaling) -> Scaling:
        return scaling

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        return super()._scaled(w, d, base, None if scaling is None else self._other(scaling))


@mutant(killed_by=("ROPE-LINEAR",), reports=("lablup/mlxcel#1324",))
class LinearMultiplies(Rule):
    """Linear scaling multiplies the frequencies by the factor."""

    def _other(self, scaling: Scaling) -> Scaling:
        return Linear(1 / scaling.factor) if isinstance(scaling, Linear) else scaling


@mutant(killed_by=("ROPE-LINEAR",))
class LinearOffByATenthPercent(Rule):
    """The factor of linear scaling is 0.1 % too large."""

    def _other(self, scaling: Scaling) -> Scaling:
        return Linear(1.001 * scaling.factor) if isinstance(scaling, Linear) else scaling


@mutant(killed_by=("ROPE-LINEAR",))
class LinearByWholeFactors(Rule):
    """The factor of linear scaling is rounded down to an integer."""

    def _other(self, scaling: Scaling) -> Scaling:
        return Linear(float(floor(scaling.factor))) if isinstance(scaling, Linear) else scaling


@mutant(killed_by=("ROPE-NTK",))
class NTKAsLinear(Rule):
    """The NTK rule divides all frequencies alike."""

    def _other(self, scaling: Scaling) -> Scaling:
        return Linear(scaling.alpha) if isinstance(scaling, NTK) else scaling


@mutant(killed_by=("ROPE-NTK",), reports=("huggingface/transformers#25104",))
class NTKWithoutExponent(NumpyBackend):
    """The NTK rule multiplies the base by alpha itself."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        if isinstance(scaling, NTK):
            return self._frequencies(d, base * scaling.alpha)
        return super()._scaled(w, d, base, scaling)


@mutant(killed_by=("ROPE-NTK",))
class NTKExponentInverted(NumpyBackend):
    """The NTK rule raises alpha to (R - 2) / R."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        if isinstance(scaling, NTK):
            return self._frequencies(d, base * scaling.alpha ** ((d.R - 2) / d.R))
        return super()._scaled(w, d, base, scaling)


@mutant(killed_by=("ROPE-NTK",))
class NTKDividesASinglePair(NumpyBackend):
    """The NTK rule divides the frequency of a single pair by alpha."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        scaled = super()._scaled(w, d, base, scaling)
        return scaled / scaling.alpha if isinstance(scaling, NTK) and d.R == 2 else scaled


@mutant(killed_by=("ROPE-PARTIAL",))
class ScalingOverAllComponents(NumpyBackend):
    """A partial rotation places YaRN's ramp by the width of the head."""

    def _yarn_share(self, d: Dims, base: float, s: YaRN) -> Array:
        return super()._yarn_share(d._replace(R=d.D), base, s)[: d.R // 2]


@mutant(
    killed_by=("ROPE-LLAMA3",),
    reports=("huggingface/transformers#32330", "lablup/mlxcel#1355", "unslothai/unsloth#6197"),
    catalogue="M32",
)
class Llama3ComputedAndDropped(NumpyBackend):
    """The rule of Llama 3 is computed, and the plain frequencies are returned."""

    def _scaled(self, w: Array, d: Dims, base: float, scaling: Scaling | None) -> Array:
        scaled = super()._scaled(w, d, base, scaling)
        return w if isinstance(scaling, Llama3) else scaled


@mutant(killed_by=("ROPE-LLAMA3",), reports=("ml-explore/mlx-examples#907",), catalogue="M33")
class Llama3MiddleByPeriods(NumpyBackend):
    """The middle band of Llama 3 is interpolated over periods."""

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        share = super()._llama3_share(w, s)
        periods = (1 - share) * s.high / s.original + share * s.low / s.original
        turns = s.original * w / (2 * pi)
        period = np.clip((s.original / turns - s.original / s.high) / (s.original / s.low - s.original / s.high), 0, 1)
        return np.where((share > 0) & (share < 1) & (periods > 0), period, share)


@mutant(killed_by=("ROPE-LLAMA3",))
class Llama3MiddleSwapped(NumpyBackend):
    """The middle band of Llama 3 is interpolated the wrong way round."""

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        share = super()._llama3_share(w, s)
        return np.where((share > 0) & (share < 1), 1 - share, share)


@mutant(killed_by=("ROPE-LLAMA3",))
class Llama3WithoutMiddle(NumpyBackend):
    """The middle band of Llama 3 keeps its frequencies."""

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        return np.floor(super()._llama3_share(w, s))


@mutant(killed_by=("ROPE-LLAMA3",))
class Llama3BandsExchanged(NumpyBackend):
    """Llama 3 divides the fast pairs and keeps the slow ones."""

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        return np.asarray(1 - super()._llama3_share(w, s))


@mutant(killed_by=("ROPE-LLAMA3",))
class Llama3InRadians(NumpyBackend):
    """The turns of Llama 3 are counted in radians."""

    def _llama3_share(self, w: Array, s: Llama3) -> Array:
        return super()._llama3_share(w * 2 * pi, s)


@mutant(killed_by=("ROPE-LLAMA3",))
class Llama3OriginalFixed(Rule):
    """The original length of Llama 3 is 8192, whatever is asked for."""

    def _other(self, scaling: Scaling) -> Scaling:
        return replace(scaling, original=8192) if isinstance(scaling, Llama3) else scaling
