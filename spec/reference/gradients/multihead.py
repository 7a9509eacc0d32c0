"""The gradients of multi-head attention (source 3), and what an implementation may lose on the way to them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference.attention import attention
from gaugeblock.spec.reference.bounded import Bounded, given
from gaugeblock.spec.reference.gradients.attention import attention as attention_gradients
from gaugeblock.spec.reference.gradients.pullbacks import (
    Parts,
    Pulled,
    Weights,
    join,
    linear,
    merged,
    rotation,
    split,
    total,
)
from gaugeblock.spec.reference.multihead import View, sight
from gaugeblock.spec.reference.positions import alibi_bias


def multi_head_attention(
    x: ArrayLike,
    weights: Weights,
    config: AttentionConfig,
    dy: ArrayLike,
    *,
    context: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    causal: bool = False,
    contract: Contract = EXACT,
) -> dict[str, Bounded]:
    """The gradients of x, of context where there is one, and of every weight, for the cotangent dy of the result.

        dmixed = dy W_o^T,   (dq, dk, dv) as of attention, dq and dk rotated back,   dx = dq W_q^T + dk W_k^T + dv W_v^T

    Keys and values hand theirs to the context instead, where there is one. The arguments are those of
    spec.multihead.MultiHeadAttention, dy (B, T, M) -> values and errors in the shapes of the inputs, by their names.
    Raises ShapeError, ConfigError. Clauses: MHA-GRADIENT, MHA-GRADIENT-MASKED.
    Source: Vaswani et al. 2017, section 3.2.2, differentiated.
    """
    arrays: dict[str, Any] = {"x": x, **({} if context is None else {"context": context})}
    seen = sight(arrays, weights, config, positions=positions, mask=mask, causal=causal)
    other = None if context is None else given(context, contract.acc)
    with np.errstate(all="ignore"):
        _, back = layer(given(x, contract.acc), weights, config, seen, contract, context=other)
        return finished(back(given(dy, contract.acc)), contract)


def layer(
    x: Bounded, weights: Weights, c: AttentionConfig, seen: View, contract: Contract, *, context: Bounded | None = None
) -> Pulled:
    """One layer's value and pullback; what seen hides of x or context gets nothing through it, exactly."""
    source, sizes = (x if context is None else context), {"query": c.heads, "key": c.kv_heads, "value": c.kv_heads}
    widths = {name: np.shape(weights[f"{name}.weight"])[1] for name in sizes}
    terms = sum(widths.values())  # the products of one row may be one
    made = {n: linear(x if n == "query" else source, weights, n, contract, terms=terms) for n in sizes}
    heads = {name: split(made[name][0], n) for name, n in sizes.items()}
    turns = {}
    if c.rotary is not None and context is None:
        for name in ("query", "key"):
            heads[name], turns[name] = rotation(heads[name], seen.queries, c.rotary, contract)
    (q, k, v), options = heads.values(), _options(c, seen, contract, context is not None)
    mixed = attention(q, k, v, **options)
    y, out = linear(join(mixed), weights, "output", contract)

    def back(dy: Bounded) -> Parts:
        found = out(dy)
        (dmixed,) = found.pop("x")
        given_back = attention_gradients(q, k, v, split(dmixed, c.heads), **options)
        for name, short in (("query", "q"), ("key", "k"), ("value", "v")):
            g = given_back[short]
            g = turns[name](g)["x"][0] if name in turns else g
            own = made[name][1](join(g))
            if context is not None and name != "query":
                own["context"] = own.pop("x")
            found = merged(found, own)
        return found

    return y, back


def finished(found: Parts, contract: Contract) -> dict[str, Bounded]:
    """Contributions summed up; what is not known is not promised."""
    sums = {name: total(parts, contract) for name, parts in found.items()}
    return {n: Bounded(g.value, np.nan_to_num(g.err, nan=np.inf, posinf=np.inf)) for n, g in sums.items()}


def _options(c: AttentionConfig, seen: View, contract: Contract, crosses: bool) -> dict[str, Any]:
    alibi = c.alibi and not crosses
    bias = alibi_bias(c.heads, seen.queries, seen.keys, contract=contract) if alibi else None
    return {"mask": seen.visible, "bias": bias, "scale": c.scale, "contract": contract}
