"""The gradients of attention (source 2.2), and what an implementation may lose on the way to them.

Admitted: weights kept, or made again from the scores and their log-sum-exp, so that they need not sum to one; the row
term from weights and their cotangents, or from output and its cotangent; the scale on queries, keys, scores or the
result; products in any order, and what ATTN-FORMULA admits of the forward pass.
"""

from dataclasses import dataclass
from functools import reduce
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.attention import Dims, Window, dims
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT32, Contract
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.attention import LARGEST_LOG, by_route, mix, scores, served_by, softmax, term_errors
from gaugeblock.spec.reference.bounded import (
    Bits,
    Bounded,
    Real,
    Uncertain,
    compound,
    given,
    inherited,
    matmul_size,
    rounded,
    ulps,
)

SCALE_ROUNDINGS = 6  # as in the scores: the scale from two roundings, split by its root, and its products
PRODUCT_ROUNDINGS = 4  # of p (dp - delta): both products of p dp - p delta, their difference, and a late quotient


@dataclass(frozen=True)
class Call:
    """What both passes share: keys and values repeated for each query head, and the weights made again."""

    dims: Dims
    q: Bounded
    k: Bounded
    v: Bounded
    heads: np.ndarray[tuple[int], np.dtype[np.intp]]
    visible: Bits
    scale: float
    p: Bounded
    y: Bounded


