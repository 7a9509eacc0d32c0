"""Every feature is drawn by some check and missed where it works after all; every convention is held to."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import checks, diagnosis
from gaugeblock.conformance.checks import Check, Plan, registry, run
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.mutants.positions_declared import AnyPositionDeclared
from gaugeblock.spec.conventions import CHOICES, Conventions
from gaugeblock.spec.features import FEATURES

# cache_nbytes gives a number in any case, and nothing says which is wrong where keys and values are not what is kept
NO_RIGHT_ANSWER = {"decoder.bytes"}
# weaker promises, which the canonical backend keeps; a model raises for ids on the host whatever is declared
WEAKER = {("scalars", "float32"), ("out_of_range", "undefined"), ("consumed_cache", "undefined")}


def test_every_feature_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feature that is offered and refused, or ignored, is met by an example of some check."""
    drawn: set[tuple[str, frozenset[str]]] = set()

    def note(check: Check, cell: Any, case: Any) -> None:
        drawn.add((check.offer, frozenset(case.used()) | check.needs))

    monkeypatch.setattr(checks, "_example", note)
    monkeypatch.setattr(checks, "_conclude", lambda cell: None)
    for check in registry().values():
        if check.cases is not None:
            assert run(check, NumpyBackend(), "float32", Plan(shrink=False)).outcome == "pass"
    names = {feature: feature.partition(".") for feature in FEATURES}
    lost = [f for f, (own, _, o) in names.items() if not any(own == x and used >= {*o.split("+")} for x, used in drawn)]
    assert not lost


@pytest.mark.parametrize("feature", [feature for feature in FEATURES if feature not in NO_RIGHT_ANSWER])
def test_a_feature_that_works_and_is_declared_unsupported_is_noticed(feature: str) -> None:
    offer = feature.partition(".")[0]
    declaring = type("Declaring", (NumpyBackend,), {"name": "declaring", "unsupported": {feature: "said so"}})
    mine = [c for c in registry().values() if c.offer == offer and "unsupported" in c.name]
    outcomes = [run(check, declaring(), "float32", Plan("quick", shrink=False)).outcome for check in mine]
    assert "unexpected-pass" in outcomes


def _others() -> Iterator[tuple[str, str]]:
    for name, values in {**CHOICES, "empty_row": ("zeros", "mean", "nan")}.items():
        yield from ((name, value) for value in values[1:] if (name, value) not in WEAKER)


@pytest.mark.parametrize(("name", "value"), list(_others()))
def test_every_other_value_of_a_convention_is_a_mutant(name: str, value: str) -> None:
    """Declared by a backend that is canonical; that its clause kills it is tested with the other mutants."""
    wrong = replace(Conventions(), **{name: value})
    assert any(m.make.conventions == wrong and NumpyBackend in m.make.__mro__ for m in mutants().values())


def test_a_diagnosis_of_an_odd_width_does_not_break_down() -> None:
    wrong = type("Wrong", (AnyPositionDeclared,), {"name": "wrong", "_exponents": lambda self, d: 0 * super_(self, d)})
    assert run(registry()["odd_width"], wrong(), "float32", Plan("quick", shrink=False)).outcome == "fail"


def super_(backend: NumpyBackend, d: Any) -> Any:
    return NumpyBackend._exponents(backend, d)


def test_a_diagnosis_that_breaks_down_does_not_hide_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Iterator[Any]:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(diagnosis, "_explanations", breaks)
    check = registry()["true_means_may_attend"]
    found = run(check, mutants()["MaskInverted"].make(), "float32", Plan("quick"))
    assert (found.outcome, (found.failure or {})["likely"]) == (
        "fail",
        [{"text": f"{diagnosis.BROKEN}: ZeroDivisionError: by nothing", "declare": ""}],
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_mask_of_the_contexts_length_breaks_no_diagnosis(seed: int) -> None:
    wrong = mutants()["MaskOfTheFirstHeadInALayer"].make()
    for name in ("true_lets_a_head_attend", "every_head_has_its_mask"):
        found = run(registry()[name], wrong, "float32", Plan("default", seed, shrink=False))
        assert diagnosis.BROKEN not in str(found.failure)


def test_nor_does_one_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Iterator[Any]:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("gaugeblock.conformance.mistakes.gradients._varied", breaks)
    wrong = next(m for m in mutants().values() if m.killed_by[0] == "ATTN-GRADIENT")
    found = run(registry()["gradients_of_attention"], wrong.make(), "float32", Plan("quick", shrink=False))
    assert found.outcome == "fail" and diagnosis.BROKEN in str(found.failure)
