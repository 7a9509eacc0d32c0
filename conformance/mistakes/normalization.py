"""The mistakes that are made with normalizations, as variations of the definition."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.strategies.normalization import LayerNormCase, NormCase
from gaugeblock.spec.reference.bounded import Expected, Real


def mistakes(cell: Cell, case: NormCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs, about as accurately as the right result."""
    expected = cell.expected(case, inputs)
    allowed = expected.err + cell.own(case, inputs)
    x, weight, bias = (_wide(inputs.get(name), case.M, empty) for name, empty in (("x", 0), ("weight", 1), ("bias", 0)))
    if "weight" in inputs and cell.backend.conventions.rms_weight == "1+w" and not isinstance(case, LayerNormCase):
        weight = 1 + weight
    found = _layer_norm(x, weight, bias, case) if isinstance(case, LayerNormCase) else _rms_norm(x, weight, case)
    with np.errstate(divide="ignore", invalid="ignore"):
        for text, value in found:
            least = (case.M + 10) * cell.io.u * np.abs(value)  # a hint is no verdict: what is exact need not be here
            err = np.maximum(_grown(allowed, expected.value, value), least)
            yield text, replace(expected, value=value, err=err)


def _grown(err: Real, right: Real, wrong: Real) -> Real:
    """The largest error of the row, in proportion to its largest element: mistakes move what is small and large."""
    largest, most = (np.max(np.abs(x), axis=-1, keepdims=True) for x in (right, wrong))
    grown = np.max(err, axis=-1, keepdims=True) * np.where(largest > 0, np.maximum(most / largest, 1), 1)
    return np.asarray(np.broadcast_to(grown, err.shape))


def _layer_norm(x: Real, weight: Real, bias: Real, case: LayerNormCase) -> Iterator[tuple[str, Real]]:
    eps = case.eps
    d = x - _mean(x)
    var = _mean(d**2)
    sample = var * case.M / max(case.M - 1, 1)
    y = d / np.sqrt(var + eps)
    yield "the variance is divided by M - 1", d / np.sqrt(sample + eps) * weight + bias
    yield "eps is added outside the root", d / (np.sqrt(var) + eps) * weight + bias
    yield "eps is ignored", d / np.sqrt(var) * weight + bias
    yield "the rows are not centred", x / np.sqrt(_mean(x**2) + eps) * weight + bias
    yield "the root is missing", d / (var + eps) * weight + bias
    yield "the weight is ignored", y + bias
    yield "the bias is ignored", y * weight
    yield "the bias is added before the weight", (y + bias) * weight
    yield "weight and bias are exchanged", y * bias + weight
    yield "the weight stands for 1 + weight", y * (1 + weight) + bias
    yield "mean and variance are those of all rows", (x - np.mean(x)) / np.sqrt(np.var(x) + eps) * weight + bias


def _rms_norm(x: Real, weight: Real, case: NormCase) -> Iterator[tuple[str, Real]]:
    eps = case.eps
    square = _mean(x**2)
    largest = np.max(np.abs(x), axis=-1, keepdims=True)
    y = x / np.sqrt(square + eps)
    yield "eps is added outside the root", x / (np.sqrt(square) + eps) * weight
    yield "eps is added after dividing by the largest element", x / np.sqrt(square + eps * largest**2) * weight
    yield "eps is ignored", x / np.sqrt(square) * weight
    yield "the rows are centred", (x - _mean(x)) / np.sqrt(_mean((x - _mean(x)) ** 2) + eps) * weight
    yield "the squares are summed, not averaged", x / np.sqrt(square * case.M + eps) * weight
    yield "the weight is ignored", y
    yield "the weight is applied twice", y * weight**2
    yield "the mean square is that of all rows", x / np.sqrt(np.mean(x**2) + eps) * weight


def _wide(x: object, M: int, empty: float) -> Real:
    return np.full(M, empty, np.float64) if x is None else np.asarray(x).astype(np.float64)


def _mean(x: Real) -> Real:
    return np.asarray(np.mean(x, axis=-1, keepdims=True))
