"""What a configuration of attention refuses, which weights it asks for, and how a wrong call is refused."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec import weights
from gaugeblock.spec.config import PROJECTIONS, AttentionConfig, Linear, RotaryConfig
from gaugeblock.spec.counts import multi_head
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, ShapeError
from gaugeblock.spec.multihead import Dims, dims, dtypes, options

PLAIN = AttentionConfig(width=7, heads=6, kv_heads=3, head_width=4, value_width=2)
BIASED = replace(PLAIN, bias=frozenset(PROJECTIONS))
SHAPES = weights.attention(BIASED)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"width": 0}, "width must be an integer of at least 1, got 0"),
        ({"heads": -1}, "heads must be"),
        ({"kv_heads": 0}, "kv_heads must be"),
        ({"head_width": 2.0}, "head_width must be an integer"),
        ({"value_width": True}, "value_width must be an integer"),
        ({"kv_heads": 4}, "heads must be a multiple of the 4 kv_heads, got 6"),
        ({"heads": 2}, "heads must be a multiple of the 3 kv_heads, got 2"),
        ({"bias": frozenset({"gate"})}, "bias must be one of 'query', 'key', 'value', 'output', got 'gate'"),
        ({"head_width": 3, "rotary": RotaryConfig()}, "at most head_width 3 components can turn, got 3"),
        ({"rotary": RotaryConfig(rotary_dim=6)}, "at most head_width 4 components can turn, got 6"),
        ({"window": (-1, 0)}, "window"),
        ({"window": (1, 2, 3)}, "window"),
        ({"scale": float("nan")}, "scale"),
    ],
)
def test_a_configuration_without_meaning_cannot_be_made(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        replace(PLAIN, **changed)
    assert told in str(refused.value)


def test_a_configuration_with_meaning_can() -> None:
    scaled = RotaryConfig(layout="interleaved", rotary_dim=2, scaling=Linear(2.0))
    every = replace(BIASED, rotary=scaled, alibi=True, window=(None, 3), scale=-0.5)
    assert every.rotary == scaled and hash(every) != hash(PLAIN)
    assert replace(PLAIN, head_width=3, rotary=RotaryConfig(rotary_dim=2)).head_width == 3
    with pytest.raises(FrozenInstanceError):
        every.heads = 2  # type: ignore[misc]


def test_names_and_shapes_of_the_weights() -> None:
    assert weights.attention(PLAIN) == {
        "query.weight": (7, 24),
        "key.weight": (7, 12),
        "value.weight": (7, 6),
        "output.weight": (12, 7),
    }
    assert {n: s for n, s in SHAPES.items() if n.endswith("bias")} == {
        "query.bias": (24,),
        "key.bias": (12,),
        "value.bias": (6,),
        "output.bias": (7,),
    }
    for name in PROJECTIONS:
        one = set(weights.attention(replace(PLAIN, bias=frozenset({name})))) - set(weights.attention(PLAIN))
        assert one == {f"{name}.bias"}


def test_one_token_costs_as_many_products_as_there_are_weights() -> None:
    cost = multi_head(B=1, T=1, S=1, M=7, H=6, K=3, D=4, E=2)
    assert cost.projections == weights.count(weights.attention(PLAIN))


def test_parts_of_a_mapping() -> None:
    held = {"attention.query.weight": 1, "attention.query.bias": 2, "attention_norm.weight": 3, "query.weight": 4}
    assert weights.part(held, "attention") == {"query.weight": 1, "query.bias": 2}
    assert weights.part(held, "cross") == {}


@pytest.mark.parametrize(
    ("changed", "kind", "told"),
    [
        ({"output.weight": None}, ConfigError, "weights must hold output.weight"),
        ({"key.bias": None, "query.bias": None}, ConfigError, "weights must hold key.bias, query.bias"),
        ({"gate.weight": (7, 7)}, ConfigError, "weights holds gate.weight, which the configuration has not"),
        ({"query.weight": (24, 7)}, ShapeError, "query.weight must be (7, 24), got (24, 7)"),
        ({"value.bias": (6, 1)}, ShapeError, "value.bias must be (6,), got (6, 1)"),
        ({"key.weight": (7, 24)}, ShapeError, "key.weight must be (7, 12), got (7, 24)"),
    ],
)
def test_wrong_weights_are_named(
    changed: Mapping[str, tuple[int, ...] | None], kind: type[GaugeblockError], told: str
) -> None:
    held = {name: shape for name, shape in {**SHAPES, **changed}.items() if shape is not None}
    with pytest.raises(kind) as refused:
        dims((2, 5, 7), held, BIASED)
    assert str(refused.value).startswith("MHA-WEIGHTS: ") and told in str(refused.value)
    assert "[multi_head_attention(B=2, T=5, S=5, M=7, H=6, K=3, D=4, E=2)]" in str(refused.value)


def test_sizes_of_a_call() -> None:
    assert dims((2, 5, 7), SHAPES, BIASED) == Dims(2, 5, 5, 7, 6, 3, 4, 2)
    full = {"positions": (2, 5), "mask": (1, 6, 5, 1)}
    assert dims((2, 5, 7), SHAPES, BIASED, context=None, **full) == Dims(2, 5, 5, 7, 6, 3, 4, 2)
    assert dims((0, 0, 7), SHAPES, BIASED, context=(0, 9, 7), mask=(1, 1, 1, 9)) == Dims(0, 0, 9, 7, 6, 3, 4, 2)


@pytest.mark.parametrize(
    ("x", "given", "told"),
    [
        ((5, 7), {}, "x must have rank 3, got rank 2"),
        ((2, 5, 8), {}, "x must have the width 7, got 8"),
        ((2, 5, 7), {"context": (3, 7)}, "context must have rank 3, got rank 2"),
        ((2, 5, 7), {"context": (2, 9, 6)}, "context must have the width 7, got 6"),
        ((2, 5, 7), {"context": (1, 9, 7)}, "context must have x's batch 2, got 1"),
        ((2, 5, 7), {"positions": (6,)}, "positions must be (T,) or (B, T), got (6,)"),
        ((2, 5, 7), {"positions": (1, 5)}, "positions must be (T,) or (B, T), got (1, 5)"),
        ((2, 5, 7), {"mask": (5, 5)}, "mask must be (B|1, H|1, T|1, S|1) of (2, 6, 5, 5), got (5, 5)"),
        ((2, 5, 7), {"mask": (2, 3, 5, 5)}, "got (2, 3, 5, 5)"),
        ((2, 5, 7), {"mask": (2, 1, 5, 5), "context": (2, 9, 7)}, "got (2, 1, 5, 5)"),
    ],
)
def test_sizes_that_contradict_one_another(x: tuple[int, ...], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ShapeError) as refused:
        dims(x, SHAPES, BIASED, **given)
    assert str(refused.value).startswith("MHA-SHAPES: ") and told in str(refused.value)


def test_what_two_sequences_do_not_have() -> None:
    options(replace(PLAIN, rotary=RotaryConfig(), alibi=True, window=(1, 1)), crosses=False, causal=True)
    options(PLAIN, crosses=True, causal=False)
    for changed, word in (
        ({"rotary": RotaryConfig()}, "rotary"),
        ({"alibi": True}, "alibi"),
        ({"window": (1, 1)}, "window"),
    ):
        with pytest.raises(ConfigError, match=f"without {word}"):
            options(replace(PLAIN, **changed), crosses=True, causal=False)
    with pytest.raises(ConfigError, match="without causal"):
        options(PLAIN, crosses=True, causal=True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"x": "int64"}, "x must be one of"),
        ({"context": "float64"}, "context must have the dtype float32 of the others, got float64"),
        ({"weights": {"key.weight": "bfloat16"}}, "key.weight must have the dtype float32"),
        ({"mask": "int64"}, "mask must be bool, got int64"),
        ({"positions": "float32"}, "positions must be integers, got float32"),
    ],
)
def test_element_types_that_do_not_go_together(given: dict[str, Any], told: str) -> None:
    right: dict[str, Any] = {"x": "float32", "weights": dict.fromkeys(SHAPES, "float32"), "context": "float32"}
    dtypes(**right, positions="uint8", mask="bool")
    with pytest.raises(DTypeError) as refused:
        dtypes(**{**right, **given})
    assert str(refused.value).startswith("MHA-ERRORS: ") and told in str(refused.value)


def test_a_layout_that_was_converted_gives_the_same_rotation() -> None:
    """The columns of queries and keys in the other order, and the other layout: the same result (spec.weights)."""
    from gaugeblock.spec.reference.multihead import multi_head_attention

    rng = np.random.default_rng(0)
    held = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    x = rng.normal(size=(2, 5, 7))
    half, pairs = (replace(BIASED, rotary=RotaryConfig(layout=name)) for name in ("half", "interleaved"))
    turned = dict(held)
    for name, heads in (("query", 6), ("key", 3)):
        for part in ("weight", "bias"):
            array = held[f"{name}.{part}"]
            turned[f"{name}.{part}"] = weights.rotary_layout(array, heads, to="interleaved")
    one, other = multi_head_attention(x, held, half), multi_head_attention(x, turned, pairs)
    assert np.all(np.abs(one.value - other.value) <= one.err + other.err)
    assert np.any(np.abs(one.value - multi_head_attention(x, held, pairs).value) > one.err + other.err)
