"""Wrong diagonals, and causal forgotten on some path."""

from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims, Window

Given = Array | None


def band(d: Dims, offset: int) -> Array:
    """Key j is visible to query i iff j <= i + offset."""
    return np.asarray(np.arange(d.S) <= np.arange(d.T)[:, None] + offset)[None, None]


@mutant(
    killed_by=("ATTN-CAUSAL-ALIGN", "ATTN-CAUSAL-LEAK", "ATTN-INTERSECT"),
    reports=(
        "pytorch/pytorch#103082",
        "pytorch/executorch#21749",
        "EleutherAI/gpt-neox#1178",
        "google/flax#5591",
        "onnx/onnx#8054",
    ),
)
class CausalTopLeft(NumpyBackend):
    """The diagonal begins at the first key, whatever the lengths are."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, False, window)
        return visible & band(d, 0) if causal else visible


@mutant(
    killed_by=("ATTN-CAUSAL-ALIGN", "ATTN-INTERSECT"),
    reports=(
        "hyprstream/hyprstream#1521",
        "gittensor-ai-lab/sparkinfer#3",
        "huggingface/candle#3743",
        "meta-llama/llama#899",
    ),
    catalogue="M06",
)
class CausalTopLeftInChunks(NumpyBackend):
    """The diagonal begins at the first key whenever there are several queries."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, causal and d.T == 1, window)
        return visible & band(d, 0) if causal and d.T > 1 else visible


@mutant(killed_by=("ATTN-CAUSAL-ALIGN",), reports=("ml-explore/mlx#2835", "ml-explore/mlx#2967"))
class CausalTopLeftWhenTall(NumpyBackend):
    """The diagonal ends at the last key, unless there are more queries than keys."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, False, window)
        return visible & band(d, max(d.S - d.T, 0)) if causal else visible


@mutant(killed_by=("ATTN-CAUSAL-ALIGN", "ATTN-INTERSECT"))
class CausalExcludesItself(NumpyBackend):
    """A query does not see the key at its own position, unless it sees no other."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, causal, window)
        first = np.arange(d.T)[:, None] == d.T - d.S
        return visible & (band(d, d.S - d.T - 1) | first) if causal else visible


@mutant(killed_by=("ATTN-CAUSAL-LEAK", "ATTN-CAUSAL-ALIGN", "ATTN-INTERSECT"))
class CausalSeesTheNext(NumpyBackend):
    """A query also sees the key behind its own position."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, False, window)
        return visible & band(d, d.S - d.T + 1) if causal else visible


@mutant(
    killed_by=("ATTN-CAUSAL-LEAK",),
    reports=("pytorch/pytorch#195910",),
    catalogue="M09",
    dtypes=("float16", "bfloat16"),
)
class CausalOncePerFourQueries(NumpyBackend):
    """In half precision the diagonal is looked up once for every four queries, at the last of them."""

    steps = 1

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        self.steps = 4 if q.dtype.itemsize == 2 else 1
        return super().attention(q, k, v, **options)

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        visible = super()._visible(d, mask, bias, False, window)
        last = np.minimum(np.arange(d.T) // self.steps * self.steps + self.steps - 1, d.T - 1)
        return visible & band(d, d.S - d.T)[:, :, last] if causal else visible


@mutant(
    killed_by=("ATTN-CAUSAL-LEAK", "ATTN-INTERSECT"),
    reports=("keras-team/keras#23038", "keras-team/keras#23040"),
    catalogue="M08",
)
class CausalForgottenWithMask(NumpyBackend):
    """A mask replaces the diagonal instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal and mask is None, window)


@mutant(killed_by=("ATTN-CAUSAL-LEAK", "ATTN-INTERSECT"))
class CausalForgottenWithBias(NumpyBackend):
    """A bias takes a path that knows no causal."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal and bias is None, window)


@mutant(killed_by=("ATTN-CAUSAL-LEAK",))
class CausalForgottenWithScale(NumpyBackend):
    """A given scale takes a path that knows no causal."""

    def attention(
        self, q: Array, k: Array, v: Array, *, causal: bool = False, scale: float | None = None, **options: Any
    ) -> Array:
        return super().attention(q, k, v, causal=causal and scale is None, scale=scale, **options)


@mutant(killed_by=("ATTN-INTERSECT", "ATTN-CAUSAL-LEAK"))
class CausalForgottenWithWindow(NumpyBackend):
    """A window says all that is said about positions: causal is not looked at."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal and window is None, window)


@mutant(killed_by=("ATTN-CAUSAL-LEAK",))
class CausalForgottenOnViews(NumpyBackend):
    """Operands that are not contiguous take a path that knows no causal."""

    def attention(self, q: Array, k: Array, v: Array, *, causal: bool = False, **options: Any) -> Array:
        return super().attention(q, k, v, causal=causal and q.flags.c_contiguous, **options)


@mutant(killed_by=("ATTN-CAUSAL-LEAK", "ATTN-CAUSAL-ALIGN"), reports=("mlx-node/mlx-node#24",))
class CausalOnlyWhenSquare(NumpyBackend):
    """A later chunk, with more keys than queries, is bidirectional."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal and d.T == d.S, window)


@mutant(
    killed_by=("ATTN-CAUSAL-LEAK", "ATTN-CAUSAL-ALIGN"),
    reports=("osaurus-ai/vmlx-swift#185", "sonos/torch-to-nnef#217"),
)
class CausalNeedsMask(NumpyBackend):
    """Without a mask, causal is taken to be somebody else's work."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal and mask is not None, window)


@mutant(killed_by=("ATTN-FORMULA", "ATTN-COUNT"), reports=("osaurus-ai/vmlx-swift#185",))
class CausalUninvited(NumpyBackend):
    """Without a mask, causal is assumed."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal or mask is None, window)


@mutant(killed_by=("ATTN-CAUSAL-LEAK", "ATTN-CAUSAL-ALIGN"))
class CausalIgnored(NumpyBackend):
    """Causal changes nothing."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, False, window)
