"""From the word on the command line to a backend: found, fitted against the interface, made."""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import INTERFACES, offered
from gaugeblock.spec.errors import ConfigError, GaugeblockError, NotAvailable
from gaugeblock.spec.features import FEATURES, validate
from gaugeblock.spec.precision import FORMATS, Level

GROUP = "gaugeblock.backends"
FORMS = "NAME, module:attribute or path/file.py:attribute, each with an optional @variant"


def names() -> tuple[str, ...]:
    """The names of the installed backends."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def load(word: str) -> Backend:
    """The backend that a word names, ready to be checked.

    word is NAME, module:attribute or path/file.py:attribute, each with an optional @variant.
    Raises ConfigError where the word or the backend cannot be used, NotAvailable where it cannot run here.
    """
    target, _, variant = word.partition("@")
    found = _by_place(target) if ":" in target else _by_name(target)
    if isinstance(found, type) and issubclass(found, Backend):
        fit(found, word)
        backend = _make(found, variant, word)
    elif isinstance(found, Backend) and not variant:
        fit(type(found), word)
        backend = found
    else:
        raise ConfigError(f"backends: {word!r} must be a subclass of gaugeblock.Backend, got {_kind(found)}")
    _declarations(backend, word)
    return backend


def fit(cls: type[Backend], word: str) -> None:
    """Compare a backend's methods with the interfaces that it subclasses.

    Raises ConfigError that lists every mismatch with the line to paste.
    """
    wrong = [line for line in _mismatches(cls)]
    if wrong:
        shown = wrong[:3] + ([f"and {len(wrong) - 3} more"] if len(wrong) > 3 else [])
        raise ConfigError(f"backends: {word} does not fit the interface:\n  " + "\n  ".join(shown))


def _mismatches(cls: type[Backend]) -> Iterator[str]:
    for component, interfaces in INTERFACES.items():
        for interface in interfaces:
            if issubclass(cls, interface):
                for method in sorted(interface.__abstractmethods__):
                    yield from _mismatch(component, method, getattr(interface, method), getattr(cls, method), cls)


def _mismatch(component: str, name: str, wanted: Any, method: Any, cls: type[Backend]) -> Iterator[str]:
    paste = f"paste: def {name}{_plain(wanted)}:"
    if getattr(method, "__isabstractmethod__", False):
        yield f"{name} is missing; {paste}"
        return
    want, have = (list(inspect.signature(m).parameters.values()) for m in (wanted, method))
    positional = [p.name for p in want if p.kind is p.POSITIONAL_OR_KEYWORD]
    if [p.name for p in have if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)][: len(positional)] != positional:
        yield f"{name} must take {', '.join(positional)} in this order; {paste}"
    known, takes_any = {p.name for p in have}, any(p.kind is p.VAR_KEYWORD for p in have)
    for p in want:
        left_out = any(key.partition("@")[0] == f"{component}.{p.name}" for key in cls.unsupported)
        if p.kind is p.KEYWORD_ONLY and not (p.name in known or takes_any or left_out):
            hint = f' or declare unsupported = {{"{component}.{p.name}": "why"}}' if _feature(component, p.name) else ""
            yield f"{name} lacks the keyword {p.name}; {paste}{hint}"
    for p in have:
        if p.name not in {w.name for w in want} and p.default is p.empty and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD):
            yield f"{name} requires {p.name}, which the interface does not have; {paste}"


def _feature(component: str, keyword: str) -> bool:
    return f"{component}.{keyword}" in FEATURES


def _plain(method: Any) -> str:
    """A signature without annotations, as one would paste it."""
    signature = inspect.signature(method)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _by_name(name: str) -> Any:
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise ConfigError(f"backends: there is no backend {name!r}; installed are {', '.join(names())}; or {FORMS}")
    try:
        return found[0].load()
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package == "gaugeblock":
            raise
        raise NotAvailable(f"{package} is not installed (pip install 'gaugeblock[{name}]')") from missing


def _by_place(target: str) -> Any:
    place, _, attribute = target.rpartition(":")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"backends: {place} has no attribute {part!r}{_offers(module)}")
        found = getattr(found, part)
    return found


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"backends: there is no file {path}")
    name = f"gaugeblock_backend_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"backends: {path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours, as if it were run as a script
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _import_error(str(path), error) from error
    finally:
        sys.path.pop(0)
    return module


def _from_module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        raise _import_error(name, error) from error


def _import_error(where: str, error: Exception) -> ConfigError:
    return ConfigError(f"backends: importing {where} raised {type(error).__name__}: {_first_line(error)}")


def _make(cls: type[Backend], variant: str, word: str) -> Backend:
    try:
        return cls(variant)
    except GaugeblockError:
        raise
    except Exception as error:
        raise ConfigError(
            f"backends: making {word} raised {type(error).__name__}: {_first_line(error)}; "
            'the constructor takes one argument, variant: str = ""'
        ) from error


def _declarations(backend: Backend, word: str) -> None:
    backend.name = backend.name or type(backend).__name__  # type: ignore[misc]
    if not offered(backend):
        raise ConfigError(f"backends: {word} offers no component; subclass one of {', '.join(_interfaces())}")
    if not backend.dtypes or not set(backend.dtypes) <= set(FORMATS):
        raise ConfigError(f"backends: {word} must declare dtypes, a set of {', '.join(FORMATS)}; got {set(backend.dtypes)}")
    for key, level in backend.level.items():
        if key.rpartition("@")[2] not in FORMATS or not isinstance(level, Level):
            raise ConfigError(f'backends: level maps "dtype" or "component@dtype" to Level, got {key!r}: {level!r} [{word}]')
    validate(backend.unsupported)


def _interfaces() -> list[str]:
    return [f"gaugeblock.spec.{name}.{i.__name__}" for name, found in INTERFACES.items() for i in found]


def _offers(module: ModuleType) -> str:
    found = [n for n, x in vars(module).items() if isinstance(x, type) and issubclass(x, Backend) and x is not Backend]
    return f"; it has {', '.join(found)}" if found else ""


def _kind(found: object) -> str:
    return found.__name__ if isinstance(found, type) else type(found).__name__


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
