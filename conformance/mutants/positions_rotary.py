"""Rotations with wrong pairs, signs, angles, frequencies or widths."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import Layout
from gaugeblock.spec.rotary import Dims


@mutant(
    killed_by=("ROPE-LAYOUT", "ROPE-FORMULA"),
    reports=(
        "jzhang38/TinyLlama#24",
        "ggml-org/llama.cpp#13260",
        "vllm-project/vllm#747",
        "tenstorrent/tt-metal#26844",
        "kekzl/imp#503",
    ),
    catalogue="M27",
)
class InterleavedForHalf(NumpyBackend):
    """Neighbours are paired, whatever the layout."""

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        return super()._pairs(d, "interleaved")


@mutant(
    killed_by=("ROPE-LAYOUT", "ROPE-FORMULA"),
    reports=("ggml-org/llama.cpp#13261", "ikawrakow/ik_llama.cpp#2290", "paiml/aprender#2084", "vllm-project/vllm#941"),
    catalogue="M27",
)
class HalfForInterleaved(NumpyBackend):
    """Components half the width apart are paired, whatever the layout."""

    def _pairs(self, d: Dims, layout: Layout) -> tuple[slice, slice]:
        return super()._pairs(d, "half")


@mutant(
    killed_by=("ROPE-ZERO", "ROPE-LAYOUT"), reports=("vllm-project/vllm-metal#44", "nntile/nntile#382"), catalogue="M28"
)
class PairsConcatenated(NumpyBackend):
    """Interleaved pairs are rotated rightly and laid down one half after the other."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        if layout == "interleaved":
            turned[..., : d.R] = np.concatenate([turned[..., : d.R : 2], turned[..., 1 : d.R : 2]], axis=-1)
        return turned


@mutant(killed_by=("ROPE-ZERO", "ROPE-LAYOUT"))
class HalvesInterleaved(NumpyBackend):
    """Halves are rotated rightly and laid down by turns."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        if layout == "half":
            both = np.stack([turned[..., : d.R // 2], turned[..., d.R // 2 : d.R]], axis=-1)
            turned[..., : d.R] = both.reshape(*x.shape[:-1], d.R)
        return turned


def by_component(d: Dims, x: Array, cos: Array, sin: Array, layout: Layout, pairs: tuple[slice, slice]) -> Array:
    """The rotation with a table entry for each component: x * cos + partner * sin."""
    turned, partner = x.copy(), np.zeros_like(x[..., : d.R])
    first, second = pairs
    partner[..., first], partner[..., second] = -x[..., second], x[..., first]
    turned[..., : d.R] = x[..., : d.R] * cos + partner * sin
    return turned


@mutant(killed_by=("ROPE-NORM", "ROPE-LAYOUT"))
class TableTiledForInterleaved(NumpyBackend):
    """Interleaved pairs meet a table that was laid out for halves: both components of a pair have other angles."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        if layout == "half":
            return super()._turned(d, x, cos, sin, layout)
        cos, sin = (np.concatenate([entry, entry], axis=-1) for entry in (cos, sin))
        return by_component(d, x, cos, sin, layout, self._pairs(d, layout))


@mutant(killed_by=("ROPE-NORM", "ROPE-LAYOUT"))
class TableRepeatedForHalf(NumpyBackend):
    """Halves meet a table that was laid out for neighbours."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        if layout == "interleaved":
            return super()._turned(d, x, cos, sin, layout)
        cos, sin = (np.repeat(entry, 2, axis=-1) for entry in (cos, sin))
        return by_component(d, x, cos, sin, layout, self._pairs(d, layout))


@mutant(killed_by=("ROPE-LAYOUT-PERMUTE", "ROPE-LAYOUT"))
class InterleavedFromTheSlowest(NumpyBackend):
    """In the layout interleaved the slowest pair comes first."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        if layout == "interleaved":
            cos, sin = cos[..., ::-1], sin[..., ::-1]
        return super()._turned(d, x, cos, sin, layout)


@mutant(killed_by=("ROPE-FORMULA", "ROPE-LAYOUT"))
class TurnedTheOtherWay(NumpyBackend):
    """The sine has the wrong sign: scores of queries and keys do not show it."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return cos, -sin


@mutant(killed_by=("ROPE-ZERO", "ROPE-FORMULA"))
class CosineAndSineSwapped(NumpyBackend):
    """The table holds the sine where the cosine belongs."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        cos, sin = super()._table(angles, magnitude)
        return sin, cos


