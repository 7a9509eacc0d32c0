"""The laws of blocks that are more than one comparison with the reference."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.laws.compositions import CLAUSES, holds, same_result, traced
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.blocks import SUBLAYERS
from gaugeblock.spec.precision import EXACT, FLOAT64, Contract
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, Real, ulps
from gaugeblock.spec.reference.multihead import view
from gaugeblock.spec.reference.program import SECOND_ORDER, first_order, local
from gaugeblock.spec.traced import Traced

LOUD = ("normal", *(f"only_{sublayer}" for sublayer in SUBLAYERS))
NORMS = tuple(f"{sublayer}_norm" for sublayer in SUBLAYERS)
SUMS = tuple(f"{sublayer}_residual" for sublayer in SUBLAYERS)
READS = ("query", "key", "value")
POISON = 8.0  # hidden rows stay where their scores are finite, even as float16 sums


def right(cell: Cell, case: BlockCase, clause: str = "", steps: tuple[str, ...] = tuple(CLAUSES)) -> None:
    """The block is right, step by step or whole; where one of these steps is not, it breaks this clause.

    Steps are named by the last part of their names; any other, and all where no clause is named, break their own. In
    bfloat16 the bound of a whole block tells nothing: of a black box the sublayers are then made quiet, and silent.
    """
    hidden = cell.dtype == "bfloat16" and not isinstance(cell.backend, Traced) and case.w in LOUD
    clauses: dict[str, Any] = dict.fromkeys(steps, clause) if clause else {}
    for one in [replace(case, w=w) for w in ("quiet", "closed")] if hidden else [case]:
        holds(cell, one, whole=False, **clauses)


def is_identity(cell: Cell, case: BlockCase) -> None:
    """Sublayers that give nothing leave the stream as it is, bit for bit."""
    inputs = case.inputs(cell.io)
    x = inputs["x"].astype(np.float64)
    exactly, law = Expected(x, np.zeros_like(x)), "sublayers that give nothing must leave x as it is"
    cell.compare(case, cell.call(case, inputs), lambda _: exactly, law, inputs, "BLOCK-IDENTITY")


def rows_are_normalised(cell: Cell, case: BlockCase) -> None:
    """Behind a plain LayerNorm each row has mean 0 and mean square v / (v + eps), v the variance of the last sum.

    The last sum is what the backend shows, or the reference's with its own bound where it shows nothing.
    """
    inputs = case.inputs(cell.io)
    got, last = _result_and_last_sum(cell, case, inputs)
    y = got.astype(np.float64)
    clause = "BLOCK-ROWS-NORMALISED"

    def mean(contract: Contract) -> Expected:
        err = np.mean(_slack(case, inputs, last(contract), contract, y), axis=-1)
        return Expected(np.zeros_like(err), err)

    def mean_square(contract: Contract) -> Expected:
        total = last(contract)
        b = _slack(case, inputs, total, contract, y)
        v, moved = _variance(total)
        low, want, high = (np.maximum(n, 0) / (np.maximum(n, 0) + case.eps) for n in (v - moved, v, v + moved))
        err = np.mean(2 * np.abs(y) * b + b * b, axis=-1) + np.maximum(high - want, want - low)
        return Expected(want, err)

    cell.compare(case, np.mean(y, axis=-1), mean, "a normalised row must have mean 0", inputs, clause)
    law = "a normalised row must have mean square v / (v + eps)"
    cell.compare(case, np.mean(y * y, axis=-1), mean_square, law, inputs, clause)


def _result_and_last_sum(cell: Cell, case: BlockCase, inputs: Inputs) -> tuple[Numpy, Callable[[Contract], Bounded]]:
    """The result, and for a contract the last residual sum with the bound on it."""
    if isinstance(cell.backend, Traced):
        got, taps = traced(cell, case, inputs)
        name = "feed_forward_residual"
        if name not in taps or taps[name].shape != got.shape:
            raise cell.fail(
                f"{name} must be shown in the shape of the result", case, clause="BLOCK-TAPS", inputs=inputs
            )
        shown = taps[name].astype(np.float64)
        return got, lambda _: Bounded(shown, np.zeros_like(shown))
    steps, given = case.program(inputs)[:-1], case.given(inputs)
    return cell.call(case, inputs), lambda contract: first_order(steps, given, contract)


def _slack(case: BlockCase, inputs: Inputs, total: Bounded, contract: Contract, y: Real) -> Real:
    """What the last norm may be off by, doubled for a sum that is known within its bound only, and float64's own."""
    norm = case.program(inputs)[-1]
    known = {norm.reads[0]: total.value}
    err = local(norm, known, contract, last=True).err + local(norm, known, EXACT, last=True).err
    err = np.where(np.isfinite(total.err), (SECOND_ORDER if np.any(total.err) else 1.0) * err, np.inf)
    return np.asarray(err + ulps(case.M + 2, FLOAT64.u) * np.abs(y))


