"""How the positions and masks of a multi-head attention case are made."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gaugeblock.conformance.recipes import attention, rotary
from gaugeblock.spec import attention as core
from gaugeblock.spec import rotary as turning
from gaugeblock.spec.multihead import Dims
from gaugeblock.spec.positions import Integers
from gaugeblock.spec.reference.bounded import Bits

Rng = np.random.Generator


class Span(NamedTuple):
    """The batch rows and the tokens that have positions."""

    B: int
    T: int


def _near_gaps(d: Span, rng: Rng) -> Integers:
    """In order, with gaps as small as windows are wide."""
    return np.cumsum(rng.integers(1, 4, d.T)) + rng.integers(0, 9)


def _near_rows(d: Span, rng: Rng) -> Integers:
    """In order, every batch row with gaps of its own."""
    return np.cumsum(rng.integers(1, 4, (d.B, d.T)), axis=-1) + rng.integers(0, 9, (d.B, 1))


def _shuffled(d: Span, rng: Rng) -> Integers:
    """Positions run against the columns: what goes by the one is not what goes by the other."""
    order = rng.permutation(d.T)
    return (order[::-1] if np.all(np.diff(order) > 0) else order) + rng.integers(0, 9)


def _by_rotary(name: str) -> Callable[[Span, Rng], Integers]:
    return lambda d, rng: rotary.POSITIONS[name](turning.Dims(d.B, 1, d.T, 2, 2), rng)


POSITIONS: Mapping[str, Callable[[Span, Rng], Integers]] = {
    "start": _by_rotary("start"),
    "offset": _by_rotary("offset"),
    "gaps": _by_rotary("gaps"),
    "same": _by_rotary("same"),
    "near-gaps": _near_gaps,
    "shuffled": _shuffled,
    "rows": _by_rotary("rows"),
    "near-rows": _near_rows,
    "rows-padded": _by_rotary("rows-padded"),
}
ROWS = ("rows", "near-rows", "rows-padded")


def _itself(d: core.Dims, rng: Rng) -> Bits:
    """Every query sees one key, the one in its own column (counted round): each output is one value row."""
    return np.asarray(np.arange(d.S) == np.arange(d.T)[:, None] % max(d.S, 1))[None, None]


def _other(d: core.Dims, rng: Rng) -> Bits:
    """Every head of every query sees one key, any of them."""
    return np.asarray(np.arange(d.S) == rng.integers(0, max(d.S, 1), (d.B, d.H, d.T, 1)))


def _one_head(d: core.Dims, rng: Rng) -> Bits:
    """The last head sees nothing, the others everything."""
    return np.asarray(np.arange(d.H) < d.H - 1)[None, :, None, None]


OWN: Mapping[str, Callable[[core.Dims, Rng], Bits]] = {"itself": _itself, "other": _other, "one-head": _one_head}
MASKS: Mapping[str, Callable[[core.Dims, Rng], Bits]] = {**attention.MASKS, **OWN}
BY_HEAD = ("heads", "other", "one-head")


def mask(name: str, d: Dims, rng: Rng) -> Bits:
    """A mask by its recipe, (B|1, H|1, T|1, S|1)."""
    return MASKS[name](core.Dims(d.B, d.H, d.K, d.T, d.S, d.D, d.E), rng)
