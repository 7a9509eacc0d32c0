"""An input that is known within an error: the result for every value that it may have lies within the bound.

The bounds of compositions rest on it: what a step gives is what the next one is not sure of.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec.config import YaRN
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT
from gaugeblock.spec.reference import attention, feedforward, normalization, rotary
from gaugeblock.spec.reference.bounded import Bounded
from gaugeblock.spec.reference.gradients import attention as attention_back
from gaugeblock.spec.reference.gradients import feedforward as feedforward_back
from gaugeblock.spec.reference.gradients import normalization as normalization_back
from gaugeblock.spec.reference.gradients import positions as positions_back

RNG = np.random.default_rng(0)
MANY = 200  # values that are tried, half of them at the ends of every interval
INSIDE = 1 - 1e-6  # by which a value that is rounded to float64 is still one of them

Given = Mapping[str, Any]
Results = Mapping[str, Bounded]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


W, BIAS, POSITIONS = normal(6), normal(6), np.array([0, 3, 70, 9000])
NETWORK = {
    **{"up.weight": normal(6, 5), "up.bias": normal(5), "gate.weight": normal(6, 5), "gate.bias": normal(5)},
    **{"down.weight": normal(5, 6), "down.bias": normal(6)},
}
PLAIN = {name: x for name, x in NETWORK.items() if not name.startswith("gate")}
ROWS = {"x": normal(4, 6)}
BACK = {**ROWS, "dy": normal(4, 6)}
HEADS = {"q": normal(2, 4, 3, 5), "k": normal(2, 2, 4, 5), "v": normal(2, 2, 4, 6), "bias": normal(1, 4, 3, 4)}
TURNED = {"x": normal(1, 2, 4, 6)}
SAMPLE, ONE_PLUS = Conventions(layer_norm_form="sample_eps_outside"), Conventions(rms_weight="1+w")
YARN = YaRN(factor=4.0, original=64)


def one(function: Callable[..., Bounded], *fixed: Any, **options: Any) -> Callable[[Given], Results]:
    """A function of one result; the uncertain arrays are its first arguments."""
    return lambda given: {"y": function(*given.values(), *fixed, **options)}


FORWARD: dict[str, tuple[Given, Callable[[Given], Results]]] = {
    "layer_norm": (ROWS, one(normalization.layer_norm, W, BIAS, eps=1e-5)),
    "layer_norm without eps": (ROWS, one(normalization.layer_norm, None, None, eps=0.0)),
    "layer_norm of samples": (ROWS, one(normalization.layer_norm, W, BIAS, eps=1e-5, conventions=SAMPLE)),
    "layer_norm with large eps": (ROWS, one(normalization.layer_norm, W, None, eps=1.0, conventions=SAMPLE)),
    "rms_norm": (ROWS, one(normalization.rms_norm, W, eps=1e-5)),
    "rms_norm of one plus": (ROWS, one(normalization.rms_norm, W, eps=1e-5, conventions=ONE_PLUS)),
    **{kind: (ROWS, one(feedforward.activate, kind, EXACT)) for kind in ("relu", "gelu", "gelu_tanh", "silu")},
    "silu with beta": (ROWS, one(feedforward.activate, "silu", EXACT, 1.7)),
    **{
        f"feed_forward {kind}": (ROWS, one(feedforward.feed_forward, PLAIN, activation=kind))
        for kind in ("relu", "gelu", "gelu_tanh", "silu")
    },
    "swiglu": (ROWS, one(feedforward.swiglu, NETWORK)),
    "attention": (HEADS, lambda given: {"y": attention.attention(**given)}),
    "attention, causal": (HEADS, lambda given: {"y": attention.attention(**given, causal=True, window=(2, 0))}),
    "attention, scaled": (HEADS, lambda given: {"y": attention.attention(**given, scale=-3.0)}),
    "attention, capped": (HEADS, lambda given: {"y": attention.attention(**given, softcap=1.5)}),
    "rotate": (TURNED, one(rotary.rotate, POSITIONS)),
    "rotate by YaRN": (TURNED, one(rotary.rotate, POSITIONS, layout="interleaved", rotary_dim=4, scaling=YARN)),
}
BACKWARD: dict[str, tuple[Given, Callable[[Given], Results]]] = {
    "layer_norm": (BACK, lambda g: normalization_back.layer_norm(g["x"], W, BIAS, g["dy"], eps=1e-5)),
    "layer_norm of samples": (
        BACK,
        lambda g: normalization_back.layer_norm(g["x"], W, BIAS, g["dy"], eps=1e-5, conventions=SAMPLE),
    ),
    "layer_norm with large eps": (
        BACK,
        lambda g: normalization_back.layer_norm(g["x"], W, None, g["dy"], eps=1.0, conventions=SAMPLE),
    ),
    "rms_norm": (BACK, lambda g: normalization_back.rms_norm(g["x"], W, g["dy"], eps=1e-5)),
    **{
        f"feed_forward {kind}": (
            BACK,
            lambda g, kind=kind: feedforward_back.feed_forward(g["x"], PLAIN, g["dy"], activation=kind),
        )
        for kind in ("gelu", "gelu_tanh", "silu")
    },
    "swiglu": (BACK, lambda g: feedforward_back.swiglu(g["x"], NETWORK, g["dy"])),
    "attention": (
        {**HEADS, "dy": normal(2, 4, 3, 6)},
        lambda g: attention_back.attention(g["q"], g["k"], g["v"], g["dy"], bias=g["bias"], causal=True),
    ),
    "rotate": (TURNED, lambda g: {"x": positions_back.rotate(POSITIONS, g["x"])}),
}
CASES = {**FORWARD, **{f"gradients of {name}": case for name, case in BACKWARD.items()}}


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e-2, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_every_value_of_an_uncertain_input_stays_within_the_bound(name: str, size: float) -> None:
    given, function = CASES[name]
    rng = np.random.default_rng(1)
    errors = {key: size * rng.uniform(0.1, 1, x.shape) * rng.choice([0, 1, 1], x.shape) for key, x in given.items()}
    made = function({key: Bounded(x, errors[key]) for key, x in given.items()})
    nearest = 0.0
    for turn in range(MANY):
        ends = {key: INSIDE * rng.uniform(-1, 1, x.shape) for key, x in given.items()}
        off = {key: INSIDE * np.sign(x) if turn % 2 else x for key, x in ends.items()}
        moved = function({key: Bounded(x + off[key] * errors[key], np.zeros(x.shape)) for key, x in given.items()})
        for key, want in made.items():
            error, own = np.abs(moved[key].value - want.value), np.nan_to_num(moved[key].err, posinf=0.0)
            assert np.all(error <= want.err + own), (key, np.max(error - want.err))
            nearest = max(nearest, float(np.max(error / np.where(want.err > 0, want.err, np.inf), initial=0.0)))
    assert nearest > 0.01 or size > 0.1, "the bound says nothing"
