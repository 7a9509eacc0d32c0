"""The laws of attention that are more than one comparison with the reference."""

from functools import reduce

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.attention import by_route, served_by
from gaugeblock.spec.reference.bounded import Bits, Expected, Real

K_POISON = 5.0  # keys stay where their scores are finite, even as float16 sums


def visible(cell: Cell, case: AttentionCase, inputs: Inputs) -> Bits:
    """Which keys each query sees (B, H, T, S), by the declared conventions."""
    d = case.dims
    shown = by_route(d, inputs.get("mask"), inputs.get("bias"), case.causal, case.window, cell.backend.conventions)
    return np.broadcast_to(reduce(np.logical_and, shown.values()), (d.B, d.H, d.T, d.S))


def with_key(cell: Cell, case: AttentionCase, law: str) -> None:
    """Change hidden keys and their values; the rows that see none of them must not change by a bit.

    The case's at picks a key that some row does not see, alone (odd) or with all that follow it (even).
    """
    inputs = case.inputs(cell.io)
    seen = visible(cell, case, inputs)
    candidates = np.flatnonzero(~np.all(seen, axis=(0, 1, 2)))
    if candidates.size == 0:
        return
    first = candidates[case.at // 2 % candidates.size]
    chosen = np.arange(case.S) == first if case.at % 2 else np.arange(case.S) >= first
    rng = case.random("poison")
    k, v = inputs["k"].copy(), inputs["v"].copy()
    k[:, :, chosen] = K_POISON * rng.normal(size=k[:, :, chosen].shape)
    v[:, :, chosen] = case.poison * rng.choice([1.0, 0.5], v[:, :, chosen].shape)
    blind = ~np.any(seen & chosen, axis=-1, keepdims=True)  # (B, H, T, 1)
    if cell.backend.conventions.empty_row != "zeros":
        blind &= np.any(seen, axis=-1, keepdims=True)  # a declared mean reads what the row does not see
    changed = change(inputs, k=case.laid_out(k), v=case.laid_out(v))
    cell.same(case, inputs, changed, law, where=blind)


def with_other_rows(cell: Cell, case: AttentionCase, axis: int) -> None:
    """Change all batch rows (axis 0) or all heads (axis 1) but one, which must not move by a bit."""
    inputs = case.inputs(cell.io)
    rng = case.random("others")
    heads = served_by(case.dims, cell.backend.conventions)
    kept = case.at % (case.B if axis == 0 else case.K)
    own = {n: np.arange(x.shape[axis]) == kept for n, x in inputs.items() if n in "kv"}
    own |= {n: (np.arange(case.B) if axis == 0 else heads) == kept for n in inputs if n not in "kv"}
    changed = {n: _scrambled(x, own[n], axis, rng) if x.shape[axis] > 1 else x for n, x in inputs.items()}
    thing = "batch row" if axis == 0 else "head"
    where = own["q"].reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1))
    cell.same(case, inputs, changed, f"another {thing} must change nothing in this one", where=where)


def _scrambled(x: Numpy, keep: Bits, axis: int, rng: np.random.Generator) -> Numpy:
    new = ~x if x.dtype == bool else np.asarray(2 * rng.normal(size=x.shape)).astype(x.dtype)
    return np.where(keep.reshape([-1 if a == axis else 1 for a in range(4)]), x, new)


def equal_within(
    cell: Cell, case: AttentionCase, inputs: Inputs, expected: Expected, rows: Numpy | None = None
) -> None:
    """The result for these inputs must be the one expected before they were moved; rows is the order of its queries."""
    if rows is not None:
        free = np.broadcast_to(expected.free, expected.value.shape)
        value, err = expected.value[:, :, rows], expected.err[:, :, rows]
        expected = Expected(value, err, expected.empty[:, :, rows], free[:, :, rows])
    cell.against(case, cell.call(case, inputs), expected, inputs)


