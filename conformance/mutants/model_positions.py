"""Wrong positions in models: counted, shifted, forgotten or added where none belong."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.multihead import View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig, RotaryConfig, StackConfig


@mutant(
    killed_by=("MODEL-POSITIONS", "MODEL-PADDING"),
    reports=("ndif-team/nnsight#673", "huggingface/transformers#22161"),
    catalogue="M38",
)
class PadsCountAsPositions(NumpyBackend):
    """A token's position is its column, pads before it included."""

    def _token_positions(self, real: Array) -> Array:
        return np.asarray(np.where(real, np.arange(real.shape[1]), 0))


@mutant(killed_by=("MODEL-POSITIONS",))
class OnlyLeftPadsAreNotCounted(NumpyBackend):
    """Pads before the first token are not counted, those between tokens are."""

    def _token_positions(self, real: Array) -> Array:
        first = np.argmax(real, axis=1, keepdims=True) if real.shape[1] else 0
        return np.asarray(np.where(real, np.arange(real.shape[1]) - first, 0))


@mutant(killed_by=("MODEL-POSITIONS", "MODEL-PADDING"), reports=("Blaizzy/mlx-vlm#1883",), catalogue="M37")
class PositionsOfTheFirstRowForAll(NumpyBackend):
    """The positions of the first row stand for those of every row."""

    def _token_positions(self, real: Array) -> Array:
        own = super()._token_positions(real)
        return np.asarray(np.broadcast_to(own[:1], own.shape)) if len(own) else own


@mutant(killed_by=("MODEL-POSITIONS",), reports=("huggingface/transformers#20761", "huggingface/transformers#19240"))
class PositionsBeginAtTwo(NumpyBackend):
    """The first two rows of the table of positions are left out."""

    def _position_rows(self, positions: Array, weights: Weights, c: StackConfig, dtype: str) -> Array:
        last = c.max_positions - 1 if c.positions == "learned" else 2**20
        return super()._position_rows(np.minimum(positions + 2, last), weights, c, dtype)


@mutant(killed_by=("MODEL-POSITIONS", "MODEL-ORDER"))
class EveryTokenStandsFirst(NumpyBackend):
    """Positions are looked up, rotated by and biased with, but as if every token stood first."""

    def _token_positions(self, real: Array) -> Array:
        return np.zeros(real.shape, np.int64)


@mutant(killed_by=("MODEL-POSITIONS",))
class PositionsAddedTwice(NumpyBackend):
    """The rows of the positions are added twice."""

    def _add_positions(self, x: Array, rows: Array) -> Array:
        return super()._add_positions(super()._add_positions(x, rows), rows)


@mutant(killed_by=("MODEL-EQUIVARIANT",))
class PositionsAddedUnasked(NumpyBackend):
    """Where no positions are configured, the first component counts them."""

    def _embed(self, x: Array, weights: Weights, c: StackConfig, positions: Array) -> Array:
        made = super()._embed(x, weights, c, positions)
        if c.positions is None and c.block.attention.rotary is None and not c.block.attention.alibi:
            made = made.copy()
            made[..., 0] += (np.broadcast_to(positions, made.shape[:2]) / 8).astype(made.dtype)
        return made


@mutant(killed_by=("MODEL-POSITIONS",))
class RotatedByColumn(NumpyBackend):
    """Queries and keys are rotated by their column, pads included."""

    def _rotated(self, q: Array, k: Array, positions: Array, rotary: RotaryConfig) -> tuple[Array, Array]:
        return super()._rotated(q, k, np.arange(q.shape[2]), rotary)


@mutant(killed_by=("MODEL-POSITIONS",))
class PenaltyByColumn(NumpyBackend):
    """Linear biases go by the distance of columns, pads between them included."""

    def _distance_bias(self, view: View, c: AttentionConfig, dtype: str) -> Array | None:
        columns = view._replace(queries=_columns(view.queries), keys=_columns(view.keys))
        return super()._distance_bias(columns, c, dtype)


@mutant(killed_by=("MODEL-POSITIONS",))
class WindowOfAModelByColumn(NumpyBackend):
    """A window goes by the distance of columns, pads between them included."""

    def _near(self, view: View, window: Window) -> Array:
        return super()._near(view._replace(queries=_columns(view.queries), keys=_columns(view.keys)), window)


@mutant(killed_by=("MODEL-STACK", "MODEL-ENCODE"), reports=("huggingface/transformers#35924",), catalogue="M20")
class WindowOfAModelIgnored(NumpyBackend):
    """A window is configured, and everything is seen."""

    def _visible_keys(self, view: View, window: Window | None) -> Array | None:
        return super()._visible_keys(view, None)


@mutant(killed_by=("MODEL-STATELESS",), reports=("lucidrains/x-transformers#90",))
class PositionsOfTheCallBefore(NumpyBackend):
    """Positions are kept, and used again for the next call of the same shape."""

    kept: Array | None = None

    def _token_positions(self, real: Array) -> Array:
        before, self.kept = self.kept, super()._token_positions(real)
        return self.kept if before is None or before.shape != real.shape else before


@mutant(killed_by=("MODEL-ROOM",))
class PadsTakeRowsOfTheTable(NumpyBackend):
    """Pads, too, must have a row in the table of positions."""

    def _token_positions(self, real: Array) -> Array:
        return np.asarray(np.cumsum(real, axis=1) - real)


@mutant(killed_by=("MODEL-ROOM",))
class LastRowOfTheTableForAllBeyond(NumpyBackend):
    """Tokens beyond the table of positions take its last row."""

    def _check_room(self, real: Array, positions: Array, c: StackConfig, where: str) -> None:
        return

    def _position_rows(self, positions: Array, weights: Weights, c: StackConfig, dtype: str) -> Array:
        last = c.max_positions - 1 if c.positions == "learned" else 2**20
        return super()._position_rows(np.minimum(positions, last), weights, c, dtype)


def _columns(positions: Array) -> Array:
    return np.arange(positions.shape[-1])
