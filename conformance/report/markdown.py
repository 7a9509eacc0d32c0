"""The report in Markdown: one table for each backend, and the failures."""

from collections.abc import Sequence

from gaugeblock.conformance.checks import Record
from gaugeblock.conformance.report.failure import text
from gaugeblock.conformance.report.terminal import by_clause, failures, summary, worst
from gaugeblock.spec.clause import clause, clauses
from gaugeblock.spec.precision import FORMATS


def render(records: Sequence[Record]) -> str:
    """The whole report."""
    names = dict.fromkeys(r.backend for r in records)
    return "\n".join(_backend(name, [r for r in records if r.backend == name]) for name in names)


def _backend(name: str, records: Sequence[Record]) -> str:
    dtypes = [dtype for dtype in FORMATS if any(r.dtype == dtype for r in records)]
    rows = [f"| {' | '.join(('clause', *dtypes))} |", f"|{'---|' * (1 + len(dtypes))}"]
    for found, cells in by_clause(records).items():
        shown = (worst(r.outcome for r in cells[d]) if cells[d] else "" for d in dtypes)
        rows.append(f"| {' | '.join((_link(found), *shown))} |")
    blocks = [f"\n```\n{text(group[0])}\n```" for group in failures(records)]
    return "\n".join([f"## {name}", "", *rows, *blocks, "", summary(name, records), ""])


def _link(name: str) -> str:
    return f"[{name}]({clause(name).path})" if name in clauses() else name
