"""Activations and networks in other forms and orders, which the reference admits at the declared level."""

from collections.abc import Mapping
from math import erfc

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array, round_once, upcast
from gaugeblock.backends.numpy.feedforward import erf
from gaugeblock.conformance.mutants.formats import KnowsTheFormatOfNetworks
from gaugeblock.conformance.unusual import correct
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.precision import Level

Weights = Mapping[str, Array]
LOG2_E = float(np.log2(np.e))


@correct
class GeluByErfc(NumpyBackend):
    """GELU is x erfc(-x / sqrt(2)) / 2, which keeps its digits below zero."""

    def _normal_cdf(self, x: Array) -> Array:
        scaled = np.asarray(x * -np.sqrt(0.5), np.float64)
        return np.asarray(np.vectorize(erfc, otypes=[float])(scaled) / 2).astype(x.dtype)


@correct
class GeluDoublesFirst(NumpyBackend):
    """GELU is x (1 + erf) and is halved last, so that it overflows above half the largest number."""

    def _gelu(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x * (1 + erf(x / np.sqrt(2)).astype(x.dtype)) / 2)


@correct
class GeluOfFewTerms(NumpyBackend):
    """The error function is 1 - p(t) exp(-z^2) in float32, whose error near zero is that of one."""

    dtypes = frozenset({"float32", "bfloat16", "float16"})

    def _normal_cdf(self, x: Array) -> Array:
        return np.asarray((1 + few_terms(x * np.float32(np.sqrt(0.5)))) / 2)


def few_terms(x: Array) -> Array:
    """erf, off by at most 1.5e-7 and by rounding (Abramowitz and Stegun 1964, 7.1.26)."""
    z, one = np.abs(x), np.float32(1)
    t = one / (one + np.float32(0.3275911) * z)
    p = np.zeros_like(t)
    for a in np.array([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592], np.float32):
        p = a + t * p
    with np.errstate(over="ignore"):
        return np.asarray(np.copysign(one - t * p * np.exp(-z * z), x))


@correct
class TanhGeluBySigmoid(NumpyBackend):
    """GELU by tanh is x sigmoid(2 w), by an exponential that may overflow."""

    def _gelu_tanh(self, x: Array) -> Array:
        c = x.dtype.type(np.sqrt(8 / np.pi))
        with np.errstate(over="ignore"):
            return np.asarray(x / (1 + np.exp(-c * (x + x.dtype.type(0.044715) * x**3))))


@correct
class TanhGeluFactored(NumpyBackend):
    """The argument of tanh is x (a + b x^2) with folded constants."""

    def _gelu_tanh(self, x: Array) -> Array:
        a, b = (x.dtype.type(c * np.sqrt(2 / np.pi)) for c in (1, 0.044715))
        with np.errstate(over="ignore"):
            return np.asarray(x / 2 * (1 + np.tanh(x * (a + b * x * x))))


@correct
class SiluByTanh(NumpyBackend):
    """SiLU is x (1 + tanh(beta x / 2)) / 2."""

    def _silu(self, x: Array, beta: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x / 2 + x / 2 * np.tanh(x.dtype.type(beta / 2) * x))


@correct
class SiluByQuotient(NumpyBackend):
    """SiLU is x / (1 + exp(-beta x)), where an exponential that overflows gives the zero that is wanted."""

    def _silu(self, x: Array, beta: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x / (1 + np.exp(-x.dtype.type(beta) * x)))


@correct
class SiluByExp2(NumpyBackend):
    """The exponential is of base two, with beta and log2(e) folded into one rounded constant."""

    def _silu(self, x: Array, beta: float) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x / (1 + np.exp2(x.dtype.type(-beta * LOG2_E) * x)))


@correct
class SubnormalNumbersFlushed(NumpyBackend):
    """Subnormal arguments and results are read as zero, as XLA and most GPUs do in float32."""

    dtypes = frozenset({"float32", "bfloat16"})

    def relu(self, x: Array) -> Array:
        return self._flushed(super().relu(self._flushed(x)))

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        return self._flushed(super().gelu(self._flushed(x), approximate=approximate))

    def silu(self, x: Array, *, beta: float = 1.0) -> Array:
        return self._flushed(super().silu(self._flushed(x), beta=beta))

    def _flushed(self, x: Array) -> Array:
        wide = upcast(x)
        return np.where(np.abs(wide) < np.finfo(np.float32).tiny, 0, wide).astype(x.dtype)


