"""Layers as values with their pullbacks, from uncertain inputs: what the gradients of compositions are made of.

A pullback turns the cotangent of a layer's result into contributions to the cotangents of its input "x", of another
sequence "context", and of its weights by name. An array that is read more than once gets several contributions, which
an implementation adds in any order; they are kept apart until they meet.

The errors of the forward pass are carried along with its values, through every layer and back: in float32 and float64
such a bound still tells something where in half precision it would not. It is a true bound, not one of first order, and
it holds whether an intermediate is kept, or made again by the same operations or by others: each use of it is off by
its error on its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gaugeblock.spec.config import BlockConfig, Norm, RotaryConfig
from gaugeblock.spec.precision import Contract
from gaugeblock.spec.reference import feedforward as networks
from gaugeblock.spec.reference import normalization as norms
from gaugeblock.spec.reference import rotary
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Real, given, matmul_size, moved, ulps
from gaugeblock.spec.reference.gradients import feedforward, normalization, positions

Parts: TypeAlias = dict[str, list[Bounded]]
Back: TypeAlias = Callable[[Bounded], Parts]
Pulled: TypeAlias = tuple[Bounded, Back]
Weights: TypeAlias = Mapping[str, Any]


def total(parts: Sequence[Bounded], contract: Contract) -> Bounded:
    """The sum of contributions in any order.

        |error| <= sum err + ((1 + u)^(n - 1) - 1) sum (|part| + err)

    A contribution that is exactly zero rounds nothing.
    """
    value, err, size, count = (np.zeros(parts[0].shape) for _ in range(4))
    for part in parts:
        most = np.abs(part.value) + part.err
        value, err, size, count = value + part.value, err + part.err, size + most, count + (most > 0)
    acc = contract.acc
    rounding = np.where(count > 1, ulps(count - 1, acc.u) * size + count * acc.eta, 0.0)
    return Arithmetic(contract).result(Bounded(value, err + rounding))


def merged(*found: Parts) -> Parts:
    """All contributions by name."""
    names = dict.fromkeys(name for parts in found for name in parts)
    return {name: [part for parts in found for part in parts.get(name, [])] for name in names}


def under(prefix: str, found: Parts, *, beside: tuple[str, ...] = ("x", "context")) -> Parts:
    """The contributions with a prefix before the names of the weights."""
    return {name if name in beside else f"{prefix}.{name}": parts for name, parts in found.items()}


def linear(x: Bounded, weights: Weights, layer: str, contract: Contract, *, terms: int = 0) -> Pulled:
    """x W + b; terms is the length of the sum where the input's cotangent comes from one product with other layers'.

        dx = dy W^T,   dW = x^T dy,   db = sum dy

    x (..., in) -> (..., out). Clauses: MHA-PROJECT.
    """
    rows = networks.rows_of(x, contract)
    y = Arithmetic(contract).result(networks.linear(rows, weights, layer, contract))
    wide = y.shape[-1]

    def back(dy: Bounded) -> Parts:
        g = networks.rows_of(dy, contract)
        dx = _input(g, weights, layer, contract, max(terms, wide))
        own = feedforward.linear_weights(rows, g, weights, layer, contract)
        return {"x": [moved(dx, lambda a: a.reshape(x.shape))], **_each(own, contract)}

    return moved(y, lambda a: a.reshape(*x.shape[:-1], wide)), back


def _input(dy: Bounded, weights: Weights, layer: str, contract: Contract, terms: int) -> Bounded:
    """dy W^T as a share of a sum of so many terms: inherited + terms u sum |dy||W|."""
    w = moved(given(weights[f"{layer}.weight"], contract.acc), np.transpose)
    product = Arithmetic(contract).matmul(dy, w)
    more = (terms - dy.shape[-1]) * contract.acc.u * matmul_size(dy, w)
    return Arithmetic(contract).result(Bounded(product.value, product.err + more))


def norm(x: Bounded, weights: Weights, kind: Norm, eps: float, contract: Contract) -> Pulled:
    """A norm. Clauses: LN-GRADIENT, RMS-GRADIENT."""
    gain, shift = weights["weight"], weights.get("bias")
    if kind == "rms":
        y: Bounded = norms.rms_norm(x, gain, eps=eps, contract=contract)
    else:
        y = norms.layer_norm(x, gain, shift, eps=eps, contract=contract)

    def back(dy: Bounded) -> Parts:
        if kind == "rms":
            return _alone(normalization.rms_norm(x, gain, dy, eps=eps, contract=contract))
        return _alone(normalization.layer_norm(x, gain, shift, dy, eps=eps, contract=contract))

    return y, back


def network(x: Bounded, weights: Weights, config: BlockConfig, contract: Contract) -> Pulled:
    """A feed-forward network, with a gate or without. Clauses: FFN-GRADIENT, SWIGLU-GRADIENT."""
    kind = config.activation
    if config.gated:
        y: Bounded = networks.swiglu(x, weights, contract=contract)
        return y, lambda dy: _alone(feedforward.swiglu(x, weights, dy, contract=contract))
    y = networks.feed_forward(x, weights, activation=kind, contract=contract)
    return y, lambda dy: _alone(feedforward.feed_forward(x, weights, dy, activation=kind, contract=contract))


def rotation(x: Bounded, at: Any, config: RotaryConfig, contract: Contract) -> Pulled:
    """A rotation by the positions at. Clauses: ROPE-GRADIENT."""
    options: dict[str, Any] = {name: getattr(config, name) for name in ("base", "layout", "rotary_dim", "scaling")}
    y = rotary.rotate(x, at, **options, contract=contract)
    return y, lambda dy: {"x": [positions.rotate(at, dy, **options, contract=contract)]}


def split(x: Bounded, heads: int) -> Bounded:
    """Columns to heads: (B, T, heads * D) -> (B, heads, T, D)."""

    def parted(a: Real) -> Real:
        return a.reshape(*a.shape[:-1], heads, a.shape[-1] // heads).swapaxes(-3, -2)

    return moved(x, parted)


def join(x: Bounded) -> Bounded:
    """Heads to columns: (B, H, T, E) -> (B, T, H * E)."""

    def joined(a: Real) -> Real:
        B, H, T, E = a.shape
        return a.swapaxes(1, 2).reshape(B, T, H * E)

    return moved(x, joined)


def _each(found: Mapping[str, Bounded], contract: Contract) -> Parts:
    return _alone({name: Arithmetic(contract).result(g) for name, g in found.items()})


def _alone(found: Mapping[str, Bounded]) -> Parts:
    return {name: [g] for name, g in found.items()}
