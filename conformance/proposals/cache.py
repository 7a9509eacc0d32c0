"""What a backend's cache shows of itself: what it does with a consumed cache, what beyond its capacity."""

from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.cache import consumed as consumed_as_declared
from gaugeblock.conformance.laws.cache import follows, overflows
from gaugeblock.conformance.refusals.cache import STARTED, using
from gaugeblock.conformance.strategies.cache import CacheCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS = ("consumed_cache", "capacity")


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature whose calls raise, with the error's first line, unless a part of it raises already."""
    found: dict[str, str] = {}
    declared = backend.unsupported
    for name in sorted(n.removeprefix("kv_cache.") for n in FEATURES if n.startswith("kv_cache.")):
        if any(f"kv_cache.{name}".startswith(f"{part}.") for part in found):
            continue
        backend.unsupported = {**declared, **found}
        error = _raises(backend, dtype, name)
        if error:
            found[f"kv_cache.{name}"] = error
    backend.unsupported = declared
    return found


def _raises(backend: Backend, dtype: str, feature: str) -> str:
    cell = _cell(backend, dtype)
    try:
        follows(cell, using(cell, feature))
    except BackendRaised as raised:
        return f"{type(raised.cause).__name__}: {str(raised.cause).strip().splitlines()[0][:80]}"
    except Nonconformance:
        return ""
    return ""


def conventions(backend: Backend, dtype: str) -> Conventions:
    """The first choice that holds; of consumed caches nothing can be said where neither does."""
    found, declared = backend.conventions, backend.conventions
    changes: Any = [{"capacity": value} for value in ("fixed", "grows")]
    changes += [{"consumed_cache": value} for value in ("raises", "valid", "undefined")]
    for name, law in (("capacity", overflows), ("consumed_cache", consumed_as_declared)):
        choices = [replace(found, **change) for change in changes if name in change]
        for choice in choices:
            backend.conventions = choice
            if _holds(backend, dtype, law):
                found = choice
                break
    backend.conventions = declared
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """A cache computes nothing: it holds the bits, or no level."""
    return Level.STRICT if _holds(backend, dtype, follows) else None


def _holds(backend: Backend, dtype: str, law: Any) -> bool:
    cell = _cell(backend, dtype)
    case: CacheCase = cell.fit(STARTED)
    try:
        law(cell, case)
    except (BackendRaised, Nonconformance):
        return False
    return True


def _cell(backend: Backend, dtype: str) -> Cell:
    return Cell(backend, "cache", dtype, offer="kv_cache")
