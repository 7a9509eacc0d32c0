"""Rotary position embedding in PyTorch (source 4.3; Su et al. 2021)."""

from math import ceil, floor, log, pi
from typing import Any

import torch
from torch import Tensor

from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.rotary import POSITIONS_END, Rotary, dims, dtypes, in_range, options

Turns = tuple[Tensor, Tensor]  # cosines and sines


class TorchRotary(Rotary):
    """Cosines and sines are made in float64, where the positions lie; heads, queries and keys share them.

    Positions on a device are clamped into their range: reading them back would wait for it.
    """

    def rotate(
        self,
        x: Tensor,
        positions: Tensor,
        *,
        base: float = 10000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
    ) -> Tensor:
        options(base, layout, rotary_dim, scaling)
        d = dims(x.shape, positions.shape, rotary_dim=rotary_dim)
        dtypes(_name(x), _name(positions))
        return self._turned(x, self._turns(positions, d.R, base, scaling, x.dtype), layout)

    def _turns(self, positions: Tensor, R: int, base: float, scaling: Scaling | None, dtype: torch.dtype) -> Turns:
        """magnitude * cos(p w) and magnitude * sin(p w) for x of this dtype: (T, R/2) or (B, 1, T, R/2)."""
        values = _on_host(positions)
        in_range(values)
        if values is None:
            positions = positions.clamp(0, POSITIONS_END - 1)
        p = positions.double() if positions.dim() == 1 else positions.double().unsqueeze(1)
        angles = p.unsqueeze(-1) * _frequencies(R, base, scaling, p.device)
        long, wide = _magnitude(scaling), torch.promote_types(dtype, torch.float32)
        return (long * angles.cos()).to(wide), (long * angles.sin()).to(wide)

    def _turned(self, x: Tensor, turns: Turns, layout: Layout) -> Tensor:
        """The first components of x (B, H, T, D), two for each turn, as pairs turned; the others as they are."""
        R = 2 * turns[0].shape[-1]
        turned = _halves if layout == "half" else _neighbours
        y = turned(x[..., :R].to(turns[0].dtype), *turns).to(x.dtype)
        return y if x.shape[-1] == R else torch.cat((y, x[..., R:]), dim=-1)


def _halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((torch.addcmul(a * cos, b, sin, value=-1), torch.addcmul(b * cos, a, sin)), dim=-1)


def _neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    pairs = (torch.addcmul(a * cos, b, sin, value=-1), torch.addcmul(b * cos, a, sin))
    return torch.stack(pairs, dim=-1).flatten(-2)  # (B, H, T, R/2, 2) -> (B, H, T, R)


def _frequencies(R: int, base: float, scaling: Scaling | None, device: torch.device) -> Tensor:
    """The frequencies (R/2,) in float64, by exponentials."""
    exponents = torch.arange(0, R, 2, dtype=torch.float64, device=device) / R
    plain = torch.exp(-log(base) * exponents)
    match scaling:
        case None:
            return plain
        case Linear(factor):
            return plain / factor
        case NTK(alpha):
            return plain * torch.exp(exponents * (-log(alpha) * R / max(R - 2, 1)))
        case YaRN(factor):
            low, high = _ramp(R, base, scaling)
            pairs = torch.arange(R // 2, dtype=torch.float64, device=device)
            return _blend(plain, ((pairs - low) / (high - low)).clamp(0, 1), factor)
        case Llama3(factor, low, high, original):
            turns = plain * (original / (2 * pi))
            return _blend(plain, 1 - ((turns - low) / (high - low)).clamp(0, 1), factor)


def _ramp(R: int, base: float, scaling: YaRN) -> tuple[float, float]:
    """The pairs between which a YaRN goes over from plain frequencies to divided ones; never the same."""
    ends = (log(scaling.original / (2 * pi * turns)) * (R / 2 / log(base)) for turns in (scaling.fast, scaling.slow))
    low, high = ends
    if scaling.truncate:
        low, high = floor(low), ceil(high)
    low, high = min(max(low, 0), R - 1), min(max(high, 0), R - 1)
    return low, high if high > low else low + 0.001


def _blend(plain: Tensor, share: Tensor, factor: float) -> Tensor:
    return torch.lerp(plain, plain / factor, share)


def _magnitude(scaling: Scaling | None) -> float:
    if not isinstance(scaling, YaRN):
        return 1.0
    if scaling.attention_factor is None:
        return max(1.0, 1.0 + 0.1 * log(scaling.factor))
    return scaling.attention_factor


def _on_host(x: Tensor) -> Any:
    """The values of a tensor that lies on the CPU; None where reading them would wait for a device or a tracer."""
    return x.numpy() if x.device.type == "cpu" and not torch.compiler.is_compiling() else None


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
