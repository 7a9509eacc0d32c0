"""Wrong sources, shapes, types, views and refusals of multi-head attention; inputs written, calls remembered."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.feedforward_elements import in_order_of_memory
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.multihead import Dims
from gaugeblock.spec.precision import HALF

Weights = Mapping[str, Array]


class WholeCall(NumpyBackend):
    """Changes what goes into a call, or what comes out of it."""

    def multi_head_attention(self, x: Array, weights: Weights, config: AttentionConfig, **keywords: Any) -> Array:
        return self._wrapped(x, weights, config, keywords)

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        raise NotImplementedError

    def _right(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        return np.asarray(NumpyBackend.multi_head_attention(self, x, weights, config, **keywords))


@mutant(killed_by=("MHA-CONTEXT",))
class ContextForgottenWhereItFits(WholeCall):
    """A context of x's shape is ignored."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        context = keywords.get("context")
        fits = context is not None and context.shape == x.shape
        return self._right(x, weights, config, {**keywords, **({"context": x} if fits else {})})


@mutant(killed_by=("MHA-CONTEXT",))
class ValuesOfAContextAreKeys(NumpyBackend):
    """Values of a context are projected by the weights of the keys, where those fit."""

    def _project_memory(self, context: Array, weights: Weights, c: AttentionConfig) -> tuple[Array, Array]:
        fits = weights["key.weight"].shape == weights["value.weight"].shape
        own = {"value.weight": weights["key.weight"]} if fits else {}
        return super()._project_memory(context, {**weights, **own}, c)


@mutant(killed_by=("MHA-CONTEXT",))
class ContextCutToTheQueries(NumpyBackend):
    """No more tokens of a context are read than x has."""

    def _cross_attention(self, x: Array, weights: Weights, c: AttentionConfig, memory: Any) -> Array:
        k, v, mask = memory
        if mask is None or mask.shape[-1] == 1:
            memory = memory._replace(keys=k[:, :, : max(x.shape[1], 1)], values=v[:, :, : max(x.shape[1], 1)])
        return super()._cross_attention(x, weights, c, memory)


@mutant(killed_by=("MHA-PERMUTE", "MHA-INERT"))
class TokensMixedWithTheirNeighbours(WholeCall):
    """A hundredth of the token before is added to each token first."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        mixed = (upcast(x) + upcast(np.roll(x, 1, axis=1)) / 100).astype(x.dtype)
        return self._right(mixed, weights, config, keywords)


@mutant(killed_by=("MHA-BATCH-ROWS", "MHA-ATTEND"))
class FirstRowsKeysForAll(NumpyBackend):
    """Every row of the batch attends to the keys of the first."""

    def attention(self, q: Array, k: Array, v: Array, **options: Any) -> Array:
        return super().attention(q, np.broadcast_to(k[:1], k.shape), v, **options)


@mutant(killed_by=("MHA-SHAPES",))
class OneTokenSqueezed(WholeCall):
    """A single token comes back without its axis."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y = self._right(x, weights, config, keywords)
        return y[:, 0] if y.shape[1] == 1 else y


@mutant(killed_by=("MHA-DTYPE",), dtypes=HALF)
class LayerIsWide(WholeCall):
    """Half precision comes back as float32."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        return upcast(self._right(x, weights, config, keywords))


@mutant(killed_by=("MHA-TAPS",))
class MixtureNotShown(NumpyBackend):
    """What attention gives is not among the taps."""

    def _tap(self, name: str, x: Any) -> Any:
        return x if name == "mixed" else super()._tap(name, x)


@mutant(killed_by=("MHA-TAPS",))
class TracedInAnotherFormat(NumpyBackend):
    """A call that is traced is computed in float64."""

    def traced(self, method: str, *args: Any, **kwargs: Any) -> Any:
        (x, weights, config), context = args, kwargs.get("context")
        if context is not None:
            kwargs["context"] = context.astype(np.float64)
        wide = {name: w.astype(np.float64) for name, w in weights.items()}
        y, taps = super().traced(method, x.astype(np.float64), wide, config, **kwargs)
        return y.astype(x.dtype), {name: tap.astype(x.dtype) for name, tap in taps.items()}


@mutant(killed_by=("MHA-STRIDES",))
class StridesOfProjectionsIgnored(NumpyBackend):
    """Weights of projections are read as if they were contiguous."""

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        name = f"{layer}.weight"
        return super()._project(x, {**weights, name: in_order_of_memory(weights[name])}, layer)


@mutant(killed_by=("MHA-STRIDES",))
class StridesOfTokensIgnored(WholeCall):
    """x is read as if it were contiguous."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        return self._right(in_order_of_memory(x), weights, config, keywords)


@mutant(killed_by=("MHA-INPUTS-INTACT",))
class ResidualAddedInPlace(WholeCall):
    """The result is added to x where x lies."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y = self._right(x, weights, config, keywords)
        if x.flags.writeable:
            x += y
        return y


@mutant(killed_by=("MHA-INPUTS-INTACT",))
class MaskNarrowedInPlace(WholeCall):
    """Causality, or else the first column, is written into the caller's mask."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y, mask = self._right(x, weights, config, keywords), keywords.get("mask")
        if mask is not None and mask.flags.writeable:
            mask[..., 0] = False
        return y


