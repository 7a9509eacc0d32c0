"""The mistakes that are made on the way back through attention and norms."""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase
from gaugeblock.spec.attention import dims
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.reference import formulas
from gaugeblock.spec.reference.attention import by_route
from gaugeblock.spec.reference.bounded import Bits, Real

Varied = Iterator[tuple[str, Mapping[str, Real]]]


def attention(case: AttentionCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with the scale, the softmax, the mask and shared heads; of the usual conventions."""
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    options: Mapping[str, Any] = case.options()
    c = case.scaled_by
    mask, bias = inputs.get("mask"), inputs.get("bias")
    routes = by_route(
        dims(q.shape, k.shape, v.shape), mask, bias, options.get("causal", False), options.get("window"), Conventions()
    )
    visible = np.broadcast_to(reduce(np.logical_and, routes.values()), (case.B, case.H, case.T, case.S))
    near = None if bias is None else np.nan_to_num(bias.astype(np.float64), neginf=0.0)
    scaled = {"q": right["q"], "k": right["k"]}
    yield "the scale is missing in the gradients of q and k", {n: g / c for n, g in scaled.items()}
    yield "the scale is applied twice in the gradients of q and k", {n: g * c for n, g in scaled.items()}
    yield "the gradient of q lacks the scale", {"q": right["q"] / c}
    yield "the gradient of k lacks the scale", {"k": right["k"] / c}
    nothing = {name: np.zeros(g.shape) for name, g in right.items() if name != "v"}
    yield "the weights are detached: only v has a gradient", nothing
    p = weights(q, k, visible, c, near)
    yield "the row term delta is missing: ds = p dp", _heads(q, k, v, dy, p, c, term=False, bias=bias)
    hidden = weights(q, k, np.ones_like(visible), c, near)
    yield "the mask is forgotten when the weights are made again", _heads(q, k, v, dy, hidden, c, bias=bias)
    if case.H != case.K:
        for text, group in GROUPS.items():
            found = _heads(q, k, v, dy, p, c, group=group)
            yield text, {name: found[name] for name in "kv"}


GROUPS = {
    "the gradients of a group of heads are not summed: the first one's is taken": "first",
    "the gradients of a group of heads are not summed: the last one's is taken": "last",
    "the gradients of a group of heads are averaged, not summed": "mean",
    "the gradients of heads h mod K are summed, not those of h // (H / K)": "tiled",
}


def weights(q: Real, k: Real, visible: Bits, scale: float, bias: Real | None) -> Real:
    """(B, H, T, S), as attention gives them where the values are the identity."""
    B, K, S, _ = k.shape
    eye = np.broadcast_to(np.eye(S), (B, K, S, S))
    return np.asarray(formulas.attention(q, k, eye, visible=visible, scale=scale, bias=bias))


def _heads(
    q: Real,
    k: Real,
    v: Real,
    dy: Numpy,
    p: Real,
    c: float,
    *,
    term: bool = True,
    group: str = "sum",
    bias: Numpy | None = None,
) -> dict[str, Real]:
    """The gradients from weights p, with or without the row term, and one way or the other to collect a group."""
    shared = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x, shared, axis=1) for x in (k, v))
    g = dy.astype(np.float64)
    dp = g @ values.swapaxes(-1, -2)
    ds = p * (dp - (np.sum(p * dp, axis=-1, keepdims=True) if term else 0.0))
    found = {
        "q": c * (ds @ keys),
        "k": collected(c * (ds.swapaxes(-1, -2) @ q), shared, group),
        "v": collected(p.swapaxes(-1, -2) @ g, shared, group),
    }
    if bias is None:
        return found
    axes = tuple(n for n, own in enumerate(bias.shape) if own != ds.shape[n])
    return {**found, "bias": np.sum(ds, axis=axes, keepdims=True)}


def collected(g: Real, shared: int, how: str) -> Real:
    """What a group of heads gives the key/value head that it shares: (B, H, S, D) -> (B, K, S, D)."""
    B, H, S, D = g.shape
    if how == "tiled":
        return np.asarray(np.sum(g.reshape(B, shared, H // shared, S, D), axis=1))
    parts = g.reshape(B, H // shared, shared, S, D)
    if how in ("first", "last"):
        return np.asarray(parts[:, :, 0 if how == "first" else -1])
    return np.asarray(np.mean(parts, axis=2) if how == "mean" else np.sum(parts, axis=2))


def norm(case: NormCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with what a norm takes away, with its weight, and with the sums over the rows."""
    x, g = inputs["x"].astype(np.float64), dy.astype(np.float64)
    weight = inputs["weight"].astype(np.float64) if "weight" in inputs else 1.0
    d = x - np.mean(x, axis=-1, keepdims=True) if isinstance(case, LayerNormCase) else x
    r = 1 / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + case.eps)
    for lost, h in (("", g * weight), (", and the weight is missing", g)):
        mean = np.mean(h, axis=-1, keepdims=True) if isinstance(case, LayerNormCase) else 0.0
        through = r * d * np.mean(h * d * r, axis=-1, keepdims=True)
        yield f"the norm is held constant: dx = r h{lost}", {"x": r * h}
        if isinstance(case, LayerNormCase):
            yield f"the mean is held constant{lost}", {"x": r * (h - through)}
        yield f"the mean square is held constant{lost}", {"x": r * (h - mean)}
    yield "the gradient of x lacks the weight", {"x": r * (h - mean - through)}
    rows = {name: part.reshape(-1, case.M) for name, part in {"weight": g * d * r, "bias": g}.items() if name in right}
    if rows:
        yield "weight and bias have the gradient of the last row", {n: part[-1] for n, part in rows.items()}
        yield (
            "weight and bias have the mean over the rows, not the sum",
            {n: np.mean(a, axis=0) for n, a in rows.items()},
        )
