"""Activations and feed-forward networks in PyTorch (source 6.3; Vaswani et al. 2017, eq. 2; Shazeer 2020, eq. 6)."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from gaugeblock.backends.torch.products import linear
from gaugeblock.spec.feedforward import (
    Activations,
    FeedForward,
    dtypes,
    elementwise,
    feed_forward_dims,
    swiglu_dims,
)


class TorchActivations(Activations):
    """The kernels of torch.nn.functional, which compute half precision in float32 and round once."""

    def relu(self, x: Tensor) -> Tensor:
        elementwise(_name(x))
        return F.relu(x)

    def gelu(self, x: Tensor, *, approximate: str = "none") -> Tensor:
        elementwise(_name(x), approximate=approximate)
        return F.gelu(x, approximate=approximate)

    def silu(self, x: Tensor, *, beta: float = 1.0) -> Tensor:
        elementwise(_name(x), beta=beta)
        if beta == 1.0:
            return F.silu(x)
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.sigmoid(beta * wide)).to(x.dtype)


class TorchFeedForward(FeedForward):
    """Products and activations in x's own dtype: half precision is rounded after each of them."""

    def feed_forward(self, x: Tensor, weights: Mapping[str, Tensor], *, activation: str) -> Tensor:
        feed_forward_dims(x.shape, {name: w.shape for name, w in weights.items()}, activation)
        dtypes(_name(x), {name: _name(w) for name, w in weights.items()}, "feed_forward")
        return linear(_activate(linear(x, weights, "up"), activation), weights, "down")

    def swiglu(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        swiglu_dims(x.shape, {name: w.shape for name, w in weights.items()})
        dtypes(_name(x), {name: _name(w) for name, w in weights.items()}, "swiglu")
        return linear(F.silu(linear(x, weights, "gate")) * linear(x, weights, "up"), weights, "down")


def _activate(hidden: Tensor, activation: str) -> Tensor:
    if activation == "relu":
        return F.relu(hidden)
    if activation == "silu":
        return F.silu(hidden)
    return F.gelu(hidden, approximate="tanh" if activation == "gelu_tanh" else "none")


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
