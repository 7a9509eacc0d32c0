"""Generic mutants: which changes are made, and that they are noticed."""

import ast
import sys

import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.mutants.ast_mutation import mutations
from gaugeblock.conformance.mutants.equivalent import EQUIVALENT
from gaugeblock.conformance.mutants.generic import changed, judged, path, sample
from gaugeblock.spec.errors import ConfigError

SOURCE = '''
def f(x, y: int = 3):
    """Not 1.5 this."""
    if x < 2 and not y:
        raise ValueError("not 7 this")
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
    ],
)
def test_a_change_is_made(kind: str, after: str) -> None:
    assert (kind, after) in {(m.kind, m.after) for m in mutations(SOURCE)}


def test_changes_differ_and_spare_what_is_said() -> None:
    found = mutations(SOURCE)
    assert len({m.source for m in found}) == len(found)
    assert all("this" in m.source and "y: int=3" in m.source and m.source.count("this") == 2 for m in found)
    assert all(ast.parse(m.source) for m in found)
    assert {m.line for m in found} == {4, 6}


def test_a_sample_is_the_same_for_a_seed() -> None:
    whole, some = sample("normalization", None, 0), sample("normalization", 5, 3)
    assert some == sample("normalization", 5, 3) and len(some) == 5 and all(m in whole for m in some)
    with pytest.raises(ConfigError, match="no module"):
        sample("nothing", 5, 0)


def test_a_changed_backend_stands_beside_the_right_one() -> None:
    source = path("normalization").read_text(encoding="utf-8").replace("1 / np.sqrt(", "2 / np.sqrt(")
    x = NumpyBackend().asarray(__import__("numpy").ones((1, 4), "float32"))
    wrong, right = changed("normalization", source)(), NumpyBackend()
    assert wrong.rms_norm(x, None, eps=0.0)[0, 0] == 2 * right.rms_norm(x, None, eps=0.0)[0, 0]  # type: ignore[attr-defined]
    assert sys.modules["gaugeblock.backends.numpy"].NumpyBackend is NumpyBackend


def test_a_change_is_judged() -> None:
    found = {m.after: m for m in sample("normalization", None, 0)}
    square = "return np.asarray(1 / np.sqrt(mean_square - mean_square.dtype.type(eps)))"
    killed = judged("normalization", found[square], "quick")
    assert killed.fate == "killed" and killed.by and killed.diff.count("\n") == 1
    widened = judged("normalization", found["return weight"], "quick")
    assert widened.fate == "equivalent" and "widens" in widened.by


def test_the_equivalent_changes_are_still_possible() -> None:
    """A change of the backend must not leave an excuse behind that excuses nothing."""
    made = {(m, x.before, x.after) for m in {m for m, *_ in EQUIVALENT} for x in sample(m, None, 0)}
    assert not set(EQUIVALENT) - made
