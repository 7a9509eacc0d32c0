"""Which cells a run has: checks, backends and dtypes, as asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gaugeblock.conformance.checks import Check, registry
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.clause import clause
from gaugeblock.spec.components import COMPONENTS, offers
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import FORMATS


@dataclass(frozen=True)
class Missing:
    """A backend that cannot run here, and why."""

    name: str
    reason: str


def dtypes_of(backend: Backend | Missing, asked: Sequence[str]) -> list[str]:
    """The dtypes to run on a backend: those asked for, else all that it computes in; unknown backends get float32."""
    if asked:
        return [name for name in FORMATS if name in asked]
    if isinstance(backend, Missing):
        return ["float32"]
    return [name for name in FORMATS if name in backend.dtypes]


def known_dtypes(asked: Iterable[str]) -> None:
    """Refuse an unknown dtype.

    Raises ConfigError.
    """
    for name in asked:
        if name not in FORMATS:
            raise ConfigError(f"dtype: must be one of {', '.join(FORMATS)}, got {name!r}")


def selected(only: Iterable[str], case: str = "") -> list[Check]:
    """The checks of these components, clauses or names; all where nothing is asked, one where a case names it.

    Raises ConfigError for a word that is none of them, with the nearest clauses.
    """
    checks = list(registry().values())
    if case:
        from gaugeblock.conformance.checks import parse_case

        return [parse_case(case)[0]]
    words = list(only)
    chosen = {check.name for word in words for check in _matching(word, checks)}
    return [check for check in checks if not words or check.name in chosen]


def of_backend(check: Check, backend: Backend | Missing) -> bool:
    """Whether a check speaks of something that the backend offers."""
    return isinstance(backend, Missing) or offers(backend, check.component, check.offer, check.capability)


def _matching(word: str, checks: list[Check]) -> list[Check]:
    named = [check for check in checks if word in (check.component, check.name)]
    if named:
        return named
    if word in COMPONENTS:
        raise ConfigError(f"only: the component {word} has no checks yet")
    found = clause(word)
    citing = [check for check in checks if found.id in check.clauses]
    if not citing:
        raise ConfigError(f"only: {found.id} has no check: {found.unchecked}")
    return citing
