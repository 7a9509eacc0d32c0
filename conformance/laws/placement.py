"""The laws of dry runs: no array has a value, none lies elsewhere, and nothing is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.strategies.decoding import DecodeCase, memory_of
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.errors import PlacementError


def stays(cell: Cell, case: ModelCase) -> None:
    """Encode, or score, dry."""
    with _dry(cell, case) as dry:
        arrays = {name: dry.asarray(x.copy()) for name, x in case.inputs(cell.io).items()}
        method, first, keywords = case.prepared(dry, arrays)
        getattr(dry, method)(*first, **keywords, **case.asked(cell.io))
        cell.tally.judged += 1


def stays_while_it_decodes(cell: Cell, case: DecodeCase) -> None:
    """Make the calls of a script dry."""
    with _dry(cell, case) as dry:
        _decode(cell, case, dry)
        cell.tally.judged += 1


def has_no_values(cell: Cell, case: DecodeCase) -> None:
    """What a dry step gives cannot be read; its cache counts as any other."""
    with _dry(cell, case) as dry:
        scores, cache, length = _decode(cell, case, dry)
        cell.tally.judged += 1
        if (held := dry.cache_length(cache)) != length:
            raise cell.fail(f"the cache of a dry run must hold {length} columns, got {held}", case, clause="MODEL-DRY")
        try:
            dry.asnumpy(scores)
        except Exception:  # whatever says that there is nothing to be read
            return
        raise cell.fail("asnumpy of what a dry step gives must raise, got values", case, clause="MODEL-DRY")


def _decode(cell: Cell, case: DecodeCase, dry: Any) -> tuple[Any, Any, int]:
    """The last scores, the cache and its length, after the calls of the script that a cache takes."""
    arrays = {name: dry.asarray(x.copy()) for name, x in case.inputs(cell.io).items()}
    model = case.loaded(dry, arrays)
    cache, scores, B, length = dry.start(model, case.B, case.capacity, **memory_of(arrays)), None, case.B, 0
    others: list[tuple[Any, int, int]] = []
    for op in case.script():
        if op.kind in "sl":
            ids, real = case.chunk(op, B)
            keywords = {} if real is None else {"token_mask": dry.asarray(real)}
            if op.kind == "l":
                keywords["last_only"] = True
            scores, cache = dry.step(model, dry.asarray(ids), cache, **keywords)
            length += op.n
        elif op.kind == "r":
            cache, B = dry.reorder(cache, dry.asarray(np.array(op.rows, np.int64))), len(op.rows)
        elif op.kind == "t":
            cache, length = dry.truncate(cache, op.n), op.n
        elif op.kind == "f":
            others.append((cache, B, length))
            cache = dry.fork(cache)
        elif op.kind == "w":
            (cache, B, length), others[-1] = others[-1], (cache, B, length)
    return scores, cache, length


@contextmanager
def _dry(cell: Cell, case: Case) -> Iterator[Any]:
    """A dry run of the backend's, whose refusal to go on is what the clause forbids."""
    backend: Any = cell.backend
    try:
        with backend.dry() as dry:
            yield dry
    except PlacementError as misplaced:
        raise cell.fail(str(misplaced), case, clause="MODEL-PLACEMENT") from misplaced
    except Nonconformance:
        raise
    except Exception as cause:
        raise BackendRaised(case, cause) from cause
