"""From a word to a backend: every form of the word, and one clear refusal for everything that cannot be used."""

import re
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import gaugeblock
from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import load as loading
from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.load import load, names
from gaugeblock.spec.attention import Attention
from gaugeblock.spec.errors import ConfigError, NotAvailable
from gaugeblock.spec.precision import Level

HEAD = """
import numpy as np
from gaugeblock import Backend, Conventions, Level
from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.spec.attention import Attention

class Good(NumpyAttention, Backend):
    name = "good"
    dtypes = frozenset({"float32"})
"""

CANONICAL = "def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):"
GIVES = " return NumpyBackend().attention(q, k, v)"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def written(folder: Path, text: str = "", name: str = "mine.py") -> Path:
    """A file of the user's, with a good backend and what else the test needs."""
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return path


def attending(signature: str, declarations: str = "") -> str:
    """A backend class with this method and these declarations."""
    lines = ["class X(Attention, Backend):", 'dtypes = frozenset({"float32"})', *declarations.splitlines()]
    return "\n    ".join([*lines, signature + GIVES]) + "\n"


def declaring(declarations: str) -> str:
    """A right backend with these declarations."""
    return f"class X(NumpyBackend):\n    {declarations}\n"


def test_the_installed_backends_are_known_by_name() -> None:
    assert names() == ("jax", "numpy", "torch")
    assert isinstance(load("numpy"), NumpyBackend)


def test_a_module_s_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, name="a_user_s_module.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("a_user_s_module:Good").name == "good"
    assert isinstance(load("gaugeblock.backends.numpy:NumpyBackend"), NumpyBackend)


def test_a_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, name="another_user_s_module.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    assert load("another_user_s_module:Good").name == "good"


def test_a_file_s_attribute_and_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "class Room:\n    backend = Good()\n")
    assert load(f"{path}:Good").name == "good"
    assert load(f"{path}:Room.backend").name == "good"
    monkeypatch.chdir(tmp_path)
    assert load("mine.py:Good").name == "good"


def test_a_file_finds_its_neighbours_at_once_and_later(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("here = 1\n", encoding="utf-8")
    (tmp_path / "read_later.py").write_text("there = 2\n", encoding="utf-8")
    late = """
        import beside_it

        class Late(Good):
            def attention(self, q, k, v, **options):
                import read_later
                return super().attention(q, k, v, **options)
    """
    backend = load(f"{written(tmp_path, late)}:Late")
    assert [r.outcome for r in check_backend(backend, only=["counting"], dtypes=["float32"])] == ["pass"]


def test_the_variant_goes_to_the_constructor(tmp_path: Path) -> None:
    path = written(tmp_path, "class X(Good):\n    def __init__(self, variant=''):\n        self.variant = variant\n")
    assert getattr(load(f"{path}:X@fast"), "variant", None) == "fast"
    assert getattr(load(f"{path}:X"), "variant", None) == ""
    assert load("torch@math").variant == "math"


def test_a_backend_without_a_name_is_called_by_its_class(tmp_path: Path) -> None:
    assert load(f"{written(tmp_path, attending(CANONICAL))}:X").name == "X"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("nump", "there is no backend 'nump'; installed are jax, numpy, torch; or NAME, module:attribute"),
        ("", "there is no backend ''"),
        ("mine.py", "there is no backend 'mine.py'; .*path/file.py:attribute"),
        ("no_such_module:X", "importing no_such_module raised ModuleNotFoundError: No module named 'no_such_module'"),
        (":X", "importing  raised ValueError"),
        ("no/such/file.py:X", "there is no file no/such/file.py"),
        ("gaugeblock.backends.numpy:", "gaugeblock.backends.numpy has no attribute ''; it has NumpyBackend"),
        ("gaugeblock.backends.numpy:Numpy", "has no attribute 'Numpy'; it has NumpyBackend"),
        ("math:sqrt", "'math:sqrt' must be a subclass of gaugeblock.Backend, got builtin_function_or_method"),
        ("gaugeblock.spec.attention:Attention", "must be a subclass of gaugeblock.Backend, got Attention"),
        ("numpy@cuda", "numpy has no variants, got 'cuda'"),
        ("torch@cudda", "torch's variants are math, cuda, cuda-math; got 'cudda'"),
    ],
)
def test_a_word_that_leads_nowhere(word: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(word)


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


def test_no_device_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotAvailable, match=r"^no CUDA device$"):
        load("torch@cuda")


def test_no_framework_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in [name for name in sys.modules if name.startswith("gaugeblock.backends.torch")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(NotAvailable, match=r"^torch is not installed \(pip install 'gaugeblock\[torch\]'\)$"):
        load("torch")


def points(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Pretend that somebody's package has registered a backend."""
    theirs = EntryPoint("theirs", value, loading.GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [theirs])


def test_somebody_s_registered_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, name="their_package.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    points(monkeypatch, "their_package:Good")
    assert load("theirs").name == "good"
    points(monkeypatch, "their_package:Gone")
    with pytest.raises(ConfigError, match="importing their_package:Gone raised AttributeError"):
        load("theirs")
    points(monkeypatch, "their_missing_package:Good")
    with pytest.raises(NotAvailable, match=r"^their_missing_package is not installed$"):
        load("theirs")


def test_check_backend_holds_an_object_to_the_same() -> None:
    class Typo(NumpyBackend):
        unsupported = {"attention.windows": "no"}

    class Narrow(NumpyBackend):
        level = {"attn@float16": Level.FUSED}

    class Short(Attention, gaugeblock.Backend):
        dtypes = frozenset({"float32"})

        def attention(self, q, k, v):  # type: ignore[no-untyped-def, override]
            return q

    for backend, told in ((Typo(), "unknown key"), (Narrow(), "level maps"), (Short(), "lacks the keyword")):
        with pytest.raises(ConfigError, match=told):
            check_backend(backend, only=["ATTN-MASK"])


def test_propose_finds_a_module_in_the_current_folder(tmp_path: Path) -> None:
    written(tmp_path, name="local_module.py")
    script = Path(sys.executable).parent / "gaugeblock"
    done = subprocess.run(
        [script, "propose", "local_module:Good"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("conventions = Conventions(")
