"""Multi-head attention in other forms and orders, shown or not, which the reference admits at the declared level."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import View
from gaugeblock.conformance.unusual import correct
from gaugeblock.conformance.unusual.attention_declared import Eager
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.multihead import MultiHeadAttention
from gaugeblock.spec.precision import HALF, Level

Weights = Mapping[str, Array]


class Unseen(MultiHeadAttention, Backend):
    """Computes as another backend does, and shows no intermediates."""

    dtypes = NumpyBackend.dtypes
    within: Callable[[], Any] = NumpyBackend

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self.inner = type(self).within()

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **keywords: Any) -> Array:
        return np.asarray(self.inner.multi_head_attention(x, weights, config, **keywords))


@correct
class NothingShown(Unseen):
    """No intermediate is shown; the result alone is judged."""


@correct
class NothingShownOfAnEagerOne(Unseen):
    """No intermediate is shown, and every operation in half precision is rounded."""

    within = Eager


@correct
class EagerLayer(Eager):
    """One operation at a time in half precision, within the heads as well as between them."""


@correct
class HeadsAddedUp(NumpyBackend):
    """Each head is projected back by itself, and the contributions are added up, the bias first."""

    def _output(self, mixed: Array, weights: Weights) -> Array:
        H, E = mixed.shape[1], mixed.shape[3]
        weight = upcast(weights["output.weight"])
        total = upcast(weights.get("output.bias", np.zeros(weight.shape[1], mixed.dtype)))
        for h in range(H):
            total = total + upcast(mixed[:, h]) @ weight[h * E : (h + 1) * E]
        shape = (mixed.shape[0], mixed.shape[2], weight.shape[1])
        return np.asarray(self._tap("output", round_once(np.broadcast_to(total, shape), mixed.dtype)))


@correct
class ProjectionsPacked(NumpyBackend):
    """Queries, keys and values of one sequence come from one product with packed weights."""

    def _self_attention(self, x: Array, weights: Weights, c: AttentionConfig, *rest: Any, **more: Any) -> Array:
        layers = ("query", "key", "value")
        weight = np.concatenate([weights[f"{n}.weight"] for n in layers], axis=1)
        widths = [weights[f"{n}.weight"].shape[1] for n in layers]
        none = [np.zeros(width, x.dtype) for width in widths]
        bias = np.concatenate([weights.get(f"{n}.bias", zero) for n, zero in zip(layers, none, strict=True)])
        packed = round_once(upcast(x) @ upcast(weight) + upcast(bias), x.dtype)
        self.packed = dict(zip(layers, np.split(packed, np.cumsum(widths)[:-1], axis=-1), strict=True))
        return super()._self_attention(x, weights, c, *rest, **more)

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        packed = self.__dict__.get("packed", {}).pop(layer, None)
        return super()._project(x, weights, layer) if packed is None else packed


@correct
class ProjectionsFromTheLastTerm(NumpyBackend):
    """Projections begin with the bias and go from the last column of x to the first, each partial sum rounded."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        weight, wide = upcast(weights[f"{layer}.weight"]), upcast(x)
        total = upcast(weights.get(f"{layer}.bias", np.zeros(weight.shape[1], x.dtype)))
        for n in reversed(range(len(weight))):
            total = total + wide[..., n : n + 1] * weight[n]
        return round_once(np.broadcast_to(total, (*x.shape[:-1], weight.shape[1])), x.dtype)


