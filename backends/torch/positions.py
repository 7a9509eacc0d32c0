"""Sinusoidal, learned and ALiBi positions in PyTorch (source 4.2, 4.4; Vaswani et al. 2017; Press et al. 2022)."""

from math import log
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gaugeblock.spec import positions as rules
from gaugeblock.spec.positions import Alibi, LearnedPositions, Sinusoidal


class TorchSinusoidal(Sinusoidal):
    """exp(-ln(base) 2 i / dim) times the positions, in float64, filled into every second column."""

    def sinusoidal(self, positions: Tensor, dim: int, *, base: float = 10000.0, dtype: str = "float32") -> Tensor:
        shape = rules.sinusoidal(positions.shape, _kind(positions), _on_host(positions), dim, base, dtype)
        pairs = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device)
        angles = positions.unsqueeze(-1) * torch.exp(pairs * (-log(base) / dim))  # (..., T, dim / 2)
        table = torch.empty(shape, dtype=_named(dtype), device=positions.device)
        table[..., 0::2] = torch.sin(angles)
        table[..., 1::2] = torch.cos(angles)
        return table


class TorchLearnedPositions(LearnedPositions):
    """F.embedding, which raises for a position outside the table on the CPU and kills the context on CUDA.

    So positions on a device are clamped into the table.
    """

    def learned_positions(self, table: Tensor, positions: Tensor) -> Tensor:
        values = _on_host(positions)
        rules.learned(table.shape, _kind(table), positions.shape, _kind(positions), values)
        if values is None:
            positions = positions.clamp(0, max(len(table) - 1, 0))
        return F.embedding(positions, table)


class TorchAlibi(Alibi):
    """Slopes as powers of their common ratio, in float64, where the positions lie."""

    def alibi_slopes(self, n_heads: int, *, dtype: str = "float32") -> Tensor:
        rules.alibi(n_heads, dtype)
        return _slopes(n_heads, self._device()).to(_named(dtype))

    def alibi_bias(
        self, n_heads: int, query_positions: Tensor, key_positions: Tensor, *, dtype: str = "float32"
    ) -> Tensor:
        query, key = ((p.shape, _kind(p), _on_host(p)) for p in (query_positions, key_positions))
        shape = rules.alibi_bias(n_heads, query, key, dtype)
        i, j = query_positions.long()[..., None, :, None], key_positions.long()[..., None, None, :]
        wide = torch.float64 if dtype == "float64" else torch.float32  # distances are exact below 2**24
        slopes = _slopes(n_heads, i.device).to(wide)[:, None, None]
        return torch.mul(slopes, (i - j).abs().neg()).to(_named(dtype)).reshape(shape)

    def _device(self) -> torch.device:
        return getattr(self, "device", torch.device("cpu"))


def _slopes(n_heads: int, device: torch.device) -> Tensor:
    lower = 1 << (n_heads.bit_length() - 1)
    more = _powers(2 * lower, device)[::2]
    return torch.cat([_powers(lower, device), more[: n_heads - lower]])


def _powers(n: int, device: torch.device) -> Tensor:
    exponents: Tensor = torch.arange(1, n + 1, dtype=torch.float64, device=device)
    return torch.pow(2.0 ** (-8 / n), exponents)


def _on_host(x: Tensor) -> Any:
    """The values of a tensor that lies on the CPU; None where reading them would wait for a device or a tracer."""
    return x.numpy() if x.device.type == "cpu" and not torch.compiler.is_compiling() else None


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _named(dtype: str) -> torch.dtype:
    named: torch.dtype = getattr(torch, dtype)
    return named
