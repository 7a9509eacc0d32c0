"""Malformed calls of multi-head attention, and the smallest calls that use one of its features."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.spec.config import AttentionConfig, RotaryConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.positions import LIMIT
from gaugeblock.spec.precision import FLOAT16, FLOAT32

ITSELF = MultiHeadCase(B=2, T=3, M=7, H=4, K=2, D=2, E=5, bias="all")
ANOTHER = replace(ITSELF, context=True, S=5)
SELF_ONLY: dict[str, dict[str, Any]] = {
    "rotary": {"rotary": RotaryConfig()},
    "alibi": {"alibi": True},
    "window": {"window": (1, 1)},
}


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call that the backend's features allow to state."""
    case = cell.fit(ITSELF)
    arrays = case.inputs(cell.io)
    yield from _inputs(cell, case, arrays)
    yield from _weights(cell, case, arrays)
    if offers(cell, "mask"):
        yield from _masks(case, arrays)
    if offers(cell, "positions"):
        yield from _positions(case, arrays)
    if offers(cell, "context"):
        yield from _contexts(cell, cell.fit(ANOTHER))


def _inputs(cell: Cell, case: MultiHeadCase, arrays: Inputs) -> Iterator[Malformed]:
    x = arrays["x"]
    yield _call(ShapeError, "x is narrower than the configuration's width", case, change(arrays, x=x[..., :-1]))
    yield _call(ShapeError, "x has rank 2", case, change(arrays, x=x[0]), must=False)
    integers = np.ones(x.shape, np.int64)
    yield _call(DTypeError, "x holds integers", case, change(arrays, x=integers), must=False)
    other = change(arrays, x=x.astype(_other(cell)))
    yield _call(DTypeError, "x has another dtype than the weights", case, other, must=False)


def _weights(cell: Cell, case: MultiHeadCase, arrays: Inputs) -> Iterator[Malformed]:
    for name in [name for name in arrays if "." in name]:
        w = arrays[name]
        missing = {n: a for n, a in arrays.items() if n != name}
        yield _call(ConfigError, f"{name} is missing", case, missing)
        yield _call(ShapeError, f"{name} has a column less", case, change(arrays, **{name: w[..., :-1]}))
        dtype = change(arrays, **{name: w.astype(_other(cell))})
        yield _call(DTypeError, f"{name} has another dtype", case, dtype, must=False)
        if w.ndim == 2:
            yield _call(ShapeError, f"{name} has a row less", case, change(arrays, **{name: w[:-1]}))
            if w.shape[0] != w.shape[1]:
                yield _call(ShapeError, f"{name} is transposed", case, change(arrays, **{name: w.T.copy()}))
    extra = change(arrays, **{"gate.weight": arrays["query.weight"]})
    yield _call(ConfigError, "a weight has an unknown name", case, extra, must=False)
    bare = replace(case, bias="")
    yield _call(ConfigError, "a bias comes that the configuration has not", bare, arrays, must=False)


def _masks(case: MultiHeadCase, arrays: Inputs) -> Iterator[Malformed]:
    d = case.dims
    wrong = partial(_call, ShapeError)
    for axis, shape in {
        "key": (1, 1, 1, d.S + 1),
        "query": (1, 1, d.T + 1, 1),
        "head": (1, d.H + 1, 1, 1),
        "batch": (d.B + 1, 1, 1, 1),
    }.items():
        problem = f"the mask's {axis} axis is neither full nor 1"
        yield wrong(problem, case, change(arrays, mask=np.ones(shape, bool)))
    yield wrong("the mask has rank 2", case, change(arrays, mask=np.ones((d.T, d.S), bool)), must=False)
    integers = np.ones((1, 1, 1, 1), np.int64)
    yield _call(DTypeError, "the mask holds integers", case, change(arrays, mask=integers), must=False)