@correct
class HeadsOneByOne(NumpyBackend):
    """Every head is a call of attention of its own."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        if q.ndim != 4 or k.ndim != 4 or not k.shape[1] or q.shape[1] % k.shape[1]:
            return super().attention(q, k, v, **options)
        super().attention(q[:, :, :0], k, v[..., :0], scale=options.get("scale"))  # to refuse what is to be refused
        heads = []
        for h in range(q.shape[1]):
            g = h // (q.shape[1] // k.shape[1])
            own = self._options(options, h)
            heads.append(super().attention(q[:, h : h + 1], k[:, g : g + 1], v[:, g : g + 1], **own))
        return np.concatenate(heads, axis=1)

    def _options(self, options: Mapping[str, Any], h: int) -> dict[str, Any]:
        own = {name: options[name] for name in ("mask", "bias") if options.get(name) is not None}
        return {**options, **{name: x[:, h : h + 1] if x.shape[1] > 1 else x for name, x in own.items()}}


@correct
class EverythingIsABias(NumpyBackend):
    """What is hidden is a linear bias of minus infinity; attention is given no mask and no causality."""

    def _self_attention(self, x: Array, weights: Weights, c: AttentionConfig, view: View, *rest: Any) -> Array:
        self.columns = np.arange(x.shape[1])
        return super()._self_attention(x, weights, c, view, *rest)

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        mask, bias = options.get("mask"), options.get("bias")
        T, S = q.shape[2], k.shape[2]
        seen = np.ones((1, 1, T, S), bool) if mask is None else mask
        if options.get("causal"):
            seen = seen & (np.arange(S) <= np.arange(T)[:, None] + S - T)
        near = np.zeros((), q.dtype) if bias is None else bias
        hidden = np.where(seen, near, np.asarray(-np.inf, q.dtype))
        return super().attention(q, k, v, bias=hidden, scale=options.get("scale"))


@correct
class NothingRoundedBetween(NumpyBackend):
    """In half precision every step is kept in float32, and the result alone is rounded; that is declared."""

    level = {dtype: Level.STRICT for dtype in HALF}

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **keywords: Any) -> Array:
        given = {name: keywords.get(name) for name in ("context", "positions", "mask")}
        self._check_multi_head(x, weights, config, **given)  # before all has one format
        if given["context"] is not None:
            keywords["context"] = upcast(keywords["context"])
        wide = {name: upcast(w) for name, w in weights.items()}
        return round_once(np.asarray(super().multi_head_attention(upcast(x), wide, config, **keywords)), x.dtype)


@correct
class PlainSelfAttention(NumpyBackend):
    """One sequence, as many key/value heads as queries, all biases or none; the rest is declared and refused."""

    unsupported = {
        "multihead.context": "self-attention only",
        "multihead.alibi": "rotation only",
        "multihead.window": "no window",
        "multihead.mask.heads": "one mask for all heads",
        "multihead.causal+mask": "one of them",
        "multihead.positions.rows": "one row of positions",
        "multihead.rotary.interleaved": "halves only",
        "multihead.rotary.partial": "whole heads only",
        "multihead.rotary.scaling": "unscaled",
        "multihead.bias.some": "all or none",
        "multihead.grouped": "no shared heads",
        "multihead.value_width": "E = D",
        "multihead.inner_width": "H D = M",
        "multihead.scale": "1/sqrt(D)",
        "multihead.empty.batch": "a row at least",
        "multihead.empty.queries": "a token at least",
    }

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **keywords: Any) -> Array:
        if any(self._lacks(x, config, keywords)):
            raise Unsupported("multi_head_attention: not offered")
        return super().multi_head_attention(x, weights, config, **keywords)

    def _lacks(self, x: Array, c: AttentionConfig, given: Mapping[str, Any]) -> list[bool]:
        mask, positions = given.get("mask"), given.get("positions")
        turns = c.rotary is not None and (
            c.rotary.layout != "half" or c.rotary.scaling is not None or c.rotary.rotary_dim not in (None, c.head_width)
        )
        return [
            given.get("context") is not None,
            c.alibi or c.window is not None or c.scale is not None or turns,
            mask is not None and (mask.shape[1:2] != (1,) or bool(given.get("causal"))),
            positions is not None and positions.ndim > 1,
            len(c.bias) not in (0, 4),
            c.heads != c.kv_heads or c.head_width != c.value_width or c.width != c.heads * c.head_width,
            not x.size,
        ]


@correct
class BiasesEverywhere(NumpyBackend):
    """All four projections have a bias; layers without them, or with some, are declared and refused."""

    unsupported = {"multihead.bias.some": "all four", "multihead.bias.none": "all four"}

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **keywords: Any) -> Array:
        if len(config.bias) < 4:
            raise Unsupported("multi_head_attention: every projection has a bias")
        return super().multi_head_attention(x, weights, config, **keywords)
