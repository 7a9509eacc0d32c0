"""What every backend has, whatever components it offers."""

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import GaugeblockError
from gaugeblock.spec.precision import Level

Array: TypeAlias = Any  # opaque to the suite: it came from asarray or from a method of the backend
Numpy: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Backend(ABC):
    """An implementation under check: subclass it together with the components that it offers.

    name          how reports call it;
    dtypes        of "float64", "float32", "bfloat16", "float16": what is really computed;
    level         "dtype" or "component@dtype" -> Level (spec.precision.declared_level says which one holds);
    conventions   where it differs from the canonical choice;
    unsupported   "component.feature[@dtype]" -> reason, keys from spec.features.FEATURES;
    nan_safe      NaN and inf in masked rows do not reach the output;
    errors        the library's own refusals -> the error they stand for; consulted in rejection checks only.
    """

    name: ClassVar[str] = ""
    dtypes: frozenset[str] = frozenset()
    level: Mapping[str, Level] = {}
    conventions: Conventions = Conventions()
    unsupported: Mapping[str, str] = {}
    nan_safe: bool = False
    errors: Mapping[type[Exception], type[GaugeblockError]] = {}

    def __init__(self, variant: str = "") -> None:
        """Make the backend, or the variant after the @ of NAME@variant.

        Raises NotAvailable if the variant cannot run here, ConfigError if there is no such variant.
        """
        self.variant = variant

    def asarray(self, x: Numpy) -> Array:
        """x in the backend's own kind of array, same shape, dtype and values; bfloat16 comes as ml_dtypes.bfloat16."""
        return x

    def asnumpy(self, x: Array) -> Numpy:
        """x as a NumPy array, same shape, dtype and values."""
        return np.asarray(x)

    def describe(self) -> Mapping[str, str]:
        """Framework and version, device, matmul precision, threads: what a reader of the record needs to know."""
        return {}

    def rest(self) -> None:  # noqa: B027 nobody has to
        """Called after every check: a backend may drop what it keeps for speed alone, such as compiled programs."""
