"""The clauses as data: the loader reads headings, the header line and the sentence below it, never their English."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from gaugeblock.spec.errors import ConfigError

KINDS = ("MUST", "SHOULD", "MAY", "INFORMATIVE", "ERRATUM")

_HEADING = re.compile(r"^###\s+(?P<id>.+?)\s*$")
_ID = re.compile(r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+$")
_SECTION = re.compile(r"\bsource ((?:\d+(?:\.\d+)?(?:, )?)+)")


@dataclass(frozen=True)
class Clause:
    """One clause of the specification.

    kind is MUST, SHOULD, MAY, INFORMATIVE or ERRATUM; subject the component or feature that it binds; source the
    sections of the source document and the papers; unchecked the reason why no check is possible ("" = has one).
    """

    id: str
    kind: str
    subject: str
    source: str
    since: str
    unchecked: str
    sentence: str
    body: str
    component: str
    line: int

    @property
    def path(self) -> str:
        """Where it stands in the repository, as a link that any forge resolves."""
        return f"spec/clauses/{self.component}.md#{self.id.lower()}"

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections of the source document that it covers."""
        found = _SECTION.search(self.source)
        return tuple(found[1].split(", ")) if found else ()


def parse(text: str, file: str) -> list[Clause]:
    """Read the clauses of one Markdown file; a clause is a level-three heading, header line, sentence, body.

    Raises ConfigError that names file and line for a clause that is malformed or stands there twice.
    """
    component = file.rsplit("/", 1)[-1].removesuffix(".md")
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if _HEADING.match(line)]
    ends = [*starts, len(lines)][1:]
    found = [_clause(lines, start, end, component, file) for start, end in zip(starts, ends, strict=True)]
    return list(unique(found).values())


def unique(clauses: Iterable[Clause]) -> Mapping[str, Clause]:
    """The clauses by id.

    Raises ConfigError that names both places if an id stands twice.
    """
    by_id: dict[str, Clause] = {}
    for clause in clauses:
        if clause.id in by_id:
            first = by_id[clause.id]
            raise _malformed(
                f"{clause.component}.md",
                clause.line,
                f"{clause.id} stands already at {first.component}.md:{first.line}",
            )
        by_id[clause.id] = clause
    return by_id


@cache
def clauses() -> Mapping[str, Clause]:
    """All clauses of the specification by id, in the order of the files."""
    found: list[Clause] = []
    for file in sorted(_directory().iterdir(), key=lambda f: f.name):
        if file.name.endswith(".md"):
            found += parse(file.read_text(encoding="utf-8"), file.name)
    return unique(found)


def clause(name: str) -> Clause:
    """The clause with this id (case does not matter).

    Raises ConfigError, with the nearest ids, if there is none.
    """
    known = clauses()
    if name.upper() not in known:
        from difflib import get_close_matches

        near = get_close_matches(name.upper(), known, n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(near)}?" if near else "; `gaugeblock list --clauses` prints them all"
        raise ConfigError(f"clauses: there is no clause {name!r}{hint}")
    return known[name.upper()]


def _directory() -> Traversable:
    return files("gaugeblock.spec") / "clauses"


def _clause(lines: list[str], start: int, end: int, component: str, file: str) -> Clause:
    name = lines[start].lstrip("#").strip()
    if not _ID.match(name):
        raise _malformed(file, start + 1, f"a clause id is WORD-WORD in capitals, got {name!r}")
    body = [n for n in range(start + 1, end) if lines[n].strip() and not lines[n].startswith("## ")]
    if len(body) < 2:
        raise _malformed(file, start + 1, f"{name} needs a header line and a normative sentence")
    kind, subject, source, since, unchecked = _header(lines[body[0]], file, body[0] + 1)
    return Clause(
        id=name,
        kind=kind,
        subject=subject,
        source=source,
        since=since,
        unchecked=unchecked,
        sentence=lines[body[1]].strip(),
        body="\n".join(lines[body[1] + 1 : body[-1] + 1]).strip(),
        component=component,
        line=start + 1,
    )


def _header(line: str, file: str, number: int) -> tuple[str, str, str, str, str]:
    expected = "KIND · subject · source … · since VERSION [· no check: reason]"
    fields = [field.strip() for field in line.split(" · ")]
    if len(fields) not in (4, 5) or fields[0] not in KINDS or not all(fields):
        raise _malformed(file, number, f"expected {expected!r} with KIND of {', '.join(KINDS)}, got {line!r}")
    kind, subject, source, since, *rest = fields
    if not since.startswith("since ") or (rest and not rest[0].startswith("no check: ")):
        raise _malformed(file, number, f"expected {expected!r}, got {line!r}")
    return kind, subject, source, since.removeprefix("since "), rest[0].removeprefix("no check: ") if rest else ""


def _malformed(file: str, line: int, problem: str) -> ConfigError:
    return ConfigError(f"clauses: {problem} [{file}:{line}]")
