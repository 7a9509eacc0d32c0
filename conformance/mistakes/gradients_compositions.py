"""The mistakes that are made on the way back through multi-head attention, blocks and decoders."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.mistakes.gradients_components import GROUPS, collected, weights
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ARRAYS, ModelCase
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference import formulas, multihead
from gaugeblock.spec.reference.bounded import Real
from gaugeblock.spec.reference.gradients.model import logits
from gaugeblock.spec.reference.gradients.positions import rotate
from gaugeblock.spec.reference.positions import alibi_bias

Varied = Iterator[tuple[str, Mapping[str, Real]]]
Sum = Callable[[Real], Real]


@dataclass(frozen=True)
class Way:
    """One way back through a layer: the right one, but for what a mistake changes.

    turned are the projections that are rotated back, or on where they are onward; silent those that hand nothing on;
    forgotten what attention is made again without, of the call's keywords and of the configuration; group how shared
    heads are collected; straight whether a square output projection is not transposed; rows the sum over all tokens.
    """

    turned: tuple[str, ...] = ("query", "key")
    silent: tuple[str, ...] = ()
    onward: bool = False
    forgotten: tuple[str, ...] = ()
    group: str = "sum"
    straight: bool = False
    rows: Sum = field(default=lambda g: np.asarray(np.sum(g, axis=0)))


LAYER_WAYS = {
    "the gradient of the keys is not rotated back": Way(turned=("query",)),
    "the gradient of the queries is not rotated back": Way(turned=("key",)),
    "the gradients of queries and keys are not rotated back": Way(turned=()),
    "the output projection is not transposed on the way back": Way(straight=True),
    "the gradients of queries and keys are rotated on, not back": Way(onward=True),
    "the mask is forgotten when attention is made again": Way(forgotten=("mask",)),
    "causality is forgotten when attention is made again": Way(forgotten=("causal",)),
    "the mask and causality are forgotten when attention is made again": Way(forgotten=("mask", "causal")),
    "the linear biases are forgotten when attention is made again": Way(forgotten=("alibi",)),
    "the scale is forgotten when attention is made again": Way(forgotten=("scale",)),
    "the projection of the queries hands no gradient on to x": Way(silent=("query",)),
    "the projection of the keys hands no gradient on to what it reads": Way(silent=("key",)),
    "the projection of the values hands no gradient on to what it reads": Way(silent=("value",)),
    "biases have the gradient of the last token, not the sum": Way(rows=lambda g: g[-1]),
    "biases have the mean over the tokens, not the sum": Way(rows=lambda g: np.asarray(np.mean(g, axis=0))),
    **{text: Way(group=how) for text, how in GROUPS.items()},
}


def layer(case: MultiHeadCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes between the projections and attention, each gone through in float64."""
    for text, way in LAYER_WAYS.items():
        yield text, _through(case, inputs, dy.astype(np.float64), way)
    names = [name for name in right if name.startswith("key.")]
    yield "the projection of the keys has no gradient", {name: np.zeros(right[name].shape) for name in names}


def _through(case: MultiHeadCase, inputs: Inputs, dy: Real, way: Way) -> dict[str, Real]:
    (x, held, c), keywords = case.arguments(inputs)
    source = keywords.pop("context", x).astype(np.float64)
    given = {"x": x, **({"context": source} if case.context else {})}
    seen = multihead.sight(given, held, c, **keywords)
    w = {name: a.astype(np.float64) for name, a in held.items()}
    reads = {"query": x.astype(np.float64), "key": source, "value": source}
    heads = {"query": c.heads, "key": c.kv_heads, "value": c.kv_heads}
    q, k, v = (formulas.split(formulas.linear(reads[n], w, n), heads[n]) for n in heads)
    turns = c.rotary is not None and not case.context
    if turns:
        q, k = (formulas.rotate(a, seen.queries, c.rotary) for a in (q, k))
    p, again = (_weights(case, given, held, q, k, keywords, forgotten) for forgotten in ((), way.forgotten))
    scale, shared = _scale(case, way.forgotten), c.heads // c.kv_heads
    keys, values = (np.repeat(a, shared, axis=1) for a in (k, v))
    mixed = formulas.join(p @ values)
    square = way.straight and w["output.weight"].shape[0] == w["output.weight"].shape[1]
    g = formulas.split(dy @ (w["output.weight"] if square else w["output.weight"].T), c.heads)
    dp = g @ values.swapaxes(-1, -2)
    ds = again * (dp - np.sum(again * dp, axis=-1, keepdims=True))
    back = {
        "query": scale * (ds @ keys),
        "key": collected(scale * (ds.swapaxes(-1, -2) @ q), shared, way.group),
        "value": collected(again.swapaxes(-1, -2) @ g, shared, way.group),
    }
    rotary = c.rotary
    for name in way.turned if turns else ():
        options = {n: getattr(rotary, n) for n in ("base", "layout", "rotary_dim", "scaling")}
        at = -np.asarray(seen.queries) if way.onward else seen.queries
        back[name] = rotate(at, back[name], **options).value
    found = _layer_of(mixed, dy, w, "output", way)
    sums: dict[str, Real] = {name: np.zeros(a.shape) for name, a in given.items()}
    for name, a in back.items():
        joined = formulas.join(a)
        found |= _layer_of(reads[name], joined, w, name, way)
        if name not in way.silent:
            into = "context" if case.context and name != "query" else "x"
            sums[into] = sums[into] + joined @ w[f"{name}.weight"].T
    return {**found, **sums}


