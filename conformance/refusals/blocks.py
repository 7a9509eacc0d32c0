"""Malformed calls of blocks, and the smallest calls that use one of their features."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.positions import LIMIT
from gaugeblock.spec.precision import FLOAT16, FLOAT32

ALONE = BlockCase(B=2, T=3, M=7, H=4, K=2, D=2, E=5, F=9, bias="all", ffn_bias=True, norm="layer")
CROSSED = replace(ALONE, cross=True, S=5)


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call that the backend's features allow to state."""
    case = cell.fit(ALONE)
    arrays = case.inputs(cell.io)
    yield from _inputs(cell, case, arrays)
    yield from _weights(cell, case, arrays)
    if offers(cell, "mask"):
        yield from _masks(case, arrays, "mask", case.T)
    if offers(cell, "positions"):
        yield from _positions(case, arrays)
    if offers(cell, "context"):
        yield from _contexts(cell, cell.fit(CROSSED))


def _inputs(cell: Cell, case: BlockCase, arrays: Inputs) -> Iterator[Malformed]:
    x = arrays["x"]
    yield _call(ShapeError, "x is narrower than the configuration's width", case, change(arrays, x=x[..., :-1]))
    yield _call(ShapeError, "x has rank 2", case, change(arrays, x=x[0]), must=False)
    integers = np.ones(x.shape, np.int64)
    yield _call(DTypeError, "x holds integers", case, change(arrays, x=integers), must=False)
    other = change(arrays, x=x.astype(_other(cell)))
    yield _call(DTypeError, "x has another dtype than the weights", case, other, must=False)


def _weights(cell: Cell, case: BlockCase, arrays: Inputs) -> Iterator[Malformed]:
    for name in [name for name in arrays if "." in name]:
        w = arrays[name]
        missing = {n: a for n, a in arrays.items() if n != name}
        yield _call(ConfigError, f"{name} is missing", case, missing)
        yield _call(ShapeError, f"{name} has an element less", case, change(arrays, **{name: w[..., :-1]}))
        dtype = change(arrays, **{name: w.astype(_other(cell))})
        yield _call(DTypeError, f"{name} has another dtype", case, dtype, must=False)
        if w.ndim == 2 and w.shape[0] != w.shape[1]:
            yield _call(ShapeError, f"{name} is transposed", case, change(arrays, **{name: w.T.copy()}))
    extra = change(arrays, **{"gate_norm.weight": arrays["attention_norm.weight"]})
    yield _call(ConfigError, "a weight has an unknown name", case, extra, must=False)
    if case.ffn_bias:
        bare = replace(case, ffn_bias=False)
        yield _call(ConfigError, "biases come that the configuration has not", bare, arrays, must=False)


def _masks(case: BlockCase, arrays: Inputs, name: str, columns: int) -> Iterator[Malformed]:
    for axis, shape in {
        "last": (1, 1, 1, columns + 1),
        "query": (1, 1, case.T + 1, 1),
        "head": (1, case.H + 1, 1, 1),
        "batch": (case.B + 1, 1, 1, 1),
    }.items():
        wrong = change(arrays, **{name: np.ones(shape, bool)})
        yield _call(ShapeError, f"the {axis} axis of {name} is neither full nor 1", case, wrong)
    flat = change(arrays, **{name: np.ones((case.T, columns), bool)})
    yield _call(ShapeError, f"{name} has rank 2", case, flat, must=False)
    integers = change(arrays, **{name: np.ones((1, 1, 1, 1), np.int64)})
    yield _call(DTypeError, f"{name} holds integers", case, integers, must=False)


def _positions(case: BlockCase, arrays: Inputs) -> Iterator[Malformed]:
    for shape in ((case.T + 1,), (case.B + 1, case.T)):
        wrong = change(arrays, positions=np.zeros(shape, np.int64))
        problem = f"positions are {shape} of B = {case.B}, T = {case.T}"
        yield _call(ShapeError, problem, case, wrong, must=bool(case.rotary))
    floats = change(arrays, positions=np.zeros(case.T, arrays["x"].dtype))
    yield _call(DTypeError, "positions are no integers", case, floats, must=False)
    for outside in (-1, LIMIT):
        beyond = change(arrays, positions=np.where(np.arange(case.T) == 1, outside, 0))
        yield _call(PositionError, f"a position is {outside}", case, beyond, must=False)


