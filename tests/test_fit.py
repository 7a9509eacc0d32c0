"""A backend must fit the interface, and what it declares must have a meaning: one clear refusal for each other one."""

import re
from pathlib import Path

import pytest
from bringing import CANONICAL, attending, declaring, written

from gaugeblock.conformance.load import load
from gaugeblock.spec.errors import ConfigError

pytestmark = pytest.mark.usefixtures("own_path")


REFUSED = {
    "import error": (
        "import no_such_package\n",
        "Good",
        "raised ModuleNotFoundError: No module named 'no_such_package'",
    ),
    "syntax error": ("def x(:\n", "Good", "raised SyntaxError: invalid syntax"),
    "error at import": ("1 / 0\n", "Good", "raised ZeroDivisionError: division by zero"),
    "no such attribute": ("", "Best", "mine.py has no attribute 'Best'; it has NumpyBackend, Good"),
    "a function": ("def make(): return Good()\n", "make", "must be a subclass of gaugeblock.Backend, got function"),
    "a variant of an object": ("it = Good()\n", "it@fast", "is an object, which has no variants, got 'fast'"),
    "no component": (
        "class X(Backend):\n    dtypes = {'float32'}\n",
        "X",
        "offers no component; subclass one of gauge",
    ),
    "missing method": (
        "class X(Attention, Backend):\n    dtypes = {'float32'}\n",
        "X",
        f"attention: is missing\n  paste: {CANONICAL}",
    ),
    "wrong parameter names": (
        attending(
            "def attention(self, query, key, value, *, mask=None, bias=None, causal=False, window=None, scale=1):"
        ),
        "X",
        "attention: must take self, q, k, v in this order; requires query, key, value, which the interface does not "
        f"have\n  paste: {CANONICAL}",
    ),
    "wrong order": (
        attending("def attention(self, q, v, k, *, mask=None, bias=None, causal=False, window=None, scale=None):"),
        "X",
        "attention: must take self, q, k, v in this order",
    ),
    "wrong keyword": (
        attending("def attention(self, q, k, v, *, mask=None, bias=None, is_causal=False, window=None, scale=None):"),
        "X",
        'attention: lacks the keyword causal (or unsupported = {"attention.causal": "why"})\n',
    ),
    "keywords left out": (
        attending("def attention(self, q, k, v, *, causal=False, scale=None):"),
        "X",
        "attention: lacks the keyword mask, bias, window (or unsupported = "
        '{"attention.mask": "why", "attention.bias": "why", "attention.window": "why"})',
    ),
    "a keyword left out in one dtype": (
        attending(
            "def attention(self, q, k, v, *, mask=None, bias=None, causal=False, scale=None):",
            'dtypes = frozenset({"float32", "float16"})\nunsupported = {"attention.window@float16": "no"}',
        ),
        "X",
        "attention: lacks the keyword window",
    ),
    "extra required parameter": (
        attending("def attention(self, q, k, v, cache, *, mask=None, bias=None, causal=0, window=None, scale=None):"),
        "X",
        "attention: requires cache, which the interface does not have",
    ),
    "extra required keyword": (
        attending("def attention(self, q, k, v, *, mask=None, bias=None, causal=0, window=None, scale=None, dropout):"),
        "X",
        "attention: requires dropout, which the interface does not have",
    ),
    "no signature": (
        attending(CANONICAL) + "X.attention.__signature__ = 'as a C function'\n",
        "X",
        "attention: has no signature that Python can read",
    ),
    "unknown feature": (declaring('unsupported = {"attention.windows": "no"}'), "X", "unknown key 'attention.windows'"),
    "unknown component": (declaring('unsupported = {"atention.window": "no"}'), "X", "unknown key 'atention.window'"),
    "unknown dtype of a feature": (
        declaring('unsupported = {"attention.window@float8": "no"}'),
        "X",
        "unknown key 'attention.window@float8' in unsupported",
    ),
    "feature without a reason": (
        declaring('unsupported = {"attention.window": ""}'),
        "X",
        "unsupported needs a reason for 'attention.window'",
    ),
    "features without reasons": (declaring('unsupported = {"attention.bias"}'), "X", "unsupported must be a Mapping"),
    "no dtypes": (declaring("dtypes = frozenset()"), "X", "must declare dtypes, a set of float64, float32, bfloat16"),
    "unknown dtype": (declaring('dtypes = {"float32", "fp8"}'), "X", "must declare dtypes"),
    "one dtype in a string": (declaring('dtypes = "float32"'), "X", "must declare dtypes"),
    "dtypes of another kind": (declaring("dtypes = None"), "X", "dtypes must be a Collection, got None"),
    "level of no dtype": (declaring('level = {"half": Level.FUSED}'), "X", "level maps .* to Level, got 'half'"),
    "level of no component": (declaring('level = {"attn@float16": Level.FUSED}'), "X", "got 'attn@float16'"),
    "level in a word": (declaring('level = {"float16": "fused"}'), "X", "got 'float16': 'fused'"),
    "one level for all": (declaring("level = Level.FUSED"), "X", "level must be a Mapping, got <Level.FUSED"),
    "conventions in a mapping": (declaring("conventions = {}"), "X", "conventions must be a Conventions, got {}"),
    "unknown convention": (declaring("conventions = Conventions(rows=1)"), "X", "raised TypeError: .*'rows'"),
    "unknown alignment": (
        declaring('conventions = Conventions(causal_alignment="left")'),
        "X",
        "causal_alignment must be one of bottom_right, top_left, got 'left'",
    ),
    "unknown empty row": (
        declaring('conventions = Conventions(empty_row={"mask": "ones"})'),
        "X",
        "empty_row must be one of zeros, mean, nan, got 'ones'",
    ),
    "errors of another kind": (
        declaring("errors = {ValueError: 'ShapeError'}"),
        "X",
        "errors maps exceptions to gauge",
    ),
    "constructor without variant": (
        "class X(Good):\n    def __init__(self): pass\n",
        "X",
        'raised TypeError: .*; the constructor takes one argument, variant: str = ""',
    ),
    "constructor that raises": (
        "class X(Good):\n    def __init__(self, variant=''): raise OSError('no licence\\nat all')\n",
        "X",
        "raised OSError: no licence; the constructor",
    ),
    "another abstract method": (
        "import abc\nclass X(Good):\n    @abc.abstractmethod\n    def more(self): ...\n",
        "X",
        "raised TypeError: Can't instantiate abstract class",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_backend_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    text, attribute, told = REFUSED[name]
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load(f"{path}:{attribute}")
    message = str(refused.value)
    assert message.startswith(("backends: ", "features: "))
    assert told in message or re.search(told, message), message
    assert len(message.splitlines()) <= 5


def test_an_object_is_held_to_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, f"{attending('def attention(self, q, k, v):')}it = X()\nright = Good()\n")
    with pytest.raises(ConfigError, match="lacks the keyword mask, bias, causal, window, scale"):
        load(f"{path}:it")
    assert load(f"{path}:right").name == "good"


@pytest.mark.parametrize(
    "signature",
    [
        CANONICAL,
        "def attention(self, q, k, v, mask=None, bias=None, causal=False, window=None, scale=None):",
        "def attention(self, q, k, v, **options):",
        "def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None, fast=True):",
    ],
)
def test_signatures_that_serve(signature: str, tmp_path: Path) -> None:
    assert load(f"{written(tmp_path, attending(signature))}:X").name == "X"


@pytest.mark.parametrize(
    "unsupported",
    ['{"attention.window": "no"}', '{"attention.window@float32": "no", "attention.window@float16": "no"}'],
)
def test_a_keyword_may_be_left_out_whose_feature_is_declared(unsupported: str, tmp_path: Path) -> None:
    signature = "def attention(self, q, k, v, *, mask=None, bias=None, causal=False, scale=None):"
    declared = f'dtypes = frozenset({{"float32", "float16"}})\nunsupported = {unsupported}'
    assert load(f"{written(tmp_path, attending(signature, declared))}:X").name == "X"
