"""The reference of encoders and decoders against many-digit arithmetic, on its own laws and on well-known models."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import mpmath
import numpy as np
import plain_model
import pytest

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws.compositions import holds, traced
from gaugeblock.conformance.load import load
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT64
from gaugeblock.spec.reference import model as reference

DIGITS = 40
# two heads on one, six on two; every option at least twice, in company
CASES = [
    "B=2 T=4 M=6 H=3 K=1 D=2 E=5 F=7 V=9 L=1 S=3 gated rotary=half pads=left",
    "B=2 T=4 M=6 H=3 K=1 D=2 E=5 F=7 V=9 L=1 S=3 positions=learned norm=layer activation=gelu pads=right last_only",
    "B=2 T=3 M=10 H=6 K=2 D=4 E=3 F=5 V=7 L=1 S=2 rotary=interleaved rotary_dim=2 base=100.0 scaling=linear4 bias=all",
    "B=2 T=4 M=8 H=6 K=3 D=3 E=2 F=5 V=7 L=1 S=2 alibi window=(2,0) scale=0.6 activation=gelu_tanh pads=middle tied",
    "B=1 T=4 M=6 H=2 K=1 D=4 E=2 F=5 V=8 L=2 S=5 kind=both positions=sinusoidal placement=post memory_pads=left",
    "B=2 T=2 M=6 H=2 K=2 D=3 E=3 F=5 V=8 L=1 S=4 kind=both apart norm=layer ffn_bias bias=key embedding_norm head_bias",
    "B=2 T=3 M=6 H=5 K=1 D=2 E=2 F=5 V=8 L=2 S=2 kind=encoder alibi window=(1,1) no_final_norm embedding_scale=2.3",
    "B=2 T=4 M=6 H=2 K=1 D=4 E=3 F=5 V=8 L=1 S=2 kind=both encode apart vectors positions=learned activation=silu",
    "B=2 T=4 M=4 H=2 K=1 D=2 E=3 F=5 V=8 L=1 S=2 kind=encoder positions=sinusoidal gated placement=post pads=ragged",
    "B=2 T=3 M=4 H=1 K=1 D=2 E=2 F=3 V=5 L=0 S=2 positions=learned tied head_bias embedding_scale=0.5 pads=row",
]


def expected(case: ModelCase, inputs: Inputs) -> Any:
    return case.expected(inputs, EXACT, Conventions())


@pytest.mark.parametrize("text", CASES)
def test_programs_agree_with_many_digits(text: str) -> None:
    case = ModelCase.parse(f"{text} seed=3")
    inputs = case.inputs(FLOAT64)
    got, weights = expected(case, inputs), weights_of(inputs)
    with mpmath.workdps(DIGITS):
        for b in np.flatnonzero(case.real.any(axis=1)):
            x = inputs[case.reads][b][case.real[b]]
            if case.encodes:
                want = plain_model.encoded(weights, case.model, x)
            else:
                want = plain_model.scores(weights, case.model, x, memory_of(inputs, b))
            place = (b, [0]) if case.last_only else (b, case.real[b])
            error = np.abs(got.value[place] - (want[-1:] if case.last_only else want).astype(float))
            assert np.all(error <= got.err[place] + 1e-16 * np.abs(got.value[place]))


def test_a_call_of_the_reference_is_its_program() -> None:
    for text in CASES:
        case = ModelCase.parse(text)
        inputs = case.inputs(FLOAT64)
        options = {name: inputs[name] for name in ("token_mask", "memory", "memory_mask") if name in inputs}
        options |= {"last_only": True} if case.last_only else {}
        called = reference.encode if case.encodes else reference.logits
        made, want = called(weights_of(inputs), case.model, inputs[case.reads], **options), expected(case, inputs)
        assert np.array_equal(made.value, want.value) and np.array_equal(made.err, want.err)
        assert np.array_equal(
            np.broadcast_to(made.free, made.value.shape), np.broadcast_to(want.free, want.value.shape)
        )


def memory_of(inputs: Inputs, b: int) -> Any:
    if "memory" not in inputs:
        return None
    return inputs["memory"][b][inputs.get("memory_mask", np.ones(inputs["memory"].shape[:2], bool))[b]]


def test_the_bounds_are_not_idle() -> None:
    """Float64 is off by far less than any fault is."""
    for text in CASES:
        case = ModelCase.parse(text)
        made = expected(case, case.inputs(FLOAT64))
        assert 0 < np.max(made.err) < 1e-11 * np.max(np.abs(made.value))


def test_a_tied_table_counts_once() -> None:
    """The configuration of the source document's section 8, and the number that its listing prints."""
    inner = AttentionConfig(width=128, heads=4, kv_heads=4, head_width=32, value_width=32, rotary=RotaryConfig())
    block = BlockConfig(attention=inner, causal=True, eps=1e-6, ffn_width=names.swiglu_width(128))
    config = ModelConfig(decoder=StackConfig(block=block, layers=2, vocabulary=500), tied=True)
    V, M, L, F = 500, 128, 2, 384
    assert block.ffn_width == F
    assert names.count(names.shapes(config)) == V * M + L * (4 * M**2 + 3 * M * F + 2 * M) + M == 490_624
    assert names.count(names.shapes(replace(config, tied=False))) == 490_624 + V * M == 554_624


