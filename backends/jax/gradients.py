"""Gradients in JAX, by jax.vjp."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import Array

from gaugeblock.spec.gradients import Gradients

Primal = Array | Mapping[str, Array]


class JaxGradients(Gradients):
    """The methods' jitted functions are differentiated as they stand; every call of a pullback traces them anew."""

    def vjp(
        self, function: Callable[..., Array], *primals: Primal
    ) -> tuple[Array, Callable[[Array], tuple[Primal, ...]]]:
        trees: list[Any] = [dict(p) if isinstance(p, Mapping) else p for p in primals]
        value, pullback = jax.vjp(function, *trees)
        return value, pullback
