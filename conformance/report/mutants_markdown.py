"""The matrix of mutants and clauses in Markdown, and the table of the README."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gaugeblock.conformance.mutants.exempt import EQUIVALENT, NOT_EXPRESSIBLE
from gaugeblock.conformance.mutants.matrix import Row, complete, survivors
from gaugeblock.conformance.mutants.power import DECLARED, ComponentPower, by_clause, by_component, declares, read
from gaugeblock.spec.clause import clause, clauses
from gaugeblock.spec.components import COMPONENTS

BEGIN, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"
LONGEST_CASE = 60


def cells(row: Row) -> list[str]:
    """A row as text: mutant, known as, obvious laws, clauses, first check, dtype, input, margin, seconds."""
    known = row.catalogue or next(iter(row.reports), "")
    obvious = ",".join(row.obvious) or "-"
    if row.first is None:
        return [row.mutant, known, obvious, "SURVIVES", "", "", "", "", f"{row.seconds:.1f}"]
    others = len(row.clauses) - 1
    killers = row.clauses[0] + (f" +{others}" if others else "")
    margin = "exact" if row.margin is None else f"{row.margin:.1e}"
    case = row.first.case if len(row.first.case) <= LONGEST_CASE else row.first.case[: LONGEST_CASE - 1] + "…"
    return [row.mutant, known, obvious, killers, row.first.check, row.first.dtype, case, margin, f"{row.seconds:.1f}"]


def render(rows: Sequence[Row], lazy: Sequence[str]) -> str:
    """The whole report."""
    return "\n".join(_lines(rows, lazy)) + "\n"


def summary(rows: Iterable[Row]) -> str:
    """The table of the README: per component what the four obvious laws kill, and what the suite."""
    powers = by_component(rows)
    total = ComponentPower("all", *(sum(getattr(p, name) for p in powers) for name in ("mutants", "obvious", "suite")))
    head = ("component", "mutants", "killed by the four obvious laws", "killed by the suite")
    return "\n".join(_table(head, ([str(x) for x in vars(power).values()] for power in (*powers, total)))) + "\n"


def insert(text: str, rows: Iterable[Row]) -> str:
    """A text with the table of the README between the markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{summary(rows)}\n{end}{after}"


def page(rows: Sequence[Row], profile: str) -> str:
    """What each clause kills, of a whole matrix, as a page of its own in docs."""
    if not all(row.whole for row in rows):
        raise ValueError("expected the record of a run without --first")
    powers = [power for power in by_clause(rows) if clause(power.clause).kind == "MUST"]
    text = (
        f"On each of {len(rows)} mutants every check of its component was tried, in the profile `{profile}`. A failing",
        "check credits the clause that it blames. Alone: mutants that no other clause kills. Named: mutants that must",
        "fall to the clause, as the first or at all.",
    )
    left = [name for name in COMPONENTS if name not in complete(rows)]
    missing = ["", f"Not yet tried whole: {', '.join(left)}."] if left else []
    head = ("clause", "kills", "alone", "named first", "named")
    table = ([f"[{p.clause}](../{clause(p.clause).path})", *map(str, list(vars(p).values())[1:])] for p in powers)
    return "\n".join(["# What each clause of kind MUST kills", "", *text, *missing, "", *_table(head, table)]) + "\n"


def _lines(rows: Sequence[Row], lazy: Sequence[str]) -> Iterator[str]:
    yield from ("# Mutants", "", summary(rows))
    for power in by_component(rows):
        mine = [row for row in rows if (DECLARED if declares(row) else row.component) == power.component]
        head = ("mutant", "fault", "known as", "4 laws", "killed by", "first check", "dtype", "input", "margin", "s")
        yield from (f"## {power.component}", "", *_table(head, map(_row, mine)), "")
    kills = "kills" if all(row.whole for row in rows) else "kills at least"
    yield from ("## Clauses", "", *_table(("clause", kills, "alone", "named first", "named"), _clauses(rows)), "")
    yield from _list("Survivors", ((row.mutant, row.fault) for row in survivors(rows)))
    yield from _list(
        "Clauses that are named and do not kill", ((r.mutant, ", ".join(r.missed)) for r in rows if r.missed)
    )
    yield from _list("Clauses that kill nothing", ((name, clause(name).sentence) for name in lazy))
    yield from _list("Not expressible", NOT_EXPRESSIBLE.items())
    yield from _list("Equivalent", EQUIVALENT.items())


def _row(row: Row) -> list[str]:
    mutant, known, obvious, killers, check, dtype, _, margin, seconds = cells(row)
    case = row.first.case if row.first else ""
    killers = ", ".join(map(_link, row.clauses)) or killers
    return [mutant, row.fault, known, obvious, killers, check, dtype, case, margin, seconds]


def _clauses(rows: Sequence[Row]) -> Iterator[list[str]]:
    for power in by_clause(rows):
        yield [_link(power.clause), str(power.kills), str(power.alone), str(power.first), str(power.named)]


def _link(name: str) -> str:
    return f"[{name}]({clause(name).path})" if name in clauses() else name


def _table(head: Sequence[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _list(title: str, items: Iterable[tuple[str, str]]) -> Iterator[str]:
    lines = [f"- {name}: {text}" for name, text in items]
    if lines:
        yield from (f"## {title}", "", *lines, "")


if __name__ == "__main__":  # RECORD README, or RECORD PAGE --clauses
    record, target = map(Path, sys.argv[1:3])
    profile, found = read(record)
    whole = "--clauses" in sys.argv
    target.write_text(page(found, profile) if whole else insert(target.read_text(encoding="utf-8"), found), "utf-8")
