"""The laws of multi-head attention that are more than one comparison with the reference."""

from dataclasses import replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.laws.compositions import holds, traced
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.multihead import TAPS
from gaugeblock.spec.reference.bounded import Bits, Expected
from gaugeblock.spec.reference.multihead import view
from gaugeblock.spec.traced import Traced

SHIFT = 1000  # positions that are moved together stay below the 4096 up to which every backend is held


def holds_as(cell: Cell, case: MultiHeadCase, clause: str) -> None:
    """The call is right step by step, and whichever step is not breaks this clause."""
    clauses: dict[str, Any] = dict.fromkeys(TAPS, clause)
    holds(cell, case, whole=False, **clauses)


def visible(case: MultiHeadCase, inputs: Inputs) -> Bits:
    """Which keys each head of each query sees (B, H, T, S)."""
    d = case.dims
    seen = np.ones((1, 1, 1, 1), bool)
    if not case.context:
        at = inputs.get("positions", np.arange(d.T))
        seen = view(at, at, causal=case.causal, window=case.window).visible
    return np.broadcast_to(seen & inputs.get("mask", True), (d.B, d.H, d.T, d.S))


def hidden_rows_are_inert(cell: Cell, case: MultiHeadCase, law: str) -> None:
    """Change rows that some query sees in no head; the output of every such query must not change by a bit.

    The case's at picks a row that is hidden from some query, alone (odd) or with all that follow it (even).
    """
    inputs, d = case.inputs(cell.io), case.dims
    seen = np.any(visible(case, inputs), axis=1)  # (B, T, S)
    if not case.context:
        seen = seen | np.eye(d.T, dtype=bool)  # a token's own row is its query as well
    candidates = np.flatnonzero(~np.all(seen, axis=(0, 1)))
    if candidates.size == 0:
        return
    first = candidates[case.at // 2 % candidates.size]
    chosen = np.arange(d.S) == first if case.at % 2 else np.arange(d.S) >= first
    name = "context" if case.context else "x"
    noise = np.asarray(case.poison * case.random("poison").normal(size=inputs[name].shape))
    rows = np.where(chosen[:, None], noise.astype(cell.io.dtype), inputs[name])
    blind = ~np.any(seen & chosen, axis=-1)  # (B, T)
    cell.same(case, inputs, change(inputs, **{name: case.laid_out(rows)}), law, where=blind[..., None])


def batch_rows_are_independent(cell: Cell, case: MultiHeadCase) -> None:
    """Change all batch rows but one, their positions and masks included; that one must not move by a bit."""
    inputs = case.inputs(cell.io)
    kept = np.arange(case.B) == case.at % case.B
    rng, changed = case.random("others"), dict(inputs)
    for name, x in inputs.items():
        if "." in name or x.shape[0] != case.B or (name == "positions" and x.ndim == 1):
            continue
        new = ~x if x.dtype == bool else x[::-1] if name == "positions" else 2 * rng.normal(size=x.shape)
        changed[name] = np.where(kept.reshape(-1, *(1,) * (x.ndim - 1)), x, np.asarray(new).astype(x.dtype))
    cell.same(case, inputs, changed, "another batch row must change nothing in this one", where=kept[:, None, None])


def heads_are_independent(cell: Cell, case: MultiHeadCase) -> None:
    """Where the output projection does not read some heads, their projections change nothing, bit for bit.

    The case's at picks a query head (odd), or a key/value head with all query heads that it serves (even).
    """
    d, group = case.dims, case.H // case.K
    kv = np.arange(d.K) == case.at // 2 % d.K
    heads = np.arange(d.H) == case.at // 2 % d.H if case.at % 2 else np.repeat(kv, group)
    inputs = case.inputs(cell.io)
    unread = np.where(np.repeat(heads, d.E)[:, None], 0, inputs["output.weight"]).astype(cell.io.dtype)
    inputs = change(inputs, **{"output.weight": unread})
    columns = {"query": np.repeat(heads, d.D)}
    if case.at % 2 == 0:
        columns |= {"key": np.repeat(kv, d.D), "value": np.repeat(kv, d.E)}
    changed = dict(inputs)
    for name in weights_of(inputs):
        layer, _, _ = name.partition(".")
        if layer in columns:
            noise = np.asarray(case.random(f"other {name}").normal(size=inputs[name].shape))
            changed[name] = np.where(columns[layer], noise.astype(cell.io.dtype), inputs[name])
    cell.same(case, inputs, changed, "a head that the output does not read must change nothing")


def agree(
    cell: Cell, case: MultiHeadCase, inputs: Inputs, changed: Inputs, law: str, to: MultiHeadCase | None = None
) -> None:
    """Two calls that are equal in exact arithmetic differ by no more than the sum of their bounds.

    to is the second call's case where its sizes or options differ.
    """
    to = to or case
    first, second = cell.call(case, inputs), cell.call(to, changed)
    err = cell.expected(case, inputs).err + cell.expected(to, changed).err
    cell.against(case, first, Expected(second.astype(np.float64), err), inputs, law)


def grouped_is_repeated(cell: Cell, case: MultiHeadCase) -> None:
    """Key and value columns that are written out once for each query head give the same as shared ones."""
    inputs, group = case.inputs(cell.io), case.H // case.K
    widths = {"key": case.D, "value": case.E}
    shared = {n: x for n, x in inputs.items() if n.partition(".")[0] in widths}
    repeated = {n: _repeated(x, widths[n.partition(".")[0]], group) for n, x in shared.items()}
    law = "a shared key/value head must give what its copies give, one for each query head of its group"
    agree(cell, case, inputs, change(inputs, **repeated), law, replace(case, K=case.H))


def _repeated(x: Numpy, width: int, group: int) -> Numpy:
    by_head = x.reshape(*x.shape[:-1], -1, width)
    return np.repeat(by_head, group, axis=-2).reshape(*x.shape[:-1], group * x.shape[-1])


def itself_as_context(cell: Cell, case: MultiHeadCase) -> None:
    """Attention of a sequence on itself is attention with itself as the context."""
    inputs = case.inputs(cell.io)
    crossed = replace(case, context=True, S=case.T)
    law = "x as the context must give what none gives"
    agree(cell, case, inputs, change(inputs, context=inputs["x"]), law, crossed)


def reordered(cell: Cell, case: MultiHeadCase) -> None:
    """Tokens, and their rows and columns of the mask, in another order give the same outputs in that order.

    Between two sequences the queries' order is carried over likewise, and the keys' order does not matter.
    """
    inputs, d = case.inputs(cell.io), case.dims
    queries = case.random("queries").permutation(d.T)
    keys = case.random("keys").permutation(d.S) if case.context else queries
    moved = dict(inputs) | {"x": inputs["x"][:, queries]}
    if case.context:
        moved["context"] = inputs["context"][:, keys]
    if "mask" in inputs:
        full = np.broadcast_to(inputs["mask"], (*inputs["mask"].shape[:2], d.T, d.S))
        moved["mask"] = full[:, :, queries][..., keys]
    want = cell.expected(case, inputs)
    want = Expected(want.value[:, queries], want.err[:, queries])
    law = "tokens in another order must give the same outputs in that order"
    cell.against(case, cell.call(case, moved), want, moved, law)


def order_matters(cell: Cell, case: MultiHeadCase) -> None:
    """With positions, or under causality, tokens in another order give other outputs than those in that order.

    Demanded where the reference says so by more than the bounds of both twice over: an implementation may use them up
    once against the difference, and what is left must still be more than they are. A case without any says nothing.
    """
    if not (case.rotary or case.alibi or case.causal):
        return
    inputs = case.inputs(cell.io)
    order = np.roll(np.arange(case.T), 1 + case.at % (case.T - 1))
    moved = change(inputs, x=inputs["x"][:, order])
    here, there = cell.expected(case, inputs), cell.expected(case, moved)
    allowed = here.err[:, order] + there.err
    apart = np.abs(there.value - here.value[:, order]) > 2 * allowed
    cell.tally.judged += 1
    if not np.any(apart):
        cell.tally.undetermined += 1
        return
    first, second = (cell.call(case, given).astype(np.float64) for given in (inputs, moved))
    if np.all(np.abs(second - first[:, order])[apart] <= allowed[apart]):
        raise cell.fail("the order of the tokens must matter here, and does not", case, inputs=moved, got=second)
    cell.against(case, second, there, moved, "the order of the tokens must matter as positions and causality say")


def shift_changes_nothing(cell: Cell, case: MultiHeadCase) -> None:
    """One number added to all positions of a row changes nothing: rotation, ALiBi and window see differences."""
    inputs = case.inputs(cell.io)
    positions = inputs["positions"]
    by = case.random("shift").integers(1, SHIFT, (*positions.shape[:-1], 1))
    law = "positions shifted together must change nothing"
    agree(cell, case, inputs, change(inputs, positions=positions + by), law)


def key_bias_is_inert(cell: Cell, case: MultiHeadCase) -> None:
    """Where no key turns, the bias of the keys adds the same to all scores of a query: the softmax does not see it."""
    inputs = case.inputs(cell.io)
    other = np.asarray(case.random("other").normal(size=inputs["key.bias"].shape)).astype(cell.io.dtype)
    law = "the bias of the keys must change nothing where no key turns"
    agree(cell, case, inputs, change(inputs, **{"key.bias": other}), law)


def blind_rows_give_the_bias(cell: Cell, case: MultiHeadCase) -> None:
    """A query that sees no key in any head gives the bias of the output projection, and zeros without one, exactly."""
    inputs = case.inputs(cell.io)
    blind = ~np.any(visible(case, inputs), axis=(1, 3))  # (B, T)
    got = cell.call(case, inputs)
    bias = inputs.get("output.bias", np.zeros(case.M, got.dtype))
    cell.tally.judged += 1
    wrong = ~same_bits(got, np.broadcast_to(bias, got.shape)) & blind[..., None]
    if np.any(wrong):
        at = tuple(int(n) for n in np.argwhere(wrong)[0])
        problem = f"a query that sees no key must give {float(bias[at[-1]]):.6g}, got {float(got[at]):.6g} at {at}"
        raise cell.fail(problem, case, inputs=inputs, got=got)


def far_key_arrives(cell: Cell, case: MultiHeadCase) -> None:
    """A change of the last token reaches the first output of one layer, by as much as the formula says."""
    inputs = case.inputs(cell.io)
    x = inputs["x"].copy()
    x[:, -1] = case.poison * case.rows("poison", x[:, -1].shape, cell.io)
    changed = change(inputs, x=x)
    before, after = (cell.call(case, given) for given in (inputs, changed))
    here, want = cell.expected(case, inputs), cell.expected(case, changed)
    apart = np.abs(want.value - here.value) > want.err + here.err
    if np.any((same_bits(before, after) & apart)[:, 0]):
        raise cell.fail("a change of the last token does not reach the first output", case, inputs=changed, got=after)
    first = replace(want, free=np.arange(case.T)[:, None] > 0)
    cell.against(case, after, first, changed, "the last token must reach the first output in one layer")


def nan_propagates(cell: Cell, case: MultiHeadCase) -> None:
    """A NaN in a token reaches every output that reads it, where nothing is hidden; other batch rows keep their bound.

    In x it makes its own output NaN, and without a context all those of its batch row; in a context likewise.
    """
    inputs, d = case.inputs(cell.io), case.dims
    name = "context" if case.context and case.at % 2 else "x"
    b, t, m = case.at // 2 % d.B, case.at // 3 % inputs[name].shape[1], case.at // 5 % d.M
    poisoned = inputs[name].copy()
    poisoned[b, t, m] = np.nan
    reached = np.broadcast_to((np.arange(d.B) == b)[:, None, None], (d.B, d.T, d.M))
    if case.context and name == "x":
        reached = reached & (np.arange(d.T) == t)[:, None]
    clean = cell.expected(case, inputs)
    wanted = Expected(np.where(reached, np.nan, clean.value), np.where(reached, 0.0, clean.err))
    law = f"a NaN in {name} must reach the outputs that depend on it, and no others"
    cell.against(case, cell.call(case, change(inputs, **{name: poisoned})), wanted, inputs, law)


def remembers_nothing(cell: Cell, case: MultiHeadCase) -> None:
    """A call gives what it gives, whatever calls of the same sizes went before; and the mapping of weights stays."""
    cell.call(replace(case, seed=case.seed + 1))
    holds_as(cell, case, "MHA-STATELESS")


def mapping_intact(cell: Cell, case: MultiHeadCase) -> None:
    """After the call the mapping of weights holds the names and the arrays that it held before."""
    inputs = case.inputs(cell.io)
    backend: Any = cell.backend
    (x, weights, config), keywords = case.arguments({n: backend.asarray(a.copy()) for n, a in inputs.items()})
    before = dict(weights)
    cell.guarded(case, lambda: backend.multi_head_attention(x, weights, config, **keywords))
    cell.tally.judged += 1
    if set(weights) != set(before) or any(weights[name] is not a for name, a in before.items()):
        raise cell.fail("the call has changed the mapping of weights", case, inputs=inputs)


def shows_its_steps(cell: Cell, case: MultiHeadCase) -> None:
    """A backend that is Traced shows every step of the call by its name, and nothing under another name."""
    if not isinstance(cell.backend, Traced):
        cell.note("shows no intermediates: results are held to the first-order bound")
        return
    inputs = case.inputs(cell.io)
    _, taps = traced(cell, case, inputs)
    cell.tally.judged += 1
    wanted = {step.name for step in case.program(inputs)}
    if set(taps) != wanted:
        problem = f"the call must show {', '.join(sorted(wanted))}, got {', '.join(sorted(taps)) or 'nothing'}"
        raise cell.fail(problem, case, inputs=inputs)