def _variance(total: Bounded) -> tuple[Real, Real]:
    """The variance of each row, and how far it moves with the errors of its elements and of float64."""
    x, terms = total.value, 4 * total.value.shape[-1] + 8
    centred = x - np.mean(x, axis=-1, keepdims=True)
    moved = np.mean(2 * np.abs(centred) * total.err + total.err**2, axis=-1)
    return np.mean(centred * centred, axis=-1), moved + ulps(terms, FLOAT64.u) * np.mean(x * x, axis=-1)


def hidden_columns_are_inert(cell: Cell, case: BlockCase, law: str) -> None:
    """Change columns of x that some position sees in no head; no such position may change by a bit.

    The case's at picks a column that is hidden from some position, alone (odd) or with all that follow it (even).
    """
    inputs = case.inputs(cell.io)
    seen = np.any(visible(case, inputs), axis=1) | np.eye(case.T, dtype=bool)  # (B, T, T); x itself passes by
    _inert(cell, case, inputs, "x", seen, law)


def hidden_context_is_inert(cell: Cell, case: BlockCase, law: str) -> None:
    """Change columns of the context that some position sees in no head; no such position may change by a bit."""
    inputs = case.inputs(cell.io)
    seen = np.any(visible_context(case, inputs), axis=1)  # (B, T, S)
    _inert(cell, case, inputs, "context", seen, law)


