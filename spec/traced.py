"""Named intermediates: what an implementation may show of a composition, so that each step is judged by itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from gaugeblock.spec.backend import Array

X = TypeVar("X")


class Traced(ABC):
    """A backend that shows its intermediates."""

    @abstractmethod
    def traced(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, Mapping[str, Array]]:
        """Call one of the backend's own methods, and show what it computed on the way.

            result, taps = traced("block", x, weights, config)     result as block(x, weights, config) gives it

        A tap is the array that the next step reads, in the format in which it reads it; its name is one of those that
        the clause of the method lists, after the names of the layers that it lies in.
        Raises what the method raises. Clauses: MHA-TAPS, BLOCK-TAPS, MODEL-TAPS.
        """


class Recorder(Traced):
    """What records taps by name: nothing of it computes, so that backends may share it.

    A composition calls _tap on each named intermediate and enters _within for each named part.
    """

    _taps: dict[str, Array] | None = None
    _path: tuple[str, ...] = ()

    def traced(self, method: str, *args: Any, **kwargs: Any) -> tuple[Any, Mapping[str, Array]]:
        taps: dict[str, Array] = {}
        self._taps, self._path = taps, ()
        try:
            return getattr(self, method)(*args, **kwargs), taps
        finally:
            self._taps, self._path = None, ()

    def _tap(self, name: str, x: X) -> X:
        """x, noted under its name if anybody asked."""
        if self._taps is not None:
            self._taps[".".join((*self._path, name))] = x
        return x

    @contextmanager
    def _within(self, *names: str) -> Iterator[None]:
        """Names that are noted inside lie below these."""
        outer = self._path
        self._path = (*outer, *names)
        try:
            yield
        finally:
            self._path = outer
