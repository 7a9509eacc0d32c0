"""Placement: what a backend offers that can say, without a device, whether its code would stay on one (source 8)."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any


class Placement(ABC):
    """A backend that can be run dry: on arrays that have a shape, a dtype and a place, but no values."""

    @abstractmethod
    def dry(self) -> AbstractContextManager[Any]:
        """The same backend, whose own code it runs, on arrays without values; for as long as the context lasts.

            with backend.dry() as dry:
                cache = dry.start(dry.load({name: dry.asarray(w) for name, w in weights.items()}, config), 1, 8)

        dry has the methods of the backend; they take only what came from dry. Its asarray keeps the shape and the
        dtype of an array and forgets the rest. Lengths and other numbers that follow from shapes are as ever.
        Raises PlacementError, in whatever call of dry this happens, where a value is read, also by asnumpy; where
        the host is called back; and where an array is made or taken that does not lie with those of dry.
        Clauses: MODEL-DRY, MODEL-PLACEMENT.
        """
