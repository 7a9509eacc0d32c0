"""Wrong decoding as servers get it wrong: what is evicted, padded or ended is counted the wrong way."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants import mutant


@mutant(killed_by=("MODEL-CACHED",), reports=("rajveer43/VeloxQuant-MLX#389", "huggingface/transformers#38156"))
class PositionsCountWhatIsRetained(NumpyBackend):
    """Behind a window that is full, a new token's position is the number of tokens that the window holds."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        decoder = model.config.decoder
        window = None if decoder is None else decoder.block.attention.window
        self.held = None if window is None else window[0]
        return super().step(model, tokens, cache, **options)

    def _new_positions(self, positions: Array, start: int) -> Array:
        evicted = 0 if self.held is None else max(start - self.held, 0)
        return np.asarray(np.maximum(super()._new_positions(positions, start) - evicted, 0))


@mutant(killed_by=("MODEL-CACHED", "MODEL-REORDER"), reports=("lablup/mlxcel#76",))
class MaskIsShiftedByLeftPads(NumpyBackend):
    """In a step, as many of the newest columns are hidden as the row has pads in front."""

    def step(self, model: Model, tokens: Array, cache: Cache, **options: Any) -> tuple[Array, Cache]:
        self.stepping = True
        try:
            return super().step(model, tokens, cache, **options)
        finally:
            self.stepping = False

    def _key_mask(self, real: Array) -> Array:
        S = real.shape[1]
        if not getattr(self, "stepping", False) or not S:
            return super()._key_mask(real)
        front = np.where(np.any(real, axis=1), np.argmax(real, axis=1), 0)[:, None]  # (B, 1)
        return super()._key_mask(real & (np.arange(S) < S - front))


@mutant(killed_by=("MODEL-GENERATE-EOS",), reports=("huggingface/optimum-habana#1539",))
class PadsThatAreTheEndEndTheRow(NumpyBackend):
    """A pad in front of the prompt whose id is eos_id ends the row before it begins."""

    def generate(
        self,
        model: Model,
        tokens: Array,
        *,
        token_mask: Array | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        **options: Any,
    ) -> Array:
        made = super().generate(model, tokens, token_mask=token_mask, eos_id=eos_id, pad_id=pad_id, **options)
        if token_mask is None or eos_id is None:
            return made
        ended = np.any((tokens == eos_id) & ~token_mask, axis=1)
        made[ended, tokens.shape[1] :] = eos_id if pad_id is None else pad_id
        return made
