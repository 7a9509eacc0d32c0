"""Heads that see the wrong keys: masks, causality, windows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.multihead import View
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig

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


@mutant(killed_by=("MHA-MASK", "MHA-INERT"), reports=("pytorch/pytorch#86120", "pytorch/pytorch#106630"))
class MaskDroppedOnTheFastPath(NumpyBackend):
    """Where no intermediates are shown another path is taken, which forgets the mask."""

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **given: Any) -> Array:
        whole = super().multi_head_attention(x, weights, config, **given)  # refuses what is to be refused
        if self._taps is not None or given.get("mask") is None:
            return whole
        return super().multi_head_attention(x, weights, config, **{**given, "mask": None})
