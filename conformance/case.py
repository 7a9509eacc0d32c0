"""A case: one call, written on one line from which its arrays can be made again, bit for bit."""

from abc import ABC, abstractmethod
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from math import isfinite
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

import numpy as np

from gaugeblock.conformance.memory import recall
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import EXACT, Contract, Format
from gaugeblock.spec.reference.bounded import Expected

Inputs = Mapping[str, Numpy]


@dataclass(frozen=True, kw_only=True)
class Case(ABC):
    """Sizes, options, recipes and a seed; a subclass for each component says what they mean."""

    component: ClassVar[str]
    method: ClassVar[str]
    positional: ClassVar[tuple[str, ...]]
    shape_clause: ClassVar[str]
    dtype_clause: ClassVar[str]
    empty_row_clause: ClassVar[str] = ""
    sizes: ClassVar[tuple[str, ...]] = ()
    conventional: ClassVar[bool] = True  # whether a convention can change what is expected

    seed: int = 0

    @abstractmethod
    def inputs(self, io: Format) -> Inputs:
        """The arrays of the call, by parameter name, rounded to the format; the same for the same case."""

    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """The scalar keywords of the call that are not at their default."""

    @property
    def called(self) -> str:
        """The backend's method that the case calls; a case of several methods says which one."""
        return self.method

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the keyword arguments of the call; a positional array that the case has not is None."""
        first = [arrays.get(name) for name in self.positional]
        keywords = {name: x for name, x in arrays.items() if name not in self.positional}
        return first, {**keywords, **self.options()}

    def prepared(self, backend: Backend, arrays: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
        """The backend's method and its arguments; a case that has something to build first does it here."""
        first, keywords = self.arguments(arrays)
        return self.called, first, keywords

    def asked(self, io: Format) -> Mapping[str, Any]:
        """The keywords that ask for a result in the format, where no array of the call has it."""
        return {}

    def expected(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        """What the reference gives for these arrays; to be read only, since it may be kept for other backends."""
        return recall(lambda: self.computed(inputs, contract, conventions), self, inputs, contract, conventions)

    @abstractmethod
    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        """What the reference gives for these arrays."""

    def own(self, inputs: Inputs, conventions: Conventions) -> Any:
        """The reference's own float64 bound, which comes on top of what the contract allows."""
        return self.expected(inputs, EXACT, conventions).err

    @abstractmethod
    def used(self) -> frozenset[str]:
        """The optional features that the call uses, without the component's name."""

    @abstractmethod
    def without(self, feature: str) -> Self:
        """The nearest case that does not use this feature."""

    @abstractmethod
    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
        """The shape and dtype that the result must have; None is the dtype of the cell."""

    @abstractmethod
    def size(self, inputs: Inputs) -> float:
        """The magnitude against which a bound is small or vacuous."""

    def random(self, purpose: str) -> np.random.Generator:
        """The generator for one of the case's arrays: independent of the order in which they are made."""
        digest = blake2b(f"{self.seed} {purpose}".encode(), digest_size=16).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))

    def __str__(self) -> str:
        given = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        told = [_token(n, value) for n, value, default in given if n in self.sizes or value != default]
        return " ".join(sorted(told, key=lambda token: token.startswith("seed=")))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the one-line form.

        Raises ConfigError for an unknown name, a name that stands twice or a value of the wrong kind.
        """
        kinds = get_type_hints(cls)
        known = {f.name: kinds[f.name] for f in fields(cls)}
        given: dict[str, Any] = {}
        for token in text.split():
            name, equals, word = token.partition("=")
            if name not in known:
                raise ConfigError(f"case: {name!r} is none of {', '.join(known)} [{text}]")
            if name in given:
                raise ConfigError(f"case: {name} stands twice [{text}]")
            given[name] = value = _value(word) if equals else True
            if not _is_of(known[name], value):
                raise ConfigError(f"case: {name} must be {_spelled(known[name])}, got {value!r} [{text}]")
        return cls(**given)


def _token(name: str, value: Any) -> str:
    return name if value is True else f"{name}={str(value).replace(' ', '')}"


def _value(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value is of an annotated kind; integers are sizes, indices and seeds, none of which is negative."""
    if get_origin(kind) is UnionType:
        return any(_is_of(one, value) for one in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_is_of, parts, value))
    if kind is float:
        return type(value) in (int, float) and isfinite(value)
    return type(value) is kind and (kind is not int or value >= 0)


def _spelled(kind: Any) -> str:
    names = {int: "an integer >= 0", float: "a finite number", bool: "a word without a value", str: "a recipe"}
    return names.get(kind) or str(kind)
