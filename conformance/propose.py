"""What a backend shows of itself: the level, conventions and features that make its declaration true."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from gaugeblock.conformance.drawing import quiet
from gaugeblock.conformance.load import load
from gaugeblock.conformance.proposals.scalars import scalars
from gaugeblock.conformance.selection import dtypes_of, known_dtypes
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offered
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import HALF, Level

WIDTH = 120  # of a line to paste


def propose(word: str, dtypes: Sequence[str]) -> list[str]:
    """The lines to paste into a backend: conventions, unsupported, level; nothing is applied.

    Raises ConfigError, NotAvailable.
    """
    known_dtypes(dtypes)
    backend = load(word)
    with quiet():
        return list(_lines(backend, dtypes))


def _lines(backend: Backend, dtypes: Sequence[str]) -> Iterator[str]:
    """Probe each component in turn; what one shows is held to while the next is probed."""
    names = dtypes_of(backend, [name for name in dtypes if name in backend.dtypes])
    probe = "float32" if "float32" in names else names[0]
    rooms = {name: import_module(f"gaugeblock.conformance.proposals.{name}") for name in offered(backend)}
    backend.conventions, backend.unsupported = Conventions(), {}
    shown: dict[str, Any] = {}
    for room in rooms.values():
        backend.unsupported = {**backend.unsupported, **room.unsupported(backend, probe)}
        backend.conventions = room.conventions(backend, probe)
        shown |= {name: getattr(backend.conventions, name) for name in room.CONVENTIONS}
    if "float64" in names:
        backend.conventions = scalars(backend)
    if backend.conventions.scalars == "float32":
        shown["scalars"] = "float32"
    yield f"conventions = Conventions({', '.join(f'{name}={json.dumps(value)}' for name, value in shown.items())})"
    yield from _mapping("unsupported", backend.unsupported)
    levels = {name: {c: room.level(backend, name) for c, room in rooms.items()} for name in names if name in HALF}
    yield from _mapping("level", _merged(levels))
    for name, found in levels.items():
        for component, level in found.items():
            if level is None:
                yield f"# {component}@{name}: no level holds; `gaugeblock check` says why"


def _merged(levels: Mapping[str, Mapping[str, Level | None]]) -> dict[str, Level]:
    """One entry for a dtype in which all components hold the same level, else one for each."""
    merged: dict[str, Level] = {}
    for dtype, found in levels.items():
        held = {component: level for component, level in found.items() if level is not None}
        if len(set(held.values())) == 1:
            merged[dtype] = next(iter(held.values()))
        else:
            merged |= {f"{component}@{dtype}": level for component, level in held.items()}
    return merged


def _mapping(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    shown = [f'"{k}": {f"Level.{v.name}" if isinstance(v, Level) else json.dumps(v)}' for k, v in values.items()]
    line = f"{name} = {{{', '.join(shown)}}}"
    if len(line) <= WIDTH:
        yield from (line,) if shown else ()
    else:
        yield "\n    ".join([f"{name} = {{", *(f"{one}," for one in shown)]) + "\n}"
