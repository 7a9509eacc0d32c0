"""The gradients of blocks (source 6.1), and what an implementation may lose on the way to them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec import weights as names
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.blocks import sight
from gaugeblock.spec.reference.bounded import Bounded, given
from gaugeblock.spec.reference.gradients import multihead
from gaugeblock.spec.reference.gradients.pullbacks import (
    Back,
    Parts,
    Pulled,
    Weights,
    merged,
    network,
    norm,
    total,
    under,
)
from gaugeblock.spec.reference.multihead import View

Layer = Callable[[Bounded], Pulled]


def block(
    x: ArrayLike,
    weights: Weights,
    config: BlockConfig,
    dy: ArrayLike,
    *,
    context: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    context_mask: ArrayLike | None = None,
    contract: Contract = EXACT,
) -> dict[str, Bounded]:
    """The gradients of x, of context where there is one, and of every weight, for the cotangent dy of the result.

        pre   dx = dy + N'^T f'^T dy,        post   g = N'^T dy,   dx = g + f'^T g

    for one sublayer after the other, from the last to the first. The arguments are those of spec.blocks.Block,
    dy (B, T, M) -> values and errors in the shapes of the inputs, by their names. Where f is zero whatever it is given,
    and its last weights are, dx of a pre block is dy, exactly. Raises ShapeError, ConfigError.
    Clauses: BLOCK-GRADIENT, BLOCK-GRADIENT-PRE, BLOCK-GRADIENT-POST. Source: Xiong et al. 2020, figure 1,
    differentiated.
    """
    arrays: dict[str, Any] = {"x": x, **({} if context is None else {"context": context})}
    seen, crossing = sight(arrays, weights, config, positions=positions, mask=mask, context_mask=context_mask)
    other = None if context is None else given(context, contract.acc)
    with np.errstate(all="ignore"):
        _, back = sublayers(given(x, contract.acc), weights, config, seen, crossing, contract, context=other)
        return multihead.finished(back(given(dy, contract.acc)), contract)


def sublayers(
    x: Bounded,
    weights: Weights,
    config: BlockConfig,
    seen: View,
    crossing: View,
    contract: Contract,
    *,
    context: Bounded | None = None,
) -> Pulled:
    """The value and the pullback of one block."""
    inner = {name: names.part(weights, name) for name in ("attention", "cross", "feed_forward")}

    def attend(y: Bounded) -> Pulled:
        return multihead.layer(y, inner["attention"], config.attention, seen, contract)

    def cross(y: Bounded) -> Pulled:
        assert config.cross is not None
        return multihead.layer(y, inner["cross"], config.cross, crossing, contract, context=context)

    def feed(y: Bounded) -> Pulled:
        return network(y, inner["feed_forward"], config, contract)

    found: list[Back] = []
    layers = {"attention": attend, **({"cross": cross} if context is not None else {}), "feed_forward": feed}
    for name, f in layers.items():
        x, back = _sublayer(x, weights, config, name, f, contract)
        found.append(back)
    return x, lambda dy: backwards(found, dy, contract)


def backwards(layers: list[Back], dy: Bounded, contract: Contract) -> Parts:
    """The pullbacks of layers one behind the other, from the last to the first."""
    found: Parts = {"x": [dy]}
    for back in reversed(layers):
        g = total(found.pop("x"), contract)
        found = merged(found, back(g))
    return found


def _sublayer(x: Bounded, weights: Weights, c: BlockConfig, name: str, f: Layer, contract: Contract) -> Pulled:
    a, part = Arithmetic(contract), names.part(weights, f"{name}_norm")
    if c.placement == "pre":
        normal, norm_back = norm(x, part, c.norm, c.eps, contract)
        y, inner = f(normal)

        def pre(dy: Bounded) -> Parts:
            found = under(name, inner(dy))
            own = under(f"{name}_norm", norm_back(total(found.pop("x"), contract)))
            return merged({"x": [dy]}, own, found)

        return a.result(a.add(x, y)), pre
    y, inner = f(x)
    made, norm_back = norm(a.result(a.add(x, y)), part, c.norm, c.eps, contract)

    def post(dy: Bounded) -> Parts:
        own = under(f"{name}_norm", norm_back(dy))
        (g,) = own.pop("x")
        return merged({"x": [g]}, own, under(name, inner(g)))

    return made, post
