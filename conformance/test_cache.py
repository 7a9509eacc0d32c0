"""The checks of the key/value cache: what is read must be what was put in, whatever was called in between."""

from functools import partial
from typing import TypeAlias

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import checks
from gaugeblock.conformance.laws.cache import bytes_at_least, consumed, follows, intact_after, overflows, separate
from gaugeblock.conformance.recipes.cache import (
    APART,
    APPENDS,
    CHUNKS,
    EMPTY_TOKENS,
    FORKS,
    HANDED_OUT,
    NO_TOKENS,
    OVERWRITTEN,
    REORDERED_FORKS,
    REORDERS,
    REPEATS,
    TRUNCATIONS,
)
from gaugeblock.conformance.refusals import named, refused, unsupported
from gaugeblock.conformance.refusals.cache import calls, sizes, using
from gaugeblock.conformance.strategies.cache import POOL, CacheCase, cases, machines
from gaugeblock.spec.cache import Dims

Case: TypeAlias = CacheCase

BATCHED = [d for d in POOL if d.B > 1]
WIDER_VALUES_FIRST = sorted(POOL, key=lambda d: d.D >= d.E)
DEEP = [d for d in POOL if d.L > 1]
HEADS = [d for d in POOL if d.K > 1]
UNEVEN = [d for d in POOL if d.D != d.E]
NO_ROOM = [Dims(1, 1, 1, 0, 2, 2), Dims(2, 2, 1, 0, 3, 2)]
NO_ROWS = [Dims(1, 0, 1, 4, 2, 2), Dims(2, 0, 1, 4, 3, 2)]

cache = partial(checks, component="cache", offer="kv_cache", case_type=CacheCase)


