"""The reference of multi-head attention against many-digit arithmetic, its bounds and derivatives against others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from multihead_digits import ManyDigits, as_floats, wide

from gaugeblock.conformance.strategies.multihead import ANY, CROSS, POOL, MultiHeadCase
from gaugeblock.spec.attention import Window
from gaugeblock.spec.precision import BFLOAT16, EXACT, FLOAT16, FLOAT32, FLOAT64, HALF, Contract, Level
from gaugeblock.spec.reference.bounded import ulps
from gaugeblock.spec.reference.multihead import multi_head_attention, view
from gaugeblock.spec.reference.program import LINEAR, Step, derivative, first_order, local, run

Real = np.ndarray[Any, np.dtype[np.float64]]
DIGITS = 50
SMALL = [size for size in (*POOL, *CROSS) if size.B * size.T * size.H * size.D < 130]
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"bias": "all", "mask": "heads"},
    {"bias": "query+value+output", "scale": 0.7},
    {"rotary": "half", "causal": True, "bias": "key"},
    {"rotary": "interleaved", "positions": "near-rows", "rotary_dim": 2, "window": (2, 1)},
    {"alibi": True, "positions": "gaps", "mask": "empty"},
    {"rotary": "half", "base": 100.0, "alibi": True, "window": (1, None), "mask": "random", "causal": True},
)
CONTRACTS = [
    *(Contract(io) for io in (FLOAT64, FLOAT32)),
    *(Contract(io, level) for io in (BFLOAT16, FLOAT16) for level in (Level.STRICT, Level.FUSED, Level.STORED)),
]


def some_cases() -> Iterator[MultiHeadCase]:
    """Every small size with every option that it can have."""
    for n, size in enumerate(SMALL):
        for seed, options in enumerate(OPTIONS):
            x, w = ANY[(n + seed) % len(ANY)]
            own = {name: v for name, v in options.items() if name in ("bias", "mask", "scale")} if size.S else options
            yield MultiHeadCase(**size.fields, **own, x=x, w=w, seed=seed)


def test_every_step_agrees_with_many_digits() -> None:
    """Each step within its own bound, from the arrays that the reference put into it."""
    checked = set()
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        program, given = case.program(inputs), case.given(inputs)
        known, digits = run(program, given), ManyDigits(case, inputs)
        with mpmath.workdps(DIGITS):
            for step in program:
                want = as_floats(digits.step(step.name, *(wide(known[name]) for name in step.reads)))
                both = local(step, known, EXACT, last=step is program[-1])
                for value in (known[step.name], both.value):
                    assert np.all(np.abs(value - want) <= both.err), (case, step.name)
                checked.add(step.name)
    assert checked == {"query", "key", "value", "rotated_query", "rotated_key", "bias", "mixed", "output"}


def test_the_whole_agrees_with_many_digits() -> None:
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        made = first_order(case.program(inputs), case.given(inputs), EXACT)
        with mpmath.workdps(DIGITS):
            want = as_floats(ManyDigits(case, inputs).result(case.program(inputs), case.given(inputs)))
        assert np.all(np.isfinite(made.err)), case
        assert np.all(np.abs(made.value - want) <= made.err), case


def perturbed(case: MultiHeadCase, contract: Contract, inputs: Mapping[str, Any], signs: Mapping[str, Any]) -> Real:
    """What an implementation gives that is off by all that it may be at every step, to the sides that signs say."""
    program = case.program(inputs)
    known: dict[str, Any] = {name: np.asarray(x, np.float64) for name, x in case.given(inputs).items()}
    for step in program:
        own = local(step, known, contract, last=step is program[-1])
        assert np.all(np.isfinite(own.err)), step.name
        known[step.name] = own.value + signs[step.name] * own.err
    return np.asarray(known[program[-1].name])


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda c: f"{c.io.name} {c.level}")
def test_first_order_bound_holds_for_any_rounding(contract: Contract) -> None:
    """Errors at random, and errors that all push one output to the same side: the worst that linearity allows."""
    worst, checked = 0.0, 0
    for case in some_cases():
        inputs = case.inputs(contract.io)
        program, given = case.program(inputs), case.given(inputs)
        made, known = first_order(program, given, contract), run(program, given)
        judged = np.isfinite(made.err) & (made.err > 0)
        if not np.any(judged):
            continue
        rng = np.random.default_rng(case.seed)
        some = {step.name: rng.choice([-1.0, 1.0], np.shape(known[step.name])) for step in program}
        output = int(rng.choice(np.flatnonzero(judged)))
        for signs in (some, aligned(program, known, output)):
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.abs(perturbed(case, contract, inputs, signs) - made.value) / made.err
            worst = max(worst, float(np.max(ratio[judged])))
            assert worst <= 1, case
            checked += 1
    assert checked > 40
    reachable = 0.25 if contract.io is FLOAT64 else 0.5  # the bound is doubled, and holds the reference's own errors
    assert worst > 0.9 * reachable, "the adversary does not come near the bound"


def aligned(program: Sequence[Step], known: Mapping[str, Any], output: int) -> dict[str, Any]:
    """For every element of every step the side to which it moves one element of the last step upwards."""
    signs: dict[str, Any] = {program[-1].name: np.ones(np.shape(known[program[-1].name]))}
    for n, step in enumerate(program[:-1]):
        size = known[step.name].size
        slopes = derivative(program, n, known, np.arange(size)).reshape(size, -1)[:, output]
        signs[step.name] = np.where(slopes < 0, -1.0, 1.0).reshape(known[step.name].shape)
    return signs


def test_what_is_too_wide_is_not_promised() -> None:
    """In bfloat16 a bound of more than a twentieth of the result is none; in float32 no case has one."""
    wide_ones = 0
    for case in some_cases():
        for contract in (Contract(FLOAT32), Contract(BFLOAT16, Level.STORED)):
            inputs = case.inputs(contract.io)
            made = first_order(case.program(inputs), case.given(inputs), contract)
            promised = np.isfinite(made.err)
            largest = np.max(np.abs(made.value))
            assert np.all(made.err[promised] <= LINEAR * largest)
            assert np.all(promised) or contract.io.name in HALF
            wide_ones += int(np.sum(~promised))
    assert wide_ones


def test_derivatives_agree_with_differences_of_many_digits() -> None:
    """The difference of two results 1e-20 apart has thirty digits; the complex step as many as float64.

    The derivative of output m by an element of the queries is a sum over keys and components, each of whose terms
    is rounded no more often than the numbers that it is made of.
    """
    step_size = mpmath.mpf("1e-20")
    for case in list(some_cases())[::4]:
        inputs = case.inputs(FLOAT64)
        program, given = case.program(inputs), case.given(inputs)
        known, digits = run(program, given), ManyDigits(case, inputs)
        largest = size_of_terms(case, known, digits)
        rng = np.random.default_rng(case.seed)
        for n, step in enumerate(program[:-1]):
            if step.name == "bias":
                continue
            flat = int(rng.integers(known[step.name].size))
            got = derivative(program, n, known, np.array([flat]))[0]
            with mpmath.workdps(DIGITS):
                sides = []
                for side in (1, -1):
                    moved = wide(np.asarray(known[step.name])).copy()
                    moved.reshape(-1)[flat] += side * step_size
                    before = {s.name: known[s.name] for s in program[:n]}
                    sides.append(digits.result(program, given, **before, **{step.name: moved}))
                want = as_floats((sides[0] - sides[1]) / (2 * step_size))
            assert np.all(np.abs(got - want) <= largest), (case, step.name, flat)


def size_of_terms(case: MultiHeadCase, known: Mapping[str, Any], digits: ManyDigits) -> float:
    """What bounds the error of a derivative: its roundings times the sum of the sizes of its terms, from above."""
    d = case.dims
    W = float(np.max(np.sum(np.abs(digits.weights["output.weight"]), axis=0)))
    scale = abs(d.D**-0.5 if case.scale is None else case.scale)
    v = float(np.max(np.abs(known["value"]), initial=1.0))
    ends = [name for name in ("query", "key", "rotated_query", "rotated_key") if name in known]
    k = float(np.max([np.max(np.abs(known[name]), initial=1.0) for name in ends]))
    terms = W * (1 + 4 * scale * k * v)  # a rotation has two terms for each, a softmax two
    roundings = d.D + 3 * d.S + d.H * d.E + 64 + 8 * scale * d.D * k * k
    return float(ulps(roundings, FLOAT64.u) * terms)


def test_derivative_of_the_last_product_is_the_weight() -> None:
    case = MultiHeadCase(B=2, T=3, M=4, H=2, K=1, D=2, E=3)
    inputs = case.inputs(FLOAT64)
    program, known = case.program(inputs), run(case.program(inputs), case.given(inputs))
    at = [step.name for step in program].index("mixed")
    slopes = derivative(program, at, known, np.arange(known["mixed"].size))
    rows = slopes.reshape(2, 2, 3, 3, 2, 3, 4)  # (B, H, T, E) by (B, T, M)
    for b, h, t, e in np.ndindex(2, 2, 3, 3):
        own = inputs["output.weight"][3 * h + e]
        assert np.all(np.abs(rows[b, h, t, e, b, t] - own) <= ulps(2, FLOAT64.u) * np.abs(own))  # times and over H
        assert np.count_nonzero(rows[b, h, t, e]) == np.count_nonzero(own)


def test_what_is_hidden_has_no_derivative() -> None:
    case = MultiHeadCase(B=1, T=4, M=5, H=2, K=2, D=2, E=2, causal=True)
    inputs = case.inputs(FLOAT64)
    program, known = case.program(inputs), run(case.program(inputs), case.given(inputs))
    for name in ("key", "value"):
        at = [step.name for step in program].index(name)
        elements = np.arange(known[name].size).reshape(2, 4, 2)[:, 2].reshape(-1)  # the third token's
        slopes = derivative(program, at, known, elements)
        assert not np.any(slopes[:, :, :2]) and np.any(slopes[:, :, 2:])


@pytest.mark.parametrize("window", [None, (1, 0), (0, 0), (None, 2)])
def test_a_view_is_what_it_says(window: Window | None) -> None:
    queries, keys = np.array([[3, 5], [9, 2]]), np.array([[0, 3, 4, 5], [2, 2, 9, 11]])
    real = np.array([[True, True, False, True], [True] * 4])
    seen = view(queries, keys, causal=True, window=window, real=real).visible
    left, right = window or (None, None)
    for b, i, j in np.ndindex(2, 2, 4):
        away = keys[b, j] - queries[b, i]
        near = (left is None or away >= -left) and (right is None or away <= right)
        assert seen[b, 0, i, j] == (near and bool(real[b, j]) and j <= i + 2)


def test_a_row_that_sees_nothing_is_the_bias() -> None:
    for contract in CONTRACTS:
        case = MultiHeadCase(B=2, T=3, M=4, H=2, K=1, D=2, E=3, bias="all", mask="none")
        inputs = case.inputs(contract.io)
        program, known = case.program(inputs), run(case.program(inputs), case.given(inputs))
        mixed = local(program[-2], known, contract)
        assert not np.any(mixed.value) and not np.any(mixed.err)
        bias = inputs["output.bias"].astype(float)
        assert np.array_equal(known["output"], np.broadcast_to(bias, known["output"].shape))


def test_integers_that_see_one_key_are_projected_exactly() -> None:
    for contract in CONTRACTS:
        case = MultiHeadCase(B=2, T=3, M=4, H=2, K=1, D=2, E=3, x="integers", w="integers", mask="itself")
        inputs = case.inputs(contract.io)
        program = case.program(inputs)
        known = run(program, case.given(inputs))
        for step in program:
            if step.name in ("query", "key", "value"):
                assert not np.any(local(step, known, contract).err), step.name


def test_the_function_is_the_program() -> None:
    for case in some_cases():
        inputs = case.inputs(FLOAT32)
        (x, weights, config), keywords = case.arguments(inputs)
        got = multi_head_attention(x, weights, config, **keywords, contract=Contract(FLOAT32))
        want = case.expected(inputs, Contract(FLOAT32), None)  # type: ignore[arg-type]
        assert np.array_equal(got.value, want.value) and np.array_equal(got.err, want.err)


def test_shared_heads_are_repeated_heads() -> None:
    case = MultiHeadCase(B=1, T=3, M=4, H=6, K=2, D=2, E=3)
    inputs = dict(case.inputs(FLOAT64))
    full = replace(case, K=6)
    for name, width in (("key.weight", 2), ("value.weight", 3)):
        columns = [inputs[name][:, g * width : (g + 1) * width] for g in (0, 0, 0, 1, 1, 1)]
        inputs[name] = np.concatenate(columns, axis=1)
    one, other = (run(c.program(i), c.given(i))["output"] for c, i in ((case, case.inputs(FLOAT64)), (full, inputs)))
    assert np.array_equal(one, other)


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for name in (BFLOAT16, FLOAT16):
        for case in some_cases():
            inputs = case.inputs(name)
            program, known = case.program(inputs), run(case.program(inputs), case.given(inputs))
            for step in program:
                bounds = [local(step, known, Contract(name, level)).err for level in sorted(Level)[1:]]
                for looser, tighter in pairwise(bounds):
                    assert np.all(tighter <= looser * (1 + 1e-12)), (case, step.name)
