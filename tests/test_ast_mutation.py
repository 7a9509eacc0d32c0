"""Generic mutants: which changes are made, and that they are noticed."""

import ast
import sys
from dataclasses import replace

import numpy as np
import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.mutants.ast_mutation import Mutation, mutations, probed
from gaugeblock.conformance.mutants.equivalent import EQUIVALENT, excuse
from gaugeblock.conformance.mutants.generic import FILES, Odds, Trial, sample
from gaugeblock.conformance.mutants.reach import Reach, Visit, reach
from gaugeblock.conformance.mutants.reasons import NO_NUMBERS
from gaugeblock.conformance.mutants.swapped import PACKAGE, changed, path
from gaugeblock.spec.errors import ConfigError

SOURCE = '''
def f(x, y: int = 3):
    """Not 1.5 this."""
    if x < 2 and not y:
        raise ValueError("not 7 this")
    match y:
        case 1:
            return np.asarray(x)
    return g(x - y, axis=-1) * 0.5
'''


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("comparison", "if x <= 2 and (not y):"),
        ("comparison", "if x > 2 and (not y):"),
        ("operator", "if x < 2 or not y:"),
        ("off by one", "if x < 3 and (not y):"),
        ("sign dropped", "if x < 2 and y:"),
        ("operator", "return g(x + y, axis=-1) * 0.5"),
        ("operands swapped", "return g(y - x, axis=-1) * 0.5"),
        ("term dropped", "return g(x, axis=-1) * 0.5"),
        ("term dropped", "return g(x - y, axis=-1)"),
        ("off by one", "return g(x - y, axis=-2) * 0.5"),
        ("keyword dropped", "return g(x - y) * 0.5"),
        ("constant", "return g(x - y, axis=-1) * -0.5"),
        ("result scaled", "return _scaled(g(x - y, axis=-1) * 0.5, 0.99)"),
        ("result demoted", "return _demoted(g(x - y, axis=-1) * 0.5)"),
        ("call dropped", "return x"),
        ("default", "def f(x, y: int=4):"),
    ],
)
def test_a_change_is_made(kind: str, after: str) -> None:
    assert (kind, after) in {(m.kind, m.after) for m in mutations(SOURCE)}


def test_changes_differ_and_spare_what_is_said() -> None:
    found = mutations(SOURCE)
    assert len({m.source for m in found}) == len(found)
    assert all(m.source.count("this") == 2 for m in found)
    assert all("y: int=3" in m.source for m in found if m.kind != "default")
    assert all(ast.parse(m.source) for m in found)
    assert {m.line for m in found} == {2, 4, 8, 9}


def test_a_probe_tells_what_happens_and_changes_nothing() -> None:
    lines: list[int] = []
    helpers = {"_reached": lines.append, "_passed": lambda x, line: x, "_converted": lambda x, line: x}
    scope = {"g": lambda x, axis: x, "np": np, **helpers}
    exec(probed(SOURCE), scope)
    assert scope["f"](5, 3) == 1.0 and lines == [2, 3, 4, 6, 9]  # type: ignore[operator]
    assert scope["f"](5, 1) == 5 and lines[5:] == [2, 3, 4, 6, 8]  # type: ignore[operator]


def test_a_sample_is_the_same_for_a_seed() -> None:
    whole, some = sample("normalization", None, 0), sample("normalization", 5, 3)
    assert some == sample("normalization", 5, 3) and len(some) == 5 and all(m in whole for m in some)
    with pytest.raises(ConfigError, match="no module"):
        sample("nothing", 5, 0)


def test_a_changed_backend_stands_beside_the_right_one() -> None:
    source = path("normalization").read_text(encoding="utf-8").replace("1 / np.sqrt(", "2 / np.sqrt(")
    x = NumpyBackend().asarray(np.ones((1, 4), "float32"))
    wrong, right = changed("normalization", source)(), NumpyBackend()
    assert wrong.rms_norm(x, None, eps=0.0)[0, 0] == 2 * right.rms_norm(x, None, eps=0.0)[0, 0]  # type: ignore[attr-defined]
    assert sys.modules[PACKAGE].NumpyBackend is NumpyBackend


@pytest.fixture(scope="module")
def learned() -> Reach:
    return reach({"positions": ("positions",)}, "quick")["positions"]


