"""What the probes share: the installed backends, calls on plain numbers, and bounds in units of the roundoff."""

from collections.abc import Callable, Mapping
from math import expm1
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.load import load
from gaugeblock.spec.precision import FLOAT32, FORMATS, HALF

Ours = Any  # a backend that offers every component
Many = Any  # numbers, nested lists of them, or an array
EXP = 8  # relative errors that contract N4 admits, in units of the roundoff
TRIG = 8  # absolute


def installed(word: str) -> Ours:
    """A backend of ours, or a skipped test where its framework is not installed."""
    pytest.importorskip(word)
    return load(word)


def floats(backend: Ours, x: Many, dtype: str = "float32") -> Any:
    return backend.asarray(np.ascontiguousarray(np.asarray(x, np.float64).astype(FORMATS[dtype].dtype)))


def number(backend: Ours, x: Any) -> Any:
    """A result in float64, which holds every number of the other formats."""
    return backend.asnumpy(x).astype(np.float64)


def attend(backend: Ours, q: Many, k: Many, v: Many, *, dtype: str = "float32", **options: Any) -> Any:
    """Attention on numbers; mask, bias and the rest are options."""
    kinds: Mapping[str, Callable[[Any], Any]] = {
        "mask": lambda m: backend.asarray(np.asarray(m, bool)),
        "bias": lambda b: floats(backend, b, dtype),
    }
    given = {name: kinds[name](x) if name in kinds else x for name, x in options.items()}
    method = "soft_capped_attention" if "softcap" in options else "attention"
    return number(backend, getattr(backend, method)(*(floats(backend, x, dtype) for x in (q, k, v)), **given))


def uniform(backend: Ours, v: Many, T: int, **options: Any) -> Any:
    """T queries of zeros over keys of zeros: every row is the mean of the values that it sees. -> (T,)"""
    S = len(v)
    q, k = np.zeros((1, 1, T, 1)), np.zeros((1, 1, S, 1))
    return attend(backend, q, k, np.reshape(v, (1, 1, S, 1)), **options)[0, 0, :, 0]


def gamma(n: float, u: float) -> float:
    """The relative error of n roundings in a row (Higham 2002, lemma 3.1)."""
    return n * u / (1 - n * u)


def mixed(S: int, dtype: str = "float32", *, scores: float = 0.0, D: int = 1) -> float:
    """The relative error of a row of attention over S keys, against the sum of weight times |value|.

    A score whose products add up to `scores` in magnitude, scale included, is off by D + 3 roundings of them, in half
    precision by three more of its own format: scaled query, scaled key, stored score. Exponentials are off by that and
    by 8 u, above and below the line; the two sums round S - 1 times each, and each product, quotient and subtraction
    once. In half precision weight and result are rounded to its format.
    """
    io, acc = FORMATS[dtype], FLOAT32
    half = dtype in HALF
    score = scores * (gamma(D + 3, acc.u) + (gamma(3, io.u) if half else 0.0))
    return expm1(2 * score + gamma(2 * S + 2 * EXP + 6, acc.u) + (gamma(2, io.u) if half else 0.0))


def told(got: Many, right: Many, bound: Many, *wrong: Many) -> None:
    """The result is right within the bound, and every wrong one lies beyond twice the bound somewhere.

    Twice, since a wrong implementation may round as badly as a right one.
    """
    got, right, bound = (np.asarray(x, np.float64) for x in (got, right, bound))
    assert got.shape == right.shape
    assert np.all(np.abs(got - right) <= bound), f"{got.tolist()} for {right.tolist()} within {np.max(bound):.3g}"
    for other in wrong:
        x = np.asarray(other, np.float64)
        assert not np.all(np.abs(x - right) <= 2 * bound), f"{x.tolist()} would pass for {right.tolist()}"
