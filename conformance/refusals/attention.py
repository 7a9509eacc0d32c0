"""Malformed calls of attention, and the smallest calls that use one of its features."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError
from gaugeblock.spec.precision import FLOAT16, FLOAT32

BASE = AttentionCase(B=2, H=4, K=2, T=3, S=5, D=8, E=6)


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call that the backend's features allow to state."""
    case = cell.fit(BASE)
    made = case.inputs(cell.io)
    q, k, v = (made[name] for name in "qkv")
    wrong = partial(_call, ShapeError)
    yield wrong("k is narrower than q", q, k[..., :7], v)
    yield wrong("v is shorter than k", q, k, v[:, :, :-1])
    yield wrong("k and v have another batch", q, np.concatenate([k, k[:1]]), np.concatenate([v, v[:1]]))
    yield wrong("the heads do not divide", q, _heads(k, 3), _heads(v, 3))
    yield wrong("v has other heads than k", q, k, _heads(v, 3))
    yield wrong("q has rank 3", q[0], k, v, must=False)
    yield wrong("k has rank 3", q, k[0], v, must=False)
    yield wrong("v has rank 3", q, k, v[0], must=False)
    yield wrong("q and k have no width", q[..., :0], k[..., :0], v, must=False)
    other = FLOAT16 if cell.dtype != "float16" else FLOAT32
    yield _call(DTypeError, "k has another dtype", q, k.astype(other.dtype), v, must=False)
    yield _call(DTypeError, "v has another dtype", q, k, v.astype(other.dtype), must=False)
    if offers(cell, "mask"):
        mask = np.ones((1, 1, 1, case.S - 1), bool)
        yield wrong("the mask's key axis is neither S nor 1", q, k, v, mask=mask)
        yield wrong("the mask has rank 2", q, k, v, mask=np.ones((1, case.S), bool), must=False)
        integers = np.ones((1, 1, 1, 1), np.int64)
        yield _call(DTypeError, "the mask holds integers", q, k, v, mask=integers, must=False)
    if offers(cell, "bias"):
        bias = np.zeros((1, 1, case.T + 1, 1), q.dtype)
        yield wrong("the bias's query axis is neither T nor 1", q, k, v, bias=bias)
        flat = np.zeros((1, case.S), q.dtype)
        yield wrong("the bias has rank 2", q, k, v, bias=flat, must=False)
        alien = np.zeros((1, 1, 1, 1), other.dtype)
        yield _call(DTypeError, "the bias has another dtype", q, k, v, bias=alien, must=False)
    if offers(cell, "window"):
        for window in ((-1, 0), (0.5, 0), (1, 2, 3)):
            yield _call(ConfigError, f"window is {window}", q, k, v, window=window, must=False)
    if offers(cell, "scale"):
        for scale in (np.nan, np.inf):
            yield _call(ConfigError, f"scale is {scale}", q, k, v, scale=scale, must=False)


def meaningless_caps(cell: Cell) -> Iterator[Malformed]:
    """Soft caps that are not positive and finite."""
    made = cell.fit(BASE).inputs(cell.io)
    arrays = tuple(made[name] for name in "qkv")
    for softcap in (0.0, -1.0, np.nan, np.inf):
        problem = f"softcap is {softcap}"
        yield Malformed(problem, ConfigError, "soft_capped_attention", arrays, {"softcap": softcap}, False)


def using(cell: Cell, feature: str) -> AttentionCase:
    """A small case that uses a feature, and otherwise only what the backend offers."""
    case = replace(BASE, T=5, K=4, E=8)
    for option in feature.split("+"):
        case = replace(case, **USES[option])
    own = {*feature.split("+"), feature}
    for option in declared(cell):
        if option not in own and set(option.split("+")) <= case.used():
            case = case.without(option)
    return case


USES: dict[str, dict[str, Any]] = {
    "mask": {"mask": "random"},
    "mask.heads": {"mask": "heads"},
    "bias": {"bias": "normal"},
    "bias.infinite": {"bias": "infinite"},
    "causal": {"causal": True},
    "window": {"window": (1, 1)},
    "scale": {"scale": 0.3},
    "scale.nonpositive": {"scale": -0.5},
    "rectangular": {"T": 3},
    "grouped": {"K": 2},
    "value_width": {"E": 6},
    "empty.batch": {"B": 0},
    "empty.queries": {"T": 0},
    "empty.keys": {"S": 0},
}


def _call(
    error: type[ShapeError] | type[DTypeError] | type[ConfigError],
    problem: str,
    *arrays: Numpy,
    must: bool = True,
    **keywords: Any,
) -> Malformed:
    return Malformed(problem, error, "attention", arrays, keywords, must)


def _heads(x: Numpy, n: int) -> Numpy:
    return np.concatenate([x] * n, axis=1)[:, :n]