@cache("CACHE-APPEND", "CACHE-SHAPES", "CACHE-DTYPE", cases=partial(cases, ops=APPENDS))
def test_appended_tokens_are_read(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-CHUNKS", cases=partial(cases, ops=CHUNKS))
def test_appends_follow_one_another(cell: Cell, case: Case) -> None:
    follows(cell, case, "several appends must give what one append of all the tokens gives")


@cache(
    "CACHE-APPEND",
    "CACHE-SHAPES",
    needs=("value_width",),
    cases=partial(cases, ops=CHUNKS, sizes=UNEVEN),
    effort=0.5,
)
def test_cached_values_of_another_width(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-LAYERS", needs=("layers.apart",), cases=partial(cases, ops=APART, sizes=DEEP), effort=0.5)
def test_layers_know_nothing_of_each_other(cell: Cell, case: Case) -> None:
    follows(cell, case, "an append to one layer must change no other")


@cache("CACHE-LENGTH", cases=partial(cases, ops=(*CHUNKS, *NO_TOKENS[:1])), effort=0.5)
def test_length_is_what_every_layer_holds(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-STRIDES", cases=partial(cases, ops=CHUNKS[1:], sizes=HEADS, layout=("strided",)), effort=0.5)
def test_appended_views(cell: Cell, case: Case) -> None:
    follows(cell, case, "what is stored must be what the view holds, however it lies in memory")


@cache("CACHE-NONFINITE", cases=partial(cases, ops=CHUNKS, values=("nonfinite",)), effort=0.5)
def test_nan_and_inf_are_stored(cell: Cell, case: Case) -> None:
    follows(cell, case, "NaN and inf must be where they were put, and nowhere else")


@cache("CACHE-CAPACITY", cases=partial(cases, ops=("", "a2", "a9", "a1,a1")), effort=0.7)
def test_tokens_beyond_the_capacity(cell: Cell, case: Case) -> None:
    overflows(cell, case)


@cache("CACHE-CONSUMED", cases=partial(cases, ops=("a1", "a2,a1", "a1,r1.0,t1,a1", "a2,t1,r2.0.1")), effort=0.5)
def test_consumed_kv_cache(cell: Cell, case: Case) -> None:
    consumed(cell, case)


@cache("CACHE-HANDED-OUT", cases=partial(cases, ops=HANDED_OUT))
def test_handed_out_arrays_never_change(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-INPUTS-INTACT", cases=partial(cases, ops=(*CHUNKS, *HANDED_OUT, *REORDERS)), effort=0.5)
def test_no_call_writes_to_what_was_passed_in(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-REORDER", needs=("reorder",), cases=partial(cases, ops=REORDERS, sizes=BATCHED))
def test_reordered_cache_rows(cell: Cell, case: Case) -> None:
    follows(cell, case, "a reordered cache must be that of the reordered rows")


@cache("CACHE-REORDER-ROWS", needs=("reorder", "reorder.repeat"), cases=partial(cases, ops=REPEATS))
def test_any_number_of_rows(cell: Cell, case: Case) -> None:
    follows(cell, case, "row i must be what row rows[i] was, and go its own way from then on")


@cache(
    "CACHE-REORDER-ROWS",
    needs=("reorder", "reorder.repeat", "empty.batch"),
    cases=partial(cases, ops=("a2,r", "a1,r,a1"), sizes=POOL[:2]),
    effort=0.2,
)
def test_reordered_to_no_rows(cell: Cell, case: Case) -> None:
    follows(cell, case, "no rows must leave no rows")


@cache("CACHE-TRUNCATE", needs=("truncate",), cases=partial(cases, ops=TRUNCATIONS))
def test_truncated_tokens_were_never_there(cell: Cell, case: Case) -> None:
    follows(cell, case, "tokens that were cut off must leave no trace")


@cache("CACHE-STALE", needs=("truncate",), cases=partial(cases, ops=OVERWRITTEN, values=("huge", "magnitudes")))
def test_stale_slots_never_matter(cell: Cell, case: Case) -> None:
    follows(cell, case, "what a slot held before must not show in what is written there")


@cache("CACHE-FORK", needs=("fork",), cases=partial(cases, ops=FORKS))
def test_forks_go_their_own_ways(cell: Cell, case: Case) -> None:
    follows(cell, case, "a cache and its fork must not see one another's later tokens")


@cache("CACHE-FORK", needs=("fork", "reorder"), cases=partial(cases, ops=REORDERED_FORKS, sizes=BATCHED), effort=0.5)
def test_forks_are_reordered_apart(cell: Cell, case: Case) -> None:
    follows(cell, case, "a reorder must not reach the cache's fork")


@cache("CACHE-BYTES", cases=partial(cases, ops=("a9", "a3", "a1,a1", ""), sizes=WIDER_VALUES_FIRST), effort=0.5)
def test_bytes(cell: Cell, case: Case) -> None:
    bytes_at_least(cell, case)


@cache("CACHE-STATELESS", cases=partial(cases, ops=CHUNKS), effort=0.3)
def test_caches_share_nothing(cell: Cell, case: Case) -> None:
    separate(cell, case)


@cache("CACHE-EMPTY", needs=("empty.tokens",), cases=partial(cases, ops=EMPTY_TOKENS), effort=0.3)
def test_no_new_tokens(cell: Cell, case: Case) -> None:
    follows(cell, case, "an append of no tokens must change nothing")


@cache("CACHE-EMPTY", cases=partial(cases, ops=NO_TOKENS), effort=0.2)
def test_no_tokens_at_all(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-EMPTY", needs=("capacity.zero",), cases=partial(cases, ops=("o", "a1,o"), sizes=NO_ROOM), effort=0.2)
def test_no_room(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-EMPTY", needs=("empty.batch",), cases=partial(cases, ops=CHUNKS, sizes=NO_ROWS), effort=0.2)
def test_no_rows(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache(
    "CACHE-APPEND",
    "CACHE-CHUNKS",
    "CACHE-REORDER",
    "CACHE-TRUNCATE",
    "CACHE-FORK",
    cases=machines,
    effort=2,
)
def test_any_calls_in_any_order(cell: Cell, case: Case) -> None:
    follows(cell, case)


@cache("CACHE-REFUSES")
def test_malformed_cache_calls_are_refused(cell: Cell) -> None:
    refused(cell, calls(cell))


@cache("CACHE-ATOMIC")
def test_a_call_that_raises_changes_nothing(cell: Cell) -> None:
    intact_after(cell, calls(cell))


@cache("CACHE-ERRORS")
def test_cache_refusals_name_the_error(cell: Cell) -> None:
    named(cell, calls(cell))
    named(cell, sizes(cell))


@cache("CACHE-UNSUPPORTED")
def test_unsupported_cache_options_are_refused(cell: Cell) -> None:
    unsupported(cell, using, follows)
