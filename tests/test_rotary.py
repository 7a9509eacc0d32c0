"""What stands around a rotation: its configuration, its shape rules, and weights of the other layout."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec.config import LAYOUTS, NTK, Layout, Linear, Llama3, RotaryConfig, YaRN
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Expected
from gaugeblock.spec.reference.rotary import rotate
from gaugeblock.spec.rotary import Dims, dims, dtypes, in_range
from gaugeblock.spec.weights import rotary_layout

WRONG: dict[str, Callable[[], object]] = {
    "a base of one": lambda: RotaryConfig(base=1.0),
    "a base that is not finite": lambda: RotaryConfig(base=float("inf")),
    "a base that is a word": lambda: RotaryConfig(base="large"),  # type: ignore[arg-type]
    "an unknown layout": lambda: RotaryConfig(layout="halves"),  # type: ignore[arg-type]
    "an odd rotary_dim": lambda: RotaryConfig(rotary_dim=3),
    "a rotary_dim of zero": lambda: RotaryConfig(rotary_dim=0),
    "a rotary_dim that is no integer": lambda: RotaryConfig(rotary_dim=4.0),  # type: ignore[arg-type]
    "a scaling that is a word": lambda: RotaryConfig(scaling="linear"),  # type: ignore[arg-type]
    "a factor of zero": lambda: Linear(0.0),
    "a negative factor": lambda: Linear(-2.0),
    "a factor that is not a number": lambda: Linear(float("nan")),
    "an alpha of zero": lambda: NTK(0.0),
    "an original length of zero": lambda: YaRN(4.0, 0),
    "fast turns below slow ones": lambda: YaRN(4.0, 256, fast=1, slow=32),
    "a negative attention factor": lambda: YaRN(4.0, 256, attention_factor=-1.0),
    "bands exchanged": lambda: Llama3(8.0, 4.0, 1.0, 64),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_configurations_without_meaning_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="ROPE-ERRORS"):
        make()


def test_configurations_are_frozen_and_comparable() -> None:
    assert RotaryConfig(scaling=YaRN(4.0, 256)) == RotaryConfig(scaling=YaRN(4.0, 256, 32, 1, None, True))
    assert len({Linear(2.0), Linear(2.0), NTK(2.0)}) == 2
    with pytest.raises(AttributeError):
        Linear(2.0).factor = 3.0  # type: ignore[misc]


def test_dims_name_the_sizes() -> None:
    assert dims((2, 3, 5, 8), (5,)) == Dims(2, 3, 5, 8, 8)
    assert dims((2, 3, 5, 7), (2, 5), rotary_dim=4) == Dims(2, 3, 5, 7, 4)
    assert dims((0, 3, 0, 2), (0,)).T == 0


@pytest.mark.parametrize(
    ("x", "positions", "rotary_dim", "said"),
    [
        ((3, 5, 8), (5,), None, "rank 4"),
        ((2, 3, 5, 0), (5,), None, "at least 1"),
        ((2, 3, 5, 7), (5,), None, "even width"),
        ((2, 3, 5, 8), (5,), 10, "must not exceed"),
        ((2, 3, 5, 8), (4,), None, r"got \(4,\)"),
        ((2, 3, 5, 8), (3, 5), None, r"got \(3, 5\)"),
        ((2, 3, 5, 8), (1, 5), None, r"got \(1, 5\)"),
        ((2, 3, 5, 8), (), None, r"got \(\)"),
    ],
)
def test_sizes_that_contradict_are_refused(
    x: tuple[int, ...], positions: tuple[int, ...], rotary_dim: int | None, said: str
) -> None:
    with pytest.raises(ShapeError, match=f"ROPE-SHAPES: .*{said}"):
        dims(x, positions, rotary_dim=rotary_dim)


def test_types_and_positions_are_refused() -> None:
    calls: list[tuple[type[GaugeblockError], Callable[[], Any]]] = [
        (DTypeError, lambda: dtypes("int64", "int64")),
        (DTypeError, lambda: dtypes("float32", "float32")),
        (DTypeError, lambda: dtypes("float32", "bool")),
        (PositionError, lambda: in_range(np.array([3, -1]))),
        (PositionError, lambda: in_range(np.array([2**24]))),
    ]
    for error, call in calls:
        with pytest.raises(error, match="rotate"):
            call()
    dtypes("bfloat16", "int32")
    in_range(np.array([0, 2**24 - 1]))
    in_range(np.array([], np.int64))
    in_range(None)


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_reordered_projections_serve_the_other_layout(to: Layout, rotary_dim: int | None) -> None:
    rng = np.random.default_rng(0)
    M, H, T, D = 5, 3, 4, 6
    source: Layout = "half" if to == "interleaved" else "interleaved"

    def whole(*shape: int) -> Any:
        return rng.integers(-8, 9, size=shape).astype(np.float64)  # so that projections are exact in any order

    x, p = whole(1, T, M), np.array([3, 0, 257, 9])
    made = {name: (whole(M, H * D), whole(H * D)) for name in "qk"}

    def heads(weight: Any, bias: Any, layout: Layout) -> Expected:
        projected = (x @ weight + bias).reshape(1, T, H, D).swapaxes(1, 2)
        return rotate(projected, p, layout=layout, rotary_dim=rotary_dim)

    def scores(layout: Layout, change: Callable[[Any], Any]) -> Bounded:
        q, k = (heads(change(w), change(b), layout) for w, b in made.values())
        return Arithmetic(EXACT).matmul(q, Bounded(k.value.swapaxes(-1, -2), k.err.swapaxes(-1, -2)))

    moved = scores(to, lambda a: rotary_layout(a, H, to=to, rotary_dim=rotary_dim))
    straight, unmoved = scores(source, lambda a: a), scores(to, lambda a: a)
    assert np.all(np.abs(moved.value - straight.value) <= moved.err + straight.err)
    assert np.any(np.abs(unmoved.value - straight.value) > 1)


def test_reordering_back_and_forth_changes_nothing() -> None:
    w = np.arange(24.0).reshape(2, 12)
    there = rotary_layout(w, 2, to="interleaved")
    assert there[0].tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert rotary_layout(there, 2, to="half").tolist() == w.tolist()


@pytest.mark.parametrize(("columns", "heads", "rotary_dim"), [(12, 5, None), (10, 2, None), (8, 2, 6), (8, 0, None)])
def test_projections_that_do_not_fit_are_refused(columns: int, heads: int, rotary_dim: int | None) -> None:
    with pytest.raises(ConfigError, match="ROPE-WEIGHTS"):
        rotary_layout(np.zeros((3, columns)), heads, to="half", rotary_dim=rotary_dim)
