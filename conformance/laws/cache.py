"""The laws of the key/value cache. All are exact: a cache moves bits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws import whole_number
from gaugeblock.conformance.laws.cache_driver import Driver, Plain
from gaugeblock.conformance.refusals import offers, stands_for
from gaugeblock.conformance.refusals.cache import STARTED, MalformedCache
from gaugeblock.conformance.strategies.cache import POOL, CacheCase, Step
from gaugeblock.spec.cache import cache_bytes
from gaugeblock.spec.errors import CacheError

LAW = "a layer must hold what was put into it, bit for bit"


def follows(cell: Cell, case: CacheCase, law: str = LAW) -> None:
    """Make the calls of the script; what is read must be what a plain list of tokens would hold."""
    driver = Driver(cell, case, law)
    driver.follow(case.steps())
    driver.finish()


def overflows(cell: Cell, case: CacheCase) -> None:
    """Tokens beyond the capacity are refused, the cache stays as it was, and what room there is can still be used."""
    driver = Driver(cell, case, LAW)
    driver.follow(case.steps())
    room = case.N - driver.plain.length
    layers = tuple(range(case.L))
    if cell.backend.conventions.capacity == "grows":
        driver.follow([Step("a", driver.plain.B, layers=layers, T=room + 1 + case.at % 3)])
    else:
        _, placed = driver.tokens(case.at % case.L, room + 1 + case.at // 8 % 3)
        cell.tally.judged += 1
        backend: Any = cell.backend
        if raised(partial(backend.append, driver.cache, case.at % case.L, *placed)) is None:
            problem = f"{room + 1 + case.at // 8 % 3} tokens were taken where there is room for {room}"
            raise cell.fail(problem, case)
        driver.read("an append that is refused must change nothing")
        if room:
            driver.follow([Step("a", driver.plain.B, layers=layers, T=room)])
    driver.finish()


def consumed(cell: Cell, case: CacheCase) -> None:
    """After a call has taken a cache it raises, and the one that the call returned does not notice; or as declared."""
    rule = cell.backend.conventions.consumed_cache
    if rule == "undefined":
        cell.note('consumed_cache is declared "undefined": a consumed cache is not tried')
        follows(cell, case)
        return
    driver = Driver(cell, case, "a call of a consumed cache must change nothing")
    for step in _one_by_one(case.steps()):
        before, plain = driver.cache, driver.plain.fork()
        driver.step(step)
        if step.kind not in "art":
            continue
        if rule == "valid":
            driver.others.append((before, plain))
        else:
            _refused(cell, case, driver, before, plain)
    driver.finish()
    if rule == "valid":
        _branches(driver)


def _one_by_one(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, with an append to several layers as several steps."""
    for step in steps:
        if step.kind == "a":
            yield from (step._replace(layers=(layer,)) for layer in step.layers)
        else:
            yield step


def _refused(cell: Cell, case: CacheCase, driver: Driver, cache: Any, plain: Plain) -> None:
    live, driver.plain = driver.plain, plain
    for name, call in _calls(cell, driver, cache):
        cell.tally.judged += 1
        error = raised(call)
        if error is None:
            raise cell.fail(f"{name} of a consumed cache was not refused", case)
        if not stands_for(cell, error, CacheError):
            cell.note(f"{name} of a consumed cache: {type(error).__name__}, should be CacheError")
    driver.plain = live


def _calls(cell: Cell, driver: Driver, cache: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every call of a cache that the backend offers, with sizes that would do for a live one."""
    backend: Any = cell.backend
    plain = driver.plain
    layer = driver.case.at % driver.case.L
    room = driver.case.N - plain.keys[layer].shape[2]
    if room:
        yield "append", partial(backend.append, cache, layer, *driver.tokens(layer, 1)[1])
    yield "read", partial(backend.read, cache, layer)
    if offers(cell, "reorder"):
        yield "reorder", partial(backend.reorder, cache, driver.rows(range(plain.B)))
    if offers(cell, "truncate"):
        yield "truncate", partial(backend.truncate, cache, 0)
    if offers(cell, "fork"):
        yield "fork", partial(backend.fork, cache)
    yield "cache_nbytes", partial(backend.cache_nbytes, cache)
    yield "cache_length", partial(backend.cache_length, cache)


def raised(call: Callable[[], Any]) -> Exception | None:
    """What a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def _branches(driver: Driver) -> None:
    """Where a consumed cache stays valid, it can be gone on with, and no other cache notices."""
    layers = tuple(range(driver.case.L))
    for cache, plain in driver.others:
        lengths = {k.shape[2] for k in plain.keys}
        if len(lengths) == 1 and plain.length < driver.case.N:
            driver.cache, driver.plain = cache, plain.fork()
            driver.step(Step("a", plain.B, layers=layers, T=1))
            driver.read()
    driver.finish()


def intact_after(cell: Cell, calls: Iterable[MalformedCache]) -> None:
    """A call that raises consumes nothing and changes nothing: the cache reads as before, and goes on as before."""
    for call in calls:
        driver = Driver(cell, STARTED, f"{call.problem}: a call that raises must change nothing")
        driver.follow(STARTED.steps())
        if raised(partial(call.make, cell, driver.cache)) is not None:
            driver.read()
            driver.follow(tuple(STARTED.steps())[:1])
        driver.finish()


def bytes_at_least(cell: Cell, case: CacheCase) -> None:
    """The bytes are at least those of the tokens that are held; a cache of fixed capacity has those of its capacity."""
    driver = Driver(cell, case, LAW)
    driver.follow(case.steps())
    got = whole_number(cell, case, "cache_nbytes", driver.ask("cache_nbytes", driver.cache), "CACHE-BYTES")
    least, full = (
        cache_bytes(
            layers=case.L,
            batch=driver.plain.B,
            kv_heads=case.K,
            length=length,
            key_width=case.D,
            value_width=case.E,
            dtype=cell.dtype,
        )
        for length in (driver.plain.length, case.N)
    )
    cell.tally.judged += 1
    if got < least:
        held = f"{case.L} layers of {driver.plain.B} x {case.K} x {driver.plain.length} x ({case.D} + {case.E})"
        raise cell.fail(f"cache_nbytes must be at least {least}, got {got}: {held} numbers in {cell.dtype}", case)
    if cell.backend.conventions.capacity == "fixed" and got != full:
        cell.note(f"cache_nbytes is {got}, where the capacity takes {full}")


def separate(cell: Cell, case: CacheCase) -> None:
    """Caches that were made one after another, of the same or other sizes and dtypes, know nothing of each other."""
    other = POOL[case.at % len(POOL)]
    cases = [case, replace(case, seed=case.seed + 1), cell.fit(replace(case, **other._asdict()))]
    drivers = [Driver(cell, one, "caches made one after another must share nothing") for one in cases]
    for dtype in sorted(cell.backend.dtypes - {cell.dtype}):
        neighbour = Cell(cell.backend, cell.component, dtype, cell.needs, cell.offer)
        drivers.append(Driver(neighbour, neighbour.fit(case), "caches of other dtypes must share nothing"))
    for round in zip_longest(*(tuple(one.case.steps()) for one in drivers)):
        for driver, step in zip(drivers, round, strict=True):
            driver.follow([step] if step else [])
    for driver in drivers:
        driver.finish()
