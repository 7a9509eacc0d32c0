"""Blocks whose results have wrong shapes or types, that mix rows, remember, write, or take what they should refuse."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.multihead import Weights
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.feedforward_elements import in_order_of_memory
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.errors import GaugeblockError, Unsupported
from gaugeblock.spec.precision import HALF


@mutant(killed_by=("BLOCK-DTYPE",), dtypes=HALF)
class BlockIsWide(NumpyBackend):
    """The result of half precision comes back as float32."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        return upcast(super().block(x, weights, config, **given))


@mutant(killed_by=("BLOCK-SHAPES",))
class BatchOfOneSqueezed(NumpyBackend):
    """A batch of one row comes back without its axis."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        return y[0] if len(y) == 1 else y


@mutant(killed_by=("BLOCK-WEIGHTS",))
class WeightsByOrder(NumpyBackend):
    """Weights are taken in the order in which the mapping holds them, where their shapes fit."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        wanted = names.block(config)
        left = list(weights.values())
        taken: dict[str, Array] = {}
        for name, shape in wanted.items():
            fits = next((n for n, w in enumerate(left) if w.shape == shape), None)
            taken[name] = weights[name] if fits is None or name not in weights else left.pop(fits)
        extra = {name: w for name, w in weights.items() if name not in wanted}
        whole = all(name in weights for name in wanted)
        return super().block(x, {**taken, **extra} if whole else weights, config, **given)


@mutant(killed_by=("BLOCK-INPUTS-INTACT",))
class StreamInPlace(NumpyBackend):
    """Sublayers are added to the stream where it lies."""

    def _residual(self, x: Array, y: Array) -> Array:
        total = super()._residual(x, y)
        if x.flags.writeable:
            x[...] = total
        return total


@mutant(killed_by=("BLOCK-INPUTS-INTACT",))
class WeightsTakenOut(NumpyBackend):
    """Weights are taken out of the mapping as they are used."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        if isinstance(weights, dict):
            weights.pop("attention_norm.weight")
        return y


@mutant(killed_by=("BLOCK-INPUTS-INTACT",))
class ContextScaledInPlace(NumpyBackend):
    """The context is written over by what was made of it."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        context = given.get("context")
        if context is not None and context.flags.writeable:
            context *= 0
        return y


@mutant(killed_by=("BLOCK-STRIDES",))
class StridesOfTheStreamIgnored(NumpyBackend):
    """x is read as if it were contiguous."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        return super().block(in_order_of_memory(x), weights, config, **given)


@mutant(killed_by=("BLOCK-STRIDES",))
class StridesOfBlockWeightsIgnored(NumpyBackend):
    """Weights are read as if they were contiguous."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        return super().block(x, {name: in_order_of_memory(w) for name, w in weights.items()}, config, **given)


@mutant(killed_by=("BLOCK-BATCH-ROWS",))
class RowsShareTheirScale(NumpyBackend):
    """The stream is rounded to 127 steps of its largest element."""

    def _residual(self, x: Array, y: Array) -> Array:
        wide = upcast(x) + upcast(y)
        step = np.max(np.abs(wide), initial=0) / 127 or 1
        return round_once(np.rint(wide / step) * step, x.dtype)


@mutant(killed_by=("BLOCK-BATCH-ROWS", "BLOCK-FORMULA"))
class FirstRowForAllInABlock(NumpyBackend):
    """Every batch row gets the feed-forward network of the first."""

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        y = super()._network(x, weights, c)
        return np.broadcast_to(y[:1], y.shape).copy()


@mutant(killed_by=("BLOCK-NONFINITE",))
class NanInTheStreamIsZero(NumpyBackend):
    """NaN in the stream becomes zero."""

    def _residual(self, x: Array, y: Array) -> Array:
        return np.asarray(np.nan_to_num(super()._residual(x, y), nan=0.0))


