"""The report for a terminal: a table of clauses by dtype for each backend, then each failure once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gaugeblock.conformance.checks import Record
from gaugeblock.conformance.records import OPEN, OUTCOMES, WRONG
from gaugeblock.conformance.report.failure import blamed, details
from gaugeblock.spec.clause import clauses
from gaugeblock.spec.precision import FORMATS, HALF

STYLE = {"pass": "green", "unsupported": "dim", "known-failure": "yellow"}
MOST_NOTES = 3
MARK = {"pass": "pass", "fail": "FAIL", "error": "ERROR"}


def show(console: Console, runs: Sequence[dict[str, Any]], records: Sequence[Record]) -> None:
    """Print tables, failures and the summary."""
    for name in dict.fromkeys(r.backend for r in records):
        mine = [r for r in records if r.backend == name]
        if any(r.outcome != "not-available" for r in mine):
            console.print(_table(name, mine))
            console.print()
    for group in failures(records):
        _block(console, group)
    _notes(console, records)
    for name in dict.fromkeys(r.backend for r in records):
        console.print(summary(name, [r for r in records if r.backend == name]), highlight=False, markup=False)


def worst(outcomes: Iterable[str]) -> str:
    """The outcome that decides for a clause on which several checks bear."""
    order = ("error", "fail", "unexpected-pass", "undetermined", "not-run", "not-available", "known-failure", "pass")
    seen = set(outcomes)
    return next((outcome for outcome in order if outcome in seen), "unsupported")


def by_clause(records: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """The records of each clause and dtype, in the order of the specification.

    A failure that belongs to another clause counts there; if only rows that see no key are wrong, the check's own
    clauses hold for all the others.
    """
    found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        failed = record.outcome == "fail"
        if failed:
            found[blamed(record)][record.dtype].append(record)
        for name in record.clauses:
            if not failed:
                found[name][record.dtype].append(record)
            elif name != blamed(record) and (record.failure or {}).get("in_empty_rows"):
                found[name][record.dtype].append(replace(record, outcome="pass"))
    order = list(clauses())
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def failures(records: Iterable[Record]) -> list[list[Record]]:
    """The cells that do not conform, grouped by backend and by the clause that they break, or what is not offered."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record.outcome in WRONG:
            groups[record.backend, _lacking(record) or blamed(record)].append(record)
    return list(groups.values())


def _lacking(record: Record) -> str:
    """A feature or format whose lack alone explains it: one cause, whatever the clauses are that it meets."""
    told = (record.failure or {}).get("likely", ())
    line = str(told[0]["declare"]) if len(told) == 1 else ""
    return line if line.startswith(("unsupported", "dtypes")) else ""


def summary(name: str, records: Sequence[Record]) -> str:
    """One line: how many cells came to what, how close the closest was, and how long it took."""
    counts = Counter(r.outcome for r in records)
    parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    reasons = "; ".join(sorted({r.reason for r in records if r.outcome == "not-available"}))
    if set(counts) == {"not-available"}:
        return f"{name}: not-available: {reasons}"
    why = f" ({reasons})" if reasons else ""
    return f"{name}: {', '.join(parts)}{why}; {headroom(records)}{sum(r.seconds for r in records):.1f} s"


def headroom(records: Iterable[Record]) -> str:
    """The worst error / allowed of the passing cells of each dtype, and the tightest level that held."""
    parts = []
    for dtype in FORMATS:
        mine = [r for r in records if r.dtype == dtype and r.outcome == "pass"]
        if mine:
            level = _levels(mine) if dtype in HALF else ""
            parts.append(f"{dtype} {max(r.headroom for r in mine):.2f}{level}")
    return f"worst error / allowed: {', '.join(parts)}; " if parts else ""


def _levels(records: Sequence[Record]) -> str:
    """The levels that were declared, and the tighter one that held too, where one was declared for all."""
    declared = list(dict.fromkeys(r.level for r in records))
    held = {r.held for r in records if r.headroom > 0}
    tightest = next((level for level in ("naive", "stored", "fused", "strict") if level in held), "")
    more = f" (holds at {tightest})" if tightest not in ("", *declared) and len(declared) == 1 else ""
    return f" at {'/'.join(declared)}{more}"


def _table(name: str, records: Sequence[Record]) -> Table:
    dtypes = [dtype for dtype in FORMATS if any(r.dtype == dtype for r in records)]
    table = Table(title=escape(name), title_justify="left", box=None, pad_edge=False, header_style="")
    for column in ("clause", *dtypes):
        table.add_column(column, no_wrap=True)
    for clause, cells in by_clause(records).items():
        table.add_row(clause, *(_cell(cells[dtype]) for dtype in dtypes))
    return table


def _cell(records: Sequence[Record]) -> str:
    if not records:
        return ""
    outcome = worst(r.outcome for r in records)
    near = max(r.headroom for r in records)
    shown = f"{MARK.get(outcome, outcome)} {near:.2f}" if outcome == "pass" and near else MARK.get(outcome, outcome)
    style = STYLE.get(outcome, "yellow" if outcome in OPEN else "bold red")
    return f"[{style}]{shown}[/]"


def _block(console: Console, group: Sequence[Record]) -> None:
    first = min(group, key=lambda r: (r.outcome != "fail", len(str((r.failure or {}).get("case", "")))))
    word = {"fail": "FAIL", "error": "ERROR"}.get(first.outcome, first.outcome.upper())
    style = "bold red" if first.outcome in WRONG else "yellow"
    title = f"[{style}]{word}[/]  [bold]{escape(blamed(first))}[/]   {escape(first.backend)}  {first.dtype}"
    console.print(title, highlight=False, soft_wrap=True)
    for line in details(first):
        console.print(escape("      " + line), highlight=False, soft_wrap=True)
    others = [r for r in group if r is not first]
    if others:
        where = ", ".join(f"{check} ({', '.join(found)})" for check, found in _also(others).items())
        console.print(escape(f"      {'also':<15} {where}"), highlight=False, soft_wrap=True)
    console.print()


def _also(records: Iterable[Record]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for record in records:
        found[record.check].append(record.dtype)
    return found


def _notes(console: Console, records: Iterable[Record]) -> None:
    """What is worth saying of cells that conform: a SHOULD that does not hold, a result that does not repeat."""
    notes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        told = notes[record.clauses[0], record.backend]
        told += [note for note in record.notes if note not in told]
        if record.nondeterministic:
            told.append(f"{record.check} in {record.dtype} is not deterministic: judged by the sum of both bounds")
    for (clause, backend), told in notes.items():
        for line in (*told[:MOST_NOTES], *([f"and {len(told) - MOST_NOTES} more"] if len(told) > MOST_NOTES else [])):
            console.print(escape(f"note  {clause}   {backend}: {line}"), highlight=False, soft_wrap=True)
    if any(notes.values()):
        console.print()
