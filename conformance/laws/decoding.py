"""The laws of decoding with a cache: steps give what all columns together would, whatever became of the cache."""

from typing import Any

import numpy as np

from gaugeblock.conformance.cell import REPEATS, Cell
from gaugeblock.conformance.laws import whole_number
from gaugeblock.conformance.laws.decoding_driver import Session
from gaugeblock.conformance.refusals import stands_for
from gaugeblock.conformance.strategies.decoding import DecodeCase, Op
from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.cache import cache_bytes
from gaugeblock.spec.errors import CacheError, CapacityError, GaugeblockError, PositionError
from gaugeblock.spec.traced import Traced


def follows(cell: Cell, case: DecodeCase, clause: str = "MODEL-CACHED") -> None:
    """Make the calls of the script; every step is judged as all columns together would be."""
    Session(cell, case, clause).follow()


def same_when_traced(cell: Cell, case: DecodeCase) -> None:
    """Steps that are traced give the bits of those that are not; without tracing there is nothing to compare."""
    if not isinstance(cell.backend, Traced):
        cell.note("shows no intermediates: steps are held to the first-order bound")
        return
    shown, plain = Session(cell, case, whole=False), Session(cell, case, plain=True)
    for op in case.script():
        first, second = shown.step(op), plain.step(op)
        _same_bits(cell, case, shown, first, second, "a step gives another result when it is traced")


def forgets(cell: Cell, case: DecodeCase) -> None:
    """Truncated columns never were: the same steps without them give the same bits.

    Only where the capacity is fixed: a cache that has grown may be read in other portions.
    """
    fixed = cell.backend.conventions.capacity == "fixed"
    long, short = (Session(cell, case, "MODEL-TRUNCATE", plain=True) for _ in range(2))
    for op in case.script():
        if op.kind == "s" and op.number == 1:
            long.step(op)
            continue  # the columns that will be cut
        if op.kind == "t":
            long.take(op)
            continue
        first, second = long.step(op), short.step(op)
        if fixed:
            _same_bits(cell, case, long, first, second, "columns that were truncated must not matter")
    long.finish()


def keeps_apart(cell: Cell, case: DecodeCase) -> None:
    """What becomes of a fork does not show in the other: the same steps without a fork give the same bits."""
    forked, alone = (Session(cell, case, "MODEL-FORK", plain=True) for _ in range(2))
    backend: Any = cell.backend
    for op in case.script():
        if op.kind == "f":
            copy = forked.ask(lambda: backend.fork(forked.cache))
            forked.others.append((copy, forked.history))
            poison = Op("s", op.number + 100, 1)
            forked.take(Op("w", 0))
            forked.step(poison)
            forked.take(Op("w", 0))
            continue
        first, second = forked.step(op), alone.step(op)
        _same_bits(cell, case, forked, first, second, "what a fork is given must not show in the other cache")


def refuses_overflow(cell: Cell, case: DecodeCase) -> None:
    """A step beyond the capacity gives no numbers, and changes nothing; or is taken, as declared."""
    grows = cell.backend.conventions.capacity == "grows"
    session = Session(cell, case, "MODEL-STEP-ATOMIC", whole=False)
    for op in case.script():
        room = case.capacity - session.history.ids.shape[1]
        if op.kind == "x" and grows:
            cell.note("the capacity is declared to grow: nothing overflows")
            if case.positions != "learned":  # whose table does not
                session.step(Op("s", op.number + 100, max(room, 0) + 1))
        elif op.kind == "x":
            _refused(session, case.chunk(Op("s", op.number, room + 1), len(session.history.ids))[0], CapacityError)
        else:
            session.take(op)
    session.finish()


