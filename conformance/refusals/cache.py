"""Malformed calls of the key/value cache, and the smallest scripts that use one of its features."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.refusals import Malformed, declared, offers
from gaugeblock.conformance.strategies.cache import CacheCase
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError

STARTED = CacheCase(L=2, B=2, K=2, N=4, D=3, E=3, ops="a2")
PLAIN = CacheCase(L=2, B=2, K=1, N=4, D=3, E=3, ops="a2,o")


@dataclass(frozen=True)
class MalformedCache(Malformed):
    """A malformed call of a cache that holds two of its four tokens; method, positional and keywords come behind it."""

    def raised(self, cell: Cell) -> Exception | None:
        """What the backend raises for the call."""
        cache = cell.guarded(STARTED, lambda: started(cell))
        try:
            self.make(cell, cache)
        except Exception as error:
            return error
        return None

    def make(self, cell: Cell, cache: Any) -> None:
        """Make the call of a cache, and look at what it gives."""
        placed = [cell.backend.asarray(x.copy()) if hasattr(x, "dtype") else x for x in self.positional]
        given = getattr(cell.backend, self.method)(cache, *placed, **self.keywords)
        if self.method == "read":
            for array in given:
                cell.backend.asnumpy(array)


def started(cell: Cell) -> Any:
    """A cache of two layers, both of which hold two tokens."""
    backend: Any = cell.backend
    cache = backend.init_cache(**STARTED.made(cell.dtype))
    for layer in range(STARTED.L):
        k, v = STARTED.chunk(1, layer, STARTED.B, 2, cell.io)
        cache = backend.append(cache, layer, backend.asarray(k), backend.asarray(v))
    return cache


def calls(cell: Cell) -> Iterator[MalformedCache]:
    """Every malformed call of a cache, but for tokens beyond its capacity."""
    yield from _appends(cell)
    for layer in (STARTED.L, -1):
        k, v = _tokens(cell)
        yield _call(ConfigError, f"layer is {layer} of {STARTED.L}", "append", layer, k, v)
        yield _call(ConfigError, f"layer is {layer} of {STARTED.L}", "read", layer)
    if offers(cell, "truncate"):
        for length in (3, -1):
            yield _call(ConfigError, f"a cache of length 2 is cut to {length}", "truncate", length)
    if offers(cell, "reorder"):
        yield from _reorders(cell)


def _appends(cell: Cell) -> Iterator[MalformedCache]:
    k, v = _tokens(cell)
    wider = np.concatenate([k, k], axis=-1)
    for name, wrong in (
        ("the batch", np.repeat(k[:1], 3, axis=0)),
        ("one row for a batch", k[:1]),
        ("one head for all heads", k[:, :1]),
        ("the heads", np.repeat(k, 2, axis=1)),
        ("one component for the width", k[..., :1]),
        ("the width", wider),
    ):
        yield _call(ShapeError, f"k: {name}", "append", 0, wrong, v)
        yield _call(ShapeError, f"v: {name}", "append", 0, k, wrong)
    yield _call(ShapeError, "k has one token, v two", "append", 0, k[:, :, :1], v)
    yield _call(ShapeError, "v has one token, k two", "append", 0, k, v[:, :, :1])
    yield _call(ShapeError, "k has rank 3", "append", 0, k[0], v, must=False)
    yield _call(ShapeError, "v has rank 5", "append", 0, k, v[None], must=False)
    other = np.float32 if cell.dtype == "float16" else np.float16
    yield _call(DTypeError, "k has another dtype", "append", 0, k.astype(other), v, must=False)
    yield _call(DTypeError, "v has another dtype", "append", 0, k, v.astype(other), must=False)


def _reorders(cell: Cell) -> Iterator[MalformedCache]:
    if cell.backend.conventions.out_of_range == "raises":
        for row in (STARTED.B, -1, 2**31 - 1):
            yield _call(PositionError, f"a row is {row} of {STARTED.B}", "reorder", np.array([0, row]))
    yield _call(ShapeError, "rows have rank 2", "reorder", np.zeros((2, 1), np.int64), must=False)
    yield _call(ShapeError, "rows have rank 0", "reorder", np.asarray(1), must=False)
    yield _call(DTypeError, "rows are no integers", "reorder", np.array([0.0, 1.0]), must=False)


def sizes(cell: Cell) -> Iterator[Malformed]:
    """Caches that cannot be."""
    for name, low in {"layers": 1, "batch": 0, "kv_heads": 1, "capacity": 0, "key_width": 1, "value_width": 1}.items():
        keywords = {**STARTED.made(cell.dtype), name: low - 1}
        yield MalformedInit(f"{name} is {low - 1}", ConfigError, "init_cache", (), keywords, False)
    keywords = {**STARTED.made(cell.dtype), "dtype": "float12"}
    yield MalformedInit("dtype is unknown", DTypeError, "init_cache", (), keywords, False)


class MalformedInit(Malformed):
    """An init_cache that has no meaning."""

    def raised(self, cell: Cell) -> Exception | None:
        """What the backend raises for the call."""
        try:
            getattr(cell.backend, self.method)(**self.keywords)
        except Exception as error:
            return error
        return None


def using(cell: Cell, feature: str) -> CacheCase:
    """A small script that uses a feature, and otherwise only what the backend offers."""
    changed: dict[str, dict[str, Any]] = {
        "value_width": {"E": 2},
        "layers.apart": {"ops": "a2@1,a1@0,o"},
        "reorder": {"ops": "a2,r1.0,o"},
        "reorder.repeat": {"ops": "a2,r1.1.0,o"},
        "truncate": {"ops": "a2,t1,a2,o"},
        "fork": {"ops": "a2,f,a1,s,o"},
        "capacity.zero": {"N": 0, "ops": "o"},
        "empty.batch": {"B": 0, "ops": "a2,o"},
        "empty.tokens": {"ops": "a0,a2"},
    }
    case = replace(PLAIN, **changed[feature])
    for option in declared(cell):
        if option != feature and option in case.used() and not feature.startswith(f"{option}."):
            case = case.without(option)
    return case


def _tokens(cell: Cell) -> tuple[Any, Any]:
    return STARTED.chunk(2, 0, STARTED.B, 2, cell.io)


def _call(
    error: type[GaugeblockError], problem: str, method: str, *positional: Any, must: bool = True
) -> MalformedCache:
    return MalformedCache(problem, error, method, positional, {}, must)
