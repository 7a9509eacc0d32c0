"""A decoder so small that its roundings can be counted by hand, and what it must give, with many digits."""

from collections.abc import Callable, Sequence
from math import expm1, sqrt
from typing import Any

import numpy as np
import plain_model
from probing import EXP, TRIG, Ours, floats, gamma, number

from gaugeblock.spec import weights as names
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.precision import FLOAT32

V, M, F = 8, 4, 1
ROTARY = RotaryConfig()
Ids = Sequence[int]


def decoder(*, rotary: RotaryConfig | None = ROTARY, learned: bool = False, window: int | None = None) -> ModelConfig:
    """One layer of two heads on one, before an untied head; nothing is normalised behind the layer."""
    sight = None if window is None else (window - 1, 0)
    attention = AttentionConfig(width=M, heads=2, kv_heads=1, head_width=2, value_width=2, rotary=rotary, window=sight)
    block = BlockConfig(attention=attention, causal=True, ffn_width=F)
    stack = StackConfig(
        block=block,
        layers=1,
        vocabulary=V,
        positions="learned" if learned else None,
        max_positions=16 if learned else 0,
        final_norm=False,
    )
    return ModelConfig(decoder=stack)


def reader() -> ModelConfig:
    """A decoder that reads vectors as they are."""
    attention = AttentionConfig(width=M, heads=2, kv_heads=1, head_width=2, value_width=2)
    block = BlockConfig(attention=attention, cross=attention, causal=True, ffn_width=F)
    encoder = StackConfig(
        block=BlockConfig(attention=attention), layers=0, inputs="vectors", positions=None, final_norm=False
    )
    return ModelConfig(encoder=encoder, decoder=StackConfig(block=block, layers=1, vocabulary=V, final_norm=False))


def drawn(config: ModelConfig) -> dict[str, Any]:
    """Weights in eighths, norms of ones; what stands beside the one attention under test adds nothing."""
    rng = np.random.default_rng(0)
    made = {n: rng.integers(-8, 9, size=s) / 8 for n, s in names.shapes(config).items()}
    for n in made:
        if "_norm" in n:
            made[n] = np.ones_like(made[n])
        elif "feed_forward.down" in n or ("attention.output" in n and has_cross(config)):
            made[n] = np.zeros_like(made[n])
    return made


def has_cross(config: ModelConfig) -> bool:
    return config.encoder is not None and config.decoder is not None


class Probe:
    """A backend with a model in it, called with ids, and judged row by row."""

    def __init__(self, backend: Ours, config: ModelConfig, weights: dict[str, Any] | None = None) -> None:
        self.b, self.config = backend, config
        self.weights = drawn(config) if weights is None else weights
        self.model = backend.load({n: floats(backend, w) for n, w in self.weights.items()}, config)

    def ids(self, rows: Any) -> Any:
        return self.b.asarray(np.asarray(rows, np.int64))

    def mask(self, rows: Any) -> Any:
        return self.b.asarray(np.asarray(rows, bool))

    def logits(self, rows: Any, real: Any = None) -> Any:
        mask = None if real is None else self.mask(real)
        return number(self.b, self.b.logits(self.model, self.ids(rows), token_mask=mask))

    def step(self, rows: Any, cache: Any, real: Any = None) -> tuple[Any, Any]:
        mask = None if real is None else self.mask(real)
        made, cache = self.b.step(self.model, self.ids(rows), cache, token_mask=mask)
        return number(self.b, made), cache

    def start(self, batch: int, capacity: int = 12, *, memory: Any = None, real: Any = None) -> Any:
        given = {} if memory is None else {"memory": floats(self.b, memory), "memory_mask": self.mask(real)}
        return self.b.start(self.model, batch, capacity, **given)

    def alone(self, ids: Ids, weights: dict[str, Any] | None = None, *, memory: Any = None) -> Any:
        """What a row must give, after each of its ids. (T,) -> (T, V)"""
        made = plain_model.scores(self.weights if weights is None else weights, self.config, np.asarray(ids), memory)
        return made.astype(np.float64)

    def bound(self, ids: Ids) -> Any:
        """How far each logit of a row may be off in float32, with majorants for every sum. -> (V,)

        A normalised row, and one of a memory of numbers up to 1, is at most sqrt(M) in length; the first is off by
        (M + 4) / 2 + 8 roundings, a projection by M more. A rotation of the one pair, whose frequency is 1 and whose
        angles are therefore exact, is off by 8 u and 3 roundings, and mixes two components. Scores of both are off by
        D + 3 more, weights by twice that, exponentials and sums as in probing.mixed, the heads' outputs by the sums of
        the output projection, the logits by those of the head.
        """
        u, T, D, rows = FLOAT32.u, len(ids), 2, sqrt(M)
        layer = "cross" if has_cross(self.config) else "attention"
        w = {n: np.abs(x) for n, x in names.part(self.weights, f"decoder.layers.0.{layer}").items()}
        q, k, v = (rows * float(np.max(np.linalg.norm(w[f"{n}.weight"], axis=0))) for n in ("query", "key", "value"))
        projected = (M + 4) / 2 + 8 + M
        turned = projected + TRIG + 3
        score = gamma(2 * turned + D + 3, u) * (2 * q) * (2 * k) * D / sqrt(D)
        head = expm1(2 * score + gamma(2 * T + 2 * EXP + 6, u) + gamma(projected, u)) * v
        mixed = np.sum(w["output.weight"], axis=0) * (head + v * gamma(M + 4, u))
        # an embedding and a position, each up to 1, and what the heads add
        stream = 2 + np.sum(w["output.weight"], axis=0) * v
        return (mixed + stream * gamma(M + 2, u)) @ np.abs(self.weights["head.weight"])


def standing(positions: Ids) -> Callable[[Any, Any], Any]:
    """plain_model.turned for tokens that stand elsewhere than in a row from zero."""
    honest = plain_model.turned

    def turned(x: Any, c: Any) -> Any:
        made = x.copy()
        for i, p in enumerate(positions[: len(x)]):
            alone = np.repeat(x[i : i + 1] * 0, p + 1, axis=0)
            alone[p] = x[i]
            made[i] = honest(alone, c)[p]
        return made

    return turned
