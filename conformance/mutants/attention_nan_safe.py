"""Promises about NaN and infinity behind a mask that are not kept."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.unusual.attention_nan_safe import SelectsTerms


@mutant(
    killed_by=("ATTN-NAN-SAFE",),
    reports=("pytorch/pytorch#101967", "Dao-AILab/flash-attention#1745", "vllm-project/vllm#936"),
    catalogue="M14",
)
class ZeroTimesNan(NumpyBackend):
    """nan_safe is declared, but hidden keys have the weight zero, and zero times NaN is NaN."""

    nan_safe = True


@mutant(killed_by=("ATTN-NAN-SAFE",))
class HiddenScoresAreAddedTo(SelectsTerms):
    """nan_safe is declared, but scores are hidden by adding -inf, which leaves the NaN of a key."""

    def _softmax(self, scores: Array, visible: Array) -> Array:
        return super()._softmax(scores + np.where(visible, 0, -np.inf).astype(scores.dtype), np.array(True))


@mutant(killed_by=("ATTN-NAN-SAFE",))
class CleansNanAlone(SelectsTerms):
    """nan_safe is declared, but infinity times zero is NaN as well."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        terms = weights[..., None] * v[:, :, None]  # (B, H, T, S, E)
        hidden = ~visible[..., None] & np.isnan(v[:, :, None])
        return np.asarray(np.where(hidden, 0, terms).sum(axis=-2))


@mutant(killed_by=("ATTN-NAN-SAFE",))
class CleansWhatNobodySees(SelectsTerms):
    """nan_safe is declared, but only the values that no query of the head sees are cleaned."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        return super()._mixed(weights, v, np.broadcast_to(visible.any(axis=-2, keepdims=True), visible.shape))


@mutant(killed_by=("ATTN-NAN-SAFE",))
class CleansBelowTheDiagonal(SelectsTerms):
    """nan_safe is declared, but kept only for keys behind the query: what causal hides is multiplied by zero."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        T, S = visible.shape[-2:]
        return super()._mixed(weights, v, visible | ~np.tri(T, S, S - T, dtype=bool))


@mutant(killed_by=("ATTN-NONFINITE",))
class CleansWhatIsSeen(SelectsTerms):
    """In the name of nan_safe NaN counts as zero, for queries that see it too."""

    def _mixed(self, weights: Array, v: Array, visible: Array) -> Array:
        return super()._mixed(weights, np.nan_to_num(v), visible)
