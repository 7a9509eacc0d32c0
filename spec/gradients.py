"""Gradients: what a backend offers whose framework differentiates its methods (source 2.2, 6.1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from gaugeblock.spec.backend import Array

Primal: TypeAlias = Array | Mapping[str, Array]
Pullback: TypeAlias = Callable[[Array], tuple[Primal, ...]]


class Gradients(ABC):
    """A backend that differentiates what its own methods compute, in reverse."""

    @abstractmethod
    def vjp(self, function: Callable[..., Array], *primals: Primal) -> tuple[Array, Pullback]:
        """The value of a function and its pullback, which turns a cotangent into the gradient of each primal.

            value = function(*primals);   pullback(dy)[n] = dy^T d value / d primals[n]

        primals are float arrays, or mappings of names to float arrays; function calls methods of this backend on them
        and gives one float array. dy has the value's shape and dtype, each gradient the shape and dtype of its primal,
        a mapping the same names. A primal on which the value does not depend has the gradient zero. The pullback may
        be called any number of times, each time with the same result for the same cotangent.
        Raises what the function raises. Clauses: those whose ids contain GRADIENT, where the backend offers the
        component. Source: Griewank and Walther 2008, section 3.2 (reverse mode).
        """
