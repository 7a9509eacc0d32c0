"""Wrong declarations: what is right would be honest, and something else is declared."""

from collections.abc import Mapping
from typing import Any

from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions


def declares(
    make: type[Backend],
    module: str,
    *,
    killed_by: tuple[str, ...],
    dtypes: tuple[str, ...] = ("float32",),
    convention: str,
    value: Any,
    name: str = "",
) -> None:
    """Register a backend that declares a value of a convention which it does not have."""
    shown = value if isinstance(value, str) else "By".join(f"{row} {route}" for route, row in value.items())
    words = f"{make.__name__} declares {convention} {shown}".replace("+", " plus ").replace("_", " ").split()
    fault = f"{convention} {value!r} is declared, and is not what {make.__name__} does."
    given = {"conventions": Conventions(**{convention: value})}
    _register(make, module, name or "".join(w[0].upper() + w[1:] for w in words), fault, given, killed_by, dtypes)


def forgets(make: type[Backend], module: str, features: Mapping[str, str]) -> None:
    """Register, for each feature that a backend refuses, one that forgets to declare so; with the clause that kills."""
    for feature, clause in features.items():
        left = {key: reason for key, reason in make.unsupported.items() if key != feature}
        option = feature.partition(".")[2].replace("+", ".and.").replace("_", ".")
        words = (feature.partition(".")[0].replace("_", ".") + "." + option).split(".")
        name = f"{make.__name__}Forgets{''.join(word.capitalize() for word in words)}"
        fault = f"{feature} is refused, and not declared unsupported."
        _register(make, module, name, fault, {"unsupported": left}, (clause,), ("float32",))


def ignores(make: type[Backend], module: str, offer: str, changes: Mapping[str, Any], clause: str) -> None:
    """Register, for each feature, one that declares it unsupported and then calls as if it had not been asked for."""
    for feature, change in changes.items():
        words = (f"{offer}.Ignores.{feature}").replace("_", ".").split(".")
        name = "".join(word[0].upper() + word[1:] for word in words)
        fault = f"{offer}.{feature} is declared unsupported; asked for all the same, it is silently ignored."
        given = {"unsupported": {f"{offer}.{feature}": "not built"}, "change": staticmethod(change)}
        _register(make, module, name, fault, given, (clause,), ("float32",))


def _register(
    make: type[Backend],
    module: str,
    name: str,
    fault: str,
    given: Mapping[str, Any],
    killed_by: tuple[str, ...],
    dtypes: tuple[str, ...],
) -> None:
    made = type(name, (make,), {"__doc__": fault, "__module__": module, **given})
    mutant(killed_by=killed_by, dtypes=dtypes)(made)
