"""The three backends at their edges: refusals, the bridge to NumPy, variants, what they say of themselves."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.load import load
from gaugeblock.conformance.refusals import Malformed
from gaugeblock.conformance.refusals.attention import malformed
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, NotAvailable
from gaugeblock.spec.precision import FORMATS

WORDING = re.compile(r"^ATTN-(SHAPES|ERRORS): .+(, got .+|, but .+) \[attention(\(.+\))?\]$")


@pytest.fixture(scope="module", params=["numpy", "torch", "torch@math", "jax"])
def backend(request: pytest.FixtureRequest) -> Backend:
    word = str(request.param)
    pytest.importorskip(word.partition("@")[0])
    return load(word)


def calls(backend: Backend) -> Iterator[tuple[str, Malformed]]:
    for dtype in sorted(backend.dtypes):
        yield from ((dtype, call) for call in malformed(Cell(backend, "attention", dtype)))


def placed(backend: Backend, x: Any) -> Any:
    return backend.asarray(x) if isinstance(x, np.ndarray) else x


def test_every_malformed_call_is_refused_as_specified(backend: Backend) -> None:
    seen = set()
    for dtype, call in calls(backend):
        given = [x for x in (*call.positional, *call.keywords.values()) if isinstance(x, np.ndarray)]
        before = [x.tobytes() for x in given]
        with pytest.raises(GaugeblockError) as refused:
            first = [placed(backend, x) for x in call.positional]
            getattr(backend, call.method)(*first, **{name: placed(backend, x) for name, x in call.keywords.items()})
        told = f"{call.problem} in {dtype}: {refused.value}"
        assert refused.type is call.error, told
        assert WORDING.match(str(refused.value)), told
        assert [x.tobytes() for x in given] == before, told
        seen.add(call.problem)
    assert len(seen) > 15


def test_a_refusal_names_sizes_and_place(backend: Backend) -> None:
    told = {}
    for dtype, call in calls(backend):
        if dtype == "float32":
            error = call.raised(Cell(backend, "attention", dtype))
            told[call.problem] = str(error)
    where = "[attention(B=2, H=4, K=2, T=3, S=5, D=8, E=6)]"
    assert told["k is narrower than q"] == f"ATTN-SHAPES: k must have q's width 8, got 7 {where}"
    assert told["v is shorter than k"] == f"ATTN-SHAPES: v must have k's length 5, got 4 {where}"
    heads = "k has 3 heads, but q's 4 heads must be a multiple of them"
    assert told["the heads do not divide"] == f"ATTN-SHAPES: {heads} {where.replace('K=2', 'K=3')}"
    assert told["k has another dtype"] == "ATTN-ERRORS: k must have q's dtype float32, got float16 [attention]"
    assert told["the mask holds integers"].startswith("ATTN-ERRORS: mask must be bool, got int")


LAYOUTS: dict[str, Callable[[Numpy], Numpy]] = {
    "contiguous": lambda x: x,
    "a column of a wider array": lambda x: np.repeat(x, 3, axis=-1)[..., ::3],
    "transposed": lambda x: x.swapaxes(-1, -2),
    "repeated by a stride of zero": lambda x: np.broadcast_to(x[:1], x.shape),
    "read-only": lambda x: np.broadcast_to(x, x.shape),
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[..., :0],
    "no columns, strided": lambda x: x[::2, :, :0],
    "a single number": lambda x: x[1, 1, 1, ...],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_cross_unchanged(layout: str, backend: Backend) -> None:
    plain = np.random.default_rng(0).normal(size=(2, 3, 4)) * 100
    dtypes = [*(FORMATS[name].dtype for name in sorted(backend.dtypes)), np.dtype(bool), np.dtype(np.int64)]
    for dtype in dtypes:
        x = LAYOUTS[layout](np.asarray(plain > 0 if dtype.kind == "b" else plain).astype(dtype))
        before = x.tobytes()
        back = backend.asnumpy(backend.asarray(x))
        assert back.shape == x.shape
        assert back.dtype == dtype or (backend.name, dtype) == ("jax", np.dtype(np.int64))  # jax narrows indices
        assert np.array_equal(back, x)
        assert x.tobytes() == before


def test_every_bit_pattern_of_half_precision_crosses(backend: Backend) -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)):
        back = backend.asnumpy(backend.asarray(patterns.view(dtype)))
        numbers = ~np.isnan(patterns.view(dtype).astype(np.float32))
        assert back.dtype == dtype
        assert np.array_equal(back.view(np.uint16)[numbers], patterns[numbers])
        assert np.isnan(back.astype(np.float32)[~numbers]).all()


def test_differences_of_unsigned_positions_do_not_wrap(backend: Backend) -> None:
    i, j = (backend.asarray(np.arange(n, dtype=np.uint8)) for n in (3, 5))
    alibi: Any = backend
    bias = backend.asnumpy(alibi.alibi_bias(1, i, j))[0, 0]
    away = np.abs(np.arange(3)[:, None] - np.arange(5))
    assert np.array_equal(bias, -away / 256)


def test_what_comes_back_outlives_what_was_given(backend: Backend) -> None:
    q = np.ones((1, 1, 2, 2), np.float32)
    attention: Any = backend
    out = backend.asnumpy(attention.attention(*(backend.asarray(x) for x in (q, q, q))))
    q[...] = 7.0
    assert np.array_equal(out, np.ones((1, 1, 2, 2)))


def test_a_backend_says_what_it_runs_on(backend: Backend) -> None:
    framework = __import__(backend.name)
    said = backend.describe()
    assert said["framework"] == f"{backend.name} {framework.__version__}"
    assert said["device"]
    assert all(isinstance(x, str) for x in (*said, *said.values()))


@pytest.mark.parametrize("word", ["numpy@fast", "torch@cudda", "torch@CUDA", "jax@x32"])
def test_an_unknown_variant_is_refused(word: str) -> None:
    pytest.importorskip(word.partition("@")[0])
    with pytest.raises(ConfigError, match=r"^backends: .+variant.+got '"):
        load(word)


@pytest.mark.parametrize("word", ["torch@cuda", "torch@cuda-math"])
def test_cuda_without_a_device_is_not_available(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotAvailable, match=r"^no CUDA device$"):
        load(word)


def test_jax_never_narrows_float64_without_a_word() -> None:
    pytest.importorskip("jax")
    backend = load("jax")
    assert "float64" not in backend.dtypes
    with pytest.raises(DTypeError, match=r"float64 needs 64-bit mode; use the backend jax@x64"):
        backend.asarray(np.zeros(3))
    assert backend.describe()["x64"] == "False"


WIDE = """
import numpy as np
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.load import load
from gaugeblock.conformance.refusals.attention import malformed

backend = load("jax@x64")
assert (backend.variant, backend.describe()["x64"], "float64" in backend.dtypes) == ("x64", "True", True)
x = np.array([1 / 3, 2.0**-60, np.nan])
assert backend.asnumpy(backend.asarray(x)).tobytes() == x.tobytes()
assert backend.asnumpy(backend.asarray(np.array([2**40]))) == 2**40
q = backend.asarray(np.ones((1, 1, 2, 2)))
assert backend.asnumpy(backend.attention(q, q, q)).dtype == np.float64
cell = Cell(backend, "attention", "float64")
assert [call.problem for call in malformed(cell) if not isinstance(call.raised(cell), call.error)] == []
found = check_backend(backend, only=["counting"], dtypes=["float64", "float32"], profile="quick")
assert [(r.backend, r.outcome) for r in found] == [("jax@x64", "pass")] * 2, found
"""


def test_jax_with_64_bits_computes_in_64_bits() -> None:
    pytest.importorskip("jax")
    # in a process of its own, since the switch holds for all of a process
    done = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
