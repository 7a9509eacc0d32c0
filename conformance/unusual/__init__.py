"""Correct backends that compute in unusual ways, or honestly declare what they do otherwise: no check may fail them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeVar

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS

B = TypeVar("B", bound=type[Backend])

# of a backend that is here for its gradients: one half precision stands for both, where only zeros are judged
BACKWARD = frozenset({"float32", "float64", "bfloat16"})

MODULES = (
    "model_decoding",
    "attention",
    "attention_blocks",
    "attention_nan_safe",
    "attention_declared",
    "attention_gradients",
    "multihead",
    "multihead_gradients",
    "model",
    "model_families",
    "model_gradients",
    "normalization",
    "normalization_gradients",
    "positions_rotary",
    "positions",
    "feedforward",
    "feedforward_gradients",
    "blocks",
    "blocks_gradients",
    "cache",
)


@dataclass(frozen=True)
class Unusual:
    """A correct backend and, in one line, what is unusual about it."""

    name: str
    component: str
    way: str
    make: type[Backend]


_registry: dict[str, Unusual] = {}


def correct(make: B) -> B:
    """Register a backend as correct; the first line of its docstring says what is unusual about it."""
    component = make.__module__.rpartition(".")[2].partition("_")[0]
    if component not in COMPONENTS or make.__name__ in _registry or not make.__doc__:
        raise ValueError(f"unusual {make.__name__}: needs a module of a component, a new name and a docstring")
    make.name = make.__name__
    _registry[make.name] = Unusual(make.name, component, make.__doc__.splitlines()[0], make)
    return make


@cache
def unusual() -> Mapping[str, Unusual]:
    """Every one of them by name, in the order in which the files define them; only this loads a concrete backend."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
    return dict(_registry)