def weights(cell: Cell, case: AttentionCase, *, judged: bool = False) -> tuple[Real, Real, Real]:
    """Read the weights through one-hot values, E keys at a time.

    Gives what the backend uses, what the reference has, and how far apart they may be, each (B, H, T, S).
    """
    inputs = case.inputs(cell.io)
    got, want, allowed = ([] for _ in range(3))
    for first in range(0, case.S, case.E):
        eye = np.arange(case.S)[:, None] == first + np.arange(case.E)
        v = np.broadcast_to(eye, (case.B, case.K, case.S, case.E)).astype(cell.io.dtype)
        read = change(inputs, v=v)
        expected = cell.expected(case, read)
        used = cell.call(case, read)
        if judged:
            cell.against(case, used, expected, read)
        got.append(used.astype(np.float64))
        want.append(expected.value)
        allowed.append(expected.err + cell.own(case, read))
    cut = (..., slice(case.S))
    return tuple(np.concatenate(x, axis=-1)[cut] for x in (got, want, allowed))  # type: ignore[return-value]


def convex_rows(cell: Cell, case: AttentionCase) -> None:
    """Every weight is the reference's within the bound, none is negative, and a row that sees a key sums to one."""
    got, _, allowed = weights(cell, case, judged=True)
    inputs = case.inputs(cell.io)
    empty = ~np.any(visible(cell, case, inputs), axis=-1)
    off = np.where(empty, 0.0, np.abs(np.sum(got, axis=-1) - 1.0))
    if np.any(off > np.sum(allowed, axis=-1)):
        raise cell.fail(f"the weights of a row must sum to 1, got {1 + np.max(off):.6g}", case, inputs=inputs)
    if np.any(got < -allowed):
        raise cell.fail(f"a weight must not be negative, got {np.min(got):.6g}", case, inputs=inputs)


def score_variance(cell: Cell, case: AttentionCase) -> None:
    """The mean squared score over the keys +-sqrt(D) e_i is the scale's square times D: one, for every width.

    Scores are read off the weights as log p, up to a constant that symmetric keys make zero.
    """
    got, want, allowed = weights(cell, case)
    cell.tally.judged += 1
    if np.any(allowed >= want):
        cell.tally.undetermined += 1
        return
    loose = -np.log1p(-allowed / want)
    slack = loose + np.mean(loose, axis=-1, keepdims=True)
    size = np.abs(_centred(want))
    measured, exact = np.mean(_centred(got) ** 2, axis=-1), np.mean(size**2, axis=-1)
    allowance = np.mean(2 * size * slack + slack**2, axis=-1)
    off = np.abs(measured - exact) / allowance
    worst = np.unravel_index(int(np.argmax(np.nan_to_num(off, nan=np.inf))), off.shape)
    cell.tally.headroom = max(cell.tally.headroom, float(off[worst])) if off[worst] <= 1 else cell.tally.headroom
    if not off[worst] <= 1:
        law = f"the scores must have mean square {exact[worst]:.6g} ± {allowance[worst]:.2g}, got {measured[worst]:.6g}"
        advice = f"scale {np.sqrt(measured[worst] / case.D):.6g} instead of 1/sqrt({case.D}) = {case.scaled_by:.6g}"
        raise cell.fail(law, case, advice=advice, inputs=case.inputs(cell.io))


def _centred(p: Real) -> Real:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(p)
        return np.asarray(logs - np.mean(logs, axis=-1, keepdims=True))


def recovered_scale(cell: Cell, case: AttentionCase) -> None:
    """Recover the scale that is really used from the weight p of the one key that is not zero.

    p = 1 / (1 + (S - 1) exp(-c q k)), so c = log(p (S - 1) / (1 - p)) / (q k).
    """
    inputs = case.inputs(cell.io)
    expected = cell.expected(case, inputs)
    allowed = expected.err + cell.own(case, inputs)
    got = cell.call(case, inputs).astype(np.float64)
    cell.tally.judged += 1
    dot = np.sum(inputs["q"].astype(np.float64) * inputs["k"][:, :1, :1].astype(np.float64), axis=-1, keepdims=True)
    used, low, high = (_scale_of(p, case.S) / dot for p in (got, expected.value - allowed, expected.value + allowed))
    wrong = ~((used >= low) & (used <= high))
    if np.any(wrong):
        worst = tuple(np.argwhere(wrong)[0])
        law = f"the scale must be {case.scaled_by:.6g} = 1/sqrt({case.D}), got {used[worst]:.6g}"
        law += f" (allowed {low[worst]:.6g} to {high[worst]:.6g})"
        raise cell.fail(law, case, advice=scale_name(float(used[worst]), case), inputs=inputs, got=got)