def _inert(cell: Cell, case: BlockCase, inputs: Inputs, name: str, seen: Bits, law: str) -> None:
    candidates = np.flatnonzero(~np.all(seen, axis=(0, 1)))
    if candidates.size == 0:
        return
    columns = np.arange(seen.shape[-1])
    first = candidates[case.at // 2 % candidates.size]
    chosen = columns == first if case.at % 2 else columns >= first
    noise = np.asarray(POISON * case.random("poison").normal(size=inputs[name].shape), cell.io.dtype)
    changed = np.where(chosen[:, None], noise, inputs[name])
    blind = ~np.any(seen & chosen, axis=-1)  # (B, T)
    cell.same(case, inputs, change(inputs, **{name: changed}), law, where=blind[..., None])


def visible(case: BlockCase, inputs: Inputs) -> Bits:
    """Which columns each head of the self-attention sees from each position, (B, H, T, T)."""
    at = inputs.get("positions", np.arange(case.T))
    seen = view(at, at, causal=case.causal, window=case.window).visible & np.asarray(inputs.get("mask", True))
    return np.broadcast_to(seen, (case.B, case.H, case.T, case.T))


def visible_context(case: BlockCase, inputs: Inputs) -> Bits:
    """Which columns of the context each head of the cross-attention sees from each position, (B, H, T, S)."""
    return np.broadcast_to(inputs.get("context_mask", np.ones((), bool)), (case.B, case.H, case.T, case.S))


def batch_rows_are_independent(cell: Cell, case: BlockCase) -> None:
    """Change all batch rows but one, their context, positions and masks included; that one must not move by a bit."""
    inputs = case.inputs(cell.io)
    kept = np.arange(case.B) == case.at % case.B
    rng, changed = case.random("others"), dict(inputs)
    for name, x in inputs.items():
        if "." not in name and x.shape[0] == case.B and x.ndim > 1:
            new = ~x if x.dtype == bool else x + 1 if name == "positions" else 2 * rng.normal(size=x.shape)
            changed[name] = np.where(kept.reshape(-1, *(1,) * (x.ndim - 1)), x, np.asarray(new).astype(x.dtype))
    cell.same(case, inputs, changed, "another batch row must change nothing in this one", where=kept[:, None, None])


def weights_are_read_by_name(cell: Cell, case: BlockCase) -> None:
    """The order in which the mapping holds the weights changes nothing, and the mapping stays as it was."""
    inputs = case.inputs(cell.io)
    backwards = dict(reversed(list(inputs.items())))
    cell.same(case, inputs, backwards, "the order of the names in the mapping must change nothing")
    right(cell, case, "BLOCK-WEIGHTS")


def mapping_intact(cell: Cell, case: BlockCase) -> None:
    """After the call the mapping of weights holds the names and the arrays that it held before."""
    inputs = case.inputs(cell.io)
    (x, weights, config), keywords = case.arguments({n: cell.backend.asarray(a.copy()) for n, a in inputs.items()})
    before = dict(weights)
    cell.guarded(case, lambda: getattr(cell.backend, case.called)(x, weights, config, **keywords))
    cell.tally.judged += 1
    if set(weights) != set(before) or any(weights[name] is not a for name, a in before.items()):
        raise cell.fail("the call has changed the mapping of weights", case, inputs=inputs)


def remembers_nothing(cell: Cell, case: BlockCase) -> None:
    """A call gives what it gives, whatever calls of the same sizes went before."""
    cell.call(replace(case, seed=case.seed + 1))
    right(cell, case, "BLOCK-STATELESS")


def nan_propagates(cell: Cell, case: BlockCase) -> None:
    """A NaN in x or the context reaches every output that reads it; other batch rows stay within their bound.

    Of positions of its own batch row that do not see it nothing is promised.
    """
    inputs = case.inputs(cell.io)
    name = "context" if case.cross and case.at % 2 else "x"
    columns = inputs[name].shape[1]
    b, t, m = case.at // 2 % case.B, case.at // 3 % columns, case.at // 5 % case.M
    poisoned = inputs[name].copy()
    poisoned[b, t, m] = np.nan
    reached = _reached(case, inputs, name, t)[b]  # (T,)
    own = (np.arange(case.B) == b)[:, None, None]
    reads, hides = own & reached[:, None], own & ~reached[:, None]
    law = f"a NaN in {name} must reach the outputs that depend on it, and no other batch row"
    got = cell.call(case, change(inputs, **{name: poisoned}))
    if np.any(np.isnan(got) & ~own):
        raise cell.fail(law, case, inputs=inputs, got=got)
    clean = cell.expected(case, inputs)
    free = hides | (np.isinf(clean.err) & ~reads)
    wanted = Expected(np.where(reads, np.nan, clean.value), np.where(reads, 0.0, clean.err), free=free)
    cell.against(case, got, wanted, inputs, law)


def _reached(case: BlockCase, inputs: Inputs, name: str, column: int) -> Bits:
    """Which positions read a column of x or of the context, (B, T)."""
    if name == "context":
        return np.asarray(np.any(visible_context(case, inputs)[..., column], axis=1))
    return np.asarray(np.any(visible(case, inputs)[..., column], axis=1) | (np.arange(case.T) == column))


def shows_its_steps(cell: Cell, case: BlockCase) -> None:
    """A backend that is Traced gives the same result when traced, and shows every step by its name and no other."""
    if not isinstance(cell.backend, Traced):
        cell.note("shows no intermediates: results are held to the first-order bound")
        return
    same_result(cell, case)
    inputs = case.inputs(cell.io)
    _, taps = traced(cell, case, inputs)
    wanted = {step.name for step in case.program(inputs)}
    if set(taps) != wanted:
        problem = f"the call must show {', '.join(sorted(wanted))}, got {', '.join(sorted(taps)) or 'nothing'}"
        raise cell.fail(problem, case, inputs=inputs)
