"""LayerNorm and RMSNorm in PyTorch (source 6.2; Ba et al. 2016; Zhang & Sennrich 2019)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from gaugeblock.spec.normalization import LayerNorm, RMSNorm, dims, dtypes, options


class TorchLayerNorm(LayerNorm):
    """F.layer_norm over the last axis; it computes half precision in float32 and rounds once."""

    def layer_norm(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
        M = dims(x.shape, _shape(weight), _shape(bias), method="layer_norm").M
        dtypes(_name(x), _dtype(weight), _dtype(bias), method="layer_norm")
        options(eps, method="layer_norm")
        return F.layer_norm(x, (M,), weight, bias, eps)


class TorchRMSNorm(RMSNorm):
    """F.rms_norm over the last axis; it computes half precision in float32 and rounds once."""

    def rms_norm(self, x: Tensor, weight: Tensor | None, *, eps: float) -> Tensor:
        M = dims(x.shape, _shape(weight), method="rms_norm").M
        dtypes(_name(x), _dtype(weight), method="rms_norm")
        options(eps, method="rms_norm")
        return F.rms_norm(x, [M], weight, eps)


def _shape(x: Tensor | None) -> torch.Size | None:
    return None if x is None else x.shape


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _dtype(x: Tensor | None) -> str | None:
    return None if x is None else _name(x)
