"""Malformed calls of activations and networks, and the smallest calls that use one of their features."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase, RankedCase
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, ShapeError
from gaugeblock.spec.precision import FLOAT16, FLOAT32

C = TypeVar("C", bound=RankedCase)

NUMBERS = ActivationCase(B=2, T=3, M=5, function="silu")
NETWORK = FeedForwardCase(B=2, T=3, M=4, F=7, bias="all")


def malformed_activations(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call of an activation that the backend's features allow to state."""
    x = NUMBERS.inputs(cell.io)["x"]
    integers = np.ones(x.shape, np.int64)
    yield Malformed("x holds integers", DTypeError, "relu", (integers,), must=False)
    if offers(cell, "gelu"):
        yield Malformed("x holds integers", DTypeError, "gelu", (integers,), must=False)
    if offers(cell, "gelu") or offers(cell, "approximate"):
        for name in ("sigmoid", "erf", ""):
            problem = f"approximate is {name!r}"
            yield Malformed(problem, ConfigError, "gelu", (x,), {"approximate": name}, must=offers(cell, "approximate"))
    if offers(cell, "silu"):
        yield Malformed("x holds integers", DTypeError, "silu", (integers,), must=False)
    if offers(cell, "silu") and offers(cell, "beta"):
        for beta in (np.nan, np.inf):
            yield Malformed(f"beta is {beta}", ConfigError, "silu", (x,), {"beta": beta}, must=False)


def malformed_networks(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call of a network that the backend's features allow to state."""
    for method, feature in (("feed_forward", "plain"), ("swiglu", "swiglu")):
        if offers(cell, feature):
            yield from _malformed(cell, method)
    if offers(cell, "plain"):
        arrays = cell.fit(NETWORK).inputs(cell.io)
        weights = {name: w for name, w in arrays.items() if name != "x"}
        for name in ("tanh", "GELU", ""):
            options = {"activation": name}
            yield Malformed(f"activation is {name!r}", ConfigError, "feed_forward", (arrays["x"], weights), options)


def _malformed(cell: Cell, method: str) -> Iterator[Malformed]:
    case = cell.fit(replace(NETWORK, gated=method == "swiglu"))
    arrays = case.inputs(cell.io)
    call = partial(_call, case)
    other = FLOAT16 if cell.dtype != "float16" else FLOAT32
    x = arrays["x"]
    yield call(ShapeError, "x is narrower than the weights", change(arrays, x=x[..., :-1]))
    yield call(DTypeError, "x holds integers", change(arrays, x=np.ones(case.shape, np.int64)), must=False)
    yield call(ShapeError, "x has no axis", change(arrays, x=x.reshape(-1)[0, ...]), must=False)
    extra = change(arrays, **{"middle.weight": arrays["up.weight"]})
    yield call(ConfigError, "a weight has an unknown name", extra, must=False)
    for name in (f"{layer}.weight" for layer in case.layers):
        w = arrays[name]
        yield call(ConfigError, f"{name} is missing", {n: w for n, w in arrays.items() if n != name})
        yield call(ShapeError, f"{name} has a row less", change(arrays, **{name: w[:-1]}))
        yield call(ShapeError, f"{name} is transposed", change(arrays, **{name: w.T.copy()}))
        yield call(ShapeError, f"{name} has rank 1", change(arrays, **{name: w[:, 0].copy()}), must=False)
        yield call(DTypeError, f"{name} has another dtype", change(arrays, **{name: w.astype(other.dtype)}), must=False)
    for name in (f"{layer}.bias" for layer in case.biased):
        b = arrays[name]
        yield call(ShapeError, f"{name} has an element less", change(arrays, **{name: b[:-1]}))
        yield call(ShapeError, f"{name} has one element", change(arrays, **{name: b[:1]}), must=False)
        yield call(DTypeError, f"{name} has another dtype", change(arrays, **{name: b.astype(other.dtype)}), must=False)


def _call(
    case: FeedForwardCase, error: type[GaugeblockError], problem: str, arrays: Inputs, *, must: bool = True
) -> Malformed:
    positional, options = case.arguments(arrays)
    return Malformed(problem, error, case.called, tuple(positional), options, must)


def using_activation(cell: Cell, feature: str) -> ActivationCase:
    """A small case that uses a feature of the activations, and otherwise only what the backend offers."""
    return _offered(cell, replace(NUMBERS, **ACTIVATION_USES[feature]), feature)


def using_network(cell: Cell, feature: str, base: FeedForwardCase | None = None) -> FeedForwardCase:
    """A small case like base that uses a feature of the networks, and otherwise only what the backend offers."""
    return _offered(cell, replace(base or replace(NETWORK, bias=""), **NETWORK_USES[feature]), feature)


def _offered(cell: Cell, case: C, feature: str) -> C:
    for _ in declared(cell):
        for option in sorted(set(declared(cell)) & case.used() - {feature}):
            changed = case.without(option)
            case = changed if feature in changed.used() else case
    return case


ACTIVATION_USES: dict[str, dict[str, Any]] = {
    "gelu": {"function": "gelu"},
    "approximate": {"function": "gelu", "approximate": "tanh"},
    "silu": {},
    "beta": {"beta": 1.7},
    "empty": {"function": "relu", "M": 0},
}
NETWORK_USES: dict[str, dict[str, Any]] = {
    "plain": {"gated": False},
    "swiglu": {"gated": True},
    **{f"activation.{name}": {"gated": False, "activation": name} for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "bias": {"gated": False, "bias": "all"},
    "bias.some": {"gated": False, "bias": "up"},
    "bias.none": {"gated": False, "bias": ""},
    "swiglu.bias": {"gated": True, "bias": "all"},
    "swiglu.bias.some": {"gated": True, "bias": "gate+up"},
    "swiglu.bias.none": {"gated": True, "bias": ""},
    "rank": {"rank": 2, "B": 1},
    "empty": {"T": 0},
}