@correct
class SumBeginsWithTheBias(NumpyBackend):
    """Sums begin with the bias and go from the last term to the first, each partial sum rounded."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        weight = upcast(weights[f"{layer}.weight"])
        bias = upcast(weights.get(f"{layer}.bias", np.zeros(weight.shape[1], weight.dtype)))
        total = np.broadcast_to(bias, (*x.shape[:-1], len(bias))).astype(x.dtype)
        for n in reversed(range(len(weight))):
            total = total + x[..., n : n + 1] * weight[n]
        return total


@correct
class GateAndUpInOneProduct(NumpyBackend):
    """The weights of gate and up lie side by side and are multiplied at once, up times the sigmoid first."""

    def swiglu(self, x: Array, weights: Weights) -> Array:
        layers = {name: w for name, w in weights.items() if not name.startswith("down.")}
        if x.dtype != np.float32 or x.ndim != 3 or len(layers) != 2:
            return super().swiglu(x, weights)
        both = np.concatenate([weights["gate.weight"], weights["up.weight"]], axis=1)
        F = both.shape[1] // 2
        product = x @ both
        gate, up = product[..., :F], product[..., F:]
        return self._linear(gate * (up * self._sigmoid(gate)), weights, "down")


@correct
class HiddenByBlocks(NumpyBackend):
    """Hidden units are computed and added to the result three at a time."""

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        F = len(weights["down.weight"]) if "down.weight" in weights else 0
        if x.shape[-1:] != weights.get("up.weight", np.zeros((0, 0))).shape[:1] or F < 4:
            return super().feed_forward(x, weights, activation=activation)
        super().feed_forward(x[:0], weights, activation=activation)  # to refuse what is to be refused
        total = upcast(weights.get("down.bias", np.zeros(weights["down.weight"].shape[1], x.dtype)))
        for first in range(0, F, 3):
            block = slice(first, first + 3)
            cut = {"up.weight": weights["up.weight"][:, block], "down.weight": weights["down.weight"][block]}
            cut |= {"up.bias": weights["up.bias"][block]} if "up.bias" in weights else {}
            total = total + self._linear(self._activate(self._linear(upcast(x), cut, "up"), activation), cut, "down")
        return round_once(np.asarray(total), x.dtype)


class KeepsTheFormat(KnowsTheFormatOfNetworks):
    """Rounds to half precision what level stored lets it round, and declares that."""

    level = {"bfloat16": Level.STORED, "float16": Level.STORED}


@correct
class LayersStored(KeepsTheFormat):
    """Each product, its sum with the bias, the activated and the gated row are kept in half precision."""

    def _linear(self, x: Array, weights: Weights, layer: str) -> Array:
        y = self._stored(x @ upcast(weights[f"{layer}.weight"]))
        bias = weights.get(f"{layer}.bias")
        return y if bias is None else self._stored(y + upcast(bias))

    def _activate(self, hidden: Array, activation: str) -> Array:
        return self._stored(super()._activate(hidden, activation))

    def _gated(self, gate: Array, up: Array) -> Array:
        return self._stored(self._stored(self._silu(gate, 1.0)) * up)


@correct
class OneActivationOnly(NumpyBackend):
    """Networks know SiLU only, without biases, in rank 3; the rest is declared and refused."""

    unsupported = {
        "feed_forward.activation.relu": "SiLU only",
        "feed_forward.activation.gelu": "SiLU only",
        "feed_forward.activation.gelu_tanh": "SiLU only",
        "feed_forward.bias": "no biases",
        "feed_forward.swiglu.bias": "no biases",
        "feed_forward.rank": "rank 3 only",
        "feed_forward.empty": "a position at least",
        "activations.gelu": "by tanh only",
        "activations.beta": "SiLU has none",
        "activations.empty": "an element at least",
    }

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        self._known(x, weights, activation)
        return super().feed_forward(x, weights, activation=activation)

    def swiglu(self, x: Array, weights: Weights) -> Array:
        self._known(x, weights, "silu")
        return super().swiglu(x, weights)

    def relu(self, x: Array) -> Array:
        self._some(x)
        return super().relu(x)

    def gelu(self, x: Array, *, approximate: str = "none") -> Array:
        self._some(x)
        if approximate == "none":
            raise Unsupported("activations: GELU by tanh only")
        return super().gelu(x, approximate=approximate)

    def silu(self, x: Array) -> Array:  # type: ignore[override]  # beta is declared unsupported
        self._some(x)
        return super().silu(x)

    def _some(self, x: Array) -> None:
        if not x.size:
            raise Unsupported("activations: nothing to do")

    def _known(self, x: Array, weights: Weights, activation: str) -> None:
        if activation != "silu" or x.ndim != 3 or not x.size or any("bias" in name for name in weights):
            raise Unsupported("networks: SiLU in rank 3 without biases")


@correct
class LayersWithBiases(NumpyBackend):
    """Every layer has a bias; networks without them, or with some, are declared and refused."""

    unsupported = {
        f"feed_forward.{gate}bias.{share}": "a bias in each layer"
        for gate in ("", "swiglu.")
        for share in ("some", "none")
    }

    def feed_forward(self, x: Array, weights: Weights, *, activation: str) -> Array:
        self._biased(weights)
        return super().feed_forward(x, weights, activation=activation)

    def swiglu(self, x: Array, weights: Weights) -> Array:
        self._biased(weights)
        return super().swiglu(x, weights)

    def _biased(self, weights: Weights) -> None:
        layers = {name.partition(".")[0] for name in weights}
        if not {f"{layer}.bias" for layer in layers} <= set(weights):
            raise Unsupported("networks: every layer has a bias")
