"""Malformed calls of the normalizations, and the smallest calls that use one of their features."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.refusals import Malformed, declared
from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase, RMSNormCase
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, ShapeError
from gaugeblock.spec.precision import FLOAT16, FLOAT32

BASES: dict[str, NormCase] = {
    "layer_norm": LayerNormCase(B=2, T=3, M=8, weight="normal", bias="normal"),
    "rms_norm": RMSNormCase(B=2, T=3, M=8, weight="normal"),
}


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call of the cell's interface."""
    case = BASES[cell.offer]
    made = case.inputs(cell.io)
    call = partial(_call, case, made)
    for name in case.positional[1:]:
        given = made[name]
        yield call(ShapeError, f"{name} is longer than a row", {name: np.append(given, given[:1])}, must=True)
        yield call(ShapeError, f"{name} is shorter than a row", {name: given[:-1]}, must=True)
        yield call(ShapeError, f"{name} has one element", {name: given[:1]})
        yield call(ShapeError, f"{name} has rank 2", {name: given[None]})
        other = FLOAT16 if cell.dtype != "float16" else FLOAT32
        yield call(DTypeError, f"{name} has another dtype", {name: given.astype(other.dtype)})
    yield call(ShapeError, "x has rank 0", {"x": made["x"].reshape(-1)[0, ...]})
    yield call(ShapeError, "x has rows of width 0", {name: x[..., :0] for name, x in made.items()})
    yield call(DTypeError, "x holds integers", {"x": np.ones(case.shape, np.int64)})
    for eps in (-1e-5, np.nan, np.inf):
        yield call(ConfigError, f"eps is {eps}", eps=eps)


def _call(
    case: NormCase,
    made: Inputs,
    error: type[GaugeblockError],
    problem: str,
    changed: Inputs = MappingProxyType({}),
    *,
    eps: float | None = None,
    must: bool = False,
) -> Malformed:
    arrays = {**made, **changed}
    keywords: dict[str, Any] = {"eps": case.eps if eps is None else eps}
    return Malformed(problem, error, case.method, tuple(arrays[n] for n in case.positional), keywords, must)


def using(cell: Cell, feature: str) -> NormCase:
    """A small case that uses a feature, and otherwise only what the backend offers."""
    case = replace(BASES[cell.offer], **USES[feature])
    for option in declared(cell):
        if option != feature and option in case.used():
            case = case.without(option)
    return case


USES: dict[str, dict[str, Any]] = {
    "weightless": {"weight": ""},
    "biasless": {"bias": ""},
    "eps.zero": {"eps": 0.0},
    "empty.rows": {"B": 0},
}
