"""The clauses as data: what the loader accepts, what it refuses, and that clauses and checks cover one another."""

import re
import sys
from pathlib import Path

import pytest

from gaugeblock.conformance import cli, listing
from gaugeblock.conformance.checks import registry
from gaugeblock.spec.clause import Clause, clause, clauses, parse, unique
from gaugeblock.spec.components import SECTIONS
from gaugeblock.spec.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]

GOOD = """\
# Title

Words before the first clause belong to nobody.

## A section

### ROW-SUM
MUST · rows · source 2.1, 5.3; Someone 2017, eq. 1 · since 0.1

The weights of a row sum to one.

$$ \\sum_j p_j = 1 $$

*Why.* Because.

## Another section

### ROW-SIGN

SHOULD · rows · Someone 2017 · since 0.2 · no check: a matter of taste

A weight is not negative.
"""

MALFORMED: dict[str, tuple[str, int, str]] = {
    "id in small letters": ("### row-sum\nMUST · rows · source 1 · since 0.1\n\nOne.\n", 1, "WORD-WORD"),
    "id of one word": ("\n### ROWS\nMUST · rows · source 1 · since 0.1\n\nOne.\n", 2, "WORD-WORD"),
    "id and more": ("### ROW-SUM of a row\nMUST · rows · source 1 · since 0.1\n\nOne.\n", 1, "WORD-WORD"),
    "unknown kind": ("### ROW-SUM\nSHALL · rows · source 1 · since 0.1\n\nOne.\n", 2, "KIND"),
    "kind in small letters": ("### ROW-SUM\nmust · rows · source 1 · since 0.1\n\nOne.\n", 2, "KIND"),
    "too few fields": ("### ROW-SUM\nMUST · rows · since 0.1\n\nOne.\n", 2, "expected"),
    "too many fields": ("### ROW-SUM\nMUST · rows · a · since 0.1 · no check: b · c\n\nOne.\n", 2, "expected"),
    "an empty field": ("### ROW-SUM\nMUST ·  · source 1 · since 0.1\n\nOne.\n", 2, "expected"),
    "no version": ("### ROW-SUM\nMUST · rows · source 1 · 0.1\n\nOne.\n", 2, "since"),
    "a fifth field of another kind": (
        "### ROW-SUM\nMUST · rows · source 1 · since 0.1 · later\n\nOne.\n",
        2,
        "no check",
    ),
    "no sentence": ("### ROW-SUM\nMUST · rows · source 1 · since 0.1\n\n## Next\n", 1, "sentence"),
    "nothing below the heading": ("### ROW-SUM\n", 1, "header"),
    "a second one malformed": (GOOD + "\n### ROW-LAST\nMUST rows\n\nOne.\n", 25, "expected"),
}


def test_a_clause_is_read() -> None:
    first, second = parse(GOOD, "folder/rows.md")
    assert (first.id, first.kind, first.subject, first.since) == ("ROW-SUM", "MUST", "rows", "0.1")
    assert first.source == "source 2.1, 5.3; Someone 2017, eq. 1"
    assert first.sentence == "The weights of a row sum to one."
    assert first.body == "$$ \\sum_j p_j = 1 $$\n\n*Why.* Because."
    assert (first.component, first.line) == ("rows", 7)
    assert first.path == "spec/clauses/rows.md#row-sum"
    assert (first.unchecked, second.unchecked) == ("", "a matter of taste")
    assert (second.sentence, second.body) == ("A weight is not negative.", "")


@pytest.mark.parametrize("text", ["", "# Title\n\nNothing yet.\n"])
def test_a_file_may_hold_no_clause(text: str) -> None:
    assert parse(text, "rows.md") == []


@pytest.mark.parametrize(
    ("source", "sections"),
    [
        ("source 2.1, 5.3; Someone 2017", ("2.1", "5.3")),
        ("source 7", ("7",)),
        ("source 10, 6.2", ("10", "6.2")),
        ("Someone 2017, eq. 1", ()),
        ("source silent; Someone 2017, section 3.2", ()),
    ],
)
def test_sections_are_parsed(source: str, sections: tuple[str, ...]) -> None:
    (one,) = parse(f"### ROW-SUM\nMUST · rows · {source} · since 0.1\n\nOne.\n", "rows.md")
    assert one.sections == sections


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_clause_names_file_and_line(name: str) -> None:
    text, line, told = MALFORMED[name]
    with pytest.raises(ConfigError) as refused:
        parse(text, "rows.md")
    assert told in str(refused.value)
    assert f"[rows.md:{line}]" in str(refused.value)


def test_a_duplicate_names_both_places() -> None:
    with pytest.raises(ConfigError, match=r"ROW-SUM stands already at rows\.md:7 \[rows\.md:24\]"):
        parse(GOOD + "\n### ROW-SUM\nMUST · rows · source 1 · since 0.1\n\nOne.\n", "rows.md")
    with pytest.raises(ConfigError, match=r"ROW-SUM stands already at rows\.md:7 \[columns\.md:7\]"):
        unique([*parse(GOOD, "rows.md"), *parse(GOOD, "columns.md")])


