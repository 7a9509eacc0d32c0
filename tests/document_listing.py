"""The source document's implementation from scratch (its section 8) as a backend: what its code does, faults included.

Typed anew from its behaviour. Its modules are functions of their parameters here; converting the model to another
element type converts its buffers, as `Module.to` does, and that is where some of the faults come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.spec.attention import Attention
from gaugeblock.spec.config import ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import PositionError, Unsupported
from gaugeblock.spec.feedforward import FeedForward
from gaugeblock.spec.model import Decoder
from gaugeblock.spec.normalization import RMSNorm
from gaugeblock.spec.rotary import Rotary
from gaugeblock.spec.weights import part

MAX_SEQ_LEN = 512  # as its demonstration has it; a longer sequence makes the table anew
FAR = 4096  # behind it no table is made here, for the memory that it would take
ALONE = "its own causal mask is the only one"
GIVEN = "always has a weight"

Tables = tuple[Tensor, Tensor]


@lru_cache(maxsize=64)
def tables(D: int, base: float, dtype: torch.dtype, length: int = 0) -> Tables:
    """Cosines and sines (positions, D) in a model converted to dtype.

    They are made in float32, twice over for the two halves. The conversion rounds them and their frequencies, and a
    table that has to grow is made of the rounded frequencies.
    """
    frequencies = 1.0 / base ** (torch.arange(0, D, 2).float() / D)  # (D / 2,)
    if length > MAX_SEQ_LEN:
        return _grown(frequencies.to(dtype), length)
    cos, sin = _grown(frequencies, MAX_SEQ_LEN)
    return cos.to(dtype), sin.to(dtype)


def _grown(frequencies: Tensor, length: int) -> Tables:
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos(), both.sin()


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (B, H, T, D) with component i and component i + D / 2 turned, by table rows (T, D)."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


def normalized(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (..., M) over its root mean square; the squares are of x's own element type."""
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


