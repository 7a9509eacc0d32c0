"""Attention as the specification defines it, and what an implementation may lose on the way.

Admitted at every level (contracts N1-N4): any order and blocking of the sums; FMA; the scale on q, on k, split between
them by its root, or on the scores; exp, or exp2 with a folded and rounded constant; an online softmax that rescales at
most once per block of keys; splits of the keys that are merged through their log-sum-exp; flushed subnormals.
"""

from dataclasses import dataclass
from functools import reduce
from math import frexp, sqrt

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.attention import Dims, Window, dims
from gaugeblock.spec.conventions import ROUTES, Conventions, EmptyRow, Route
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract, Level
from gaugeblock.spec.reference.bounded import (
    Bits,
    Bounded,
    Expected,
    Real,
    Uncertain,
    compound,
    given,
    inherited,
    is_exact_sum,
    matmul_size,
    others,
    rounded,
    ulps,
)

SCALE_ROUNDINGS = 6  # 1/sqrt(D) from two roundings, each half of its root one more, and the product on either side
LARGEST_LOG = 700.0  # beyond this the exponential of an error overflows float64


def attention(
    q: Uncertain,
    k: Uncertain,
    v: Uncertain,
    *,
    mask: ArrayLike | None = None,
    bias: Uncertain | None = None,
    causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The value of an attention call and the error that the contract allows on it.

        weights = softmax(cap(scale * q @ k.T) + bias)  over the visible keys
        output  = weights @ v
        cap(s)  = s, or softcap * tanh(s / softcap)

    q (B, H, T, D), k (B, K, S, D), v (B, K, S, E), mask and bias (B|1, H|1, T|1, S|1) -> value and err
    (B, H, T, E) float64, empty (B, H, T), free (B, H, T, 1). scale=None is 1 / sqrt(D).
    Raises ShapeError. Clauses: all of spec/clauses/attention.md.
    Source: Vaswani et al. 2017, eq. 1; Higham 2002, sections 3.1-3.4; Jeannerod and Rump 2013, theorem 2.1.
    """
    d = dims(np.shape(q), np.shape(k), np.shape(v), mask=_shape(mask), bias=_shape(bias))
    acc = contract.acc
    shown = by_route(d, mask, bias, causal, window, conventions)
    visible = np.broadcast_to(reduce(np.logical_and, shown.values()), (d.B, d.H, d.T, d.S))
    heads = served_by(d, conventions)
    values = Bounded(*(x[:, heads] for x in _fields(given(v, acc))))  # (B, H, S, E)
    keys = Bounded(*(x[:, heads] for x in _fields(given(k, acc))))  # (B, H, S, D)
    s = scores(given(q, acc), keys, None, 1 / sqrt(d.D) if scale is None else scale, contract)
    s = add_bias(s if softcap is None else soft_capped(s, softcap, contract), bias, contract)
    mixed = mix(softmax(s, visible, contract), values, visible, contract)
    return fill_empty_rows(mixed, values, shown, visible, contract, conventions)


def by_route(
    d: Dims,
    mask: ArrayLike | None,
    bias: Uncertain | None,
    causal: bool,
    window: Window | None,
    conventions: Conventions,
) -> dict[Route, Bits]:
    """Which keys each route leaves visible; every one broadcasts to (B, H, T, S) and they intersect.

    Clauses: ATTN-MASK, ATTN-BIAS-INF, ATTN-CAUSAL-ALIGN, ATTN-WINDOW, ATTN-INTERSECT.
    """
    offset = d.S - d.T if conventions.causal_alignment == "bottom_right" else 0
    distance = np.arange(d.S) - (np.arange(d.T)[:, None] + offset)[None, None]  # (1, 1, T, S)
    left, right = window or (None, None)
    shown: dict[Route, Bits] = {"causal": distance <= 0} if causal else {}
    if mask is not None:
        shown["mask"] = np.asarray(mask, bool)
    if bias is not None:
        shown["bias"] = given(bias, EXACT.acc).value > -np.inf
    if window is not None:
        shown["window"] = (distance >= -(d.S + d.T if left is None else left)) & (
            distance <= (d.S + d.T if right is None else right)
        )
    return shown or {"mask": np.ones((1, 1, 1, 1), bool)}


def served_by(d: Dims, conventions: Conventions) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The key/value head of each query head (H,): h // (H // K), or h % K where tiled is declared.

    Clauses: ATTN-HEADS. Source: Ainslie et al. 2023, section 2.2.
    """
    h = np.arange(d.H)
    return h // (d.H // d.K) if conventions.head_order == "grouped" else h % d.K


def scores(q: Bounded, k: Bounded, bias: Uncertain | None, scale: float, contract: Contract) -> Bounded:
    """The scaled scores plus bias.

        |error| <= M ((1 + D u)(1 + u)^6 - 1) + inherited,   M = |scale| sum |q||k|

    q (B, H, T, D), k (B, H, S, D), bias (B|1, H|1, T|1, S|1) -> (B, H, T, S). The sum is exact where the
    certificate holds and the scale is a power of four, whose root is exact as well.
    Clauses: ATTN-SCALE, ATTN-BIAS. Source: Jeannerod and Rump 2013, theorem 2.1 (inner products: n u, any order).
    """
    acc, io = contract.acc, contract.io
    kt = Bounded(k.value.swapaxes(-1, -2), k.err.swapaxes(-1, -2))  # (B, H, D, S)
    D = q.value.shape[-1]
    raw = q.value @ kt.value
    size = matmul_size(q, kt)
    m = abs(scale) * size
    err = m * compound(D * acc.u, ulps(SCALE_ROUNDINGS, acc.u)) + abs(scale) * inherited(q, kt)
    err = err + np.where(m > 0, max(1.0, abs(scale)) * acc.eta * (D + 6 + _row_sums(q, k)), 0.0)
    if _power_of_four(scale):
        err = np.where(is_exact_sum(q, kt, size, acc), 0.0, err)
    if contract.float32_scalars:
        err = err + FLOAT32.u * m
    if contract.rounds_at(Level.STORED):
        err = err + np.where(m > 0, 2 * io.u * m + io.eta * max(1.0, abs(scale)) * _row_sums(q, k), 0.0)
        err = np.where(np.isfinite(rounded(raw, 0.0, io)), rounded(scale * raw, err, io), np.inf)
    err = np.where(size <= acc.max, err, np.inf)
    return add_bias(Bounded(scale * raw, err), bias, contract)


def soft_capped(s: Bounded, c: float, contract: Contract) -> Bounded:
    """c tanh(s / c), of which the slope is at most 1.

        |error| <= slope err + (t + 5) u |c tanh(s / c)|,   slope = 1 - tanh(max(|s| - err, 0) / c)^2

    The roundings of c (twice), of the quotient and of a reciprocal reach the result by no more than its own size, since
    x (1 - tanh(x)^2) <= tanh(x); t is what tanh may be off, and the product is the fifth. At level stored and below
    quotient, tanh and product may each be rounded to io.
    s (B, H, T, S), c > 0 -> (B, H, T, S). Clauses: ATTN-SOFTCAP.
    """
    acc, io = contract.acc, contract.io
    value = c * np.tanh(s.value / c)
    sure = np.maximum(np.abs(s.value) - s.err, 0.0) / c
    slope = 1.0 - np.tanh(sure) ** 2 + 4 * EXACT.acc.u
    err = np.where(np.isfinite(s.err), slope * np.where(np.isfinite(s.err), s.err, 0.0), np.inf)
    err = err + ulps(contract.tanh + 5, acc.u) * np.abs(value) + 2 * max(1.0, c) * acc.eta
    if contract.float32_scalars:
        err = err + FLOAT32.u * np.abs(value)
    if contract.rounds_at(Level.STORED):
        err = rounded(value, err + 2 * io.u * np.abs(value) + 2 * max(1.0, c) * io.eta, io)
    return Bounded(value, err)


def add_bias(s: Bounded, bias: Uncertain | None, contract: Contract) -> Bounded:
    """The scores plus the bias; where it is -inf the key is masked, and zero stands in.

    Clauses: ATTN-BIAS, ATTN-BIAS-INF.
    """
    if bias is None:
        return s
    b = given(bias, contract.acc)
    b = Bounded(np.where(b.value == -np.inf, 0.0, b.value), np.where(b.value == -np.inf, 0.0, b.err))
    value = s.value + b.value
    err = np.where(b.value == 0.0, s.err, rounded(value, s.err + b.err, contract.acc))
    return Bounded(value, rounded(value, err, contract.io) if contract.rounds_at(Level.STORED) else err)


@dataclass(frozen=True)
class Weights:
    """Softmax weights: value, the most that each may be off while they sum to one, and how far the sum may be off."""

    value: Real
    err: Real
    unnormalized: Real


def softmax(s: Bounded, visible: Bits, contract: Contract) -> Weights:
    """The weights of the visible keys, from scores whose logarithmic error is known.

        p_j = exp(s_j - m) / sum exp(s_i - m),   m = max s
        delta_j = err_j + u (3 |s_j| + 7 |s_j - m| + 2 ln(n + 1)) + exponentials and rescalings
        p_j exp(-delta_j) / (p_j exp(-delta_j) + sum_i!=j p_i exp(delta_i)) <= computed, and likewise from above

    s (B, H, T, S), visible (B, H, T, S) -> value, err (B, H, T, S), unnormalized (B, H, T, 1). Where nothing is
    visible all are 0. The terms in u: the rounded products of a folded exp2 (|s_j|), the shifts of blocks and their
    argument (|s_j - m|; they telescope, since the running maximum only grows), the log-sum-exp of a split (ln n).
    Clauses: ATTN-FORMULA, ATTN-LARGE-LOGITS. Source: Blanchard, D. Higham and N. Higham 2021, section 3.
    """
    u, c = contract.acc.u, contract.exp
    n = np.sum(visible, axis=-1, keepdims=True)  # (B, H, T, 1)
    m = np.max(np.where(visible, s.value, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    m = np.where(n > 0, m, 0.0)
    below = np.where(visible, s.value - m, 0.0)
    e = np.where(visible, np.exp(below), 0.0)
    p = e / np.where(n > 0, np.sum(e, axis=-1, keepdims=True), 1.0)
    err = _weight_error(p, np.where(visible, term_errors(s, visible, contract), 0.0))
    rescales = _rescales(visible, contract)
    loose = ulps(2 * n + 2 * rescales + 4 + np.abs(m) + np.log(n + 1.0) + c, u)
    return Weights(p, err, loose)


def term_errors(s: Bounded, visible: Bits, contract: Contract) -> Real:
    """How far off the logarithm of each term of a softmax may be: delta_j, as `softmax` states it.

    s (B, H, T, S), visible (B, H, T, S) -> (B, H, T, S); what stands at hidden keys means nothing.
    """
    u, c = contract.acc.u, contract.exp
    n = np.sum(visible, axis=-1, keepdims=True)  # (B, H, T, 1)
    m = np.max(np.where(visible, s.value, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    below = np.where(visible, s.value - np.where(n > 0, m, 0.0), 0.0)
    relative = min((c + _rescales(visible, contract) * (c + 2)) * u, 0.99)
    return np.asarray(s.err + u * (3 * np.abs(s.value) + 7 * np.abs(below) + 2 * np.log(n + 1.0)) - np.log1p(-relative))


def _rescales(visible: Bits, contract: Contract) -> int:
    """How often an online softmax rescales at most: once for each block of keys, and once more."""
    return -(-int(visible.shape[-1]) // contract.key_block) + 1


def _weight_error(p: Real, delta: Real) -> Real:
    """How far a weight can be off when each term of the softmax is off by a factor exp(+-delta): the exact extremes.

    A weight lies in [0, 1] whatever its terms, unless one of them overflowed (delta = inf).
    """
    known = np.all(delta <= LARGEST_LOG, axis=-1, keepdims=True)
    small = np.where(known, delta, 0.0)
    up, down = np.exp(small), np.exp(-small)
    more = p * (np.expm1(small) * others(p) + others(p * -np.expm1(-small)))
    less = p * (-np.expm1(-small) * others(p) + others(p * np.expm1(small)))
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 where no key is visible
        err = np.maximum(more / (p * up + others(p * down)), less / (p * down + others(p * up)))
    trivial = np.where(np.all(np.isfinite(delta), axis=-1, keepdims=True), 1.0, np.inf)
    return np.where(known, np.nan_to_num(err, nan=0.0), trivial)


def mix(weights: Weights, v: Bounded, visible: Bits, contract: Contract) -> Bounded:
    """The weighted mean of the values.

        |error| <= min_c sum err_j |v_j - c| + r sum p_j |v_j|,   r = the roundings of both sums and the quotient

    Since the weights sum to one their errors sum to zero, and any c may be subtracted from the values.
    At level fused and below each weight may be rounded to io, with or without its share of the denominator.
    weights (B, H, T, S), v (B, H, S, E), visible (B, H, T, S) -> (B, H, T, E). Clauses: ATTN-FORMULA, ATTN-CONVEX.
    """
    acc, io = contract.acc, contract.io
    value = weights.value @ v.value
    w = np.minimum(weights.err, 1.0)
    most = np.minimum(weights.value + w, 1.0)
    size = most @ (np.abs(v.value) + v.err)
    middle = np.median(v.value, axis=-2, keepdims=True) if v.value.shape[-2] else np.zeros(())
    mean = np.mean(value, axis=-2, keepdims=True) if value.shape[-2] else np.zeros(())
    centred = reduce(np.minimum, (w @ np.abs(v.value - c) for c in (np.zeros(()), middle, mean)))
    err = centred + weights.unnormalized * size + most @ v.err
    lost = 2 * acc.eta * (visible @ (np.abs(v.value) > 0)) + 2 * acc.eta * (visible @ np.abs(v.value))
    err = err + lost
    if contract.rounds_at(Level.FUSED):
        around = most @ np.abs(v.value - middle) + np.abs(middle - value)
        spread = np.maximum(size, np.minimum(size + np.abs(value), around))
        err = err + io.u / (1 - 2 * io.u) * spread + io.eta * (visible @ np.abs(v.value))
    err = np.where(np.all(np.isfinite(weights.err), axis=-1, keepdims=True), err, np.inf)
    return Bounded(value, rounded(value, err, io))


def fill_empty_rows(
    mixed: Bounded, v: Bounded, shown: dict[Route, Bits], visible: Bits, contract: Contract, conventions: Conventions
) -> Expected:
    """Put what is declared into the rows that see no key: zeros, NaN, or the mean of all values.

    With no keys at all (S = 0) the sum over nothing is zero under every convention.
    mixed (B, H, T, E), v (B, H, S, E), visible (B, H, T, S) -> (B, H, T, E). Clauses: ATTN-EMPTY-ROW, ATTN-EMPTY-AXES.
    """
    S = visible.shape[-1]
    empty = ~np.any(visible, axis=-1)  # (B, H, T)
    chosen = [conventions.empty_row_by(route) for route in ROUTES if route in shown]
    alone = {route: ~np.any(bits, axis=-1) for route, bits in shown.items()}
    value, err, free = mixed.value, np.where(empty[..., None], 0.0, mixed.err), np.zeros_like(empty)
    if S == 0 or set(chosen) <= {"zeros"}:
        return Expected(value, err, empty)
    everything = np.ones_like(visible)
    even = softmax(Bounded(np.zeros(visible.shape), np.zeros(visible.shape)), everything, contract)
    mean = mix(even, v, everything, contract)
    undecided = empty.copy()
    for route, rows in alone.items():
        here = undecided & np.broadcast_to(rows, empty.shape)
        value, err = _fill(conventions.empty_row_by(route), here[..., None], value, err, mean)
        undecided &= ~here
    if len(set(chosen)) == 1:
        value, err = _fill(chosen[0], undecided[..., None], value, err, mean)
    else:
        free = undecided  # emptied by routes together that alone are declared to differ
    return Expected(value, err, empty, free[..., None])


def _fill(rule: EmptyRow, here: Bits, value: Real, err: Real, mean: Bounded) -> tuple[Real, Real]:
    filler = {"zeros": np.zeros(()), "nan": np.full((), np.nan), "mean": mean.value}[rule]
    return np.where(here, filler, value), np.where(here, mean.err if rule == "mean" else 0.0, err)


def _row_sums(q: Bounded, k: Bounded) -> Real:
    """sum |q| + sum |k| for each pair of rows: what underflow in a scaled q or k is multiplied by."""
    rows = np.sum(np.abs(q.value), axis=-1)[..., :, None]
    return np.asarray(rows + np.sum(np.abs(k.value), axis=-1)[..., None, :])


def _power_of_four(scale: float) -> bool:
    mantissa, _ = frexp(sqrt(abs(scale)))
    return mantissa == 0.5 and sqrt(abs(scale)) ** 2 == abs(scale)


def _shape(x: Uncertain | None) -> tuple[int, ...] | None:
    return None if x is None else np.shape(x)


def _fields(x: Bounded) -> tuple[Real, Real]:
    return x.value, x.err
