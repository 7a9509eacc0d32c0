"""What `gaugeblock list`, `explain` and `cite` print."""

import textwrap
from collections import Counter
from collections.abc import Iterator

from gaugeblock import __version__
from gaugeblock.spec.clause import Clause
from gaugeblock.spec.clause import clause as find
from gaugeblock.spec.clause import clauses as all_clauses
from gaugeblock.spec.components import COMPONENTS, INTERFACES, SECTIONS
from gaugeblock.spec.features import FEATURES

REPOSITORY = "gaugeblock"
LINES = textwrap.TextWrapper(100, initial_indent="     ", subsequent_indent="     ", break_on_hyphens=False)


def components() -> Iterator[str]:
    """Each component, how many clauses it has, and the interfaces that a backend subclasses to offer it."""
    counts = Counter(c.component for c in all_clauses().values())
    for name in COMPONENTS:
        offered = ", ".join(i.__name__ for i in INTERFACES.get(name, {}).values()) or "-"
        yield f"{name:<14} {counts[name]:>3} clauses   {offered}"


def sections() -> Iterator[str]:
    """Each section of the source document with the clauses that cover it, a part of it, or all of its chapter."""
    for number, title in SECTIONS.items():
        covering = [c.id for c in all_clauses().values() if any(_within(s, number) for s in c.sections)]
        yield f"{number:<4} {title}"
        yield from LINES.wrap(", ".join(covering) or "-")


def _within(one: str, other: str) -> bool:
    """Whether one of two sections is the other or a part of it: 9.1 of 9."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def clauses() -> Iterator[str]:
    """Each clause: kind, id, sentence."""
    for one in all_clauses().values():
        yield f"{one.kind:<11} {one.id:<20} {one.sentence}"


def backends() -> Iterator[str]:
    """The installed backends; nothing is imported to list them."""
    from importlib.metadata import entry_points

    from gaugeblock.conformance.load import GROUP

    yield from (f"{point.name:<8} {point.value}" for point in sorted(entry_points(group=GROUP), key=lambda p: p.name))


def features() -> Iterator[str]:
    """Each optional feature and what it means."""
    yield from (f"{name:<26} {meaning}" for name, meaning in FEATURES.items())


def explain(name: str) -> Iterator[str]:
    """A clause in full, and the checks that enforce it."""
    from gaugeblock.conformance.checks import registry

    one = find(name)
    checking = [check.name for check in registry().values() if one.id in check.clauses]
    yield f"{one.id}   {one.kind} · {one.subject} · {one.source} · since {one.since}"
    yield ""
    yield one.sentence
    yield ""
    yield one.body
    yield ""
    yield f"checked by  {', '.join(checking) or one.unchecked}"
    yield f"stands in   {one.path}"


def cite(name: str) -> str:
    """One line that names a clause, its sentence, the version and the place."""
    one: Clause = find(name)
    return f"{REPOSITORY} {__version__}, {one.id} ({one.kind}): {one.sentence} [{one.path}]"
