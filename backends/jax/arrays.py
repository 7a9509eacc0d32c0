"""The bridge between NumPy and JAX."""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import DTypeError

Numpy = np.ndarray[Any, np.dtype[Any]]


class JaxArrays(Backend):
    """A backend whose arrays are JAX arrays; subclass it to plug in a kernel that takes them."""

    def asarray(self, x: Numpy) -> jax.Array:
        """x on the default device.

        Raises DTypeError for float64, and for integers beyond 32 bits, while 64-bit mode is off: JAX would narrow them
        without a word.
        """
        if x.dtype == np.float64 and not jax.config.read("jax_enable_x64"):
            raise DTypeError("arrays: float64 needs 64-bit mode; use the backend jax@x64 [asarray]")
        if x.dtype == np.int64 and not jax.config.read("jax_enable_x64") and np.any(x != x.astype(np.int32)):
            raise DTypeError("arrays: integers beyond 32 bits need 64-bit mode; use the backend jax@x64 [asarray]")
        placed: jax.Array = jax.device_put(x)
        return placed

    def asnumpy(self, x: jax.Array) -> Numpy:
        """x as a NumPy array of the same dtype."""
        return np.asarray(x)


def owned(x: jax.Array | Numpy) -> jax.Array:
    """x in a buffer of its own, which may be given up; nothing is compiled for it."""
    copied: jax.Array = jax.device_put(jax.device_put(x), may_alias=False)
    return copied


def on_host(x: jax.Array) -> Numpy | None:
    """The values of an array that lies on the CPU; None where they are traced, or lie on a device."""
    if isinstance(x, Tracer) or any(d.platform != "cpu" for d in x.devices()):
        return None
    return np.asarray(x)
