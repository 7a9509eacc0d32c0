"""Heads that stand in the wrong place: rotation, linear biases, positions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import View
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, RotaryConfig

Weights = Mapping[str, Array]


@mutant(killed_by=("MHA-ALIBI", "MHA-ORDER"))
class DistanceForgotten(NumpyBackend):
    """ALiBi is configured and ignored."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        super()._distance_bias(view, c, dtype)
        return None


@mutant(killed_by=("MHA-ALIBI", "MHA-POSITIONS"))
class DistanceByColumn(NumpyBackend):
    """ALiBi goes by column."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        keys, queries = np.arange(view.keys.shape[-1]), np.arange(view.queries.shape[-1])
        return super()._distance_bias(view._replace(keys=keys, queries=queries), c, dtype)


@mutant(killed_by=("MHA-ALIBI",))
class DistanceScaled(NumpyBackend):
    """ALiBi is added before scores are scaled."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        bias, scale = options.get("bias"), options.get("scale")
        if bias is not None:
            by = q.shape[-1] ** -0.5 if scale is None else scale
            options["bias"] = round_once(upcast(bias) * by, bias.dtype)
        return super().attention(q, k, v, **options)


@mutant(killed_by=("MHA-ALIBI",))
class DistanceOfSharedHeads(NumpyBackend):
    """The slope of a head is that of the first head of its group."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        bias = options.get("bias")
        if bias is not None:
            group = q.shape[1] // k.shape[1]
            options["bias"] = np.repeat(bias[:, ::group], group, axis=1)
        return super().attention(q, k, v, **options)


@mutant(killed_by=("MHA-ROTARY", "MHA-ORDER"))
class RotationForgotten(NumpyBackend):
    """A rotation is configured and ignored."""

    def _rotate_heads(self, x: Array, positions: Array, c: RotaryConfig) -> Array:
        return x


@mutant(killed_by=("MHA-RELATIVE", "MHA-ROTARY"))
class OnlyQueriesTurn(NumpyBackend):
    """Keys stay as they are projected."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        return super()._rotated(q, k, positions, rotary)[0], self._tap("rotated_key", k)


@mutant(killed_by=("MHA-ROTARY",))
class ValuesTurnToo(NumpyBackend):
    """Values turn with their keys, where they are as wide."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        self.turn = lambda v: self._rotate_heads(v, positions, rotary)
        return super()._rotated(q, k, positions, rotary)

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        turn = self.__dict__.pop("turn", None)
        return super().attention(q, k, turn(v) if turn and v.shape == k.shape else v, **options)


@mutant(killed_by=("MHA-ROTARY",))
class TurnedBeforeTheSplit(NumpyBackend):
    """All heads together turn as one wide vector."""

    def _rotate_heads(self, x: Array, positions: Array, c: RotaryConfig) -> Array:
        return self._split(super()._rotate_heads(self._join(x)[:, None], positions, c)[:, 0], x.shape[1])


@mutant(killed_by=("MHA-ROTARY",))
class FirstKeyHeadTurns(NumpyBackend):
    """Of several key/value heads only the first turns."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        turned, keys = super()._rotated(q, k, positions, rotary)
        return turned, self._tap("rotated_key", np.concatenate([keys[:, :1], k[:, 1:]], axis=1))


@mutant(killed_by=("MHA-ROTARY", "MHA-POSITIONS"))
class RotaryOptionsLost(NumpyBackend):
    """A rotation has its standard base, layout and width, whatever is configured."""

    def _rotate_heads(self, x: Array, positions: Array, c: RotaryConfig) -> Array:
        return super()._rotate_heads(x, positions, RotaryConfig() if x.shape[-1] % 2 == 0 else c)


@mutant(killed_by=("MHA-POSITIONS", "MHA-ROTARY", "MHA-ALIBI", "MHA-WINDOW"))
class PositionsForgotten(NumpyBackend):
    """Tokens stand at their columns, whatever positions say."""

    def _self_attention(self, x: Array, weights: Weights, c: AttentionConfig, view: View, *rest: Any) -> Array:
        columns = np.arange(x.shape[1])
        return super()._self_attention(x, weights, c, view._replace(queries=columns, keys=columns), *rest)


@mutant(killed_by=("MHA-POSITIONS", "MHA-ROTARY"), reports=("Blaizzy/mlx-vlm#1883", "rasbt/reasoning-from-scratch#33"))
class PositionsOfTheFirstRowInALayer(NumpyBackend):
    """The first row's positions hold for the whole batch."""

    def _self_attention(self, x: Array, weights: Weights, c: AttentionConfig, view: View, *rest: Any) -> Array:
        first = np.atleast_2d(view.queries)[0]
        return super()._self_attention(x, weights, c, view._replace(queries=first, keys=first), *rest)


@mutant(killed_by=("MHA-POSITIONS", "MHA-ROTARY"))
class PositionsFromTheStart(NumpyBackend):
    """The gaps of positions are kept and their start is lost, which no difference of two shows."""

    def _rotate_heads(self, x: Array, positions: Array, c: RotaryConfig) -> Array:
        return super()._rotate_heads(x, positions - np.min(positions, axis=-1, keepdims=True, initial=2**24), c)


@mutant(killed_by=("MHA-RELATIVE", "MHA-ROTARY"))
class KeysTurnByColumn(NumpyBackend):
    """Queries turn by position, keys by column."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        keys = self._tap("rotated_key", self._rotate_heads(k, np.arange(k.shape[2]), rotary))
        return super()._rotated(q, k, positions, rotary)[0], self._tap("rotated_key", keys)
