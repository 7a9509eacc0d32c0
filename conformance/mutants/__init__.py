"""Known-bad backends: each does one thing wrong, and names the clauses that must catch it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import COMPONENTS

B = TypeVar("B", bound=type[Backend])

MODULES = (
    "attention",
    "attention_heads",
    "attention_masks",
    "attention_nan_safe",
    "attention_softcap",
    "attention_bias",
    "attention_causal",
    "attention_window",
    "attention_precision",
    "attention_calls",
    "attention_declared",
    "attention_gradients",
    "multihead",
    "multihead_biases",
    "multihead_sight",
    "multihead_order",
    "multihead_calls",
    "multihead_declared",
    "multihead_gradients",
    "positions_rotary",
    "positions_rotary_tokens",
    "positions_rotary_partial",
    "positions_rotary_scaling",
    "positions_rotary_yarn",
    "positions_rotary_precision",
    "positions_rotary_calls",
    "normalization",
    "normalization_affine",
    "normalization_rms",
    "normalization_precision",
    "normalization_calls",
    "normalization_declared",
    "normalization_gradients",
    "positions_sinusoidal",
    "positions_alibi",
    "positions_precision",
    "positions_learned",
    "positions_calls",
    "positions_declared",
    "positions_gradients",
    "feedforward",
    "feedforward_gelu",
    "feedforward_silu",
    "feedforward_precision",
    "feedforward_elements",
    "feedforward_calls",
    "feedforward_declared",
    "feedforward_gradients",
    "blocks",
    "blocks_norms",
    "blocks_masks",
    "blocks_positions",
    "blocks_calls",
    "blocks_precision",
    "blocks_declared",
    "blocks_gradients",
    "model",
    "model_positions",
    "model_padding",
    "model_memory",
    "model_head",
    "model_calls",
    "model_generation",
    "model_serving",
    "model_decoding",
    "model_decoding_cache",
    "model_declared",
    "model_gradients",
    "model_placement",
    "cache",
    "cache_rows",
    "cache_capacity",
    "cache_calls",
    "cache_declared",
)


# what is wrong with where arrays lie can only be said in a framework that knows of devices
NEEDS = {"model_placement": "torch"}


@dataclass(frozen=True)
class Mutant:
    """A known fault.

    fault says in one line what it does; killed_by are the clauses that must catch it, the most telling first; reports
    are public reports of the same fault, owner/repo#number; catalogue is its number among the known-bad variants
    M01-M46 ("" for a fault that is nobody's in particular); dtypes are those in which it shows.
    """

    name: str
    component: str
    fault: str
    killed_by: tuple[str, ...]
    reports: tuple[str, ...]
    catalogue: str
    dtypes: tuple[str, ...]
    make: type[Backend]


_registry: dict[str, Mutant] = {}


def mutant(
    *,
    killed_by: tuple[str, ...],
    reports: tuple[str, ...] = (),
    catalogue: str = "",
    dtypes: tuple[str, ...] = ("float32",),
) -> Callable[[B], B]:
    """Register a backend as a mutant; the first line of its docstring states the fault."""

    def register(make: B) -> B:
        component = make.__module__.rpartition(".")[2].partition("_")[0]
        if component not in COMPONENTS or make.__name__ in _registry or not make.__doc__:
            raise ValueError(f"mutant {make.__name__}: needs a module of a component, a new name and a docstring")
        make.name = make.__name__
        fault = make.__doc__.splitlines()[0]
        _registry[make.name] = Mutant(make.name, component, fault, killed_by, reports, catalogue, dtypes, make)
        return make

    return register


@cache
def mutants() -> Mapping[str, Mutant]:
    """Every mutant by name, in the order in which the files define them; only this loads a concrete backend."""
    for module in MODULES:
        if module not in NEEDS or find_spec(NEEDS[module]):
            import_module(f"{__name__}.{module}")
    return dict(_registry)
