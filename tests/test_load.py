"""From a word to a backend: every form of the word, and one clear refusal for everything that cannot be used."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from bringing import CANONICAL, attending, written

import gaugeblock
from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance import load as loading
from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.load import load, names
from gaugeblock.spec.attention import Attention
from gaugeblock.spec.errors import ConfigError, NotAvailable
from gaugeblock.spec.precision import Level

pytestmark = pytest.mark.usefixtures("own_path")


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