def test_every_check_cites_existing_clauses() -> None:
    cited = {(check.name, name) for check in registry().values() for name in check.clauses}
    assert cited
    assert {(check, name) for check, name in cited if name not in clauses()} == set()
    assert [check.name for check in registry().values() if not check.clauses] == []


def test_every_binding_clause_has_a_check_or_says_why_not() -> None:
    cited = {name for check in registry().values() for name in check.clauses}
    binding = [one for one in clauses().values() if one.kind in ("MUST", "SHOULD")]
    assert len(binding) > 20
    assert [one.id for one in binding if one.id not in cited and not one.unchecked] == []


def test_no_clause_says_both() -> None:
    cited = {name for check in registry().values() for name in check.clauses}
    assert [one.id for one in clauses().values() if one.id in cited and one.unchecked] == []


def test_a_clause_that_binds_nobody_says_that_it_has_no_check() -> None:
    cited = {name for check in registry().values() for name in check.clauses}
    others = [one for one in clauses().values() if one.kind not in ("MUST", "SHOULD") and one.id not in cited]
    assert [one.id for one in others if not one.unchecked] == []


@pytest.mark.parametrize("one", clauses().values(), ids=lambda one: one.id)
def test_a_clause_keeps_to_the_skeleton(one: Clause) -> None:
    assert re.fullmatch(r"[^*$|#][^\n]+\.", one.sentence), "one sentence, on one line"
    assert re.search(r"^\*Why\.\*", one.body, flags=re.MULTILINE) or one.kind not in ("MUST", "SHOULD", "MAY")
    chapters = {number.partition(".")[0] for number in SECTIONS}
    assert [number for number in one.sections if number.partition(".")[0] not in chapters] == []
    assert re.fullmatch(r"\d+\.\d+", one.since)


def test_no_clause_hides_behind_a_heading_of_another_level() -> None:
    for file in (ROOT / "spec" / "clauses").glob("*.md"):
        text = file.read_text(encoding="utf-8")
        headings = re.findall(r"^(#+) *([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)\s*$", text, flags=re.MULTILINE)
        assert [name for marks, name in headings if marks != "###" or name not in clauses()] == []


def test_explain_prints_the_clause_and_its_checks() -> None:
    text = "\n".join(listing.explain("attn-mask"))
    one = clause("ATTN-MASK")
    assert text.startswith(f"ATTN-MASK   {one.kind} · {one.subject} · {one.source} · since {one.since}\n")
    assert one.sentence in text and one.body in text
    assert "checked by  true_means_may_attend" in text
    assert text.endswith("stands in   spec/clauses/attention.md#attn-mask")


def test_explain_says_why_there_is_no_check() -> None:
    silent = next(one for one in clauses().values() if one.unchecked)
    assert f"checked by  {silent.unchecked}" in "\n".join(listing.explain(silent.id))


def test_cite_is_one_line_with_version_and_place() -> None:
    cited = listing.cite("ATTN-MASK")
    assert re.fullmatch(
        r"gaugeblock \d+\.\d+\.\d+, ATTN-MASK \(MUST\): .+\. \[spec/clauses/attention\.md#attn-mask\]", cited
    )


def test_list_prints_every_clause_section_and_feature(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for option in ("--clauses", "--sections", "--features", "--backends"):
        printed[option] = said(capsys, "list", option)
    assert [one.id for one in clauses().values() if one.id not in printed["--clauses"]] == []
    assert [number for number, title in SECTIONS.items() if f"{number:<4} {title}" not in printed["--sections"]] == []
    covered = re.findall(r"[A-Z0-9]+(?:-[A-Z0-9]+)+", printed["--sections"])
    assert {one.id for one in clauses().values() if one.sections} == set(covered)
    assert "attention.mask+causal" in printed["--features"]
    assert re.findall(r"^(\w+) ", printed["--backends"], flags=re.MULTILINE) == ["jax", "numpy", "torch"]
    assert re.search(r"^attention +\d\d clauses +Attention$", said(capsys, "list"), flags=re.MULTILINE)


@pytest.mark.parametrize("command", ["explain", "cite"])
def test_an_unknown_clause_is_refused_with_the_nearest(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = said(capsys, command, "ATTN-MASKS", status=2)
    assert re.fullmatch(
        r"gaugeblock: clauses: there is no clause 'ATTN-MASKS'; did you mean ATTN-MASK, .+\?\n", message
    )
    assert "`gaugeblock list --clauses` prints them all" in said(capsys, command, "zzz", status=2)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command line prints: on stdout where it succeeds, else on stderr."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "argv", ["gaugeblock", *arguments])
        cli.main()
    out, err = capsys.readouterr()
    assert (end.value.code or 0, "Traceback" in err) == (status, False), err
    return err if status else out