@mutant(killed_by=("BLOCK-NONFINITE",))
class NanReachesEveryRow(NumpyBackend):
    """Zero times the sum of x is added."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        return np.asarray(y + np.asarray(np.sum(upcast(x)) * 0, x.dtype))


@mutant(killed_by=("BLOCK-STATELESS",))
class FirstMaskKept(NumpyBackend):
    """The first mask of a shape stays in use for all later calls of that shape."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self._masks: dict[tuple[int, ...], Array] = {}

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        mask = given.get("mask")
        if mask is not None:
            given["mask"] = self._masks.setdefault(mask.shape, mask)
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-STATELESS",))
class FirstWeightsKept(NumpyBackend):
    """The first norms of a shape stay in use for all later calls of that shape."""

    def __init__(self, variant: str = "") -> None:
        super().__init__(variant)
        self._norms: dict[tuple[str, tuple[int, ...]], Array] = {}

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        if all("_norm." not in name or w.ndim == 1 for name, w in weights.items()):
            kept = {n: self._norms.setdefault((n, w.shape), w) if "_norm." in n else w for n, w in weights.items()}
            weights = {name: w if w.dtype == x.dtype else weights[name] for name, w in kept.items()}
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-EMPTY",))
class NoRowsNoBlock(NumpyBackend):
    """A call without batch rows or tokens fails."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        if not x.size:
            raise ValueError("nothing to do")
        return super().block(x, weights, config, **given)


@mutant(killed_by=("BLOCK-EMPTY",))
class EmptyContextIsNan(NumpyBackend):
    """A context without tokens gives NaN."""

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        y = super().block(x, weights, config, **given)
        context = given.get("context")
        return y if context is None or context.shape[1] else np.full_like(y, np.nan)


@mutant(killed_by=("BLOCK-EMPTY",))
class EmptyContextSkipsTheNorm(NumpyBackend):
    """A context without tokens leaves the cross-attention out, with its bias and its norm."""

    def _cross_sublayer(self, x: Array, weights: Weights, c: BlockConfig, inner: Any, memory: Any) -> Array:
        if memory.keys.shape[2]:
            return super()._cross_sublayer(x, weights, c, inner, memory)
        super()._cross_sublayer(x, weights, c, inner, memory)
        return x


class Lenient(NumpyBackend):
    """Takes calls that should be refused."""

    def _lenient(self, x: Array, weights: Weights, config: BlockConfig, given: dict[str, Any]) -> Array:
        raise NotImplementedError

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        try:
            return super().block(x, weights, config, **given)
        except GaugeblockError:
            return self._lenient(x, weights, config, given)


@mutant(killed_by=("BLOCK-REFUSES",))
class ContextIgnored(Lenient):
    """A context that the block has no use for is ignored."""

    def _lenient(self, x: Array, weights: Weights, config: BlockConfig, given: dict[str, Any]) -> Array:
        if config.cross is not None:
            raise Unsupported("blocks: something is wrong")
        known = {name: given.get(name) for name in ("positions", "mask")}
        return NumpyBackend.block(self, x, weights, config, **known)


@mutant(killed_by=("BLOCK-REFUSES",))
class MissingNormIsOne(Lenient):
    """A norm whose weight is missing has weight one."""

    def _lenient(self, x: Array, weights: Weights, config: BlockConfig, given: dict[str, Any]) -> Array:
        filled = {n: np.ones(s, x.dtype) for n, s in names.block(config).items() if "_norm.weight" in n}
        return NumpyBackend.block(self, x, {**filled, **weights}, config, **given)


@mutant(killed_by=("BLOCK-REFUSES",))
class MissingBiasIsZero(Lenient):
    """A bias that is missing is zero."""

    def _lenient(self, x: Array, weights: Weights, config: BlockConfig, given: dict[str, Any]) -> Array:
        filled = {n: np.zeros(s, x.dtype) for n, s in names.block(config).items() if n.endswith(".bias")}
        return NumpyBackend.block(self, x, {**filled, **weights}, config, **given)


@mutant(killed_by=("BLOCK-REFUSES",))
class MaskCut(Lenient):
    """A mask with a column too many loses it."""

    def _lenient(self, x: Array, weights: Weights, config: BlockConfig, given: dict[str, Any]) -> Array:
        mask = given.get("mask")
        if mask is None:
            raise Unsupported("blocks: something is wrong")
        return NumpyBackend.block(self, x, weights, config, **{**given, "mask": mask[..., : x.shape[1]]})


@mutant(killed_by=("BLOCK-TAPS",))
class TracingRoundsTwice(NumpyBackend):
    """What is noted on the way is rounded to fewer digits, and so is what follows."""

    def _tap(self, name: str, x: Any) -> Any:
        if self._taps is not None and name == "feed_forward":
            x = np.asarray(x * (1 + 2.0**-20)).astype(x.dtype)
        return super()._tap(name, x)


@mutant(killed_by=("BLOCK-TAPS",))
class StepNotShown(NumpyBackend):
    """The first sum is not shown."""

    def traced(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, Mapping[str, Array]]:
        result, taps = super().traced(method, *args, **kwargs)
        return result, {name: x for name, x in taps.items() if name != "attention_residual"}


@mutant(killed_by=("BLOCK-TAPS",))
class StepsUnderOtherNames(NumpyBackend):
    """An intermediate is shown that the specification does not name."""

    def _network(self, x: Array, weights: Weights, c: BlockConfig) -> Array:
        return super()._network(self._tap("feed_forward_input", x), weights, c)


@mutant(killed_by=("BLOCK-RESIDUAL",))
class StepShownIsAnother(NumpyBackend):
    """The stream is shown before the sublayer is added."""

    def _sublayer(self, x: Array, weights: Weights, c: BlockConfig, name: str, f: Any) -> Array:
        y = super()._sublayer(x, weights, c, name, f)
        if name == "attention":
            self._tap(f"{name}_residual", x)
        return y


@mutant(killed_by=("BLOCK-UNSUPPORTED",))
class CausalDeclaredAndIgnored(NumpyBackend):
    """Causality is declared unsupported, and ignored."""

    unsupported = {"block.causal": "encoders only"}

    def block(self, x: Array, weights: Weights, config: BlockConfig, **given: Any) -> Array:
        return super().block(x, weights, plain(config), **given)


def plain(config: BlockConfig) -> BlockConfig:
    """The configuration without causality."""
    from dataclasses import replace

    return replace(config, causal=False)
