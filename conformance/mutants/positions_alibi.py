"""Wrong linear biases: slopes, distances, extents."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.positions_sinusoidal import of_the_first
from gaugeblock.spec.conventions import Conventions


@mutant(
    killed_by=("ALIBI-SLOPES-ANY",),
    reports=("ml-explore/mlx#3071", "ml-explore/mlx#343", "huggingface/transformers#28380"),
    catalogue="M40",
)
class PlainGeometricSlopes(NumpyBackend):
    """The slopes are one geometric sequence for every number of heads, and the convention is not declared."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return self._alibi_sequence(n_heads)


@mutant(killed_by=("ALIBI-SLOPES-ANY",))
class GeometricDeclared(NumpyBackend):
    """Geometric slopes are declared, and not kept."""

    conventions = Conventions(alibi_slopes="geometric")


@mutant(killed_by=("ALIBI-SLOPES", "ALIBI-BIAS"), reports=("paiml/aprender#2143",))
class FirstSlopeIsOne(NumpyBackend):
    """Exponents are counted from 0: the first slope is 1."""

    def _alibi_sequence(self, n: int) -> Array:
        return np.asarray(2.0 ** (-8 * np.arange(n) / n))


@mutant(killed_by=("ALIBI-SLOPES", "ALIBI-BIAS"))
class SlopesReversed(NumpyBackend):
    """The first head has the smallest slope."""

    def _alibi_sequence(self, n: int) -> Array:
        return super()._alibi_sequence(n)[::-1]


@mutant(killed_by=("ALIBI-SLOPES-ANY",))
class SlopesSorted(NumpyBackend):
    """The slopes are sorted, so that those in between stand in between."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return np.sort(super()._alibi_slopes(n_heads))[::-1]


@mutant(killed_by=("ALIBI-SLOPES-ANY",))
class SlopesOfTheNextPower(NumpyBackend):
    """Other head counts take the first slopes of the next power of two."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        return self._alibi_sequence(1 << (n_heads - 1).bit_length())[:n_heads]


@mutant(killed_by=("ALIBI-SLOPES-ANY",))
class SlopesBetweenFromTheSecond(NumpyBackend):
    """Of twice as many heads the second, fourth, sixth … slopes are taken."""

    def _alibi_slopes(self, n_heads: int) -> Array:
        lower = 2 ** (n_heads.bit_length() - 1)
        between = self._alibi_sequence(2 * lower)[1::2]
        return np.concatenate([self._alibi_sequence(lower), between[: n_heads - lower]])


@mutant(killed_by=("ALIBI-SLOPES", "ALIBI-BIAS"))
class SlopesOffByAThousandth(NumpyBackend):
    """Slopes are 1.001 times too steep."""

    def _alibi_sequence(self, n: int) -> Array:
        return 1.001 * super()._alibi_sequence(n)


@mutant(killed_by=("ALIBI-SLOPES", "ALIBI-BIAS"), dtypes=("bfloat16",))
class SlopesOffByAHundredth(NumpyBackend):
    """Slopes are 1.01 times too steep."""

    def _alibi_sequence(self, n: int) -> Array:
        return 1.01 * super()._alibi_sequence(n)


@mutant(killed_by=("ALIBI-BIAS",))
class OneSlopeForAllHeads(NumpyBackend):
    """Every head has the slope of the first."""

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        return super()._alibi_product(np.full_like(slopes, slopes[0]), distances)


@mutant(killed_by=("ALIBI-DECAY", "ALIBI-BIAS"))
class SignPositive(NumpyBackend):
    """The bias rewards distance."""

    def _alibi_product(self, slopes: Array, distances: Array) -> Array:
        return -super()._alibi_product(slopes, distances)


@mutant(killed_by=("ALIBI-BOTH-WAYS", "ALIBI-DECAY", "ALIBI-BIAS"))
class DistanceWithoutBars(NumpyBackend):
    """The bias is -m (i - j): it rewards the future."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return np.asarray(np.atleast_2d(query)[:, None, :, None] - np.atleast_2d(key)[:, None, None, :])


@mutant(killed_by=("ALIBI-BOTH-WAYS", "ALIBI-BIAS"))
class FutureHasNoDistance(NumpyBackend):
    """Keys after the query have no bias."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        distance = np.atleast_2d(query)[:, None, :, None] - np.atleast_2d(key)[:, None, None, :]
        return np.asarray(np.maximum(distance, 0))


