"""Products with weights in PyTorch: how a matrix lies in memory decides how fast a single row passes through it."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 2  # rows; with more of them the product of two matrices is as fast
WIDE = (torch.float32, torch.float64)


def linear(x: Tensor, weights: Mapping[str, Tensor], layer: str) -> Tensor:
    """x @ W + b, where b is there: (..., M) -> (..., F)."""
    W, b = weights[f"{layer}.weight"], weights.get(f"{layer}.bias")
    if not _by_halves(x, W):
        return F.linear(x, W.mT, b)
    y = _few_rows(x, W)
    return y if b is None else y + b


def laid_out(W: Tensor) -> Tensor:
    """W (M, F) with its columns one behind the other on the CPU, the order in which few rows pass fastest."""
    return W.mT.contiguous().mT if W.device.type == "cpu" else W


def _by_halves(x: Tensor, W: Tensor) -> bool:
    rows, (M, wide) = x.shape[:-1].numel(), W.shape
    fits = 0 < rows <= FEW and M > 0 and wide > 0 and wide % 2 == 0
    return fits and x.dtype in WIDE and x.device.type == "cpu" and W.mT.is_contiguous()


def _few_rows(x: Tensor, W: Tensor) -> Tensor:
    """x @ W by halves of W's columns: a batch of products is read at the speed of memory, a single one is not."""
    rows, halves = x.reshape(-1, W.shape[0]), W.mT.view(2, W.shape[1] // 2, W.shape[0])  # (R, M), (2, F/2, M)
    y = torch.bmm(halves, rows.mT.expand(2, -1, -1))  # (2, F/2, R)
    return y.view(W.shape[1], -1).mT.contiguous().view(*x.shape[:-1], W.shape[1])
