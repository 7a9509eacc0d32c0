"""The bridge between NumPy and PyTorch: same values, same strides, bfloat16 included."""

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
        if not x.flags.writeable:
            x = _writeable(x)
        if x.dtype == BFLOAT16:
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).to(self.device)
        return torch.from_numpy(x).to(self.device)

    def asnumpy(self, x: torch.Tensor) -> Numpy:
        """x as a NumPy array of the same dtype."""
        host = x.detach().cpu()
        if host.dtype == torch.bfloat16:
            return host.view(torch.int16).numpy().view(BFLOAT16)
        return host.numpy()


def _writeable(x: Numpy) -> Numpy:
    """The same view, marked writeable: torch warns about read-only arrays, which we never write to."""
    return np.lib.stride_tricks.as_strided(x, x.shape, x.strides, writeable=True)