@mutant(killed_by=("MHA-INPUTS-INTACT",))
class WeightsTakenOutInALayer(WholeCall):
    """Biases are taken out of the caller's mapping once they have been packed."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y = self._right(x, dict(weights), config, keywords)
        if isinstance(weights, dict):
            weights.pop("output.bias", None)
        return y


@mutant(killed_by=("MHA-STATELESS",), reports=("lucidrains/x-transformers#90",))
class MaskRemembered(WholeCall):
    """The mask of the first call of a shape holds for all later ones."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        kept: dict[Any, Any] = self.__dict__.setdefault("kept", {})
        mask = keywords.get("mask")
        if mask is not None:
            keywords["mask"] = kept.setdefault((x.shape, mask.shape), mask.copy())
        return self._right(x, weights, config, keywords)


@mutant(killed_by=("MHA-STATELESS", "MHA-PROJECT"))
class PackedWeightsRemembered(WholeCall):
    """Weights are packed at the first call of a configuration, and not looked at again."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        kept: dict[Any, Weights] = self.__dict__.setdefault("packed", {})
        held = kept.setdefault((config, x.dtype), dict(weights))
        return self._right(x, held if held.keys() == weights.keys() else weights, config, keywords)


@mutant(killed_by=("MHA-NONFINITE",))
class NanBecomesZero(WholeCall):
    """NaN in the result is replaced by zero."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y = self._right(x, weights, config, keywords)
        return np.where(np.isnan(y), np.zeros((), y.dtype), y)


@mutant(killed_by=("MHA-NONFINITE",))
class NanReachesTheBatch(WholeCall):
    """Zero times the sum of x is added to all of the result."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y = self._right(x, weights, config, keywords)
        return np.asarray(y + (np.sum(upcast(x)) * 0).astype(x.dtype))


@mutant(killed_by=("MHA-EMPTY-AXES",))
class NoTokensRefused(WholeCall):
    """A call without tokens is refused."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        if not x.size:
            raise ValueError("no tokens")
        return self._right(x, weights, config, keywords)


@mutant(killed_by=("MHA-EMPTY-AXES",))
class NothingToAttendToIsNan(WholeCall):
    """A context of no tokens gives NaN, as a softmax over nothing does."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        y, context = self._right(x, weights, config, keywords), keywords.get("context")
        return np.full_like(y, np.nan) if context is not None and not context.shape[1] else y


@mutant(killed_by=("MHA-REFUSES",))
class MissingBiasIsZeroInALayer(WholeCall):
    """A bias that is missing is taken for zero."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        there = {name for name in config.bias if f"{name}.bias" in weights}
        made = AttentionConfig(**{**vars(config), "bias": frozenset(there)})
        return self._right(x, weights, made, keywords)


@mutant(killed_by=("MHA-REFUSES",))
class CausalityBetweenTwoIgnored(WholeCall):
    """Between two sequences causality is accepted and ignored."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        crosses = keywords.get("context") is not None
        return self._right(x, weights, config, {**keywords, "causal": not crosses and keywords.get("causal", False)})


@mutant(killed_by=("MHA-REFUSES",))
class RotationBetweenTwoIgnored(WholeCall):
    """Between two sequences a rotation is accepted and ignored."""

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        if keywords.get("context") is not None:
            config = AttentionConfig(**{**vars(config), "rotary": None})
        return self._right(x, weights, config, keywords)


@mutant(killed_by=("MHA-REFUSES",))
class NothingCompared(NumpyBackend):
    """Sizes are not compared: a mask and positions are read as far as they go, weights as far as they fit."""

    def _check_multi_head(
        self,
        x: Array,
        weights: Weights,
        config: AttentionConfig,
        context: Array | None,
        positions: Array | None,
        mask: Array | None,
    ) -> Dims:
        S = x.shape[1] if context is None else context.shape[1]
        return Dims(x.shape[0], x.shape[1], S, config.width, 1, 1, 1, 1)

    def _project(self, x: Array, weights: Weights, layer: str) -> Array:
        weight = weights[f"{layer}.weight"]
        both = min(x.shape[-1], len(weight))
        return super()._project(x[..., :both], {**weights, f"{layer}.weight": weight[:both]}, layer)


@mutant(killed_by=("MHA-UNSUPPORTED",))
class WindowAbsentButIgnored(WholeCall):
    """A window is declared unsupported; configured all the same, it is silently ignored."""

    unsupported = {"multihead.window": "no windows"}

    def _wrapped(self, x: Array, weights: Weights, config: AttentionConfig, keywords: dict[str, Any]) -> Array:
        return self._right(x, weights, AttentionConfig(**{**vars(config), "window": None}), keywords)


@mutant(killed_by=("MHA-UNSUPPORTED",))
class GroupsAbsentButRight(NumpyBackend):
    """Shared key/value heads are declared unsupported, and work."""

    unsupported = {"multihead.grouped": "not needed"}
