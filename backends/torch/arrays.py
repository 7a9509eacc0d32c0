"""The bridge between NumPy and PyTorch: same values, same strides, bfloat16 included."""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import torch

from gaugeblock.spec.backend import Backend

Numpy = np.ndarray[Any, np.dtype[Any]]

# torch refuses ml_dtypes.bfloat16, so its bits cross as 16-bit integers
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class TorchArrays(Backend):
    """A backend whose arrays are PyTorch tensors; subclass it to plug in a kernel that takes tensors."""

    device = torch.device("cpu")

    def asarray(self, x: Numpy) -> torch.Tensor:
        """x as a tensor on the backend's device; on the CPU with x's memory and strides."""
        if self.device.type == "meta":
            return torch.empty(x.shape, dtype=getattr(torch, x.dtype.name), device=self.device)
        if x.dtype == BFLOAT16:
            return _shared(x.view(np.int16)).view(torch.bfloat16).to(self.device)
        return _shared(x).to(self.device)

    def asnumpy(self, x: torch.Tensor) -> Numpy:
        """x as a NumPy array of the same dtype."""
        host = x.detach().cpu()
        if host.dtype == torch.bfloat16:
            return host.view(torch.int16).numpy().view(BFLOAT16)
        return host.numpy()


def name_of(x: torch.Tensor | torch.dtype) -> str:
    """The name of a dtype, or of a tensor's, as the specification spells it."""
    return str(x if isinstance(x, torch.dtype) else x.dtype).removeprefix("torch.")


def on_host(x: torch.Tensor) -> Numpy | None:
    """The values of a tensor that lies on the CPU; None where reading them would wait for a device or a tracer."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    host: Numpy = x.numpy()
    return host


def _shared(x: Numpy) -> torch.Tensor:
    """A tensor over x's memory; torch warns if x is read-only, as a broadcast view is, which we never write to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(x)