def attention(
    q: Uncertain,
    k: Uncertain,
    v: Uncertain,
    dy: Uncertain,
    *,
    mask: ArrayLike | None = None,
    bias: Uncertain | None = None,
    causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> dict[str, Bounded]:
    """The gradients of q, k, v, and of bias where there is one, for the cotangent dy of the output.

        dv = p^T dy,   dp = dy v^T,   ds = p (dp - delta),   delta = sum_j p_j dp_j = dy . y
        dq = c ds k,   dk = c ds^T q,   dbias = ds

    dk and dv are summed over the query heads that share a key/value head, dbias over the axes along which it is
    broadcast. Hidden keys, queries that see none, and queries whose dy is zero add nothing anywhere, exactly.
    q (B, H, T, D), k (B, K, S, D), v (B, K, S, E), dy (B, H, T, E) -> values and errors in the shapes of the inputs.
    Raises ShapeError. Clauses: those of spec/clauses/attention.md that begin with ATTN-GRADIENT, and ATTN-JACOBIAN.
    Source: Vaswani et al. 2017, eq. 1; Dao et al. 2022, appendix B.2 (delta from the output).
    """
    call = _call(q, k, v, mask, bias, causal, window, scale, contract, conventions)
    g = given(dy, contract.acc)
    ds = _scores_cotangent(call, g, contract)
    found = {
        "q": _scaled(ds, call.k, call.scale, contract),
        "k": _scaled(_turned(_grouped(call, ds)), _grouped(call, call.q), call.scale, contract),
        "v": _scaled(_turned(_grouped(call, call.p)), _grouped(call, g), 1.0, contract),
    }
    return found if bias is None else {**found, "bias": _summed(ds, np.shape(bias), contract)}


def _call(
    q: Uncertain,
    k: Uncertain,
    v: Uncertain,
    mask: ArrayLike | None,
    bias: Uncertain | None,
    causal: bool,
    window: Window | None,
    scale: float | None,
    contract: Contract,
    conventions: Conventions,
) -> Call:
    d, acc = dims(np.shape(q), np.shape(k), np.shape(v)), contract.acc
    shown = by_route(d, mask, bias, causal, window, conventions)
    visible = np.broadcast_to(reduce(np.logical_and, shown.values()), (d.B, d.H, d.T, d.S))
    heads = served_by(d, conventions)
    keys, values = (Bounded(x.value[:, heads], x.err[:, heads]) for x in (given(k, acc), given(v, acc)))
    c = 1 / sqrt(d.D) if scale is None else scale
    s = scores(given(q, acc), keys, bias, c, contract)
    y = mix(softmax(s, visible, contract), values, visible, contract)
    return Call(d, given(q, acc), keys, values, heads, visible, c, _weights(s, visible, contract), y)


def _weights(s: Bounded, visible: Bits, contract: Contract) -> Bounded:
    """The weights as a backward pass makes them again, exp(s - lse): each off on its own, and not summing to one.

        |ln p_j computed - ln p_j| <= delta_j + ln sum_i p_i exp(delta_i) + roundings of lse

    (B, H, T, S). A softmax that is kept lies within the same bounds, by Jensen's inequality.
    """
    kept = softmax(s, visible, contract)
    delta = np.where(visible, term_errors(s, visible, contract), 0.0)
    known = np.all(delta <= LARGEST_LOG / 2, axis=-1, keepdims=True)
    small = np.where(known, delta, 0.0)
    shared = np.log(np.maximum(np.sum(kept.value * np.exp(small), axis=-1, keepdims=True), 1.0))
    relative = compound(np.expm1(small + shared), kept.unnormalized)
    err = np.where(visible, kept.value * relative + 2 * contract.acc.eta, 0.0)
    return Bounded(kept.value, np.where(known | ~visible, err, np.inf))


def _scores_cotangent(call: Call, dy: Bounded, contract: Contract) -> Bounded:
    """ds = p (dp - delta), exactly zero where a key is hidden: (B, H, T, S).

    delta is off by what either of its two forms may lose.
    """
    acc, p = contract.acc, call.p
    dp = Arithmetic(contract).matmul(dy, _turned(call.v))
    size = np.abs(dp.value) + dp.err
    delta = np.sum(p.value * dp.value, axis=-1, keepdims=True)  # (B, H, T, 1)
    most = np.where(call.visible, p.value + p.err, 0.0)
    n = np.sum(call.visible, axis=-1, keepdims=True)
    by_weights = np.sum(np.where(call.visible, p.err * size + p.value * dp.err, 0.0), axis=-1, keepdims=True)
    by_weights = by_weights + ulps(n + 1, acc.u) * np.sum(most * size, axis=-1, keepdims=True)
    outputs = np.abs(call.y.value) + call.y.err
    read = np.abs(dy.value) + dy.err
    by_output = np.sum(read * call.y.err + dy.err * np.abs(call.y.value), axis=-1, keepdims=True)
    by_output = by_output + ulps(call.dims.E + 1, acc.u) * np.sum(read * outputs, axis=-1, keepdims=True)
    off = np.maximum(by_weights, by_output) + (n + call.dims.E) * acc.eta
    apart = np.abs(dp.value - delta)
    rounding = ulps(PRODUCT_ROUNDINGS, acc.u) * (size + np.abs(delta) + off)
    err = p.err * (apart + dp.err + off) + p.value * (dp.err + off) + (p.value + p.err) * rounding
    err = err + 4 * acc.eta * (1 + size + np.abs(delta))
    some = np.any(read > 0, axis=-1, keepdims=True)  # (B, H, T, 1)
    return Bounded(p.value * (dp.value - delta), np.where(call.visible & some, err, 0.0))


def _scaled(a: Bounded, b: Bounded, scale: float, contract: Contract) -> Bounded:
    """scale a b, with the scale wherever it goes, rounded to io; nothing where all terms are exactly zero.

    a (..., T, S), b (..., S, D) -> (..., T, D). A term that underflows before it meets a large factor is multiplied by
    it: eta times the sums of |a| and |b|.
    """
    acc, n = contract.acc, a.value.shape[-1]
    size = matmul_size(a, b)
    least = max(1.0, abs(scale))
    err = abs(scale) * (inherited(a, b) + size * compound(n * acc.u, ulps(SCALE_ROUNDINGS, acc.u)))
    sums = np.sum(np.abs(a.value) + a.err, axis=-1)[..., :, None]
    sums = sums + np.sum(np.abs(b.value) + b.err, axis=-2)[..., None, :]
    err = err + np.where(size > 0, least * acc.eta * (n + SCALE_ROUNDINGS + sums), 0.0)
    err = err + (FLOAT32.u * abs(scale) * size if contract.float32_scalars else 0.0)
    value = scale * (a.value @ b.value)
    return Bounded(value, rounded(value, np.where(size * least <= acc.max, err, np.inf), contract.io))


def _summed(ds: Bounded, shape: tuple[int, ...], contract: Contract) -> Bounded:
    """The sum over the axes along which a bias of this shape is broadcast, in any order."""
    axes = tuple(n for n, (full, own) in enumerate(zip(ds.value.shape, shape, strict=True)) if own != full)
    n = int(np.prod([ds.value.shape[axis] for axis in axes]))
    value, err, size = (np.sum(x, axis=axes, keepdims=True) for x in (ds.value, ds.err, np.abs(ds.value) + ds.err))
    return Bounded(value, rounded(value, err + ulps(n, contract.acc.u) * size, contract.io))


def _grouped(call: Call, x: Bounded) -> Bounded:
    """The rows of all query heads that share a key/value head: (B, H, T, X) -> (B, K, H/K * T, X)."""
    d = call.dims

    def stacked(a: Real) -> Real:
        heads = [a[:, call.heads == g].reshape(d.B, d.H // d.K * d.T, a.shape[-1]) for g in range(d.K)]
        return np.stack(heads, axis=1)

    return Bounded(stacked(x.value), stacked(x.err))


def _turned(x: Bounded) -> Bounded:
    """(..., T, S) -> (..., S, T)."""
    return Bounded(x.value.swapaxes(-1, -2), x.err.swapaxes(-1, -2))
