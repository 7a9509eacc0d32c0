"""The checks of activations and feed-forward networks: exact laws first, then laws with a bound, then values."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws import inputs_intact
from gaugeblock.conformance.laws.feedforward import depends_on_itself, mapping_intact, nan_stays, reflects
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.feedforward import (
    malformed_activations,
    malformed_networks,
    using_activation,
    using_network,
)
from gaugeblock.conformance.strategies import activations, feedforward
from gaugeblock.conformance.strategies.activations import (
    ARRAYS,
    EVERY,
    FEW,
    GELU,
    GELU_NONE,
    GELU_TANH,
    NOTHING,
    RELU,
    SILU,
    ActivationCase,
)
from gaugeblock.conformance.strategies.feedforward import NO_POSITIONS, FeedForwardCase

Numbers: TypeAlias = ActivationCase
Network: TypeAlias = FeedForwardCase

elements = partial(activations.cases, sizes=FEW)
networks = partial(feedforward.cases, sizes=feedforward.FEW, gated=(False, True), activation=("relu", "gelu"))
every = partial(activations.cases, sizes=ARRAYS[:1], x=(EVERY,))
act = partial(checks, component="feedforward", offer="activations", case_type=ActivationCase)
ffn = partial(checks, component="feedforward", offer="feed_forward", case_type=FeedForwardCase)

ONCE = 0.03  # one call on every number tells as much as many
BETAS = (0.5, 1.702, 2.0, -1.0, 0.0, 10.0, -0.3)


@act("ACT-RELU", cases=partial(every, function=(RELU,)), effort=ONCE)
def test_relu_of_every_number(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-GELU", needs=("gelu",), cases=partial(every, function=(GELU,)), effort=ONCE)
def test_gelu_of_every_number(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-GELU-TANH", needs=("approximate",), cases=partial(every, function=(GELU_TANH,)), effort=ONCE)
def test_gelu_by_tanh_of_every_number(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-SILU", needs=("silu",), cases=partial(every, function=(SILU,)), effort=ONCE)
def test_silu_of_every_number(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-GELU", needs=("gelu",), cases=partial(activations.cases, function=(GELU,), x=("special",)))
def test_gelu_where_its_forms_differ(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-GELU", needs=("gelu", "approximate"), cases=partial(activations.cases, function=(GELU_NONE,), x=("special",)))
def test_gelu_without_approximation(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-GELU-TANH", needs=("approximate",), cases=partial(activations.cases, function=(GELU_TANH,), x=("special",)))
def test_gelu_by_tanh_where_the_forms_differ(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-SILU-BETA", needs=("silu", "beta"), cases=partial(every, function=(SILU,), beta=BETAS), effort=0.1)
def test_silu_of_every_number_with_beta(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-SILU-BETA", needs=("silu", "beta"), cases=partial(activations.cases, function=(SILU,), beta=BETAS))
def test_silu_with_beta(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-REFLECT", cases=activations.cases)
def test_values_at_x_and_minus_x_differ_by_x(cell: Cell, case: Numbers) -> None:
    reflects(cell, case)


@act("ACT-LIMITS", cases=partial(elements, x=("large",)))
def test_large_numbers_pass_or_vanish(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-SHAPES", "ACT-DTYPE", cases=partial(elements, x=("normal", "small")))
def test_shape_and_dtype_of_an_activation(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-ELEMENTWISE", cases=partial(elements, function=(GELU, GELU_TANH, RELU, SILU)))
def test_elements_are_independent(cell: Cell, case: Numbers) -> None:
    depends_on_itself(cell, case, "element")


@act("ACT-NONFINITE", cases=partial(elements, x=("normal",)))
def test_nan_stays_in_its_element(cell: Cell, case: Numbers) -> None:
    nan_stays(cell, case, "element")


@act("ACT-STRIDES", cases=partial(elements, layout=("strided", "transposed")))
def test_activation_of_a_view(cell: Cell, case: Numbers) -> None:
    cell.judge(case)


@act("ACT-INPUTS-INTACT", cases=elements)
def test_activation_writes_to_no_input(cell: Cell, case: Numbers) -> None:
    inputs_intact(cell, case)


@act("ACT-EMPTY", needs=("empty",), cases=partial(elements, sizes=NOTHING, x=("normal",)), effort=0.2)
def test_activation_of_nothing(cell: Cell, case: Numbers) -> None:
    cell.call(case)


@act("ACT-REFUSES")
def test_malformed_activations_are_refused(cell: Cell) -> None:
    refused(cell, malformed_activations(cell))


@act("ACT-ERRORS")
def test_refused_activations_name_the_error(cell: Cell) -> None:
    named(cell, malformed_activations(cell))


@act("ACT-UNSUPPORTED")
def test_unsupported_activations_are_refused(cell: Cell) -> None:
    unsupported(cell, using_activation)


@ffn(
    "FFN-INTEGERS",
    needs=("plain", "activation.relu"),
    cases=partial(feedforward.cases, activation=("relu",), x=("integers",), w=("integers",), bias=("", "all")),
)
def test_integers_are_exact(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn("SWIGLU-SHUT", needs=("swiglu",), cases=partial(feedforward.cases, gated=(True,), w=("shut",)))
def test_shut_gate_lets_nothing_through(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn("FFN-ROWS", cases=partial(networks, bias=("", "all")))
def test_positions_are_independent(cell: Cell, case: Network) -> None:
    depends_on_itself(cell, case, "position")
    cell.judge(case)


@ffn("FFN-FORMULA", "FFN-SHAPES", needs=("plain",), cases=partial(feedforward.cases, bias=("", "all")), effort=3)
def test_feed_forward(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn(
    "FFN-ACTIVATION",
    needs=("plain",),
    cases=partial(
        feedforward.cases, sizes=feedforward.FEW, x=("normal", "ones"), w=("probe", "steep", "single"), bias=("all", "")
    ),
    effort=2,
)
def test_activation_is_the_one_asked_for(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn(
    "FFN-BIAS",
    needs=("plain", "bias"),
    cases=partial(networks, gated=(False,), w=("normal", "positive"), bias=("all", "up", "down")),
)
def test_biases_of_feed_forward(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn(
    "FFN-BIAS",
    needs=("swiglu", "swiglu.bias"),
    cases=partial(
        networks,
        gated=(True,),
        w=("normal", "positive"),
        bias=("all", "gate", "up", "down", "gate+up"),
    ),
)
def test_biases_of_swiglu(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn("SWIGLU-FORMULA", "FFN-SHAPES", needs=("swiglu",), cases=partial(feedforward.cases, gated=(True,)))
def test_swiglu(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn(
    "SWIGLU-GATE",
    needs=("swiglu",),
    cases=partial(feedforward.cases, gated=(True,), x=("ones", "normal"), w=("probe", "single")),
)
def test_silu_is_on_the_gate(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn(
    "FFN-SHAPES",
    "FFN-DTYPE",
    cases=partial(networks, sizes=feedforward.NETWORKS, x=("normal", "zero"), bias=("", "all")),
)
def test_shape_and_dtype_of_a_network(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn("FFN-NONFINITE", cases=partial(networks, x=("normal",), w=("normal",)))
def test_nan_stays_in_its_row(cell: Cell, case: Network) -> None:
    nan_stays(cell, case, "row")


@ffn("FFN-STRIDES", cases=partial(networks, layout=("transposed", "strided"), bias=("", "all")))
def test_network_on_views(cell: Cell, case: Network) -> None:
    cell.judge(case)


@ffn("FFN-INPUTS-INTACT", cases=partial(networks, bias=("", "all")))
def test_network_writes_to_no_input(cell: Cell, case: Network) -> None:
    inputs_intact(cell, case)
    mapping_intact(cell, case)


@ffn("FFN-EMPTY", needs=("empty",), cases=partial(networks, sizes=NO_POSITIONS, bias=("", "all")), effort=0.2)
def test_network_on_no_positions(cell: Cell, case: Network) -> None:
    cell.call(case)


@ffn("FFN-REFUSES")
def test_malformed_networks_are_refused(cell: Cell) -> None:
    refused(cell, malformed_networks(cell))


@ffn("FFN-ERRORS")
def test_refused_networks_name_the_error(cell: Cell) -> None:
    named(cell, malformed_networks(cell))


@ffn("FFN-UNSUPPORTED")
def test_unsupported_networks_are_refused(cell: Cell) -> None:
    unsupported(cell, using_network)
