"""Wrong windows."""

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.attention import Dims, Window

Given = Array | None


class OtherWindow(NumpyBackend):
    """The window is another than the one given."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left, right)

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        if window is not None:
            window = self._window(*window, causal)
        return super()._visible(d, mask, bias, causal, window)


@mutant(
    killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"),
    reports=("huggingface/transformers#39408", "huggingface/transformers#40163", "vllm-project/vllm#3385"),
    catalogue="M19",
)
class WindowOneTooWide(OtherWindow):
    """The window reaches one key further to the left."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left if left is None else left + 1, right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"), reports=("huggingface/transformers#29623",))
class WindowOneTooNarrow(OtherWindow):
    """The left side of the window counts the query's own key."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left and left - 1, right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowOneTooWideToTheRight(OtherWindow):
    """The window reaches one key further to the right."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left, right if right is None else right + 1)


@mutant(
    killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"),
    reports=("huggingface/transformers#35924", "huggingface/transformers#35691"),
)
class WindowIgnored(OtherWindow):
    """The window is accepted and not used."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return None


@mutant(killed_by=("ATTN-WINDOW",), reports=("jax-ml/jax#39576",), catalogue="M21")
class WindowLosesItsRightBound(OtherWindow):
    """A window (left, 0) without causal is passed on as its left bound alone."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left, right or None if not causal else right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowOnTheLeftOnly(OtherWindow):
    """The right side of the window is ignored."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left, None)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowOnTheRightOnly(OtherWindow):
    """The left side of the window is ignored."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (None, right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowOfZeroIsOpen(OtherWindow):
    """A left side of zero is taken for none."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left or None, right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"), reports=("NVIDIA/TransformerEngine#3528",))
class OpenSideTakenLiterally(OtherWindow):
    """An open left side is passed on as -1, and the next layer reads it as a number."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (-1 if left is None else left, right)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowSymmetric(OtherWindow):
    """The left side is used for both."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (left, left)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowMirrored(OtherWindow):
    """Left and right are exchanged."""

    def _window(self, left: int | None, right: int | None, causal: bool) -> Window | None:
        return (right, left)


@mutant(killed_by=("ATTN-WINDOW",))
class WindowInBlocks(NumpyBackend):
    """A block of eight queries shares the widest window among them."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        if window is not None:
            exact = super()._visible(d, None, None, False, window)
            starts = np.arange(0, d.T, 8)
            shared = np.repeat(np.logical_or.reduceat(exact, starts, axis=2), 8, axis=2)[:, :, : d.T] if d.T else exact
            return super()._visible(d, mask, bias, causal, None) & shared
        return super()._visible(d, mask, bias, causal, window)


@mutant(killed_by=("ATTN-WINDOW",), reports=("jax-ml/jax#32300",), catalogue="M20")
class WindowNeedsMask(NumpyBackend):
    """The window is used only where there is a mask, a bias or causal as well."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        other = causal or mask is not None or bias is not None
        return super()._visible(d, mask, bias, causal, window if other else None)


@mutant(killed_by=("ATTN-INTERSECT", "ATTN-WINDOW"))
class WindowForgottenWithMask(NumpyBackend):
    """A mask replaces the window instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal, window if mask is None else None)


@mutant(killed_by=("ATTN-INTERSECT",))
class WindowForgottenWithBias(NumpyBackend):
    """A bias replaces the window instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal, window if bias is None else None)


@mutant(killed_by=("ATTN-INTERSECT",))
class WindowForgottenWithCausal(NumpyBackend):
    """Causal replaces the window instead of joining it."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal, None if causal else window)


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"))
class WindowTopLeft(NumpyBackend):
    """The window is centred on the query's own number, not aligned with the last key."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        left, right = window or (None, None)
        distance = np.arange(d.S) - np.arange(d.T)[:, None]
        near = distance >= -(d.S + d.T if left is None else left)
        near &= distance <= (d.S + d.T if right is None else right)
        return super()._visible(d, mask, bias, causal, None) & near


@mutant(killed_by=("ATTN-WINDOW", "ATTN-INTERSECT"), reports=("lucidrains/x-transformers#90",))
class WindowOfAnEarlierCall(NumpyBackend):
    """The band of a window is kept by its size and used again for another window."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.kept: dict[tuple[int, int], Array] = {}

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        if window is None:
            return super()._visible(d, mask, bias, causal, window)
        band = self.kept.setdefault((d.T, d.S), super()._visible(d, None, None, False, window))
        return super()._visible(d, mask, bias, causal, None) & band


@mutant(killed_by=("ATTN-MASK", "ATTN-WINDOW"), reports=("ml-explore/mlx#3360",))
class KeyNumberInSixteenBits(NumpyBackend):
    """The number of a key is held in 16 bits and wraps beyond 32767: what hides it is read from another place."""

    def _visible(self, d: Dims, mask: Given, bias: Given, causal: bool, window: Window | None) -> Array:
        return super()._visible(d, mask, bias, causal, window)[..., np.arange(d.S).astype(np.int16)]