NOT_THE_KEYS: frozenset[Literal["query", "key", "value", "output"]] = frozenset({"query", "value", "output"})


def smol() -> ModelConfig:
    """A decoder like SmolLM2: grouped heads, rotation, RMSNorm before, SwiGLU, a tied head."""
    inner = AttentionConfig(
        width=18, heads=9, kv_heads=3, head_width=2, value_width=2, rotary=RotaryConfig(base=100000.0)
    )
    block = BlockConfig(attention=inner, causal=True, norm="rms", eps=1e-5, ffn_width=20)
    return ModelConfig(decoder=StackConfig(block=block, layers=2, vocabulary=31), tied=True)


def mini() -> ModelConfig:
    """An encoder like MiniLM: LayerNorm behind, learned positions, a norm of the embedding, GELU, biases everywhere."""
    every: frozenset[Any] = frozenset({"query", "key", "value", "output"})
    inner = AttentionConfig(width=12, heads=6, kv_heads=6, head_width=2, value_width=2, bias=every)
    block = BlockConfig(
        attention=inner,
        norm="layer",
        eps=1e-12,
        placement="post",
        activation="gelu",
        gated=False,
        ffn_width=20,
        ffn_bias=True,
    )
    stack = StackConfig(
        block=block,
        layers=2,
        vocabulary=31,
        positions="learned",
        max_positions=16,
        embedding_norm=True,
        final_norm=False,
    )
    return ModelConfig(encoder=stack)


def whisper() -> ModelConfig:
    """Like Whisper: an encoder of vectors with sinusoids, a decoder with a learned table, biases but for the keys."""
    inner = AttentionConfig(width=12, heads=6, kv_heads=6, head_width=2, value_width=2, bias=NOT_THE_KEYS)
    block = BlockConfig(attention=inner, norm="layer", activation="gelu", gated=False, ffn_width=20, ffn_bias=True)
    encoder = StackConfig(block=block, layers=2, inputs="vectors", positions="sinusoidal")
    decoder = StackConfig(
        block=replace(block, causal=True, cross=inner),
        layers=2,
        vocabulary=31,
        positions="learned",
        max_positions=16,
    )
    return ModelConfig(encoder=encoder, decoder=decoder, tied=True)


FAMILIES = {"smol": smol(), "mini": mini(), "whisper": whisper()}


@dataclass(frozen=True, kw_only=True)
class FamilyCase(ModelCase):
    """A call of a model of one family."""

    family: str = "smol"

    @property
    def model(self) -> ModelConfig:
        return FAMILIES[self.family]


def called(family: str, **fields: Any) -> FamilyCase:
    """A call on a padded batch of the family's own width and vocabulary."""
    stack = FAMILIES[family].decoder or FAMILIES[family].encoder
    assert stack is not None
    kind = {"smol": "decoder", "mini": "encoder", "whisper": "both"}[family]
    sizes = {"B": 2, "T": 5, "S": 7, "M": stack.block.width, "V": stack.vocabulary}
    return FamilyCase(**{**sizes, "family": family, "kind": kind, "pads": "right", **fields})


@pytest.fixture(params=["numpy", "torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)
    return load(request.param)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "case",
    [
        called("smol"),
        called("smol", pads="left", last_only=True),
        called("mini"),
        called("whisper", encode=True),
        called("whisper", memory_pads="right"),
    ],
    ids=lambda case: f"{case.family}-{case.called}-{case.pads}",
)
def test_families_conform(backend: Any, case: FamilyCase, dtype: str) -> None:
    holds(Cell(backend, "model", dtype, offer="encoder" if case.encodes else "decoder"), case)


def test_what_is_heard_is_written(backend: Any) -> None:
    """The memory of a decoder is what its own encoder gives."""
    hear, write = called("whisper", encode=True, pads="", T=7), called("whisper", pads="")
    cell = Cell(backend, "model", "float32", offer="decoder")
    inputs = hear.inputs(cell.io)
    memory, _ = traced(cell, hear, inputs)
    weights = weights_of(inputs)
    cell.judge(write, {**weights, "tokens": write.inputs(cell.io)["tokens"], "memory": memory})
    assert reference.encode(weights, hear.model, inputs["vectors"]).value.shape == memory.shape == (2, 7, 12)