def _weights(
    case: MultiHeadCase,
    given: Mapping[str, Any],
    held: Mapping[str, Any],
    q: Real,
    k: Real,
    keywords: Mapping[str, Any],
    forgotten: tuple[str, ...],
) -> Real:
    """The attention weights of the call without what is forgotten."""
    c = case.config
    seen = multihead.sight(given, held, c, **{n: a for n, a in keywords.items() if n not in forgotten})
    biased = c.alibi and not case.context and "alibi" not in forgotten
    near = alibi_bias(c.heads, seen.queries, seen.keys).value if biased else None
    return weights(q, k, seen.visible, _scale(case, forgotten), near)


def _scale(case: MultiHeadCase, forgotten: tuple[str, ...]) -> float:
    return float(case.D**-0.5) if case.scale is None or "scale" in forgotten else case.scale


def _layer_of(x: Real, dy: Real, w: Mapping[str, Real], name: str, way: Way) -> dict[str, Real]:
    rows, g = (a.reshape(-1, a.shape[-1]) for a in (x, dy))
    bias = {f"{name}.bias": way.rows(g)} if f"{name}.bias" in w else {}
    return {f"{name}.weight": rows.T @ g, **bias}


def block(case: BlockCase, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with the residual of a pre block, as far as they show without going through its layers."""
    g, nothing = dy.astype(np.float64), {name: np.zeros(a.shape) for name, a in right.items()}
    if case.placement == "pre":
        yield "the sublayers are detached: the gradient of x is the cotangent", {**nothing, "x": g}
    if case.placement == "pre" and np.array_equal(right["x"], g):  # silent sublayers
        last = {name: a for name, a in right.items() if name.startswith("feed_forward.")}
        yield "the gradient does not come back past the sublayers: the residual is lost", {**nothing, **last}


def model(case: ModelCase, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]) -> Varied:
    """Mistakes with the tables and layers of a stack."""
    stack = "encoder" if case.encodes else "decoder"
    table, e = f"{stack}.embedding.weight", case.embedding_scale
    if case.tied and not case.encodes:
        by_head, by_rows = _uses(case, inputs, dy)
        yield "the tied table has the gradient of the head alone", {table: by_head}
        yield "the tied table has the gradient of the embedding alone", {table: by_rows}
        yield "the gradient of the embedding lacks its scale", {table: by_head + by_rows / e}
    elif table in right:
        yield "the gradient of the embedding lacks its scale", {table: right[table] / e}
    for n in range(case.L):
        frozen = {name: np.zeros(g.shape) for name, g in right.items() if f"{stack}.layers.{n}." in name}
        yield f"the weights of layer {n} have no gradient", frozen


def _uses(case: ModelCase, inputs: Inputs, dy: Numpy) -> tuple[Real, Real]:
    """What a tied table gets as the head, and as the embedding: what two tables with the same numbers get."""
    held = weights_of(inputs)
    untied = {**held, "head.weight": held["decoder.embedding.weight"].T}
    given: dict[str, Any] = {name: inputs[name] for name in ARRAYS if name in inputs}
    config = replace(case.model, tied=False)
    found = logits(untied, config, inputs["tokens"], dy, **given)
    return found["head.weight"].value.T, found["decoder.embedding.weight"].value
