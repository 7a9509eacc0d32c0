"""The three backends refuse malformed blocks as the specification words it, and configurations refuse themselves."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.load import load
from gaugeblock.conformance.proposals import blocks as proposals
from gaugeblock.conformance.refusals.blocks import malformed
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import AttentionConfig, BlockConfig, RotaryConfig
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError, GaugeblockError
from gaugeblock.spec.precision import HALF, Level

WORDING = re.compile(r"^BLOCK-(SHAPES|WEIGHTS|ERRORS): .+ \[block(\(B=.+\))?\]$")

PLAIN = AttentionConfig(width=6, heads=2, kv_heads=1, head_width=4, value_width=3)
MEANINGLESS: Mapping[str, dict[str, Any]] = {
    "norm": {"norm": "batch"},
    "placement": {"placement": "sandwich"},
    "activation": {"activation": "tanh", "gated": False},
    "gated": {"activation": "gelu", "gated": True},
    "ffn_width": {"ffn_width": 0},
    "eps": {"eps": -1e-5},
    "eps is not finite": {"eps": float("inf")},
    "cross rotates": {"cross": AttentionConfig(**{**vars(PLAIN), "rotary": RotaryConfig()})},
    "cross has biases": {"cross": AttentionConfig(**{**vars(PLAIN), "alibi": True})},
    "cross has a window": {"cross": AttentionConfig(**{**vars(PLAIN), "window": (1, 1)})},
    "cross is wider": {"cross": AttentionConfig(**{**vars(PLAIN), "width": 7})},
}


@pytest.fixture(scope="module", params=["numpy", "torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Backend:
    pytest.importorskip(request.param)
    return load(request.param)


def placed(backend: Backend, x: Any) -> Any:
    if isinstance(x, dict):
        return {name: placed(backend, held) for name, held in x.items()}
    return backend.asarray(x.copy()) if isinstance(x, np.ndarray) else x


def test_every_malformed_call_is_refused_as_specified(backend: Backend) -> None:
    seen = set()
    for dtype in sorted(backend.dtypes):
        for call in malformed(Cell(backend, "blocks", dtype, offer="block")):
            first = [placed(backend, x) for x in call.positional]
            with pytest.raises(GaugeblockError) as refused:
                getattr(backend, call.method)(*first, **placed(backend, call.keywords))
            told = f"{call.problem} in {dtype}: {refused.value}"
            assert refused.type is call.error and WORDING.match(str(refused.value)), told
            for given, held in zip(call.positional, first, strict=True):
                if isinstance(given, np.ndarray):
                    assert backend.asnumpy(held).tobytes() == backend.asnumpy(backend.asarray(given)).tobytes(), told
            seen.add(call.problem)
    assert len(seen) > 60


def test_what_the_backend_shows_is_what_it_declares(backend: Backend) -> None:
    assert proposals.unsupported(backend, "float32") == {}
    assert proposals.conventions(backend, "float32") == Conventions()
    assert {proposals.level(backend, dtype) for dtype in HALF} == {Level.STORED}


@pytest.mark.parametrize("problem", MEANINGLESS)
def test_a_configuration_without_meaning_is_refused(problem: str) -> None:
    given = {"attention": PLAIN, "ffn_width": 5, **MEANINGLESS[problem]}
    with pytest.raises(ConfigError, match=r"^BLOCK-CONFIG: .+ \[BlockConfig\]$"):
        BlockConfig(**given)


def test_a_configuration_knows_its_width() -> None:
    assert BlockConfig(attention=PLAIN, cross=PLAIN, eps=0.0, ffn_width=5).width == 6
