"""Wrong blocks: where norms and residuals stand, which sublayers come, in which order, and what they read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import Memory, Remember, View, Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.config import AttentionConfig, BlockConfig
from gaugeblock.spec.weights import part

Function = Callable[[Array], Array]
Sum = Callable[[Array, Array], Array]


class WritesSublayersOut(NumpyBackend):
    """Hands a mutant each sublayer as a function, by name."""

    def _sublayers(
        self,
        x: Array,
        weights: Weights,
        c: BlockConfig,
        view: View,
        memory: Memory | None = None,
        remember: Remember | None = None,
    ) -> Array:
        def attention(y: Array) -> Array:
            with self._within("attention"):
                return self._self_attention(y, part(weights, "attention"), c.attention, view, remember)

        def cross(y: Array) -> Array:
            assert memory is not None and c.cross is not None
            with self._within("cross"):
                return self._cross_attention(y, part(weights, "cross"), c.cross, memory)

        def feed_forward(y: Array) -> Array:
            return self._tap("feed_forward", self._network(y, part(weights, "feed_forward"), c))

        crosses = {"cross": cross} if memory is not None and c.cross is not None else {}
        return self._in_order(x, weights, c, {"attention": attention, **crosses, "feed_forward": feed_forward})

    def _in_order(self, x: Array, weights: Weights, c: BlockConfig, layers: dict[str, Function]) -> Array:
        raise NotImplementedError


@mutant(killed_by=("BLOCK-IDENTITY", "BLOCK-PLACEMENT", "BLOCK-FORMULA"))
class PostForPre(NumpyBackend):
    """The sum is normalised where the sublayer's input should be."""

    def _pre(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        return self._post(x, f, norm, add)


@mutant(
    killed_by=("BLOCK-NORMS-IN-TURN", "BLOCK-ROWS-NORMALISED", "BLOCK-PLACEMENT"),
    reports=("ml-explore/mlx#1327", "NVIDIA-NeMo/Speech#4350", "NVIDIA-NeMo/Speech#1880"),
)
class PreForPost(NumpyBackend):
    """The sublayer's input is normalised where the sum should be."""

    def _post(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        return self._pre(x, f, norm, add)


@mutant(
    killed_by=("BLOCK-IDENTITY", "BLOCK-RESIDUAL", "BLOCK-PLACEMENT"),
    reports=(
        "pytorch/pytorch#61165",
        "Howuhh/faster-trajectory-transformer#3",
        "lbcb-sci/RiNALMo#9",
        "SHI-Labs/Compact-Transformers#25",
        "tracel-ai/burn#1054",
    ),
    catalogue="M43",
)
class ResidualFromNormalised(NumpyBackend):
    """With norms before the sublayers, the residual is the normalised stream."""

    def _pre(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        y = norm(x)
        return add(y, f(y))


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-IDENTITY"))
class ResidualMissing(NumpyBackend):
    """With norms before the sublayers, the feed-forward network replaces the stream."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        if c.placement == "post" or name != "feed_forward":
            return super()._sublayer(x, weights, c, name, f)
        y = f(self._tap(f"{name}_norm", self._normed(x, part(weights, f"{name}_norm"), c)))
        return self._tap(f"{name}_residual", y)


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-NORMS-IN-TURN"))
class ResidualMissingBehind(NumpyBackend):
    """With norms behind the sums, the attention replaces the stream."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        if c.placement == "pre" or name != "attention":
            return super()._sublayer(x, weights, c, name, f)
        y = self._tap(f"{name}_residual", f(x))
        return self._tap(f"{name}_norm", self._normed(y, part(weights, f"{name}_norm"), c))


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-PLACEMENT"))
class ResidualOfTheBlock(WritesSublayersOut):
    """The last sum adds the input of the block, not what the attention made of it."""

    def _in_order(self, x: Array, weights: Weights, c: BlockConfig, layers: dict[str, Function]) -> Array:
        stream = x
        for name, f in layers.items():
            self._kept = x if name == "feed_forward" else None
            stream = self._sublayer(stream, weights, c, name, f)
        return stream

    def _residual(self, x: Array, y: Array) -> Array:
        return super()._residual(x if self._kept is None else self._kept, y)

    _kept: Array | None = None


@mutant(killed_by=("BLOCK-IDENTITY", "BLOCK-RESIDUAL"))
class ResidualHalved(NumpyBackend):
    """The sum is divided by the root of two, so that it keeps its variance."""

    def _residual(self, x: Array, y: Array) -> Array:
        return round_once((upcast(x) + upcast(y)) * np.sqrt(0.5).astype(upcast(x).dtype), x.dtype)


@mutant(killed_by=("BLOCK-RESIDUAL", "BLOCK-FORMULA"))
class SublayersScaled(NumpyBackend):
    """What a sublayer gives is multiplied by 0.98."""

    def _residual(self, x: Array, y: Array) -> Array:
        return round_once(upcast(x) + upcast(y) * upcast(x).dtype.type(0.98), x.dtype)


@mutant(killed_by=("BLOCK-IDENTITY", "BLOCK-PLACEMENT"))
class NormOnBothSides(NumpyBackend):
    """With norms before the sublayers, what a sublayer gives is normalised as well, and so is the sum."""

    def _pre(self, x: Array, f: Function, norm: Function, add: Sum) -> Array:
        return norm(add(x, norm(f(norm(x)))))


@mutant(killed_by=("BLOCK-FORMULA", "BLOCK-ORDER"))
class Parallel(WritesSublayersOut):
    """All sublayers read the input of the block, side by side."""

    def _in_order(self, x: Array, weights: Weights, c: BlockConfig, layers: dict[str, Function]) -> Array:
        total = upcast(x)
        for name, f in layers.items():
            total = total + upcast(self._sublayer(x, weights, c, name, f)) - upcast(x)
        return round_once(total, x.dtype)


class InOtherOrder(WritesSublayersOut):
    """The sublayers in an order of its own."""

    order: tuple[str, ...] = ()

    def _in_order(self, x: Array, weights: Weights, c: BlockConfig, layers: dict[str, Function]) -> Array:
        for name in (name for name in self.order if name in layers):
            x = self._sublayer(x, weights, c, name, layers[name])
        return x


@mutant(killed_by=("BLOCK-ORDER", "BLOCK-FORMULA"))
class CrossBeforeSelf(InOtherOrder):
    """Cross-attention comes before self-attention."""

    order = ("cross", "attention", "feed_forward")


@mutant(killed_by=("BLOCK-ORDER", "BLOCK-FORMULA"))
class CrossComesLast(InOtherOrder):
    """Cross-attention comes behind the feed-forward network."""

    order = ("attention", "feed_forward", "cross")


@mutant(killed_by=("BLOCK-FORMULA", "BLOCK-ORDER"))
class FeedForwardFirst(InOtherOrder):
    """The feed-forward network comes before the attention."""

    order = ("feed_forward", "attention", "cross")


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-ORDER"))
class CrossSkipped(InOtherOrder):
    """Cross-attention is left out."""

    order = ("attention", "feed_forward")


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-PLACEMENT"), reports=("facebookresearch/xformers#233",))
class ContextNormalised(NumpyBackend):
    """The context passes the norm of the cross-attention before its keys and values are made."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        context = given.get("context")
        if context is not None and config.cross is not None and "cross_norm.weight" in weights:
            given["context"] = self._normed(context, part(weights, "cross_norm"), config)
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-FORMULA"))
class ValuesOfContextNormalised(NumpyBackend):
    """Keys are made from the context as it is, values from its normalised rows."""

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        k, _ = super()._project_memory(context, weights, c)
        wide = upcast(context)
        rows = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + 1e-5).astype(wide.dtype)
        v = self._split(self._project(rows.astype(context.dtype), weights, "value"), c.kv_heads)
        return k, self._tap("value", v)


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-FORMULA"))
class CrossReadsTheStream(NumpyBackend):
    """With norms before the sublayers, the queries of the cross-attention come from the stream as it is."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Function) -> Array:
        if name != "cross" or c.placement == "post":
            return super()._sublayer(x, weights, c, name, f)
        return super()._sublayer(x, weights, c, name, lambda _: f(x))


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-FORMULA"))
class CrossReadsBatchShifted(NumpyBackend):
    """Every batch row reads the context of the next one."""

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        return super()._project_memory(np.roll(context, -1, axis=0), weights, c)


@mutant(killed_by=("BLOCK-CROSS", "BLOCK-FORMULA"))
class CrossTakesTheSelfWeights(NumpyBackend):
    """Keys and values of the context are made by the projections of the self-attention."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        own = {
            name: weights.get(name.replace("cross.", "attention."), w)
            if name.startswith(("cross.key", "cross.val"))
            else w
            for name, w in weights.items()
        }
        return super().block(x, own, config, **given)
