"""Wrong shapes, types, views and refusals of networks; rows mixed, inputs written, NaN swallowed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, upcast
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.feedforward_elements import in_order_of_memory
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.feedforward import ACTIVATIONS
from gaugeblock.spec.precision import HALF

Weights = Mapping[str, Array]


class BothNetworks(NumpyBackend):
    """Does the same to either network."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        return self._wrapped(x, weights, lambda x, w: NumpyBackend.feed_forward(self, x, w, activation=activation))

    def swiglu(self, x: Array, weights: Weights) -> Array:
        return self._wrapped(x, weights, lambda x, w: NumpyBackend.swiglu(self, x, w))

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        raise NotImplementedError


@mutant(killed_by=("FFN-DTYPE",), dtypes=HALF)
class NetworkIsWide(BothNetworks):
    """Networks of half precision come back as float32."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        return np.asarray(network(upcast(x), {name: upcast(w) for name, w in weights.items()}))


@mutant(killed_by=("FFN-SHAPES",))
class BatchSqueezed(BothNetworks):
    """Axes of length one are squeezed out of the result."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        y = np.asarray(network(x, weights))
        return y[0] if y.ndim > 1 and len(y) == 1 else y


@mutant(killed_by=("FFN-ROWS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class RowsCentred(BothNetworks):
    """The mean over the positions is subtracted first."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        wide = upcast(x)
        axes = tuple(range(x.ndim - 1))
        return np.asarray(network((wide - np.mean(wide, axis=axes, keepdims=True)).astype(x.dtype), weights))


@mutant(killed_by=("FFN-ROWS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class QuantizedWithTheBatch(BothNetworks):
    """x is rounded to 127 steps of its largest element."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        wide = upcast(x)
        step = np.max(np.abs(wide), initial=0) / 127 or 1
        return np.asarray(network((np.rint(wide / step) * step).astype(x.dtype), weights))


@mutant(killed_by=("FFN-ROWS", "FFN-FORMULA", "SWIGLU-FORMULA"))
class FirstBatchRowForSecond(BothNetworks):
    """With more than one row of the batch, the first stands for the second."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        y = np.array(network(x, weights))
        if y.ndim > 2 and len(y) > 1:
            y[1] = y[0]
        return y


@mutant(killed_by=("FFN-NONFINITE",))
class NanRowIsZero(BothNetworks):
    """A row that is NaN gives zeros."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        return np.asarray(np.nan_to_num(np.asarray(network(x, weights)), nan=0.0))


@mutant(killed_by=("FFN-NONFINITE",))
class NanReachesAllRows(BothNetworks):
    """The network adds zero times the sum of x."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        lost = np.sum(upcast(x)) * 0
        return np.asarray(network(x, weights) + lost.astype(x.dtype))


@mutant(killed_by=("FFN-STRIDES",))
class StridesOfLayersIgnored(NumpyBackend):
    """Weights are read as if they were contiguous."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        name = f"{layer}.weight"
        return super()._linear(x, {**weights, name: in_order_of_memory(weights[name])}, layer)


@mutant(killed_by=("FFN-STRIDES",))
class StridesOfNetworkInputIgnored(BothNetworks):
    """x is read as if it were contiguous."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        return np.asarray(network(in_order_of_memory(x), weights))


@mutant(killed_by=("FFN-INPUTS-INTACT",))
class ResultWrittenIntoX(BothNetworks):
    """The result is written where x lies."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        y = np.asarray(network(x, weights))
        if x.flags.writeable:
            x[...] = y
        return y


@mutant(killed_by=("FFN-INPUTS-INTACT",))
class BiasesTakenOut(BothNetworks):
    """Biases are taken out of the caller's mapping."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        y = np.asarray(network(x, dict(weights)))
        if isinstance(weights, dict):
            weights.pop("down.bias", None)
        return y


@mutant(killed_by=("FFN-FORMULA", "SWIGLU-FORMULA"))
class WeightsRemembered(BothNetworks):
    """The weights of the first call are used for all later ones of their shape."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        kept: dict[Any, Weights] = self.__dict__.setdefault("kept", {})
        key = (x.dtype, *((name, w.shape) for name, w in weights.items()))
        return np.asarray(network(x, kept.setdefault(key, weights)))


@mutant(killed_by=("FFN-EMPTY",))
class NoPositionsRefused(BothNetworks):
    """No positions are refused."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        if not x.size:
            raise ValueError("no positions")
        return np.asarray(network(x, weights))


@mutant(killed_by=("FFN-REFUSES",))
class WidthsOfLayersNotCompared(NumpyBackend):
    """A weight is read as far as it goes."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        hidden = self._activate(self._linear(upcast(x), weights, "up"), activation)
        return self._linear(hidden, weights, "down").astype(x.dtype)

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        weight = weights[f"{layer}.weight"]
        both = min(x.shape[-1], len(weight))
        return super()._linear(x[..., :both], {**weights, f"{layer}.weight": weight[:both]}, layer)


@mutant(killed_by=("FFN-REFUSES",))
class MissingGateIsUp(NumpyBackend):
    """A gate that is missing is taken from up."""

    def swiglu(self, x: Array, weights: Weights) -> Array:
        return super().swiglu(x, {"gate.weight": weights["up.weight"], **weights})


@mutant(killed_by=("FFN-REFUSES",))
class UnknownActivationIsNone(NumpyBackend):
    """An activation that is not known is taken for ReLU."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        return super().feed_forward(x, weights, activation=activation if activation in ACTIVATIONS else "relu")


@mutant(killed_by=("FFN-SHAPES", "FFN-FORMULA"))
class RowsOfRankTwoRefused(BothNetworks):
    """Any rank but 3 is refused, and nothing of it is declared."""

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        if x.ndim != 3:
            raise Unsupported("networks: x must have rank 3")
        return np.asarray(network(x, weights))


@mutant(killed_by=("FFN-UNSUPPORTED",))
class BiasesAbsentButIgnored(BothNetworks):
    """Biases are declared unsupported; given all the same, they are silently ignored."""

    unsupported = {"feed_forward.bias": "modern models have none", "feed_forward.swiglu.bias": "nor these"}

    def _wrapped(self, x: Array, weights: Weights, network: Any) -> Array:
        return np.asarray(network(x, {name: w for name, w in weights.items() if "bias" not in name}))


@mutant(killed_by=("FFN-UNSUPPORTED",))
class RankAbsentButRight(NumpyBackend):
    """Other ranks than 3 are declared unsupported, and work."""

    unsupported = {"feed_forward.rank": "not needed"}
