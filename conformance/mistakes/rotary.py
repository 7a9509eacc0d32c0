"""The mistakes that are made with rotation, as variations of the reference."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.rotary import BASE, RotaryCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import NTK, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference import rotary as reference
from gaugeblock.spec.reference.bounded import Expected
from gaugeblock.spec.reference.rotary_scaling import magnitude, powers, units
from gaugeblock.spec.rotary import POSITIONS_END

Held = Callable[[Numpy], Numpy]


def mistakes(cell: Cell, case: RotaryCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    """Each likely mistake with what it would give for these inputs."""
    yield from _pairs(cell, case, inputs)
    yield from _places(cell, case, inputs)
    if case.base != BASE:
        yield "the base is 10000, whatever is asked for", _varied(cell, case, inputs, base=BASE)
    for text, scaling in _rules(case.rule):
        yield text, _varied(cell, case, inputs, scaling=scaling)
    if case.rule is None:
        yield from _frequencies(cell, case, inputs)
    if case.dims.R < case.D and case.D % 2 == 0:
        yield "all components are rotated, not the first rotary_dim", _varied(cell, case, inputs, rotary_dim=None)


def _varied(cell: Cell, case: RotaryCase, inputs: Inputs, **options: Any) -> Expected:
    given: dict[str, Any] = {**inputs, **case.options(), **options}
    conventions = cell.backend.conventions
    expected = reference.rotate(**given, contract=cell.contract(), conventions=conventions)
    own = reference.rotate(**given, conventions=conventions).err
    return replace(expected, err=expected.err + own)


def _pairs(cell: Cell, case: RotaryCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    other = "interleaved" if case.layout == "half" else "half"
    yield f"pairs are those of the layout {other}", _varied(cell, case, inputs, layout=other)
    right = _varied(cell, case, inputs)
    first, second = reference.pairs(case.dims, case.order, cell.backend.conventions)
    apart = reference.pairs(case.dims, "half" if case.layout == "interleaved" else "interleaved")
    value, err = right.value.copy(), right.err.copy()
    for here, there in zip((first, second), apart, strict=True):
        value[..., there], err[..., there] = right.value[..., here], right.err[..., here]
    yield f"pairs are rotated rightly and laid down in the layout {other}", Expected(value, err, free=right.free)
    mirrored = inputs["x"].copy()
    mirrored[..., second] = -mirrored[..., second]
    back = _varied(cell, case, change(inputs, x=mirrored))
    value = back.value.copy()
    value[..., second] = -value[..., second]
    yield "the sine has the wrong sign: pairs turn the other way", Expected(value, back.err, free=back.free)
    yield "nothing is rotated", Expected(inputs["x"].astype(np.float64), np.zeros(inputs["x"].shape))


def _frequencies(cell: Cell, case: RotaryCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    n, R = case.dims.R // 2, case.dims.R
    e = 2.0 * np.arange(n) / R
    wrong = {
        "the exponent is i / R instead of 2 i / R": e / 2,
        "the exponent is 2 i / (R - 2): the slowest pair has the base as its period": e * R / max(R - 2, 1),
        "frequencies begin with that of pair 1": e + 2.0 / R,
        "frequencies run from the slowest to the fastest": e[::-1],
    }
    if R < case.D:
        wrong["exponents are counted over the whole width, not over rotary_dim"] = e * R / case.D
    at = reference.pairs(case.dims, case.order, cell.backend.conventions)
    for text, exponents in wrong.items():
        made = []
        for contract in (cell.contract(), EXACT):
            w = powers(exponents, case.base, units(contract))
            table = reference.entries(w, inputs["positions"], None, contract)
            made.append(reference.turned(inputs["x"], table, at, contract))
        yield text, replace(made[0], err=made[0].err + made[1].err)


def _places(cell: Cell, case: RotaryCase, inputs: Inputs) -> Iterator[tuple[str, Expected]]:
    p = inputs["positions"]
    counted = np.broadcast_to(np.arange(p.shape[-1]), p.shape)
    wrong: dict[str, Numpy] = {
        "positions are counted from one": p + 1,
        "positions count twice": 2 * p,
        "tokens are counted from 0 in every call": counted,
        "positions are taken to follow the first without a gap": p[..., :1] + counted,
        "positions are held in bfloat16": _held(p, ml_dtypes.bfloat16),
        "positions are held in float16": _held(p, np.float16),
        "positions are clamped to 2047": np.minimum(p, 2047),
    }
    if p.ndim == 2:
        wrong["the positions of the first batch row serve all of them"] = np.broadcast_to(p[:1], p.shape)
    for text, positions in wrong.items():
        if np.max(positions, initial=0) < POSITIONS_END and not np.array_equal(positions, p):
            yield text, _varied(cell, case, change(inputs, positions=positions))


def _held(p: Numpy, dtype: Any) -> Numpy:
    with np.errstate(over="ignore"):
        return np.minimum(p.astype(dtype).astype(np.float64), POSITIONS_END).astype(np.int64)


def _rules(rule: Scaling | None) -> Iterator[tuple[str, Scaling | None]]:
    if rule is None:
        return
    yield "the frequencies are not scaled", None
    match rule:
        case Linear(factor):
            yield "the frequencies are multiplied by the factor", Linear(1 / factor)
        case NTK(alpha):
            yield "all frequencies are divided alike", Linear(alpha)
        case Llama3(factor):
            yield "all frequencies are divided alike", Linear(factor)
        case YaRN(factor):
            yield from _yarns(rule)


def _yarns(rule: YaRN) -> Iterator[tuple[str, Scaling]]:
    m = float(magnitude(rule, units(EXACT)).value)
    own = float(magnitude(replace(rule, attention_factor=None), units(EXACT)).value)
    yield "YaRN's magnitude is missing", replace(rule, attention_factor=1.0)
    yield "YaRN's magnitude is applied twice", replace(rule, attention_factor=m * m)
    if rule.attention_factor is not None:
        yield "attention_factor is ignored", replace(rule, attention_factor=None)
        yield "attention_factor multiplies the magnitude that the factor gives", replace(rule, attention_factor=m * own)
    turned = "truncated" if not rule.truncate else "not truncated"
    yield f"the ends of YaRN's ramp are {turned}", replace(rule, truncate=not rule.truncate)
    yield "YaRN's original length is cut off at 32767", replace(rule, original=min(rule.original, 32767))
