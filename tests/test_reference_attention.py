"""The reference is checked against many-digit arithmetic, and its bounds against adversaries that round on purpose."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from gaugeblock.conformance.strategies.attention import ANY_QK, ANY_V, FAR_OUT, POOL, AttentionCase
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import FLOAT16, FLOAT32, FLOAT64, FORMATS, HALF, Contract, Format, Level
from gaugeblock.spec.reference.attention import attention, by_route, scores
from gaugeblock.spec.reference.bounded import Bounded, given, is_exact_sum, matmul_size, others, rounded

Real = np.ndarray[Any, np.dtype[np.float64]]
SMALL = [d for d in POOL if d.B * d.H * d.T * d.S * d.D < 3000]


def some_cases(qk: tuple[str, ...] = (*ANY_QK, *FAR_OUT)) -> Iterator[AttentionCase]:
    for seed, recipe in enumerate(qk):
        for n, d in enumerate(SMALL):
            v = ANY_V[(seed + n) % len(ANY_V)]
            case = AttentionCase(**d._asdict(), qk=recipe, v=v, seed=seed)
            yield case
            yield AttentionCase(**d._asdict(), qk=recipe, v=v, bias="normal", mask="random", causal=True, seed=seed)


def many_digits(case: AttentionCase, inputs: dict[str, Any]) -> Real:
    """The same definition, element by element, with 60 digits."""
    d = case.dims
    visible = np.broadcast_to(True, (d.B, d.H, d.T, d.S))
    shown = by_route(d, inputs.get("mask"), inputs.get("bias"), case.causal, case.window, Conventions())
    for bits in shown.values():
        visible = visible & bits
    bias = np.broadcast_to(inputs.get("bias", np.zeros((1, 1, 1, 1))), visible.shape).astype(float)
    q, k, v = (inputs[name].astype(float) for name in "qkv")
    out = np.zeros((d.B, d.H, d.T, d.E))
    with mpmath.workdps(60):
        scale = 1 / mpmath.sqrt(d.D) if case.scale is None else mpmath.mpf(case.scale)
        for b, h, i in np.ndindex(d.B, d.H, d.T):
            g = h // (d.H // d.K)
            row = {
                j: scale * mpmath.fdot(q[b, h, i].tolist(), k[b, g, j].tolist()) + bias[b, h, i, j]
                for j in np.flatnonzero(visible[b, h, i])
            }
            if row:
                top = max(row.values())
                e = {j: mpmath.exp(s - top) for j, s in row.items()}
                total = mpmath.fsum(e.values())
                for c in range(d.E):
                    out[b, h, i, c] = mpmath.fsum(x * v[b, g, j, c] for j, x in e.items()) / total
    return out


def test_reference_agrees_with_many_digits() -> None:
    worst = 0.0
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        got = attention(**inputs, **case.options())
        error = np.abs(got.value - many_digits(case, dict(inputs)))
        assert np.all(error <= got.err), case
        worst = max(worst, float(np.max(error / np.where(got.err > 0, got.err, 1), initial=0)))
    assert worst > 1e-3, "a bound that is never approached was not tested"


Rounding = Callable[[Real], Real]


def to(io: Format) -> Rounding:
    return lambda x: np.asarray(x).astype(io.dtype).astype(np.float64)


def summed(terms: Real, rng: np.random.Generator, rnd: Rounding) -> Real:
    """The sum over the last axis in a random order, every partial sum rounded."""
    order = rng.permutation(terms.shape[-1])
    total = np.zeros(terms.shape[:-1])
    for j in order:
        total = rnd(total + terms[..., j])
    return total


def product(a: Real, b: Real, rng: np.random.Generator, rnd: Rounding) -> Real:
    """a @ b with every product rounded, or fused into the sum, and every partial sum rounded, in a random order."""
    terms = a[..., :, None, :] * b.swapaxes(-1, -2)[..., None, :, :]
    return summed(terms if rng.random() < 0.3 else rnd(terms), rng, rnd)


def adversary(case: AttentionCase, inputs: dict[str, Any], contract: Contract, seed: int) -> Real:
    """A correct implementation that rounds wherever the contract lets it, in a random admitted form."""
    rng = np.random.default_rng(seed)
    rnd, io = to(contract.acc), to(contract.io)
    d, half = case.dims, contract.io.name in HALF
    groups = np.arange(d.H) // (d.H // d.K)
    q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
    k, v, kt = k[:, groups], v[:, groups], k[:, groups].swapaxes(-1, -2)
    scale = rnd(np.float64(case.scaled_by))
    form = rng.integers(4)
    stored = io if half and contract.level is Level.STORED else lambda x: x
    if form == 0:
        s = stored(rnd(product(q, kt, rng, rnd) * scale))
    elif form == 1:
        s = stored(product(stored(rnd(q * scale)), kt, rng, rnd))
    elif form == 2:
        s = stored(product(q, stored(rnd(kt * scale)), rng, rnd))
    else:
        root = rnd(np.sqrt(np.float64(case.scaled_by)))
        s = stored(product(stored(rnd(q * root)), stored(rnd(kt * root)), rng, rnd))
    if "bias" in inputs:
        s = stored(rnd(s + inputs["bias"].astype(np.float64)))
    visible = np.broadcast_to(True, s.shape)
    shown = by_route(d, inputs.get("mask"), inputs.get("bias"), case.causal, case.window, Conventions())
    for bits in shown.values():
        visible = visible & bits
    top = np.max(np.where(visible, s, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    if rng.random() < 0.5:
        log2e = rnd(np.float64(1.4426950408889634))
        e = np.exp2(rnd(rnd(s * log2e) - rnd(top * log2e)))
    else:
        e = np.exp(rnd(s - top))
    wobble = 1 + contract.acc.u * rng.uniform(-7.5, 7.5, e.shape)
    e = np.where(visible, rnd(e * wobble), 0.0)
    fused = io if half and contract.level <= Level.FUSED else lambda x: x
    total = summed(fused(e) if rng.random() < 0.5 else e, rng, rnd)[..., None]
    total = np.where(total == 0, 1.0, total)
    if rng.random() < 0.5:
        return io(rnd(product(fused(e), v, rng, rnd) / total))
    return io(product(fused(rnd(e / total)), v, rng, rnd))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", [level for level in Level if level is not Level.NAIVE])
def test_bound_holds_for_any_order_and_form(dtype: str, level: Level) -> None:
    io = FORMATS[dtype]
    contract = Contract(io, level)
    worst, checked = 0.0, 0
    with np.errstate(all="ignore"):
        for seed, case in enumerate(some_cases()):
            inputs = dict(case.inputs(io))
            want, own = attention(**inputs, **case.options(), contract=contract), attention(**inputs, **case.options())
            for turn in range(3):
                got = adversary(case, inputs, contract, 1000 * seed + turn)
                allowed = want.err + own.err
                decided = np.isfinite(allowed)
                error = np.where(decided, np.abs(got - want.value), 0.0)
                assert np.all(error <= allowed), (case, turn, float(np.max(error / allowed)))
                worst = max(worst, float(np.max(np.where(allowed > 0, error / allowed, 0), initial=0)))
                checked += 1
    assert worst > 0.03, "the adversary does not come near the bound"
    assert checked > 300


def test_certificate_makes_integer_scores_exact() -> None:
    rng = np.random.default_rng(0)
    q, k = (given(rng.integers(-3, 4, (1, 1, n, 16)), FLOAT32) for n in (5, 7))
    assert not np.any(scores(q, k, None, 0.25, Contract(FLOAT32)).err)
    assert np.all(scores(q, k, None, 0.3, Contract(FLOAT32)).err[q.value @ k.value.swapaxes(-1, -2) != 0] > 0)


def test_certificate_fails_where_a_partial_sum_may_round() -> None:
    wide = Bounded(np.array([[2.0**12 + 1, 1.0]]), np.zeros((1, 2)))
    tall = Bounded(wide.value.T, wide.err.T)
    assert not np.any(is_exact_sum(wide, tall, matmul_size(wide, tall), FLOAT32))
    assert np.all(is_exact_sum(wide, tall, matmul_size(wide, tall), FLOAT64))


def test_rounding_bound() -> None:
    assert rounded(0.0, 0.0, FLOAT16) == 0.0
    assert rounded(1.0, 0.0, FLOAT16) >= 2.0**-11
    assert np.isinf(rounded(65520.0, 0.0, FLOAT16))


def test_sum_of_the_others_does_not_cancel() -> None:
    assert others(np.array([1.0, 1e-300, 0.0])).tolist() == [1e-300, 1.0, 1.0]


def test_overflow_is_undetermined() -> None:
    q, k, v = (np.full((1, 1, 1, 64), x, np.float16) for x in (60.0, 60.0, 1.0))
    k, v = np.repeat(k, 2, axis=2), np.repeat(v, 2, axis=2)
    assert np.all(np.isinf(attention(q, k, v, contract=Contract(FLOAT16, Level.STORED)).err))
    assert np.all(np.isfinite(attention(q, k, v, contract=Contract(FLOAT16, Level.FUSED)).err))


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for case in some_cases(("normal", "peaked")):
        for name in HALF:
            io = FORMATS[name]
            inputs = dict(case.inputs(io))
            bounds = [
                attention(**inputs, **case.options(), contract=Contract(io, level)).err for level in sorted(Level)
            ]
            for looser, tighter in pairwise(bounds):
                assert np.all(tighter <= looser * (1 + 1e-12))


def test_counting_by_hand() -> None:
    """Equal scores and v = 1, 2, 3, 4: the mean index of the visible keys, which anyone can check."""
    zero, v = np.zeros((1, 1, 4, 2)), np.arange(1.0, 5)[None, None, :, None]

    def count(T: int, S: int, **options: Any) -> list[float]:
        return list(attention(zero[:, :, :T], zero[:, :, :S], v[:, :, :S], **options).value.ravel())

    assert count(1, 4, causal=True) == [2.5]
    assert count(2, 4, causal=True) == [2.0, 2.5]
    assert count(4, 2, causal=True) == [0, 0, 1, 1.5]
    assert count(2, 4, causal=True, conventions=Conventions(causal_alignment="top_left")) == [1.0, 1.5]
    assert count(4, 4, causal=True, window=(1, 0)) == [1, 1.5, 2.5, 3.5]
    assert count(4, 4, window=(0, 1)) == [1.5, 2.5, 3.5, 4]
    assert count(1, 3, mask=np.zeros((1, 1, 1, 1), bool)) == [0]
    mean = count(1, 3, mask=np.zeros((1, 1, 1, 1), bool), conventions=Conventions(empty_row="mean"))
    assert mean == [2.0]


def test_query_heads_read_their_group() -> None:
    zero, v = np.zeros((1, 6, 1, 1)), np.array([1.0, 2.0])[None, :, None, None]
    read = attention(zero, zero[:, :2], v).value.ravel()
    tiled = attention(zero, zero[:, :2], v, conventions=Conventions(head_order="tiled")).value.ravel()
    assert read.tolist() == [1, 1, 1, 2, 2, 2]
    assert tiled.tolist() == [1, 2, 1, 2, 1, 2]


def test_a_row_that_two_routes_empty_is_free_where_they_are_declared_to_differ() -> None:
    conventions = Conventions(empty_row={"mask": "mean", "causal": "nan"})
    zero, v = np.zeros((1, 1, 2, 1)), np.array([1.0, 2.0])[None, None, :, None]
    mask = np.array([[False, True], [True, True]])[None, None]
    got = attention(zero, zero, v, mask=mask, causal=True, conventions=conventions)
    assert got.empty[0, 0].tolist() == [True, False]
    assert got.free[0, 0, :, 0].tolist() == [True, False]