def one(after: str) -> Mutation:
    return next(m for m in sample("positions", None, 0) if m.after == after)


def test_a_change_is_judged_by_the_checks_that_come_there(learned: Reach) -> None:
    lookup = one("return _scaled(np.asarray(table[positions]), 0.99)")
    names = {visit.check for visit in learned.visits[lookup.line]}
    assert "lookup" in names and not any("slopes" in name for name in names)
    killed = Trial("positions", learned, "quick")(lookup)
    assert killed.fate == "killed" and killed.by and killed.diff.count("\n") == 1


def test_what_is_not_noticed_is_excused_or_survives(learned: Reach) -> None:
    trial = Trial("positions", learned, "quick")
    assert trial(one("return table[positions]")).fate == "equivalent"
    nowhere = Trial("positions", Reach({}, {}, frozenset()), "quick")
    assert nowhere(one("return _scaled(np.asarray(table[positions]), 0.99)")).by == "no check comes there"


def test_a_result_without_numbers_cannot_be_scaled() -> None:
    made = Mutation("result scaled", 7, "return x", "return _scaled(x, 0.99)", "")
    visits = {7: [Visit("formula", "float32", 0.1, frozenset())]}
    assert Trial("attention", Reach(visits, {}, frozenset())).__call__(made).by == NO_NUMBERS


def test_asarray_of_an_array_may_be_dropped() -> None:
    dropped = Mutation("call dropped", 1, "return np.asarray(f(np.asarray(x)))", "return np.asarray(f(x))", "")
    assert excuse("attention", dropped, arrays=True) and not excuse("attention", dropped, arrays=False)
    assert not excuse("attention", replace(dropped, after="return np.asarray(f(np.asarray(y)))"), arrays=True)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("x = min(max(a, 0), b)", "x = min(max(0, a), b)", True),
        ("x = min(max(a, 0), b)", "x = min(b, max(a, 0))", True),
        ("x = f(max(a, 0), b)", "x = f(b, max(a, 0))", False),
        ("if max(a, b) > f(a, b):", "if max(a, b) > f(b, a):", False),
        ("x = np.clip(a, 0, b)", "x = np.clip(0, a, b)", True),
        ("x = np.clip(a, 0, b)", "x = np.clip(a, b, 0)", False),
        ("x = a.swapaxes(1, 2).f(1, 2)", "x = a.swapaxes(2, 1).f(1, 2)", True),
        ("x = a.swapaxes(1, 2).f(1, 2)", "x = a.swapaxes(1, 2).f(2, 1)", False),
    ],
)
def test_arguments_of_max_and_min_may_be_swapped(before: str, after: str, same: bool) -> None:
    assert bool(excuse("rotary", Mutation("arguments swapped", 1, before, after, ""), arrays=True)) is same


@pytest.mark.parametrize(
    ("after", "same"),
    [
        ("return f(upcast(x) @ y, upcast(z))", True),
        ("return f(x @ upcast(y), upcast(z))", True),
        ("return f(x @ y, upcast(z))", False),
        ("return f(upcast(x) @ upcast(y), z)", False),
    ],
)
def test_one_of_two_factors_need_not_be_widened(after: str, same: bool) -> None:
    made = Mutation("call dropped", 1, "return f(upcast(x) @ upcast(y), upcast(z))", after, "")
    assert bool(excuse("rotary", made, arrays=True)) is same


def test_what_kills_most_in_a_second_comes_first() -> None:
    odds, visits = Odds(), [Visit(name, "float32", s, frozenset()) for name, s in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    assert odds.ordered(1, visits) == visits
    odds.note(1, visits[2], killed=True)
    assert [visit.check for visit in odds.ordered(1, visits)] == ["c", "a", "b"]
    odds.note(2, visits[0], killed=False)
    assert [visit.check for visit in odds.ordered(2, visits)] == ["c", "b", "a"]


def test_every_file_of_the_backend_is_swept() -> None:
    folder = path("arrays").parent
    assert {file.stem for file in folder.glob("*.py")} - {"__init__"} == set(FILES)


def test_the_equivalent_changes_are_still_possible() -> None:
    """A change of the backend must not leave an excuse behind that excuses nothing."""
    made = {(m, x.before, x.after) for m in {m for m, *_ in EQUIVALENT} for x in sample(m, None, 0)}
    assert not set(EQUIVALENT) - made
