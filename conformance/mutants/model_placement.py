"""Models that leave the device: right wherever everything lies on the CPU, slow or broken elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gaugeblock.backends.torch import TorchBackend
from gaugeblock.backends.torch.cache import Cache
from gaugeblock.backends.torch.multihead import Sight
from gaugeblock.backends.torch.rotary import Turns
from gaugeblock.backends.torch.stack import Model, Stack
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import Scaling

Angles = tuple[int, float, Scaling | None, torch.dtype]


def looked_up(table: Turns, positions: Tensor) -> Turns:
    """The rows of a table of cosines and sines: (T, R/2) or (B, 1, T, R/2)."""
    cos, sin = (x[positions] if positions.dim() == 1 else x[positions].unsqueeze(1) for x in table)
    return cos, sin


@mutant(
    killed_by=("MODEL-PLACEMENT",),
    reports=("lucidrains/rotary-embedding-torch#48", "huggingface/transformers#33391", "logtd/ComfyUI-HunyuanLoom#17"),
)
class TableOnTheHost(TorchBackend):
    """The cosines and sines are made once for all, on the CPU."""

    def _turns(self, positions: Tensor, *angles: Any) -> Turns:
        return looked_up(super()._turns(torch.arange(64), *angles), positions)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("unslothai/unsloth#840",))
class TableGrowsOnTheHost(TorchBackend):
    """The table is made where the positions lie, for four tokens; for more it is made again, on the CPU."""

    def _sight(self, *given: Any, S: int, **sizes: Any) -> Sight:
        self.longest = S
        return super()._sight(*given, S=S, **sizes)

    def _turns(self, positions: Tensor, *angles: Any) -> Turns:
        if self.longest <= 4:
            return super()._turns(positions, *angles)
        return looked_up(super()._turns(torch.arange(2 * self.longest), *angles), positions)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("ROCm/aiter#2489",))
class FrequenciesOnTheHost(TorchBackend):
    """The exponents of the frequencies come from an arange without a device, and are moved in every step."""

    def _turns(self, positions: Tensor, R: int, base: float, scaling: Scaling | None, dtype: torch.dtype) -> Turns:
        if scaling is not None:
            return super()._turns(positions, R, base, scaling, dtype)
        frequencies = base ** (-torch.arange(0, R, 2, dtype=torch.float64) / R)
        p = positions.double() if positions.dim() == 1 else positions.double().unsqueeze(1)
        angles = p.unsqueeze(-1) * frequencies.to(positions.device)
        wide = torch.promote_types(dtype, torch.float32)
        return angles.cos().to(wide), angles.sin().to(wide)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("wingedsheep/transformer#4",))
class SinusoidsOfNumPy(TorchBackend):
    """The table of sinusoidal positions is NumPy's, and is moved in every step."""

    def sinusoidal(self, positions: Tensor, dim: int, **options: Any) -> Tensor:
        table = super().sinusoidal(torch.from_numpy(np.arange(64)), dim, **options)
        return (
            table.to(positions.device)[positions]
            if int(positions.numel())
            else super().sinusoidal(positions, dim, **options)
        )


@mutant(killed_by=("MODEL-PLACEMENT",))
class PositionsOnTheHost(TorchBackend):
    """Where nobody gives positions they are counted by an arange without a device."""

    def _sight(self, config: Any, dtype: Any, positions: Tensor | None, *given: Any, S: int, **sizes: Any) -> Sight:
        counted = torch.arange(S) if positions is None else positions
        return super()._sight(config, dtype, counted, *given, S=S, **sizes)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("m87-labs/kestrel#84",))
class MaskFromALoop(TorchBackend):
    """What a query sees is a list that Python fills, and is handed over in every step."""

    def _sight(self, *given: Any, T: int, S: int, device: torch.device, **sizes: Any) -> Sight:
        config, dtype, positions, mask, causal = given
        if not causal:
            return super()._sight(*given, T=T, S=S, device=device, **sizes)
        rows = [[j <= i + S - T for j in range(S)] for i in range(T)]
        seen = torch.tensor(rows, dtype=torch.bool).reshape(1, 1, T, S).to(device)
        whole = seen if mask is None else seen & mask
        return super()._sight(config, dtype, positions, whole, False, T=T, S=S, device=device, **sizes)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("huggingface/transformers#43088", "huggingface/transformers#43089"))
class AsksWhetherAllAreReal(TorchBackend):
    """A mask that hides nothing is dropped, which takes a look at it in every step."""

    def _sight(self, config: Any, dtype: Any, positions: Any, mask: Tensor | None, *given: Any, **sizes: Any) -> Sight:
        if mask is not None and bool(mask.all()):
            mask = None
        return super()._sight(config, dtype, positions, mask, *given, **sizes)


@mutant(killed_by=("MODEL-PLACEMENT",))
class LargestIdIsRead(TorchBackend):
    """Every step looks up the largest of its ids, to be sure that the table has it."""

    def _look_up(self, stack: Stack, inputs: Tensor) -> Tensor:
        if inputs.numel() and not inputs.is_floating_point() and inputs.max().item() < 0:
            return super()._look_up(stack, inputs.abs())
        return super()._look_up(stack, inputs)


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("vllm-project/vllm#16436",))
class RealTokensAreSelected(TorchBackend):
    """The rows of real tokens are picked by a mask, whose ones must be counted first."""

    def _look_up(self, stack: Stack, inputs: Tensor) -> Tensor:
        rows = super()._look_up(stack, inputs)
        if inputs.is_floating_point():
            return rows
        known = (inputs >= 0) & (inputs < stack.config.vocabulary)
        picked = torch.zeros_like(rows)
        picked[known] = rows[known]
        return picked


@mutant(killed_by=("MODEL-PLACEMENT",), reports=("pytorch/torchchat#1147",))
class LogitsOverTheHost(TorchBackend):
    """The logits of a step go to NumPy and come back."""

    def _head(self, model: Model, x: Tensor, token_mask: Tensor | None, last_only: bool) -> Tensor:
        scores = super()._head(model, x, token_mask, last_only)
        return scores.cpu().to(x.device)


@mutant(killed_by=("MODEL-PLACEMENT",))
class RowsByTheHost(TorchBackend):
    """The rows of a reorder are read into a list, and the cache is put together from them."""

    def _take_rows(self, cache: Cache, rows: Tensor) -> Cache:
        return super()._take_rows(cache, torch.tensor(rows.tolist(), dtype=torch.long, device=rows.device))


@mutant(killed_by=("MODEL-DRY",))
class DryRunComputes(TorchBackend):
    """The dry run is a run: its arrays have values, which anybody may read."""

    @contextmanager
    def dry(self) -> Iterator[Any]:
        yield self


@mutant(killed_by=("MODEL-DRY",))
class DryRunForgetsTheLength(TorchBackend):
    """The cache of a dry run stays as empty as it was."""

    def cache_length(self, cache: Cache) -> int:
        return 0 if self.device.type == "meta" and cache.lengths[0] > 1 else super().cache_length(cache)
