"""A case is one line of text: it goes through the text unchanged, gives the same arrays, and nonsense is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaugeblock.conformance.checks import parse_case, registry
from gaugeblock.conformance.recipes.attention import BIASES, LAYOUTS, MASKS, QUERIES_KEYS, VALUES
from gaugeblock.conformance.strategies import Draw
from gaugeblock.conformance.strategies.attention import AttentionCase, cases
from gaugeblock.spec.errors import ConfigError, GaugeblockError
from gaugeblock.spec.precision import FLOAT32, FORMATS

SIDES = st.none() | st.integers(0, 9)
ANY = cases(
    Draw(),
    qk=tuple(QUERIES_KEYS),
    v=tuple(VALUES),
    mask=("", *MASKS),
    bias=("", *BIASES),
    causal=(False, True),
    window=(None, (2, 0), (None, 1), (3, None), (None, None)),
    scale=(None, 0.3, -0.5, 0.0, 1e-30, 1 / 3),
    layout=tuple(LAYOUTS),
    poison=(0.0, 3e4, -3e4, 1.0),
)
few = settings(max_examples=60, derandomize=True, database=None, deadline=None)


@few
@given(case=ANY)
def test_a_case_goes_through_its_text_unchanged(case: AttentionCase) -> None:
    again = AttentionCase.parse(str(case))
    assert again == case
    assert str(again) == str(case)
    assert "\n" not in str(case)


@few
@given(case=ANY, dtype=st.sampled_from(list(FORMATS)))
def test_the_same_text_gives_the_same_bits(case: AttentionCase, dtype: str) -> None:
    with np.errstate(over="ignore"):
        first, again = (one.inputs(FORMATS[dtype]) for one in (case, AttentionCase.parse(str(case))))
    assert list(first) == list(again)
    for name, x in first.items():
        assert (x.dtype, x.shape, x.strides) == (again[name].dtype, again[name].shape, again[name].strides)
        assert x.tobytes() == again[name].tobytes(), name


@few
@given(window=st.none() | st.tuples(SIDES, SIDES), scale=st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_every_option_goes_through_the_text(window: Any, scale: float | None) -> None:
    case = AttentionCase(window=window, scale=scale)
    assert AttentionCase.parse(str(case)).options() == case.options()


def test_the_seed_alone_changes_the_arrays() -> None:
    one, other = (AttentionCase(S=3, D=2, seed=seed).inputs(FLOAT32) for seed in (0, 1))
    assert all(one[name].tobytes() != other[name].tobytes() for name in "qkv")


def test_one_array_does_not_depend_on_whether_another_is_made() -> None:
    plain, masked = AttentionCase(S=3, D=2), AttentionCase(S=3, D=2, mask="random", bias="normal")
    for name, x in plain.inputs(FLOAT32).items():
        assert x.tobytes() == masked.inputs(FLOAT32)[name].tobytes()


def test_a_text_says_what_is_not_at_its_default() -> None:
    case = AttentionCase(B=2, H=4, K=2, T=3, S=5, D=8, E=6, causal=True, window=(None, 1), scale=0.5, seed=7)
    assert str(case) == "B=2 H=4 K=2 T=3 S=5 D=8 E=6 causal window=(None,1) scale=0.5 seed=7"


def test_text_without_sizes_is_a_case_of_size_one() -> None:
    assert AttentionCase.parse("") == AttentionCase()


def test_every_check_with_cases_can_be_named() -> None:
    for check in registry().values():
        if check.cases and check.case_type:
            found, case = parse_case(f"{check.name} {check.case_type()}")
            assert (found, case) == (check, check.case_type())


NONSENSE = {
    "an unknown name": ("N=3", "'N' is none of seed, B, H"),
    "a name in small letters": ("b=3", "'b' is none of"),
    "a name twice": ("B=1 B=2", "B stands twice"),
    "a word for a size": ("B=x", "B must be an integer >= 0, got 'x'"),
    "a negative size": ("B=-1", "B must be an integer >= 0, got -1"),
    "a fraction for a size": ("S=1.5", "S must be an integer >= 0, got 1.5"),
    "a whole float for a size": ("S=2.0", "S must be an integer >= 0, got 2.0"),
    "a truth value for a size": ("S=True", "S must be an integer >= 0, got True"),
    "no value for a size": ("S", "S must be an integer >= 0, got True"),
    "a negative seed": ("seed=-1", "seed must be an integer >= 0"),
    "a number for a window": ("window=3", "window must be"),
    "a window with three sides": ("window=(1,2,3)", "window must be"),
    "a window with a negative side": ("window=(-1,0)", "window must be"),
    "a window with half a side": ("window=(0.5,0)", "window must be"),
    "a word for a window": ("window=wide", "window must be"),
    "what Python cannot read": ("window={[]:1}", "window must be"),
    "a word for a scale": ("scale=nan", "scale must be"),
    "an infinite scale": ("scale=1e999", "scale must be"),
    "a value for a flag": ("causal=1", "causal must be a word without a value"),
    "a word for a flag": ("causal=yes", "causal must be a word without a value"),
    "a number for a recipe": ("qk=3", "qk must be a recipe"),
    "no value for a recipe": ("mask", "mask must be a recipe"),
    "no recipe for the values": ("v=", "v must be one of"),
    "an unknown recipe of q and k": ("qk=uniform", "qk must be one of normal, "),
    "an unknown recipe of v": ("v=uniform", "v must be one of normal, "),
    "an unknown mask": ("mask=causal", "mask must be one of random, "),
    "an unknown bias": ("bias=alibi", "bias must be one of normal, "),
    "an unknown layout": ("layout=fortran", "layout must be one of "),
    "heads that do not divide": ("H=3 K=2", "H a multiple of K"),
    "no key heads": ("H=0 K=0", "K must be at least 1"),
    "no width": ("D=0", "D and K must be at least 1"),
    "a poison that is no number": ("poison=lots", "poison must be a finite number"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    text, told = NONSENSE[name]
    with pytest.raises(ConfigError) as refused:
        parse_case(f"formula {text}")
    assert told in str(refused.value)
    assert str(refused.value).startswith("case: ")
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("text", ["", "nothing_such B=1", "B=1", "malformed_calls_are_refused B=1"])
def test_the_first_word_must_name_a_check_with_cases(text: str) -> None:
    with pytest.raises(ConfigError, match="the first word must name a check with cases"):
        parse_case(text)


NAMES = ["B", "H", "S", "D", "E", "qk", "v", "mask", "bias", "window", "scale", "causal", "at", "seed", "layout", "x"]
WORDS = ["", "=", "=0", "=2", "=-2", "=0.5", "=(1,2)", "=()", "=None", "=normal", "=[", "=1e999"]


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(tokens=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(WORDS)), max_size=3))
def test_a_text_is_a_case_or_is_refused(tokens: list[tuple[str, str]]) -> None:
    try:
        case = AttentionCase.parse(" ".join(name + word for name, word in tokens))
    except GaugeblockError:
        return
    assert AttentionCase.parse(str(case)) == case