def refuses_ids(cell: Cell, case: DecodeCase) -> None:
    """A step with an id that the vocabulary has not is refused where the ids are on the host, and changes nothing."""
    session = Session(cell, case, "MODEL-STEP-ATOMIC", whole=False)
    if cell.backend.conventions.out_of_range != "raises":
        cell.note(f"ids out of range: {cell.backend.conventions.out_of_range}, as declared")
        session.follow()
        return
    for op in case.script():
        if op.kind == "i":
            ids = case.chunk(Op("s", op.number, 1), len(session.history.ids))[0].copy()
            ids[-1, -1] = case.V if op.number % 2 else -1
            _refused(session, ids, PositionError)
        else:
            session.take(op)
    session.finish()


def refuses_consumed(cell: Cell, case: DecodeCase) -> None:
    """A cache that a call has taken raises, and the one that the call returned does not notice; or as declared."""
    rule = cell.backend.conventions.consumed_cache
    session = Session(cell, case, "MODEL-CONSUMED", whole=False)
    for op in case.script():
        before, history = session.cache, session.history
        if op.kind == "x":
            continue
        session.take(op)
        if op.kind in "sl" and rule == "valid":
            session.others.append((before, history))
            session.take(Op("w", 0))
            session.step(Op("s", op.number + 100, 1))
            session.take(Op("w", 0))
        if op.kind in "sl" and rule == "raises":
            ids = case.chunk(Op("s", op.number, 1), len(session.history.ids))[0]
            _refused(session, ids, CacheError, before)
    if rule != "raises":
        cell.note(f"consumed_cache: {rule}, as declared")
    session.finish()


def counts_bytes(cell: Cell, case: DecodeCase) -> None:
    """The cache takes up at least what the keys and values in it need; a window may let it forget some of them."""
    session = Session(cell, case, whole=False)
    backend: Any = cell.backend
    for op in case.script():
        session.take(op)
        B, length = session.history.ids.shape
        if case.window is not None:
            continue
        widths = {"kv_heads": case.K, "key_width": case.D, "value_width": case.E}
        least = cache_bytes(layers=case.L, batch=B, length=length, dtype=cell.dtype, **widths)
        told = session.ask(lambda: backend.cache_nbytes(session.cache))
        got = whole_number(cell, case, "cache_nbytes", told, "CACHE-BYTES")
        cell.tally.judged += 1
        if got < least:
            raise cell.fail(f"cache_nbytes must be at least {least}, got {got}", case, clause="CACHE-BYTES")
    session.finish()


def _refused(session: Session, ids: Numpy, error: type[GaugeblockError], cache: Any = None) -> None:
    """A step with these ids must raise; the cache is what it was, which the next step shows."""
    cell, case, backend = session.cell, session.case, session.cell.backend
    cell.tally.judged += 1
    try:
        given: Any = backend
        result, _ = given.step(session.model, backend.asarray(ids), session.cache if cache is None else cache)
        backend.asnumpy(result)
    except Exception as raised:
        if not stands_for(cell, raised, error):
            cell.note(f"a step raises {type(raised).__name__}, should be {error.__name__}")
        return
    problem = f"a step that must be refused ({error.__name__}) was not"
    raise cell.fail(problem, case, inputs=session.inputs)


def _same_bits(cell: Cell, case: DecodeCase, session: Session, first: Numpy, second: Numpy, law: str) -> None:
    """Two results of the same calls; where the backend does not repeat itself, other checks judge its steps."""
    cell.tally.judged += 1
    real = session.history.real[:, -first.shape[1] :, None]
    if np.all(same_bits(first, second) | ~real):
        return
    again = _repeated(cell, case)
    if not again:
        cell.tally.nondeterministic += 1
        return
    raise cell.fail(law, case, inputs=session.inputs)


def _repeated(cell: Cell, case: DecodeCase) -> bool:
    """Whether the first step of a script gives the same bits when it is made again."""
    first = next(op for op in case.script() if op.kind == "s")
    runs = [Session(cell, case, plain=True).step(first) for _ in range(REPEATS)]
    return all(bool(np.all(same_bits(runs[0], run))) for run in runs[1:])
