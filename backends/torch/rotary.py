"""Rotary position embedding in PyTorch (source 4.3; Su et al. 2021)."""

from math import log, pi
from typing import Any

import torch
from torch import Tensor

from gaugeblock.spec.config import NTK, Layout, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.rotary import POSITIONS_END, Rotary, dims, dtypes, in_range, options


class TorchRotary(Rotary):
    """Each pair is a complex number, each token a number of the unit circle; these are made in float64.

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
        values = _on_host(positions)
        in_range(values)
        if values is None:
            positions = positions.clamp(0, POSITIONS_END - 1)
        turns = self._turns(positions, _frequencies(d.R, base, scaling), _magnitude(scaling)).to(x.device)
        wide = x[..., : d.R].to(torch.promote_types(x.dtype, torch.float32))
        turned = _turned(wide, turns.to(torch.promote_types(wide.dtype, torch.complex64)), layout).to(x.dtype)
        return turned if d.R == d.D else torch.cat((turned, x[..., d.R :]), dim=-1)

    def _turns(self, positions: Tensor, frequencies: Tensor, magnitude: float) -> Tensor:
        """magnitude * exp(i p w): (T, R/2) or (B, 1, T, R/2), complex128."""
        p = positions.double() if positions.dim() == 1 else positions.double().unsqueeze(1)
        angles = p.unsqueeze(-1) * frequencies.to(p.device)
        return torch.polar(torch.full_like(angles, magnitude), angles)


def _turned(x: Tensor, turns: Tensor, layout: Layout) -> Tensor:
    if layout == "interleaved":
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * turns).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    z = torch.complex(a, b) * turns
    return torch.cat((z.real, z.imag), dim=-1)


def _frequencies(R: int, base: float, scaling: Scaling | None) -> Tensor:
    """The frequencies (R/2,) in float64, by exponentials."""
    exponents = torch.arange(0, R, 2, dtype=torch.float64) / R
    plain = torch.exp(-log(base) * exponents)
    match scaling:
        case None:
            return plain
        case Linear(factor):
            return plain / factor
        case NTK(alpha):
            return plain * torch.exp(exponents * (-log(alpha) * R / max(R - 2, 1)))
        case YaRN(factor, original):
            ends = (
                torch.tensor([scaling.fast, scaling.slow], dtype=torch.float64).mul(2 * pi).reciprocal().mul(original)
            )
            low, high = (ends.log() * (R / 2 / log(base))).unbind()
            low, high = (low.floor(), high.ceil()) if scaling.truncate else (low, high)
            low, high = low.clamp(0, R - 1), high.clamp(0, R - 1)
            span = torch.where(high > low, high - low, 0.001)
            return _blend(plain, ((torch.arange(R // 2) - low) / span).clamp(0, 1), factor)
        case Llama3(factor, low, high, original):
            turns = plain * (original / (2 * pi))
            return _blend(plain, 1 - ((turns - low) / (high - low)).clamp(0, 1), factor)


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