def _scale_of(p: Real, S: int) -> Real:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.clip(p, 0, 1) * (S - 1) / (1 - np.clip(p, 0, 1))))


def scale_name(used: float, case: AttentionCase) -> str:
    """What a wrong scale looks like, within the few per cent that half precision leaves."""
    D, M = case.D, case.D * case.H
    known = {"no scale": 1.0, "1/D": 1 / D, "1/sqrt(H D), the model's width": M**-0.5, "sqrt(D)": D**0.5, "1/M": 1 / M}
    return next((f"the scale is {n}" for n, c in known.items() if abs(used / c - 1) < 0.03), "")


def nan_propagates(cell: Cell, case: AttentionCase) -> None:
    """A NaN in q, k or v reaches every output that depends on it; the outputs that do not stay within their bound.

    A row that does not see the key that holds the NaN is outside the contract, and so is a NaN query that sees no key.
    """
    inputs = case.inputs(cell.io)
    seen = visible(cell, case, inputs)
    heads = served_by(case.dims, cell.backend.conventions)
    b, h, i, j, e = (case.at % n for n in (case.B, case.H, case.T, case.S, case.E))
    batch, own = np.arange(case.B)[:, None, None, None] == b, (heads == heads[h])[None, :, None, None]
    query = (np.arange(case.H)[:, None, None] == h) & (np.arange(case.T)[:, None] == i)
    column = np.arange(case.E) == e
    reads, hides = seen[..., j : j + 1], ~seen[..., j : j + 1]  # (B, H, T, 1)
    sees = np.any(seen, axis=-1, keepdims=True)
    _nan(cell, case, inputs, "q", (b, h, i), batch & query & sees, batch & query & ~sees)
    _nan(cell, case, inputs, "k", (b, heads[h], j), batch & own & reads, batch & own & hides)
    _nan(cell, case, inputs, "v", (b, heads[h], j, e), batch & own & reads & column, batch & own & hides)


def _nan(
    cell: Cell, case: AttentionCase, inputs: Inputs, name: str, at: tuple[int, ...], reached: Bits, free: Bits
) -> None:
    poisoned = inputs[name].copy()
    poisoned[at] = np.nan
    clean = cell.expected(case, inputs)
    value, err = np.where(reached, np.nan, clean.value), np.where(reached, 0.0, clean.err)
    law = f"a NaN in {name} must reach the outputs that depend on it, and no others"
    got = cell.call(case, change(inputs, **{name: poisoned}))
    cell.against(case, got, Expected(value, err, clean.empty, clean.free | free), inputs, law)


def stays_hidden(cell: Cell, case: AttentionCase) -> None:
    """NaN and infinity in keys and values: what does not see them stays within its bound, the rest is not judged.

    The case's at picks a key, its head and the number; the keys that a whole head does not see hold it as well. A row
    that sees nothing is judged where it is declared to be zeros.
    """
    inputs, d = case.inputs(cell.io), case.dims
    seen = visible(cell, case, inputs)
    heads = served_by(d, cell.backend.conventions)
    dark = np.zeros((d.B, d.K, d.S), bool)
    for head in range(d.K):
        dark[:, head] = ~np.any(seen[:, heads == head], axis=(1, 2))
    dark[case.at % d.B, case.at % d.K, case.at % d.S] = True
    number = (np.nan, np.inf, -np.inf)[case.at % 3]
    poisoned = {
        name: case.laid_out(np.where(dark[..., None], number, inputs[name]).astype(cell.io.dtype)) for name in "kv"
    }
    free = np.any(seen & dark[:, heads, None], axis=-1, keepdims=True)  # (B, H, T, 1)
    if cell.backend.conventions.empty_row != "zeros":
        free |= ~np.any(seen, axis=-1, keepdims=True)
    clean = cell.expected(case, inputs)
    law = f"{number:g} in a hidden key and its value must reach nothing, since the backend declares nan_safe"
    got = cell.call(case, change(inputs, **poisoned))
    cell.against(case, got, Expected(clean.value, clean.err, clean.empty, clean.free | free), inputs, law)
