"""Heads that see the wrong keys, or stand in the wrong place: masks, causality, windows, rotation, linear biases."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import View
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig, RotaryConfig

Weights = Mapping[str, Array]


class SeesDifferently(NumpyBackend):
    """Changes what a call of attention is told to see."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, k, v, **self._seen(q.shape, k.shape[2], options))

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


@mutant(killed_by=("MHA-MASK",), reports=("pytorch/pytorch#39321",))
class MaskSaysWhatIsHidden(SeesDifferently):
    """True in the caller's mask hides a key."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        mask = options.get("mask")
        return {**options, "mask": None if mask is None else ~mask}


@mutant(killed_by=("MHA-MASK",))
class MaskOfTheFirstHeadInALayer(SeesDifferently):
    """The first head's mask holds for all."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        mask = options.get("mask")
        return {**options, "mask": None if mask is None else mask[:, :1]}


@mutant(killed_by=("MHA-MASK",), reports=("line/lighthouse#77", "ArrowLuo/CLIP4Clip#22"))
class MaskOfAnotherRow(SeesDifferently):
    """Masks of batch rows are tiled along the heads instead of repeated."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        mask = options.get("mask")
        if mask is None or mask.shape[0] == 1:
            return options
        B, H = q[:2]
        one = np.broadcast_to(mask, (B, H, *mask.shape[2:]))[:, 0]
        return {**options, "mask": np.tile(one, (H, 1, 1)).reshape(B, H, *mask.shape[2:])}


@mutant(killed_by=("MHA-MASK",))
class MaskOnTheQueryAxis(SeesDifferently):
    """A mask over keys is laid on the queries where they are as many."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        mask = options.get("mask")
        turns = mask is not None and mask.shape[2:] == (1, S) and q[2] == S
        return {**options, "mask": mask.swapaxes(2, 3) if mask is not None and turns else mask}


@mutant(killed_by=("MHA-CAUSAL", "MHA-ORDER"))
class CausalityForgotten(SeesDifferently):
    """causal=True is accepted and ignored."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "causal": False}


@mutant(killed_by=("MHA-CAUSAL",))
class OwnColumnHidden(SeesDifferently):
    """Causality hides a token from itself, but for the first."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        if not options.get("causal"):
            return options
        earlier = (np.arange(S) < np.arange(q[2])[:, None]) | (np.arange(S) == 0)
        mask = options.get("mask")
        return {**options, "mask": earlier[None, None] if mask is None else earlier & mask}


@mutant(killed_by=("MHA-INTERSECT",), reports=("AI-Hypercomputer/maxtext#878",))
class MaskReplacesCausality(SeesDifferently):
    """Where a mask is given causality is dropped."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "causal": bool(options.get("causal")) and options.get("mask") is None}


@mutant(killed_by=("MHA-REACH",))
class FarKeysHidden(SeesDifferently):
    """Keys sixteen columns away and further are not looked at."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        near = np.abs(np.arange(S) - np.arange(q[2])[:, None]) < 16
        mask = options.get("mask")
        return {**options, "mask": near[None, None] if mask is None else near & mask}


@mutant(killed_by=("MHA-EMPTY-ROW",))
class BlindQueriesSeeAll(SeesDifferently):
    """A query that sees nothing is given the mean of all values."""

    def _seen(self, q: tuple[int, ...], S: int, options: dict[str, Any]) -> dict[str, Any]:
        mask = options.get("mask")
        if mask is None:
            return options
        return {**options, "mask": mask | ~np.any(mask, axis=-1, keepdims=True)}


@mutant(killed_by=("MHA-EMPTY-ROW",))
class BlindQueriesAreNan(NumpyBackend):
    """A query that sees nothing gives NaN."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        mixed, mask = super().attention(q, k, v, **options), options.get("mask")
        seen = np.ones((1, 1, 1, 1), bool) if mask is None else np.any(mask, axis=-1, keepdims=True)
        return np.where(seen, mixed, np.asarray(np.nan, mixed.dtype))


@mutant(killed_by=("MHA-EMPTY-ROW",))
class BlindQueriesLoseTheBias(NumpyBackend):
    """Where no head sees a key the bias of the output is left out."""

    def _output(self, mixed: Array, weights: Weights) -> Array:
        y = super()._output(mixed, weights)
        silent = ~np.any(mixed != 0, axis=(1, 3))[..., None]
        return np.where(silent, np.zeros((), y.dtype), y)


@mutant(killed_by=("MHA-WINDOW",))
class WindowByColumnInALayer(NumpyBackend):
    """A window goes by column, whatever the positions are."""

    def _near(self, view: View, window: Window) -> Array:
        keys, queries = np.arange(view.keys.shape[-1]), np.arange(view.queries.shape[-1])
        return super()._near(view._replace(keys=keys, queries=queries), window)


@mutant(killed_by=("MHA-WINDOW",))
class WindowForgotten(NumpyBackend):
    """A window is ignored."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view, None)


@mutant(killed_by=("MHA-WINDOW",), reports=("jax-ml/jax#32300",))
class WindowNeedsAMask(NumpyBackend):
    """A window is ignored where no mask is given."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view, None if view.mask is None else window)


@mutant(killed_by=("MHA-WINDOW",))
class WindowWithoutItsEdge(NumpyBackend):
    """The keys at a window's left edge are hidden, but for the query itself."""

    def _near(self, view: View, window: Window) -> Array:
        left, right = window
        return super()._near(view, (left - 1 if left else left, right))


@mutant(killed_by=("MHA-INTERSECT",))
class WindowReplacesTheMask(NumpyBackend):
    """Where a window is configured the mask is dropped."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view if window is None else view._replace(mask=None), window)


@mutant(killed_by=("MHA-CAUSAL",))
class CausalByPositionInALayer(NumpyBackend):
    """Causality goes by position, where positions are given."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        mask = super()._visible_keys(view, window)
        if not view.causal:
            return mask
        earlier = self._near(view, (None, 0))
        return earlier if mask is None else earlier & mask


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


@mutant(killed_by=("MHA-MASK", "MHA-INERT"), reports=("pytorch/pytorch#86120", "pytorch/pytorch#106630"))
class MaskDroppedOnTheFastPath(NumpyBackend):
    """Where no intermediates are shown another path is taken, which forgets the mask."""

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **given: Any) -> Array:
        whole = super().multi_head_attention(x, weights, config, **given)  # refuses what is to be refused
        if self._taps is not None or given.get("mask") is None:
            return whole
        return super().multi_head_attention(x, weights, config, **{**given, "mask": None})
