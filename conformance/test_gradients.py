"""The checks of the gradients of single components: what is exactly zero first, then laws, then values."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.gradients import certain, keeps_its_word, right
from gaugeblock.conformance.laws.gradients_components import (
    activation,
    attention,
    feed_forward,
    jacobian,
    keeps_directions_out,
    keeps_empty_rows,
    layer_norm,
    learned_positions,
    rms_norm,
    rotate,
)
from gaugeblock.conformance.strategies import activations, feedforward, positions, rotary
from gaugeblock.conformance.strategies.activations import GELU, GELU_TANH, RELU, SILU, ActivationCase
from gaugeblock.conformance.strategies.attention import BATCHED, GROUPED, LONG, TALL, WIDE, AttentionCase
from gaugeblock.conformance.strategies.attention import cases as attention_cases
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.conformance.strategies.normalization import (
    MIDDLE,
    LayerNormCase,
    RMSNormCase,
    layer_norm_cases,
    rms_norm_cases,
)
from gaugeblock.conformance.strategies.positions import LookupCase
from gaugeblock.conformance.strategies.rotary import LONG as TOKENS
from gaugeblock.conformance.strategies.rotary import PARTIAL, RotaryCase

A: TypeAlias = AttentionCase
LN: TypeAlias = LayerNormCase
RMS: TypeAlias = RMSNormCase

gradient = partial(checks, capability="gradients", effort=0.3)
attn = partial(gradient, component="attention", case_type=AttentionCase)
ln = partial(gradient, component="normalization", offer="layer_norm", case_type=LayerNormCase)
rms = partial(gradient, component="normalization", offer="rms_norm", case_type=RMSNormCase)
act = partial(gradient, component="feedforward", offer="activations", case_type=ActivationCase)
ffn = partial(gradient, component="feedforward", offer="feed_forward", case_type=FeedForwardCase)
rope = partial(gradient, component="positions", offer="rotary", case_type=RotaryCase)
lookup = partial(gradient, component="positions", offer="learned_positions", case_type=LookupCase)

TAME = ("normal", "integers", "scaled", "near-ties", "peaked")
HIDING = ("random", "keys", "heads")
ROWS = ("normal", "integers", "scaled", "heavy", "outlier", "spike")
NONE = ("",)


@attn("ATTN-GRADIENT-MASKED", needs=("mask",), cases=partial(attention_cases, sizes=LONG, qk=TAME, mask=HIDING))
def test_hidden_keys_have_no_gradient(cell: Cell, case: A) -> None:
    certain(cell, case, attention(cell, case), "a key that no query with a cotangent sees gets nothing")


@attn("ATTN-GRADIENT-MASKED", needs=("causal",), cases=partial(attention_cases, sizes=LONG, qk=TAME, causal=(True,)))
def test_future_keys_have_no_gradient(cell: Cell, case: A) -> None:
    certain(cell, case, attention(cell, case), "a key after every query with a cotangent gets nothing")


@attn(
    "ATTN-GRADIENT-MASKED",
    needs=("bias", "bias.infinite"),
    cases=partial(attention_cases, sizes=LONG, qk=TAME, bias=("infinite", "hide")),
)
def test_keys_at_minus_infinity_have_no_gradient(cell: Cell, case: A) -> None:
    if keeps_empty_rows(cell, case):
        certain(cell, case, attention(cell, case), "a key at -inf gets nothing")


@attn(
    "ATTN-GRADIENT-EMPTY", needs=("mask",), cases=partial(attention_cases, qk=TAME, mask=("empty", "none", "queries"))
)
def test_empty_rows_have_no_gradient(cell: Cell, case: A) -> None:
    if keeps_empty_rows(cell, case):
        right(cell, case, attention(cell, case))


@attn(
    "ATTN-GRADIENT-EMPTY",
    needs=("causal", "rectangular"),
    cases=partial(attention_cases, sizes=TALL, qk=TAME, causal=(True,)),
)
def test_rows_before_every_key_have_no_gradient(cell: Cell, case: A) -> None:
    if keeps_empty_rows(cell, case):
        right(cell, case, attention(cell, case))


@attn(
    "ATTN-JACOBIAN",
    needs=("bias",),
    cases=partial(attention_cases, sizes=WIDE, qk=TAME, v=("first",), bias=("full",), mask=("", "random")),
)
def test_jacobian_of_the_softmax(cell: Cell, case: A) -> None:
    jacobian(cell, case)


@attn(
    "ATTN-GRADIENT",
    cases=partial(attention_cases, qk=TAME, mask=("", "random"), scale=(None, 0.3, 2.0), layout=("", "strided")),
    effort=0.6,
)
def test_gradients_of_attention(cell: Cell, case: A) -> None:
    right(cell, case, attention(cell, case))


@attn("ATTN-GRADIENT-CALL", cases=partial(attention_cases, qk=TAME, mask=("", "random")), effort=0.2)
def test_pullback_of_attention_may_be_called_again(cell: Cell, case: A) -> None:
    if keeps_empty_rows(cell, case):
        keeps_its_word(cell, case, attention(cell, case))


@attn("ATTN-GRADIENT", needs=("window",), cases=partial(attention_cases, sizes=WIDE, qk=TAME, window=((1, 1), (2, 0))))
def test_gradients_within_a_window(cell: Cell, case: A) -> None:
    if keeps_empty_rows(cell, case):
        right(cell, case, attention(cell, case))


@attn(
    "ATTN-GRADIENT-GROUPED",
    needs=("grouped",),
    cases=partial(attention_cases, sizes=GROUPED, qk=TAME, mask=("", "heads")),
)
def test_shared_keys_sum_the_gradients_of_their_queries(cell: Cell, case: A) -> None:
    right(cell, case, attention(cell, case))


@attn(
    "ATTN-GRADIENT-BIAS",
    needs=("bias",),
    cases=partial(
        attention_cases, sizes=BATCHED, qk=TAME, bias=("normal", "keys", "full", "zero"), mask=("", "random")
    ),
)
def test_gradient_of_the_bias(cell: Cell, case: A) -> None:
    right(cell, case, attention(cell, case))


@ln("LN-GRADIENT-ORTHOGONAL", cases=partial(layer_norm_cases, sizes=MIDDLE, x=ROWS, bias=("normal",)))
def test_gradients_of_layer_norm_sum_to_zero(cell: Cell, case: LN) -> None:
    keeps_directions_out(cell, case)


@ln(
    "LN-GRADIENT-ORTHOGONAL",
    needs=("eps.zero",),
    cases=partial(layer_norm_cases, sizes=MIDDLE, x=("normal", "outlier"), bias=("normal",), eps=(0.0,)),
)
def test_gradients_of_layer_norm_are_orthogonal_to_the_row(cell: Cell, case: LN) -> None:
    keeps_directions_out(cell, case)


@rms(
    "RMS-GRADIENT-ORTHOGONAL",
    needs=("eps.zero",),
    cases=partial(rms_norm_cases, sizes=MIDDLE, x=("normal", "outlier", "scaled"), eps=(0.0,)),
)
def test_gradients_of_rms_norm_are_orthogonal_to_the_row(cell: Cell, case: RMS) -> None:
    keeps_directions_out(cell, case)


@ln("LN-GRADIENT", cases=partial(layer_norm_cases, x=(*ROWS, "deviation-root-eps", "mean-100", "zero")), effort=0.6)
def test_gradients_of_layer_norm(cell: Cell, case: LN) -> None:
    right(cell, case, layer_norm(cell, case))


@ln("LN-GRADIENT", needs=("weightless", "biasless"), cases=partial(layer_norm_cases, x=ROWS, weight=NONE, bias=NONE))
def test_gradients_of_layer_norm_alone(cell: Cell, case: LN) -> None:
    right(cell, case, layer_norm(cell, case))


@rms("RMS-GRADIENT", cases=partial(rms_norm_cases, x=(*ROWS, "root-eps", "mean-100", "zero")), effort=0.6)
def test_gradients_of_rms_norm(cell: Cell, case: RMS) -> None:
    right(cell, case, rms_norm(cell, case))


@rms("RMS-GRADIENT", needs=("weightless",), cases=partial(rms_norm_cases, x=ROWS, weight=NONE))
def test_gradients_of_rms_norm_alone(cell: Cell, case: RMS) -> None:
    right(cell, case, rms_norm(cell, case))


@act("ACT-GRADIENT-RELU", cases=partial(activations.cases, function=(RELU,)))
def test_gradient_of_relu(cell: Cell, case: ActivationCase) -> None:
    right(cell, case, activation(case))


@act(
    "ACT-GRADIENT",
    cases=partial(activations.cases, function=(SILU, GELU, GELU_TANH), x=("far", "normal", "special", "small")),
    effort=1.5,
)
def test_gradients_of_smooth_activations(cell: Cell, case: ActivationCase) -> None:
    right(cell, case, activation(case))


@act(
    "ACT-GRADIENT",
    needs=("silu", "beta"),
    cases=partial(activations.cases, function=(SILU,), x=("normal", "special"), beta=(1.702, 0.5, -1.0, 0.0)),
)
def test_gradients_of_silu_by_beta(cell: Cell, case: ActivationCase) -> None:
    right(cell, case, activation(case))


@ffn(
    "FFN-GRADIENT",
    needs=("plain",),
    cases=partial(feedforward.cases, x=("normal", "scaled", "integers"), bias=("", "all")),
    effort=0.6,
)
def test_gradients_of_a_network(cell: Cell, case: FeedForwardCase) -> None:
    right(cell, case, feed_forward(case))


@ffn(
    "SWIGLU-GRADIENT",
    needs=("swiglu",),
    cases=partial(feedforward.cases, gated=(True,), activation=("silu",), x=("normal", "scaled"), bias=("", "all")),
)
def test_gradients_of_a_gated_network(cell: Cell, case: FeedForwardCase) -> None:
    right(cell, case, feed_forward(case))


@rope("ROPE-GRADIENT", cases=partial(rotary.cases, sizes=TOKENS, scaling=("", "yarn4", "linear4")), effort=0.6)
def test_gradient_of_a_rotation(cell: Cell, case: RotaryCase) -> None:
    right(cell, case, rotate(cell, case))


@rope("ROPE-GRADIENT", needs=("rotary_dim",), cases=partial(rotary.cases, sizes=PARTIAL))
def test_gradient_of_a_partial_rotation(cell: Cell, case: RotaryCase) -> None:
    right(cell, case, rotate(cell, case))


@lookup("POS-LOOKUP-GRADIENT", cases=partial(positions.lookups, rows=(False, True)))
def test_gradient_of_a_table(cell: Cell, case: LookupCase) -> None:
    right(cell, case, learned_positions(case), kind="integers")
