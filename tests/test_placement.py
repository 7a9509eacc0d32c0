"""Dry runs: what they refuse, what they let pass, and that they run the backend's own code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec.config import NTK, Linear, Llama3, Scaling, YaRN
from gaugeblock.spec.errors import PlacementError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

from gaugeblock.backends.jax import JaxBackend  # noqa: E402
from gaugeblock.backends.torch import TorchBackend  # noqa: E402

Function = Callable[[Any], Any]

X = np.arange(6, dtype=np.float32).reshape(2, 3)

TORCH_REFUSED: dict[str, Function] = {
    "item": lambda x: x * x.max().item(),
    "bool": lambda x: x if x.any() else -x,
    "int": lambda x: x[: int(x.sum())],
    "tolist": lambda x: x * sum(x[0].tolist()),
    "numpy": lambda x: x + torch.from_numpy(x.numpy()),
    "to the host": lambda x: x.cpu(),
    "to the host by name": lambda x: x.to("cpu"),
    "equal": lambda x: x if torch.equal(x, x) else -x,
    "nonzero": lambda x: x.nonzero(),
    "a bool index": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "a table of the host": lambda x: x + torch.arange(3.0),
    "a table that is moved": lambda x: x + torch.ones(3).to(x.device),
    "an index of the host": lambda x: x[torch.tensor([0])],
    "a list that is moved": lambda x: x + torch.tensor([1.0, 2.0, 3.0]).to(x.device),
    "an array of NumPy": lambda x: x + torch.from_numpy(np.ones(3, np.float32)),
}
TORCH_PASSED: dict[str, Function] = {
    "a number": lambda x: torch.where(x > 0, x, -1.0) * 2 + 1,
    "a number as a tensor": lambda x: x * torch.tensor(2.0),
    "a table": lambda x: x + torch.arange(3.0, device=x.device),
    "an index": lambda x: x[torch.zeros(1, dtype=torch.long, device=x.device)],
    "a slice is written": lambda x: torch.zeros_like(x).narrow(0, 0, 1).copy_(x[:1]),
    "another format": lambda x: x.half().float(),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
}
JAX_REFUSED: dict[str, Function] = {
    "bool": lambda x: x if x.any() else -x,
    "int": lambda x: x[: int(x[0, 0])],
    "float": lambda x: x * float(x[0, 0]),
    "numpy": lambda x: x + np.asarray(x),
    "nonzero": lambda x: jax.numpy.nonzero(x)[0],
    "a call back": lambda x: jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
    "a call back inside": lambda x: jax.jit(lambda y: jax.debug.callback(print, y))(x) or x,
}
JAX_PASSED: dict[str, Function] = {
    "a number": lambda x: jax.numpy.where(x > 0, x, -1.0) * 2 + 1,
    "a condition": lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y, lambda y: -y, x),
    "a constant": lambda x: x + jax.numpy.arange(3.0),
}


def run_dry(backend: type, function: Function) -> Any:
    """A backend whose relu is this function, run dry on an array."""
    made = type("Made", (backend,), {"relu": lambda self, x: function(x)})()
    with made.dry() as dry:
        return dry.relu(dry.asarray(X))


@pytest.mark.parametrize("name", TORCH_REFUSED)
def test_pytorch_refuses(name: str) -> None:
    with pytest.raises(PlacementError, match="MODEL-PLACEMENT"):
        run_dry(TorchBackend, TORCH_REFUSED[name])


@pytest.mark.parametrize("name", TORCH_PASSED)
def test_pytorch_lets_pass(name: str) -> None:
    assert run_dry(TorchBackend, TORCH_PASSED[name]).device.type == "meta"


@pytest.mark.parametrize("name", JAX_REFUSED)
def test_jax_refuses(name: str) -> None:
    with pytest.raises(PlacementError, match="MODEL-PLACEMENT"):
        run_dry(JaxBackend, JAX_REFUSED[name])


@pytest.mark.parametrize("name", JAX_PASSED)
def test_jax_lets_pass(name: str) -> None:
    made = run_dry(JaxBackend, JAX_PASSED[name])
    assert isinstance(made, jax.ShapeDtypeStruct) and made.shape == X.shape


@pytest.mark.parametrize("backend", [TorchBackend, JaxBackend])
def test_nothing_is_left_behind(backend: type) -> None:
    """A dry run is over with its context; the backend computes as before."""
    made = backend()
    with made.dry() as dry:
        y = dry.relu(dry.asarray(X))
        assert tuple(y.shape) == X.shape
        with pytest.raises(PlacementError):
            dry.asnumpy(y)
    assert np.array_equal(made.asnumpy(made.relu(made.asarray(X))), X)


def test_a_cache_counts_as_any_other() -> None:
    sizes = {"layers": 1, "batch": 2, "kv_heads": 1, "capacity": 4, "key_width": 2, "value_width": 3}
    for made in (TorchBackend(), JaxBackend()):
        with made.dry() as dry:
            cache = dry.init_cache(**sizes, dtype="float32")
            k, v = (dry.asarray(np.ones((2, 1, 3, width), np.float32)) for width in (2, 3))
            cache = dry.append(cache, 0, k, v)
            assert (dry.cache_length(cache), dry.cache_nbytes(cache)) == (3, 2 * 4 * (2 + 3) * 4)


SCALINGS: list[Scaling | None] = [None, Linear(2.0), NTK(2.0), YaRN(4.0, 16), Llama3(4.0, 1.0, 4.0, 16)]


@pytest.mark.parametrize("backend", [TorchBackend, JaxBackend])
def test_components_stay_where_their_arrays_are(backend: type) -> None:
    """Clauses bind models; what these are made of keeps its place by itself, with every option."""
    with backend().dry() as dry:
        q, k = (dry.asarray(np.ones((2, heads, 5, 8), np.float32)) for heads in (4, 2))
        mask, bias = (dry.asarray(np.ones((1, 1, 5, 5), kind)) for kind in (np.bool_, np.float32))
        dry.attention(q, k, k, causal=True)
        dry.attention(q, k, k, mask=mask, bias=bias, causal=True, window=(2, 1))
        for at in (dry.asarray(np.arange(5)), dry.asarray(np.ones((2, 5), np.int64))):
            for scaling in SCALINGS:
                dry.rotate(q, at, scaling=scaling, rotary_dim=4)
            dry.alibi_bias(6, at, at)
            dry.sinusoidal(at, 8)
            dry.learned_positions(dry.asarray(np.ones((9, 3), np.float32)), at)
        x, w = dry.asarray(X), dry.asarray(np.ones(3, np.float32))
        dry.rms_norm(x, w, eps=1e-5)
        dry.layer_norm(x, w, w, eps=1e-5)
        for activated in (dry.relu(x), dry.gelu(x), dry.silu(x, beta=1.7)):
            assert tuple(activated.shape) == X.shape
