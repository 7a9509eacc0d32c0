"""Malformed rotations, and the smallest calls that use one feature."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import Linear
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.rotary import POSITIONS_END

BASE = RotaryCase(B=2, H=3, T=5, D=8)


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call that the backend's features allow to state."""
    case = cell.fit(BASE)
    made = case.inputs(cell.io)
    x, p = made["x"], made["positions"]
    yield from _shapes(cell, case, x, p)
    yield _call(case, DTypeError, "positions are no integers", x, p.astype(np.float32), must=False)
    yield _call(case, DTypeError, "x holds integers", np.ones(x.shape, np.int64), p, must=False)
    yield from _parameters(cell, case, x, p)


def _shapes(cell: Cell, case: RotaryCase, x: Numpy, p: Numpy) -> Iterator[Malformed]:
    wrong = partial(_call, case, ShapeError)
    yield wrong("there are fewer positions than tokens", x, p[:-1])
    yield wrong("there are more positions than tokens", x, np.arange(case.T + 1))
    yield wrong("x has an odd width, and no rotary_dim is given", x[..., :-1].copy(), p)
    yield wrong("x has rank 3", x[0], p, must=False)
    yield wrong("positions have rank 0", x, p[:1].reshape(()), must=False)
    if offers(cell, "positions.rows"):
        rows = np.stack([p] * (case.B + 1))
        yield wrong("positions have more rows than x", x, rows)
    if offers(cell, "rotary_dim"):
        yield wrong("rotary_dim exceeds the width", x, p, rotary_dim=case.D + 2)


def outside(cell: Cell) -> Iterator[Malformed]:
    """Positions that are negative or beyond what float32 tells apart, where the backend says that it refuses them."""
    case = cell.fit(BASE)
    made = case.inputs(cell.io)
    x, p = made["x"], made["positions"]
    if cell.backend.conventions.out_of_range != "raises":
        return
    yield _call(case, PositionError, "a position is negative", x, np.where(p == 2, -1, p))
    yield _call(case, PositionError, "a position is 2**24", x, np.where(p == 2, POSITIONS_END, p))
    if offers(cell, "positions.rows"):
        rows = np.stack([p] * case.B)
        rows[-1, -1] = -7
        yield _call(case, PositionError, "a position of the last batch row is negative", x, rows)


def _parameters(cell: Cell, case: RotaryCase, x: Numpy, p: Numpy) -> Iterator[Malformed]:
    wrong = partial(_call, case, ConfigError, must=False)
    if offers(cell, "base"):
        for base in (0.0, 1.0, -1.0, float("nan"), float("inf")):
            yield wrong(f"base is {base}", x, p, base=base)
    if offers(cell, "layout"):
        yield replace(wrong("the layout is unknown", x, p, layout="halves"), must=True)
    if offers(cell, "rotary_dim"):
        yield replace(wrong("rotary_dim is odd", x, p, rotary_dim=3), must=True)
        for R in (0, -2):
            yield wrong(f"rotary_dim is {R}", x, p, rotary_dim=R)
    if offers(cell, "scaling"):
        yield replace(wrong("scaling is a word", x, p, scaling="linear"), must=True)
        yield replace(wrong("scaling is the class of a rule", x, p, scaling=Linear), must=True)


def using(cell: Cell, feature: str) -> RotaryCase:
    """A small case that uses a feature, and otherwise only what the backend offers."""
    case = BASE
    for option in feature.split("+"):
        case = replace(case, **USES[option])
    own = {feature, *feature.split("+"), *(case.used() - BASE.used())}  # what the feature implies is part of it
    for option in declared(cell):
        if option not in own and set(option.split("+")) <= case.used():
            case = case.without(option)
    return case


USES: Mapping[str, Mapping[str, Any]] = {
    "half": {"layout": "half"},
    "interleaved": {"layout": "interleaved"},
    "layout": {"layout": "interleaved"},
    "base": {"base": 500000.0},
    "rotary_dim": {"rotary_dim": 4},
    "odd_width": {"D": 7, "rotary_dim": 4},
    "scaling": {"scaling": "linear4"},
    "scaling.linear": {"scaling": "linear4"},
    "scaling.ntk": {"scaling": "ntk2"},
    "scaling.yarn": {"scaling": "yarn4"},
    "scaling.yarn.untruncated": {"scaling": "yarn-untruncated"},
    "scaling.yarn.attention_factor": {"scaling": "yarn-factor"},
    "scaling.llama3": {"scaling": "llama3-64"},
    "positions.rows": {"positions": "rows"},
    "positions.offset": {"positions": "offset"},
    "positions.gaps": {"positions": "zero"},
    "positions.far": {"positions": "million"},
    "empty.batch": {"B": 0},
    "empty.tokens": {"T": 0},
}


def _call(
    case: RotaryCase,
    error: type[GaugeblockError],
    problem: str,
    x: Numpy,
    positions: Numpy,
    must: bool = True,
    **keywords: Any,
) -> Malformed:
    return Malformed(problem, error, "rotate", (x, positions), {**case.options(), **keywords}, must)