def _contexts(cell: Cell, case: BlockCase) -> Iterator[Malformed]:
    arrays = case.inputs(cell.io)
    context = arrays["context"]
    wrong = partial(_call, ShapeError)
    yield wrong("the context is narrower than x", case, change(arrays, context=context[..., :-1]))
    longer = np.concatenate([context, context[:1]])
    yield wrong("the context has another batch than x", case, change(arrays, context=longer))
    yield wrong("the context has rank 2", case, change(arrays, context=context[0]), must=False)
    dtype = change(arrays, context=context.astype(_other(cell)))
    yield _call(DTypeError, "the context has another dtype than x", case, dtype, must=False)
    without = {name: x for name, x in arrays.items() if name != "context"}
    yield _call(ConfigError, "the block has cross-attention and no context comes", case, without)
    alone = {name: x for name, x in arrays.items() if not name.startswith("cross")}
    yield _call(ConfigError, "a context comes and the block has no cross-attention", replace(case, cross=False), alone)
    if offers(cell, "context_mask"):
        yield from _masks(case, arrays, "context_mask", case.S)
        mask = np.ones((1, 1, 1, 1), bool)
        bare = {name: x for name, x in alone.items() if name != "context"} | {"context_mask": mask}
        yield _call(ConfigError, "context_mask comes without a context", replace(case, cross=False), bare)


def _call(
    error: type[GaugeblockError],
    problem: str,
    case: BlockCase,
    arrays: Inputs,
    config: BlockConfig | None = None,
    *,
    must: bool = True,
) -> Malformed:
    (x, weights, own), keywords = case.arguments(arrays)
    return Malformed(problem, error, case.method, (x, weights, config or own), keywords, must)


def _other(cell: Cell) -> Any:
    return (FLOAT16 if cell.dtype != "float16" else FLOAT32).dtype


def using(cell: Cell, feature: str, base: BlockCase | None = None) -> BlockCase:
    """A small case like base that uses a feature, and otherwise only what the backend offers."""
    case = replace(base or BASE, **USES[feature])
    for _ in declared(cell):  # to be without one feature may mean to use another, which goes in its turn
        for option in sorted(set(declared(cell)) & case.used() - {feature}):
            changed = case.without(option)
            case = changed if feature in changed.used() else case
    return case


BASE = BlockCase(B=2, T=4, M=8, H=4, K=4, D=2, E=2, F=5, activation="silu")
USES: dict[str, dict[str, Any]] = {
    "context": {"cross": True, "S": 3},
    "context_mask": {"cross": True, "S": 3, "context_mask": "random"},
    "rms": {"norm": "rms"},
    "layer": {"norm": "layer"},
    "pre": {"placement": "pre"},
    "post": {"placement": "post"},
    "gated": {"gated": True, "activation": "silu"},
    "ungated": {"gated": False},
    **{f"activation.{name}": {"gated": False, "activation": name} for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "ffn_bias": {"ffn_bias": True},
    "ffn_bias.none": {"ffn_bias": False},
    "causal": {"causal": True},
    "bidirectional": {"causal": False},
    "mask": {"mask": "random"},
    "mask.heads": {"mask": "heads"},
    "positions": {"positions": "gaps", "rotary": "half"},
    "positions.rows": {"positions": "rows", "rotary": "half"},
    "rotary": {"rotary": "half"},
    "rotary.interleaved": {"rotary": "interleaved", "D": 4, "E": 4, "M": 16},  # one pair has but one layout
    "alibi": {"alibi": True},
    "window": {"window": (1, 1)},
    "scale": {"scale": 0.3},
    "bias": {"bias": "all"},
    "bias.some": {"bias": "query+value+output"},
    "bias.none": {"bias": ""},
    "grouped": {"K": 2},
    "value_width": {"E": 3},
    "inner_width": {"M": 7},
    "eps.zero": {"eps": 0.0, "x": "small"},
    "empty.batch": {"B": 0},
    "empty.tokens": {"T": 0},
    "empty.context": {"cross": True, "S": 0},
}