def _positions(case: MultiHeadCase, arrays: Inputs) -> Iterator[Malformed]:
    d = case.dims
    for shape in ((d.T + 1,), (d.B + 1, d.T)):
        wrong = change(arrays, positions=np.zeros(shape, np.int64))
        yield _call(ShapeError, f"positions are {shape} of B = {d.B}, T = {d.T}", case, wrong)
    floats = change(arrays, positions=np.zeros(d.T, arrays["x"].dtype))
    yield _call(DTypeError, "positions are no integers", case, floats, must=False)
    for outside in (-1, LIMIT):
        beyond = change(arrays, positions=np.where(np.arange(d.T) == 1, outside, 0))
        yield _call(PositionError, f"a position is {outside}", case, beyond, must=False)


def _contexts(cell: Cell, case: MultiHeadCase) -> Iterator[Malformed]:
    arrays = case.inputs(cell.io)
    context = arrays["context"]
    wrong = partial(_call, ShapeError)
    yield wrong("the context is narrower than x", case, change(arrays, context=context[..., :-1]))
    longer = np.concatenate([context, context[:1]])
    yield wrong("the context has another batch than x", case, change(arrays, context=longer))
    yield wrong("the context has rank 2", case, change(arrays, context=context[0]), must=False)
    dtype = change(arrays, context=context.astype(_other(cell)))
    yield _call(DTypeError, "the context has another dtype than x", case, dtype, must=False)
    for feature, options in SELF_ONLY.items():
        if offers(cell, feature):
            problem = f"a context comes with {feature}"
            yield _call(ConfigError, problem, case, arrays, replace(case.config, **options))
    if offers(cell, "causal"):
        call = _call(ConfigError, "a context comes with causal", case, arrays)
        yield replace(call, keywords={**call.keywords, "causal": True})


def _call(
    error: type[GaugeblockError],
    problem: str,
    case: MultiHeadCase,
    arrays: Inputs,
    config: AttentionConfig | None = None,
    *,
    must: bool = True,
) -> Malformed:
    (x, weights, own), keywords = case.arguments(arrays)
    return Malformed(problem, error, case.method, (x, weights, config or own), keywords, must)


def _other(cell: Cell) -> Any:
    return (FLOAT16 if cell.dtype != "float16" else FLOAT32).dtype


def using(cell: Cell, feature: str, base: MultiHeadCase | None = None) -> MultiHeadCase:
    """A small case like base that uses a feature, and otherwise only what the backend offers."""
    case = replace(
        base or BASE, **{name: value for option in feature.split("+") for name, value in USES[option].items()}
    )
    own = {*feature.split("+"), feature}
    for option in declared(cell):
        if option not in own and set(option.split("+")) <= case.used():
            changed = case.without(option)
            case = changed if set(feature.split("+")) <= changed.used() else case
    return case


BASE = MultiHeadCase(B=2, T=5, M=8, H=4, K=4, D=2, E=2)
WIDER = {"D": 4, "E": 4, "M": 16}  # a head of one pair of components has but one layout
USES: dict[str, dict[str, Any]] = {
    "context": {"context": True, "S": 5},
    "rectangular": {"context": True, "S": 3},
    "rotary": {"rotary": "half"},
    "rotary.interleaved": {"rotary": "interleaved", **WIDER},
    "rotary.partial": {"rotary": "half", "rotary_dim": 2, **WIDER},
    "rotary.scaling": {"rotary": "half", "scaling": "linear2.5"},
    "alibi": {"alibi": True},
    "alibi.heads": {"alibi": True, "H": 3, "K": 3, "M": 6},
    "window": {"window": (1, 1)},
    "causal": {"causal": True},
    "mask": {"mask": "random"},
    "mask.heads": {"mask": "heads"},
    "positions": {"positions": "gaps", "rotary": "half"},
    "positions.rows": {"positions": "rows", "rotary": "half"},
    "bias": {"bias": "all"},
    "bias.some": {"bias": "query+value+output"},
    "bias.none": {"bias": ""},
    "grouped": {"K": 2},
    "value_width": {"E": 3},
    "inner_width": {"M": 7},
    "scale": {"scale": 0.3},
    "empty.batch": {"B": 0},
    "empty.queries": {"T": 0},
    "empty.keys": {"context": True, "S": 0},
}
