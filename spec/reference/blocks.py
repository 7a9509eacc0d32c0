"""Transformer blocks as the specification defines them: a program of named steps (spec.reference.program)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec import weights as names
from gaugeblock.spec.blocks import dims
from gaugeblock.spec.config import BlockConfig, Norm
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference import feedforward, formulas, multihead
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Expected, given
from gaugeblock.spec.reference.multihead import View, Weights
from gaugeblock.spec.reference.normalization import layer_norm, rms_norm
from gaugeblock.spec.reference.program import Known, Step, first_order


def block(
    x: ArrayLike,
    weights: Weights,
    config: BlockConfig,
    *,
    context: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    context_mask: ArrayLike | None = None,
    contract: Contract = EXACT,
) -> Expected:
    """The value of a block call and the first-order bound on it.

    The arguments are those of spec.blocks.Block -> value and err (B, T, M) float64; err is inf where the bound is too
    wide to be linear. Raises ShapeError, ConfigError. Clauses: all of spec/clauses/blocks.md.
    """
    arrays = {"x": np.asarray(x), **({} if context is None else {"context": np.asarray(context)})}
    made = first_order(
        call(arrays, weights, config, positions=positions, mask=mask, context_mask=context_mask), arrays, contract
    )
    return Expected(made.value, made.err)


def call(
    arrays: Known,
    weights: Weights,
    config: BlockConfig,
    *,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    context_mask: ArrayLike | None = None,
) -> list[Step]:
    """The program of one call on arrays x, and context where the block has cross-attention."""
    seen, crossing = sight(arrays, weights, config, positions=positions, mask=mask, context_mask=context_mask)
    return steps(config, weights, "x", seen, crossing, context="context")


def sight(
    arrays: Known,
    weights: Weights,
    config: BlockConfig,
    *,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    context_mask: ArrayLike | None = None,
) -> tuple[View, View]:
    """What the queries of a call see of x, and what of the context."""
    shapes = {n: np.shape(w) for n, w in weights.items()}
    d = dims(np.shape(arrays["x"]), shapes, config, context=np.shape(arrays["context"]) if config.cross else None)
    at = np.arange(d.T) if positions is None else np.asarray(positions)
    seen = multihead.view(at, at, causal=config.causal, window=config.attention.window)
    if mask is not None:
        seen = View(seen.visible & np.asarray(mask, bool), at, at)
    everything = np.ones((1, 1, d.T, d.S), bool)
    return seen, View(everything if context_mask is None else everything & np.asarray(context_mask, bool), at, at)


def steps(
    config: BlockConfig,
    weights: Weights,
    x: str,
    seen: View,
    crossing: View,
    *,
    context: str | None = None,
    prefix: str = "",
    past: bool = False,
    projected: tuple[str, str] | None = None,
) -> list[Step]:
    """The program of one block; the arguments are those of spec.reference.multihead.steps.

    crossing is what the cross-attention sees, and is ignored where there is none. Clauses: BLOCK-FORMULA.
    """
    made: list[Step] = []

    def attend(x: str) -> list[Step]:
        part = names.part(weights, "attention")
        return multihead.steps(config.attention, part, x, seen, prefix=f"{prefix}attention.", past=past)

    def cross(x: str) -> list[Step]:
        part = names.part(weights, "cross")
        assert config.cross is not None
        return multihead.steps(
            config.cross, part, x, crossing, context=context, prefix=f"{prefix}cross.", projected=projected
        )

    def feed(x: str) -> list[Step]:
        return [_network(f"{prefix}feed_forward", x, names.part(weights, "feed_forward"), config)]

    sublayers = {"attention": attend, **({"cross": cross} if config.cross else {}), "feed_forward": feed}
    for name, sublayer in sublayers.items():
        norm, residual = f"{prefix}{name}_norm", f"{prefix}{name}_residual"
        part = names.part(weights, f"{name}_norm")
        if config.placement == "pre":
            made += [normalization(norm, x, part, config.norm, config.eps), *sublayer(norm)]
            made.append(addition(residual, x, made[-1].name))
            x = residual
        else:
            made += sublayer(x)
            made += [addition(residual, x, made[-1].name), normalization(norm, residual, part, config.norm, config.eps)]
            x = norm
    return made


def normalization(name: str, x: str, weights: Weights, kind: Norm, eps: float) -> Step:
    """A norm as a step. Clauses: those of spec/clauses/normalization.md."""
    wide = {n: np.asarray(w).astype(np.float64) for n, w in weights.items()}

    def bounded(contract: Contract, x: Any) -> Bounded:
        if kind == "rms":
            return rms_norm(x, weights["weight"], eps=eps, contract=contract)
        return layer_norm(x, weights["weight"], weights["bias"], eps=eps, contract=contract)

    return Step(name, (x,), lambda x: formulas.norm(x, wide, kind, eps), bounded, rows=True)


def addition(name: str, a: str, b: str) -> Step:
    """A sum of two arrays, rounded once. Clauses: BLOCK-RESIDUAL."""

    def bounded(contract: Contract, a: Any, b: Any) -> Bounded:
        arithmetic = Arithmetic(contract)
        return arithmetic.result(arithmetic.add(given(a, contract.acc), given(b, contract.acc)))

    return Step(name, (a, b), lambda a, b: a + b, bounded, rows=True)


def _network(name: str, x: str, weights: Mapping[str, Any], config: BlockConfig) -> Step:
    wide = {n: np.asarray(w).astype(np.float64) for n, w in weights.items()}

    def bounded(contract: Contract, x: Any) -> Bounded:
        if config.gated:
            return feedforward.swiglu(x, weights, contract=contract)
        return feedforward.feed_forward(x, weights, activation=config.activation, contract=contract)

    def value(x: Any) -> Any:
        return formulas.feed_forward(x, wide, config.activation, gated=config.gated)

    return Step(name, (x,), value, bounded, rows=True)