@mutant(killed_by=("ALIBI-BOTH-WAYS", "ALIBI-BIAS"))
class FutureHalfAsFar(NumpyBackend):
    """Keys after the query count half."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        distance = np.atleast_2d(query)[:, None, :, None] - np.atleast_2d(key)[:, None, None, :]
        return np.asarray(np.where(distance < 0, -0.5 * distance, distance))


@mutant(killed_by=("ALIBI-SHIFT", "ALIBI-BIAS", "ALIBI-ONE-QUERY"), reports=("Dao-AILab/flash-attention#540",))
class KeyOnlyUndeclared(NumpyBackend):
    """The bias is the slope times the key's position, and the convention is not declared."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return np.asarray(-np.atleast_2d(key)[:, None, None, :] + 0 * np.atleast_2d(query)[:, None, :, None])


@mutant(killed_by=("ALIBI-BIAS",))
class KeyOnlyDeclared(NumpyBackend):
    """key_only is declared, and not kept."""

    conventions = Conventions(alibi_bias="key_only")


@mutant(
    killed_by=("ALIBI-ONE-QUERY", "ALIBI-BIAS"),
    reports=("keras-team/keras-hub#2861", "keras-team/keras-hub#2977", "HabanaAI/vllm-fork#503"),
)
class BiasOfOneQueryIsZero(NumpyBackend):
    """The bias is built over the queries: a single one has no distance to anything."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        distances = super()._alibi_distances(query, key)
        return 0 * distances if query.shape[-1] == 1 else distances


@mutant(killed_by=("ALIBI-ONE-QUERY", "ALIBI-BIAS"), reports=("HabanaAI/vllm-fork#503",))
class QueriesCountedAnew(NumpyBackend):
    """Queries stand at 0 to T - 1, whatever their positions."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(np.broadcast_to(np.arange(query.shape[-1]), query.shape), key)


@mutant(killed_by=("POS-ANY-ORDER", "ALIBI-BIAS", "ALIBI-DISTANCE"))
class PositionsOfBiasCountedAnew(NumpyBackend):
    """Keys stand at 0 to S - 1, the last T of them are the queries, whatever their positions."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        T, S = query.shape[-1], key.shape[-1]
        counted = np.broadcast_to(np.arange(S - T, S), query.shape), np.broadcast_to(np.arange(S), key.shape)
        return super()._alibi_distances(*counted)


@mutant(killed_by=("POS-ROWS",), reports=("Blaizzy/mlx-vlm#1883",))
class BiasRowsShareTheFirst(NumpyBackend):
    """Every batch row has the positions of the first."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(of_the_first(query), of_the_first(key))


@mutant(killed_by=("ALIBI-BOTH-WAYS", "ALIBI-BIAS"))
class DistanceOneTooLarge(NumpyBackend):
    """A position is at distance one from itself; a softmax does not see it."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return super()._alibi_distances(query, key) + 1


@mutant(killed_by=("ALIBI-DISTANCE", "ALIBI-BIAS"))
class DistanceCapped(NumpyBackend):
    """Distances end at 128."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return np.minimum(super()._alibi_distances(query, key), 128)


@mutant(killed_by=("ALIBI-BIAS",))
class DistanceLogarithmic(NumpyBackend):
    """The bias falls with the logarithm of the distance."""

    def _alibi_distances(self, query: Array, key: Array) -> Array:
        return np.log1p(super()._alibi_distances(query, key))


@mutant(killed_by=("ALIBI-SHIFT", "ALIBI-BOTH-WAYS"))
class ProductsSubtracted(NumpyBackend):
    """Slope times position is rounded to float32 for query and key, and then subtracted."""

    def alibi_bias(
        self, n_heads: int, query_positions: Array, key_positions: Array, *, dtype: str = "float32"
    ) -> Array:
        shape = super().alibi_bias(n_heads, query_positions, key_positions, dtype=dtype)
        m = self._alibi_slopes(n_heads).astype(np.float32)[:, None, None]
        i, j = (np.atleast_2d(p).astype(np.float32) for p in (query_positions, key_positions))
        i, j = m * i[:, None, :, None], m * j[:, None, None, :]
        return np.where(i > j, j - i, np.nextafter(i - j, np.float32(0))).astype(shape.dtype)
