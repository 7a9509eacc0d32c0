"""What is measured: a Llama-like decoder of random weights, and how many bytes it has to read."""

from dataclasses import dataclass

import numpy as np

from gaugeblock.spec import weights as names
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.cache import cache_bytes
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.precision import FORMATS

DTYPE = "float32"
EPS = 1e-5
BASE = 10000.0


@dataclass(frozen=True)
class Size:
    """The measures of the model: M = width, H = heads, K = kv_heads, F = ffn_width, V = vocabulary, L = layers."""

    width: int = 512
    layers: int = 8
    heads: int = 8
    kv_heads: int = 4
    ffn_width: int = 1408
    vocabulary: int = 32000
    seed: int = 0

    @property
    def head_width(self) -> int:
        """D = M / H."""
        return self.width // self.heads

    @property
    def config(self) -> ModelConfig:
        """RMSNorm before each sublayer, rotary positions, SwiGLU, no biases, a tied head.

        Raises ConfigError for sizes that have no meaning.
        """
        attention = AttentionConfig(
            width=self.width,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_width=self.head_width,
            value_width=self.head_width,
            rotary=RotaryConfig(base=BASE),
        )
        block = BlockConfig(attention=attention, causal=True, eps=EPS, ffn_width=self.ffn_width)
        return ModelConfig(decoder=StackConfig(block=block, layers=self.layers, vocabulary=self.vocabulary), tied=True)

    def weights(self) -> dict[str, Numpy]:
        """Norms near one, an embedding and matrices of such a spread that the stream keeps its size."""
        generator = np.random.default_rng(self.seed)
        made: dict[str, Numpy] = {}
        for name, shape in names.shapes(self.config).items():
            drawn = generator.standard_normal(shape, np.float32)
            fan_in = self.width if name.endswith("embedding.weight") else shape[0]
            made[name] = 1 + drawn / 10 if len(shape) == 1 else drawn / np.float32(np.sqrt(fan_in))
        return made

    def tokens(self, length: int) -> Numpy:
        """Random ids (length,)."""
        return np.random.default_rng(self.seed + 1).integers(0, self.vocabulary, length)

    def cache_bytes(self, length: int) -> int:
        """What the keys and values of length tokens take up, as a closed form."""
        widths = {"key_width": self.head_width, "value_width": self.head_width}
        return cache_bytes(layers=self.layers, batch=1, kv_heads=self.kv_heads, length=length, dtype=DTYPE, **widths)

    def step_bytes(self, length: int) -> int:
        """What one new token reads behind length others: every weight once, the tied embedding too, and the cache."""
        weights = names.count(names.shapes(self.config)) * FORMATS[DTYPE].dtype.itemsize
        return weights + self.cache_bytes(length + 1)
