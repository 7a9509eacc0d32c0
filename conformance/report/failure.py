"""A failure as a person reads it: clause, smallest case, expected and got, the likely mistake, the line to paste."""

import math
import shlex
from collections.abc import Iterator
from typing import Any

from gaugeblock.conformance.checks import Record
from gaugeblock.spec.clause import clause, clauses

INDENT = "      "


def text(record: Record, case: str = "smallest case") -> str:
    """The whole block for a cell that does not conform; case is what to call the case that fails."""
    return "\n".join([title(record), *(INDENT + line for line in details(record, case))])


def title(record: Record) -> str:
    """What failed where."""
    word = {"fail": "FAIL", "error": "ERROR"}.get(record.outcome, record.outcome.upper())
    return f"{word}  {blamed(record)}   {record.backend}  {record.dtype}"


def blamed(record: Record) -> str:
    """The clause that a cell's failure breaks: its own first one, or that to which the failure belongs."""
    return str((record.failure or {}).get("clause") or record.clauses[0])


def details(record: Record, case: str = "smallest case") -> Iterator[str]:
    """The lines below the title."""
    failure = record.failure or {}
    if blamed(record) in clauses():
        found = clause(blamed(record))
        yield found.sentence
        yield _row("clause", found.path)
    if record.reason or failure.get("problem"):
        yield _row("law" if record.outcome == "fail" else record.outcome, record.reason or failure["problem"])
    if failure.get("case"):
        yield _row(case, failure["case"])
    if "index" in failure:
        yield _row("element", _element(failure))
    for hint in failure.get("likely", ()):
        yield _row("likely", hint["text"])
        if hint["declare"]:
            yield _row("to declare it", hint["declare"])
    yield _row("reproduce", reproduce(record))


def reproduce(record: Record) -> str:
    """The command that runs exactly this case, or this check where it has no cases."""
    case = (record.failure or {}).get("case")
    what = f"--case {shlex.quote(case)}" if case else f"--only {record.check}"
    return f"gaugeblock check {shlex.quote(record.target or record.backend)} --dtype {record.dtype} {what}"


def _element(failure: dict[str, Any]) -> str:
    numbers = (f"{name} {_number(failure[name])}" for name in ("expected", "got"))
    where = f"{tuple(failure['index'])}  {'   '.join(numbers)}"
    allowed, ratio = float(failure["allowed"]), float(failure["ratio"])
    if math.isnan(float(failure["expected"])):
        return where + _wrong(failure)
    if allowed == 0:
        return f"{where}   must be equal" + _wrong(failure)
    return f"{where}   allowed ±{allowed:.2g}" + (f"  ({ratio:.3g} × too far)" if ratio > 1 else "") + _wrong(failure)


def _wrong(failure: dict[str, Any]) -> str:
    return f"  [{failure['wrong']} elements wrong]" if failure.get("wrong", 1) > 1 else ""


def _number(x: Any) -> str:
    return f"{float(x):.7g}"


def _row(name: str, value: str) -> str:
    return f"{name:<15} {value}"
