"""The NumPy backend with one of its files changed, beside the right one."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from gaugeblock.conformance.mutants.ast_mutation import DEMOTED, SCALED
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import ConfigError

PACKAGE = "gaugeblock.backends.numpy"
NARROW = {np.dtype(np.float64): np.float32, np.dtype(np.float32): ml_dtypes.bfloat16}


def path(module: str) -> Path:
    """The file of a module of the NumPy backend.

    Raises ConfigError if there is no such module.
    """
    spec = find_spec(f"{PACKAGE}.{module}") if module.isidentifier() else None
    if spec is None or spec.origin is None:
        raise ConfigError(f"mutate: the NumPy backend has no module {module!r}")
    return Path(spec.origin)


def changed(module: str, source: str) -> type[Backend]:
    """The NumPy backend with another source for one of its modules, which may use the functions that scale and demote.

    The backend itself stays as it is.
    """
    return swapped({module: (source, HELPERS)})


def swapped(sources: Mapping[str, tuple[str, Mapping[str, Any]]]) -> type[Backend]:
    """The NumPy backend with other sources for some of its modules, and the names that each may use besides."""
    kept = {name: held for name, held in sys.modules.items() if name == PACKAGE or name.startswith(f"{PACKAGE}.")}
    parent = import_module(PACKAGE.rpartition(".")[0])
    finder = _Finder({f"{PACKAGE}.{module}": given for module, given in sources.items()})
    before = getattr(parent, "numpy", None)
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        made: type[Backend] = import_module(PACKAGE).NumpyBackend
        return made
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
        sys.modules.update(kept)
        if before is not None:
            setattr(parent, "numpy", before)  # noqa: B010  # a module, which has no such attribute for a type checker


class _Finder(MetaPathFinder, Loader):
    """Loads modules from texts."""

    def __init__(self, sources: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        self.sources = sources

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname in self.sources else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source, helpers = self.sources[module.__name__]
        vars(module).update(helpers)
        exec(compile(source, f"<changed {module.__name__}>", "exec"), vars(module))


def scaled(x: Any, factor: float) -> Any:
    """Arrays and numbers times a factor, also in a tuple or list; anything else as it is."""
    if type(x) in (tuple, list):
        return type(x)(scaled(one, factor) for one in x)
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.multiply(x, x.dtype.type(factor))
    return x * factor if isinstance(x, float) else x


def demoted(x: Any) -> Any:
    """Arrays and numbers rounded to a format of half the width, and read back; anything else as it is."""
    if type(x) in (tuple, list):
        return type(x)(demoted(one) for one in x)
    if isinstance(x, np.ndarray | np.generic):
        with np.errstate(all="ignore"):
            return x.astype(NARROW[x.dtype]).astype(x.dtype) if x.dtype in NARROW else x
    return float(np.float32(x)) if isinstance(x, float) else x


HELPERS: Mapping[str, Callable[..., Any]] = {SCALED: scaled, DEMOTED: demoted}
