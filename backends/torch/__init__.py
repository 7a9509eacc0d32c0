"""The specification in PyTorch, on CPU and CUDA: fused attention kernels where they can express a clause."""

from collections.abc import Mapping

import torch

from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.backends.torch.attention import TorchAttention
from gaugeblock.backends.torch.blocks import TorchBlock
from gaugeblock.backends.torch.cache import TorchKVCache
from gaugeblock.backends.torch.feedforward import TorchActivations, TorchFeedForward
from gaugeblock.backends.torch.gradients import TorchGradients
from gaugeblock.backends.torch.model import TorchDecoder, TorchEncoder
from gaugeblock.backends.torch.multihead import TorchMultiHeadAttention
from gaugeblock.backends.torch.normalization import TorchLayerNorm, TorchRMSNorm
from gaugeblock.backends.torch.placement import TorchPlacement
from gaugeblock.backends.torch.positions import TorchAlibi, TorchLearnedPositions, TorchSinusoidal
from gaugeblock.backends.torch.rotary import TorchRotary
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError, NotAvailable
from gaugeblock.spec.precision import HALF, Level
from gaugeblock.spec.traced import Recorder

VARIANTS = ("", "math", "cuda", "cuda-math")


class TorchBackend(
    TorchEncoder,
    TorchDecoder,
    TorchBlock,
    TorchMultiHeadAttention,
    TorchAttention,
    TorchRotary,
    TorchAlibi,
    Recorder,
    TorchFeedForward,
    TorchActivations,
    TorchLayerNorm,
    TorchRMSNorm,
    TorchSinusoidal,
    TorchLearnedPositions,
    TorchKVCache,
    TorchGradients,
    TorchPlacement,
    TorchArrays,
):
    """Every component in PyTorch.

    Variants: "" (CPU, fused kernels), "math" (CPU, the composite route), "cuda" and "cuda-math". The fused kernels
    round the attention weights to half precision, the composite route computes in float32.
    Raises NotAvailable for a CUDA variant where there is no such device, ConfigError for an unknown variant.
    """

    name = "torch"
    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        if variant not in VARIANTS:
            raise ConfigError(f"backends: torch's variants are {', '.join(VARIANTS[1:])}; got {variant!r}")
        if variant.startswith("cuda") and not torch.cuda.is_available():
            raise NotAvailable("no CUDA device")
        self.device = torch.device("cuda" if variant.startswith("cuda") else "cpu")
        self.fused = not variant.endswith("math")
        held = Level.FUSED if self.fused else Level.STRICT
        self.level = {"bfloat16": held, "float16": held}
        self.level |= {f"positions@{dtype}": Level.STRICT for dtype in HALF}
        self.level |= {f"normalization@{dtype}": Level.STRICT for dtype in HALF}
        for component in ("feedforward", "multihead", "blocks", "model"):
            self.level |= {f"{component}@{dtype}": Level.STORED for dtype in HALF}
        if self.device.type == "cuda":
            self.conventions = Conventions(out_of_range="clamps")  # reading positions back would wait for the device

    def describe(self) -> Mapping[str, str]:
        return {
            "framework": f"torch {torch.__version__}",
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu",
            "float32 matmul precision": torch.get_float32_matmul_precision(),
            "threads": str(torch.get_num_threads()),
        }