def attended(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """One softmax over all keys; more than one query at a time gets the mask, in float32 whatever q is."""
    T, S = q.shape[-2], k.shape[-2]
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal and T > 1:
        scores = scores + torch.triu(torch.full((T, S), float("-inf")), diagonal=S - T + 1)
    return F.softmax(scores, dim=-1) @ v


def gated(x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """The feed-forward network: two products, one of them through SiLU, and a third."""
    return (F.silu(x @ weights["gate.weight"]) * (x @ weights["up.weight"])) @ weights["down.weight"]


class DocumentListing(Attention, Rotary, RMSNorm, FeedForward, TorchArrays):
    """The modules of the document's section 8, each as a component of its own."""

    name = "document_listing"
    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})
    conventions = Conventions(empty_row="nan", out_of_range="undefined")
    unsupported = {
        "attention.mask": ALONE,
        "attention.bias": ALONE,
        "attention.window": ALONE,
        "attention.scale": "always the root of the width",
        "attention.grouped": "as many key/value heads as query heads",
        "rotary.interleaved": "halves only",
        "rotary.layout": "halves only",
        "rotary.rotary_dim": "turns all of a head",
        "rotary.scaling": "none",
        "rotary.positions.rows": "one position for all rows of a batch",
        "rotary.positions.gaps": "positions are counted, not given",
        "rotary.positions.far": "its table holds every position up to the last",
        "rms_norm.weightless": GIVEN,
        "feed_forward.plain": "has a gate",
        "feed_forward.swiglu.bias": "none",
    }

    def attention(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
        return attended(q, k, v, causal)

    def rotate(self, x: Tensor, positions: Tensor, *, base: float = 10000.0) -> Tensor:
        past = int(positions[0]) if len(positions) else 0
        length = past + len(positions)
        if positions.tolist() != list(range(past, length)):
            raise Unsupported("positions are counted, not given")
        if length > FAR:
            raise Unsupported("its table holds every position up to the last")
        cos, sin = tables(x.shape[-1], base, x.dtype, length)
        return turned(x, cos[past:length], sin[past:length])

    def rms_norm(self, x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
        return normalized(x, weight, eps)

    def feed_forward(self, x: Tensor, weights: Mapping[str, Tensor], *, activation: str) -> Tensor:
        raise Unsupported("has a gate")

    def swiglu(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        if any(name.endswith(".bias") for name in weights):
            raise Unsupported("no biases")
        return gated(x, weights)


@dataclass(frozen=True)
class Model:
    """What load makes: the parameters, of one element type, and what the code of section 8 takes from them."""

    weights: Mapping[str, Tensor]
    config: StackConfig

    @property
    def table(self) -> Tensor:
        """The embedding, which is the head as well."""
        return self.weights["decoder.embedding.weight"]


@dataclass(frozen=True)
class Past:
    """Keys and values of each layer (B, H, length, D); every call concatenates, and leaves the earlier ones alone."""

    model: Model
    layers: tuple[tuple[Tensor, Tensor], ...]


OTHER = "one kind of decoder, on rows of one length"
OTHERS = (
    *("token_mask", "padding.left", "padding.right", "padding.middle", "padding.rows", "padding.ids"),
    *("learned", "sinusoidal", "alibi", "positionless", "rotary.interleaved", "rotary.partial", "rotary.scaling"),
    *("window", "scale", "grouped", "value_width", "inner_width", "bias", "bias.some", "post", "layer"),
    *("activation.relu", "activation.gelu", "activation.gelu_tanh", "activation.silu", "feed_forward.bias"),
    *("embedding_scale", "embedding_norm", "final_norm.none", "untied", "head_bias"),
    *("memory", "memory_mask", "memory_mask.rows", "empty.memory"),
    *("step.padding", "reorder", "reorder.batch", "truncate", "fork"),
    *("generate.eos", "generate.pad", "generate.uncached"),
)


class DocumentDecoder(DocumentListing, Decoder):
    """The whole of section 8: its decoder, its cache of concatenated tensors, its generation."""

    name = "document_decoder"
    unsupported = {**DocumentListing.unsupported, **{f"decoder.{option}": OTHER for option in OTHERS}}
    conventions = replace(DocumentListing.conventions, consumed_cache="valid", capacity="grows")
    errors = {IndexError: PositionError}

    def load(self, weights: Mapping[str, Tensor], config: ModelConfig) -> Model:
        stack = config.decoder
        if stack is None or not fits(config, stack):
            raise Unsupported("one kind of decoder only")
        return Model(dict(weights), stack)

    def logits(
        self,
        model: Model,
        tokens: Tensor,
        *,
        token_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        last_only: bool = False,
    ) -> Tensor:
        _plain(token_mask, memory, memory_mask)
        logits, _ = forward(model, tokens, None)
        return logits[:, -1:, :] if last_only else logits

    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Past:
        _plain(memory, memory_mask)
        attention, layers = model.config.block.attention, model.config.layers
        nothing = torch.zeros(batch, attention.heads, 0, attention.head_width, dtype=model.table.dtype)
        return Past(model, ((nothing, nothing),) * layers)

    def step(
        self, model: Model, tokens: Tensor, cache: Past, *, token_mask: Tensor | None = None, last_only: bool = False
    ) -> tuple[Tensor, Past]:
        _plain(token_mask)
        logits, layers = forward(model, tokens, cache.layers)
        return logits[:, -1:, :] if last_only else logits, Past(model, layers)

    def cache_length(self, cache: Past) -> int:
        return cache.layers[0][0].shape[2] if cache.layers else 0

    def cache_nbytes(self, cache: Past) -> int:
        return sum(x.nbytes for layer in cache.layers for x in layer)

    def generate(
        self,
        model: Model,
        tokens: Tensor,
        *,
        max_new_tokens: int,
        token_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        use_cache: bool = True,
    ) -> Tensor:
        _plain(token_mask, memory, memory_mask, eos_id, pad_id)
        logits, past = forward(model, tokens, None)
        ids = logits[:, -1:, :].argmax(dim=-1)
        tokens = torch.cat((tokens, ids), dim=1)
        for _ in range(max_new_tokens - 1):  # the first new token has come already, whether it was asked for or not
            logits, past = forward(model, ids, past)
            ids = logits[:, -1:, :].argmax(dim=-1)
            tokens = torch.cat((tokens, ids), dim=1)
        return tokens


def fits(config: ModelConfig, stack: StackConfig) -> bool:
    """Whether section 8 can be this model: it is one kind of decoder, of any size."""
    block, a = stack.block, stack.block.attention
    heads = a.heads == a.kv_heads and a.head_width == a.value_width and a.heads * a.head_width == a.width
    plain = not a.bias and not a.alibi and a.window is None and a.scale is None
    halves = a.rotary is not None and a.rotary in [
        RotaryConfig(a.rotary.base, rotary_dim=R) for R in (None, a.head_width)
    ]
    network = block.placement == "pre" and block.norm == "rms" and block.gated and not block.ffn_bias
    around = stack.positions is None and stack.embedding_scale == 1 and not stack.embedding_norm and stack.final_norm
    head = config.encoder is None and config.tied and not config.head_bias
    return heads and plain and halves and network and around and head


def forward(
    model: Model, tokens: Tensor, past: tuple[tuple[Tensor, Tensor], ...] | None
) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
    """The logits (B, T, V) of new tokens, and the keys and values of all; a network normalised before its sublayers."""
    eps, made = model.config.block.eps, []
    x = F.embedding(tokens, model.table)
    for n in range(model.config.layers):
        weights = part(model.weights, f"decoder.layers.{n}")
        rows = normalized(x, weights["attention_norm.weight"], eps)
        mixed, kept = self_attention(rows, part(weights, "attention"), model.config, past[n] if past else None)
        x = x + mixed
        x = x + gated(normalized(x, weights["feed_forward_norm.weight"], eps), part(weights, "feed_forward"))
        made.append(kept)
    return normalized(x, model.weights["decoder.final_norm.weight"], eps) @ model.table.T, tuple(made)


def self_attention(
    x: Tensor, weights: Mapping[str, Tensor], config: StackConfig, past: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Attention of the new tokens x (B, T, M) over the past and themselves; positions are counted from the cache."""
    a = config.block.attention
    q, k, v = (split(x @ weights[f"{name}.weight"], a.heads) for name in ("query", "key", "value"))
    start = past[0].shape[2] if past else 0
    length = start + x.shape[1]
    assert a.rotary is not None
    cos, sin = (rows[start:length] for rows in tables(a.head_width, a.rotary.base, x.dtype, length))
    q, k = turned(q, cos, sin), turned(k, cos, sin)
    if past:
        k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
    mixed = attended(q, k, v, causal=True).transpose(1, 2).flatten(2)  # (B, T, H * D)
    return mixed @ weights["output.weight"], (k, v)


def split(x: Tensor, heads: int) -> Tensor:
    """(B, T, H * D) -> (B, H, T, D)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _plain(*options: object) -> None:
    if any(option is not None for option in options):
        raise Unsupported("no masks, no memory, no end of text")
