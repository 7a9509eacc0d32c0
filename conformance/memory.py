"""What is the same for every implementation, kept while many of them are tried: examples, and what the reference gives.

Nothing is kept unless it is asked for, by `with remembering():` or, in a process of a pool, by `remember()`.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

PLAIN = (str, int, float, frozenset, Enum, np.generic, np.dtype, type(None))  # whose repr tells all
EQUAL = (str, int, bool, type(None))  # of which those that are equal are the same
MOST = 20_000  # results; what was used longest ago goes first

Results = OrderedDict[Hashable, Any]

_results: ContextVar[Results | None] = ContextVar("results", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Keep what recall is asked for until the end of the block, or of the one around it."""
    token = _results.set(OrderedDict() if _results.get() is None else _results.get())
    try:
        yield
    finally:
        _results.reset(token)


def remember() -> None:
    """Keep what recall is asked for as long as this process lives."""
    _results.set(OrderedDict())


def recall(make: Callable[[], T], *of: Any) -> T:
    """What make gives; the same again, where it is kept, for the same arguments: numbers, texts, arrays, cases.

    make must depend on nothing else, and nobody may write to what it gives.
    Raises TypeError, where something is kept, for an argument of another kind.
    """
    results = _results.get()
    if results is None:
        return make()
    key = tuple(_key(x) for x in of)
    if key not in results:
        results[key] = make()
        if len(results) > MOST:
            results.popitem(last=False)
    results.move_to_end(key)
    made: T = results[key]
    return made


def _key(x: Any) -> Hashable:
    return _way(type(x))(x)  # type: ignore[arg-type]  # classes are hashable


@cache
def _way(kind: type) -> Callable[[Any], Hashable]:
    """How those of a kind are known; it is asked for so often that each kind is looked at but once."""
    if issubclass(kind, Mapping):
        return lambda x: tuple((name, _key(value)) for name, value in x.items())
    if issubclass(kind, np.ndarray):
        return lambda x: (x.dtype.name, x.shape, x.strides, blake2b(x.tobytes(), digest_size=16).digest())
    if issubclass(kind, tuple | list):
        return lambda x: (kind, *map(_key, x))
    if is_dataclass(kind):
        names = [f.name for f in fields(kind)]
        return lambda x: (kind, *(_key(getattr(x, name)) for name in names))
    if not issubclass(kind, PLAIN):
        raise TypeError(f"recall: nothing is known by {kind.__name__}")
    # equal values are not always the same: 0.0 and -0.0, 1 and True
    return (lambda x: (kind, x)) if kind in EQUAL else lambda x: (kind, repr(x))
