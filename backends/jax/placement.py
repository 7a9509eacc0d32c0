"""Placement in JAX: every call is traced, and what comes out is a shape and a dtype."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from gaugeblock.backends.jax.arrays import JaxArrays, Numpy
from gaugeblock.spec.errors import GaugeblockError, PlacementError, refuse
from gaugeblock.spec.placement import Placement

READS = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


class JaxPlacement(JaxArrays, Placement):
    """A traced array has no value: who reads one is told so by JAX."""

    @contextmanager
    def dry(self) -> Iterator[Any]:
        yield Dry(self)


class Dry:
    """A backend whose methods are traced, not run; its arrays are jax.ShapeDtypeStruct."""

    def __init__(self, backend: JaxArrays) -> None:
        self._backend = backend

    def asarray(self, x: Numpy) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(x.dtype))

    def asnumpy(self, x: jax.ShapeDtypeStruct) -> Numpy:
        raise _misplaced(f"a value is read of an array {x.shape}")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return partial(_traced, found) if callable(found) else found


def _traced(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a method gives, with shapes in place of arrays; its arguments may hold arrays wherever they like."""
    result: Any = None

    def shown(arrays: list[jax.Array]) -> list[Any]:
        nonlocal result
        args_now, kwargs_now = _filled((args, kwargs), iter(arrays))
        result = method(*args_now, **kwargs_now)
        return list(_arrays(result))

    try:
        program, shapes = jax.make_jaxpr(shown, return_shape=True)(list(_arrays((args, kwargs))))
    except READS as read:
        raise _misplaced(f"a value is read: {str(read).splitlines()[0]}") from read
    for name in _primitives(program.jaxpr):
        if "callback" in name:
            raise _misplaced(f"the host is called back by {name}")
    return _filled(result, iter(shapes))


def _arrays(x: Any) -> Iterator[Any]:
    """The arrays in whatever holds them."""
    if isinstance(x, jax.Array | jax.ShapeDtypeStruct):
        yield x
    elif is_dataclass(x) and not isinstance(x, type):
        for f in fields(x):
            yield from _arrays(getattr(x, f.name))
    elif isinstance(x, Mapping | list | tuple):
        for inner in x.values() if isinstance(x, Mapping) else x:
            yield from _arrays(inner)


def _filled(x: Any, arrays: Iterator[Any]) -> Any:
    """The same with other arrays, in the order in which _arrays finds them; lists and mappings are new ones."""
    if isinstance(x, jax.Array | jax.ShapeDtypeStruct):
        return next(arrays)
    if is_dataclass(x) and not isinstance(x, type):
        return replace(x, **{f.name: _filled(getattr(x, f.name), arrays) for f in fields(x)})
    if isinstance(x, Mapping):
        return {name: _filled(inner, arrays) for name, inner in x.items()}
    if isinstance(x, list | tuple):
        inside = [_filled(inner, arrays) for inner in x]
        return type(x)(*inside) if hasattr(x, "_fields") else type(x)(inside)
    return x


def _primitives(program: Jaxpr) -> Iterator[str]:
    """The names of all operations, also of those inside others."""
    for step in program.eqns:
        yield step.primitive.name
        for inner in _programs(step.params.values()):
            yield from _primitives(inner)


def _programs(parameters: Any) -> Iterator[Jaxpr]:
    for x in parameters:
        if isinstance(x, ClosedJaxpr | Jaxpr):
            yield x.jaxpr if isinstance(x, ClosedJaxpr) else x
        elif isinstance(x, Sequence) and not isinstance(x, str):
            yield from _programs(x)


def _misplaced(problem: str) -> GaugeblockError:
    return refuse(PlacementError, "MODEL-PLACEMENT", problem, "dry")
