"""The specification in JAX: whole calls are jitted, the compiled code is kept between processes."""

import os
from collections.abc import Mapping
from pathlib import Path

import jax

from gaugeblock.backends.jax.arrays import JaxArrays
from gaugeblock.backends.jax.attention import JaxAttention
from gaugeblock.backends.jax.blocks import JaxBlock
from gaugeblock.backends.jax.cache import JaxKVCache
from gaugeblock.backends.jax.feedforward import JaxActivations, JaxFeedForward
from gaugeblock.backends.jax.gradients import JaxGradients
from gaugeblock.backends.jax.model import JaxDecoder, JaxEncoder
from gaugeblock.backends.jax.multihead import JaxMultiHeadAttention
from gaugeblock.backends.jax.normalization import JaxLayerNorm, JaxRMSNorm
from gaugeblock.backends.jax.placement import JaxPlacement
from gaugeblock.backends.jax.positions import JaxAlibi, JaxLearnedPositions, JaxSinusoidal
from gaugeblock.backends.jax.rotary import JaxRotary
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import HALF, Level

BETWEEN = 25  # checks


class JaxBackend(
    JaxEncoder,
    JaxDecoder,
    JaxBlock,
    JaxMultiHeadAttention,
    JaxAttention,
    JaxActivations,
    JaxFeedForward,
    JaxRotary,
    JaxSinusoidal,
    JaxLearnedPositions,
    JaxAlibi,
    JaxLayerNorm,
    JaxRMSNorm,
    JaxKVCache,
    JaxGradients,
    JaxPlacement,
    JaxArrays,
):
    """Every component in JAX; half precision is computed in float32 and rounded once.

    Variants: "" (float32 and half precision) and "x64", which switches the process to 64 bits and adds float64.
    Raises ConfigError for an unknown variant.
    """

    name = "jax"
    dtypes = frozenset({"float32", "bfloat16", "float16"})
    level = {
        **dict.fromkeys(HALF, Level.STRICT),
        **{f"{name}@{half}": Level.STORED for name in ("multihead", "blocks", "model") for half in HALF},
    }

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self._checked = 0
        if variant not in ("", "x64"):
            raise ConfigError(f"backends: jax's variant is x64; got {variant!r}")
        if variant == "x64":
            jax.config.update("jax_enable_x64", True)
            self.dtypes = self.dtypes | {"float64"}
        _keep_compiled_code()

    def rest(self) -> None:
        """Drop all compiled programs where they have become too many for the process."""
        self._checked = (self._checked + 1) % BETWEEN
        if not self._checked and _crowded():
            jax.clear_caches()

    def describe(self) -> Mapping[str, str]:
        return {
            "framework": f"jax {jax.__version__}",
            "device": jax.devices()[0].device_kind,
            "matmul precision": "highest",
            "x64": str(jax.config.read("jax_enable_x64")),
            "optimized": str(not jax.config.read("jax_disable_most_optimizations")),
        }


def _crowded() -> bool:
    """Whether half of the pieces of memory are mapped that Linux lets a process map; each program takes several."""
    maps, limit = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
    if not (maps.exists() and limit.exists()):
        return False
    return 2 * maps.read_bytes().count(b"\n") > int(limit.read_text())


def _keep_compiled_code() -> None:
    """Switch the persistent compilation cache on, unless the user has chosen a place for it."""
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(home / "gaugeblock" / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
