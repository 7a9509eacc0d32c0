"""From the word on the command line to a backend: found, fitted against the interface, made."""

import inspect
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import CAPABILITIES, COMPONENTS, INTERFACES, SHARES, offered
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError, GaugeblockError, NotAvailable
from gaugeblock.spec.features import FEATURES, validate
from gaugeblock.spec.precision import FORMATS, Level

GROUP = "gaugeblock.backends"
FORMS = "NAME, module:attribute or path/file.py:attribute, each with an optional @variant"
KINDS: Mapping[str, type] = {
    "dtypes": Collection,
    "level": Mapping,
    "conventions": Conventions,
    "unsupported": Mapping,
    "errors": Mapping,
}


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
        _fit(found, word)
        return ready(_make(found, variant, word), word)
    if not isinstance(found, Backend):
        raise ConfigError(f"backends: {word!r} must be a subclass of gaugeblock.Backend, got {_kind(found)}")
    if variant:
        raise ConfigError(f"backends: {target} is an object, which has no variants, got {variant!r}")
    return ready(found, word)


def ready(backend: Backend, word: str) -> Backend:
    """The backend itself, once its methods fit the interfaces that it subclasses and its declarations have a meaning.

    Raises ConfigError; for methods it lists every mismatch with the line to paste.
    """
    _fit(type(backend), word)
    _declarations(backend, word)
    return backend


def _fit(cls: type[Backend], word: str) -> None:
    wrong = list(_mismatches(cls))
    if wrong:
        raise ConfigError(f"backends: {word} does not fit the interface:\n" + "\n".join(wrong))


def _mismatches(cls: type[Backend]) -> Iterator[str]:
    for interfaces in (*INTERFACES.values(), CAPABILITIES):
        for offer, interface in interfaces.items():
            if issubclass(cls, interface):
                for name in sorted(_abstract(interface)):
                    wanted, method = getattr(interface, name), getattr(cls, name)
                    problems = list(_problems(SHARES.get(offer, offer), wanted, method, cls))
                    if problems:
                        yield f"  {name}: {'; '.join(problems)}"
                        yield f"  paste: def {name}{_plain(wanted)}:"


def _problems(offer: str, wanted: Any, method: Any, cls: type[Backend]) -> Iterator[str]:
    if getattr(method, "__isabstractmethod__", False):
        yield "is missing"
        return
    try:
        want, have = (list(inspect.signature(m).parameters.values()) for m in (wanted, method))
    except (TypeError, ValueError):
        yield "has no signature that Python can read"
        return
    first = [p.name for p in want if p.kind is p.POSITIONAL_OR_KEYWORD]
    if [p.name for p in have if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)][: len(first)] != first:
        yield f"must take {', '.join(first)} in this order"
    for rest in (p.name for p in want if p.kind is p.VAR_POSITIONAL):
        if not any(p.kind is p.VAR_POSITIONAL for p in have):
            yield f"must take any number of {rest}"
    lacking = [p.name for p in want if p.kind is p.KEYWORD_ONLY and not _takes(p.name, have)]
    lacking = [name for name in lacking if not _left_out(f"{offer}.{name}", cls)]
    if lacking:
        options = ", ".join(f'"{offer}.{name}": "why"' for name in lacking if f"{offer}.{name}" in FEATURES)
        yield f"lacks the keyword {', '.join(lacking)}" + (f" (or unsupported = {{{options}}})" if options else "")
    demanded = [p.name for p in have if p.name not in {w.name for w in want} and _is_required(p)]
    if demanded:
        yield f"requires {', '.join(demanded)}, which the interface does not have"


def _abstract(interface: Any) -> frozenset[str]:
    methods: frozenset[str] = interface.__abstractmethods__
    return methods


def _takes(name: str, have: list[inspect.Parameter]) -> bool:
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in have)


def _left_out(feature: str, cls: type[Backend]) -> bool:
    """Whether a feature is declared unsupported in every dtype."""
    declared: Any = cls.unsupported
    if not isinstance(declared, Mapping):
        return False
    return feature in declared or all(f"{feature}@{dtype}" in declared for dtype in cls.dtypes or FORMATS)


def _is_required(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)


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
        ours = found[0].value.startswith("gaugeblock.")
        how = f" (pip install 'gaugeblock[{name}]')" if ours else ""
        raise NotAvailable(f"{package} is not installed{how}") from missing
    except Exception as error:
        raise _import_error(found[0].value, error) from error


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
        sys.path.append(sys.path.pop(0))  # last from now on: found by an import inside a method, and in nobody's way
    return module


def _from_module(name: str) -> ModuleType:
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())  # as `python -m` has it, also where a script was started
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
    for name, kind in KINDS.items():
        if not isinstance(getattr(backend, name), kind):
            raise ConfigError(f"backends: {name} must be a {kind.__name__}, got {getattr(backend, name)!r} [{word}]")
    if not offered(backend):
        raise ConfigError(f"backends: {word} offers no component; subclass one of {', '.join(_interfaces())}")
    if not backend.dtypes or not set(backend.dtypes) <= set(FORMATS):
        raise ConfigError(
            f"backends: {word} must declare dtypes, a set of {', '.join(FORMATS)}; got {set(backend.dtypes)}"
        )
    for key, level in backend.level.items():
        component, _, dtype = key.rpartition("@")
        if component not in ("", *COMPONENTS) or dtype not in FORMATS or not isinstance(level, Level):
            raise ConfigError(
                f'backends: level maps "dtype" or "component@dtype" to Level, got {key!r}: {level!r} [{word}]'
            )
    for theirs, ours in backend.errors.items():
        if not (_is_error(theirs, Exception) and _is_error(ours, GaugeblockError)):
            raise ConfigError(f"backends: errors maps exceptions to gaugeblock's, got {theirs!r}: {ours!r} [{word}]")
    validate(backend.unsupported)


def _is_error(found: object, kind: type[Exception]) -> bool:
    return isinstance(found, type) and issubclass(found, kind)


def _interfaces() -> list[str]:
    return [f"gaugeblock.spec.{name}.{i.__name__}" for name, found in INTERFACES.items() for i in found.values()]


def _offers(module: ModuleType) -> str:
    found = [n for n, x in vars(module).items() if isinstance(x, type) and issubclass(x, Backend) and x is not Backend]
    return f"; it has {', '.join(found)}" if found else ""


def _kind(found: object) -> str:
    return found.__name__ if isinstance(found, type) else type(found).__name__


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