@mutant(killed_by=("ROPE-NORM", "ROPE-FORMULA"))
class OneSignMissing(NumpyBackend):
    """Both components add their partner: a shear instead of a rotation."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        first, second = self._pairs(d, layout)
        turned[..., first] = x[..., first] * cos + x[..., second] * sin
        return turned


@mutant(killed_by=("ROPE-FORMULA", "ROPE-POSITIONS"))
class NotRotated(NumpyBackend):
    """The vectors stay as they are."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        return x.copy()


@mutant(killed_by=("ROPE-ZERO", "ROPE-COMPOSE", "ROPE-FORMULA"))
class PositionsFromOne(NumpyBackend):
    """The first position counts as one."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(positions + 1, frequencies)


@mutant(killed_by=("ROPE-PAIR-ZERO", "ROPE-FORMULA"), reports=("lablup/mlxcel#1324",))
class PositionsDoubled(NumpyBackend):
    """Every position counts twice."""

    def _angles(self, positions: Array, frequencies: Array) -> Array:
        return super()._angles(2 * positions, frequencies)


@mutant(killed_by=("ROPE-PAIR-ZERO", "ROPE-FORMULA"))
class FrequenciesOffByATenthPercent(NumpyBackend):
    """Every frequency is 0.1 % too large."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return super()._frequencies(d, base) * 1.001


@mutant(killed_by=("ROPE-PAIR-ZERO",))
class FirstFrequencyOffByAMillionth(NumpyBackend):
    """The first pair turns by 1.000001 radians a position."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        w = super()._frequencies(d, base)
        w[0] *= 1.000001
        return w


@mutant(killed_by=("ROPE-ANGLE", "ROPE-FORMULA"))
class BaseOfTenThousandAndOne(NumpyBackend):
    """The base is 10001 where 10000 is asked for."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return super()._frequencies(d, 10001.0 if base == 10000.0 else base)


@mutant(killed_by=("ROPE-BASE",), reports=("deepspeedai/DeepSpeed#4442", "Lightning-AI/litgpt#2217"), catalogue="M31")
class BaseIgnored(NumpyBackend):
    """The base is 10000, whatever is asked for."""

    def _frequencies(self, d: Dims, base: float) -> Array:
        return super()._frequencies(d, 10000.0)


@mutant(killed_by=("ROPE-FORMULA", "ROPE-BASE"))
class ExponentByIndex(NumpyBackend):
    """The exponent is i / R, half of what it should be."""

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d) / 2


@mutant(killed_by=("ROPE-PAIR-ZERO", "ROPE-FORMULA"))
class ExponentFromOne(NumpyBackend):
    """The first pair has the exponent of the second."""

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d) + 2 / d.R


@mutant(killed_by=("ROPE-FORMULA", "ROPE-BASE"))
class ExponentUpToOne(NumpyBackend):
    """The exponent is 2 i / (R - 2), so that the last pair has the base itself as period."""

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d) * d.R / max(d.R - 2, 1)


@mutant(killed_by=("ROPE-FORMULA",))
class SlowestPairFirst(NumpyBackend):
    """The frequencies run from the slowest to the fastest."""

    def _exponents(self, d: Dims) -> Array:
        return super()._exponents(d)[::-1]


@mutant(killed_by=("ROPE-FORMULA",))
class LastPairForgotten(NumpyBackend):
    """The last of several pairs is not rotated."""

    def _turned(self, d: Dims, x: Array, cos: Array, sin: Array, layout: Layout) -> Array:
        turned = super()._turned(d, x, cos, sin, layout)
        last = [part.indices(d.D) for part in self._pairs(d, layout)]
        if d.R > 2:
            for start, stop, step in last:
                at = range(start, stop, step)[-1]
                turned[..., at] = x[..., at]
        return turned


@mutant(killed_by=("ROPE-NORM", "ROPE-FORMULA"))
class ResultOffByATenthPercent(NumpyBackend):
    """Rotated components are 0.1 % too long away from position zero."""

    def _table(self, angles: Array, magnitude: float) -> tuple[Array, Array]:
        return super()._table(angles, np.where(angles == 0, 1.0, 1.001) * magnitude)  # type: ignore[arg-type]
