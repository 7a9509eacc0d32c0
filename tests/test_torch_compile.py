"""The PyTorch backend compiled: whole graphs, the same results, no new graph from the third step on."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gaugeblock.backends.torch import TorchBackend  # noqa: E402
from gaugeblock.bench.size import Size  # noqa: E402
from gaugeblock.conformance.verdict import Status, judge  # noqa: E402
from gaugeblock.spec import weights as names  # noqa: E402
from gaugeblock.spec.precision import FLOAT32, Contract, Level  # noqa: E402
from gaugeblock.spec.reference.normalization import rms_norm  # noqa: E402

TINY = Size(width=32, layers=2, heads=4, kv_heads=2, ffn_width=88, vocabulary=100)
BACKEND = TorchBackend()
Call = tuple[Callable[..., Any], tuple[Any, ...]]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def normal(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))


def weights() -> Mapping[str, Any]:
    return {name: torch.from_numpy(w) for name, w in TINY.weights().items()}


def calls() -> Mapping[str, Call]:
    inner = names.part(names.part(weights(), "decoder"), "layers.0")
    config = TINY.config.decoder
    assert config is not None
    x, q, k, ones = normal(2, 5, 32), normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(32)
    mask = torch.arange(25).reshape(1, 1, 5, 5) % 3 > 0
    return {
        "attention": (lambda q, k: BACKEND.attention(q, k, k), (q, k)),
        "attention, causal": (lambda q, k: BACKEND.attention(q, k, k, causal=True), (q, k)),
        "attention, mask and window": (lambda q, k, m: BACKEND.attention(q, k, k, mask=m, window=(2, 0)), (q, k, mask)),
        "rotate": (lambda q, p: BACKEND.rotate(q, p), (q, torch.arange(5))),
        "rotate, interleaved": (lambda q, p: BACKEND.rotate(q, p, layout="interleaved"), (q, torch.arange(5))),
        "rms_norm": (lambda x, w: BACKEND.rms_norm(x, w, eps=1e-5), (x, ones)),
        "layer_norm": (lambda x, w: BACKEND.layer_norm(x, w, w, eps=1e-5), (x, ones)),
        "swiglu": (BACKEND.swiglu, (x, names.part(inner, "feed_forward"))),
        "block": (lambda x, w: BACKEND.block(x, w, config.block), (x, inner)),
    }


@pytest.mark.parametrize("name", calls())
def test_a_call_is_one_graph(name: str) -> None:
    """aot_eager runs the kernels that the eager call runs, so that every bit must be the same."""
    call, given = calls()[name]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given), call(*given))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of inductor's own imports
def test_code_of_its_own_keeps_the_bound() -> None:
    """inductor writes kernels anew; its result is judged as any other, by the bound of the reference."""
    x, w = normal(4, 7, 96), normal(96)
    try:
        y = torch.compile(lambda x, w: BACKEND.rms_norm(x, w, eps=1e-5), fullgraph=True)(x, w)
    except torch._inductor.exc.InductorError as missing:
        pytest.skip(f"no compiler: {missing}")
    contract = Contract(FLOAT32, Level.STRICT)
    wide = [a.numpy().astype(np.float64) for a in (x, w)]
    expected = rms_norm(*wide, eps=1e-5, contract=contract)
    assert judge(y.numpy(), expected).status is Status.PASS


def test_steps_share_a_graph_from_the_third_on() -> None:
    """The first has the length as a number, the second as a symbol; then a new graph would be an error."""
    model = BACKEND.load(weights(), TINY.config)
    caches = [BACKEND.start(model, 1, 16) for _ in range(2)]
    prompt = torch.arange(4)[None]
    mine, theirs = (BACKEND.step(model, prompt, cache)[1] for cache in caches)
    step = torch.compile(lambda ids, cache: BACKEND.step(model, ids, cache), fullgraph=True, backend="eager")
    for n in range(6):
        ids = torch.tensor([[n]])
        with torch.compiler.set_stance("default" if n < 2 else "fail_on_recompile"):
            got, mine = step(ids, mine)
        expected, theirs = BACKEND.step(model, ids, theirs)
        assert torch.equal(got, expected)


class Made(TorchDispatchMode):
    """Notes how many elements each operation newly takes memory for."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[int] = []

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = f(*args, **(kwargs or {}))
        known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for y in result if isinstance(result, tuple | list) else (result,):
            if isinstance(y, torch.Tensor) and y.untyped_storage().data_ptr() not in known:
                self.elements.append(y.untyped_storage().nbytes() // y.element_size())
        return result


@pytest.mark.parametrize(("T", "causal"), [(1, False), (3, True)])
@pytest.mark.parametrize("variant", ["", "math"])
def test_shared_keys_are_not_repeated(variant: str, T: int, causal: bool) -> None:
    """A few queries need nothing as large as the keys of all heads, H x S x D elements, would be."""
    H, K, S, D = 8, 2, 64, 512
    backend = TorchBackend(variant)
    q, k, v = normal(1, H, T, D), normal(1, K, S, D), normal(1, K, S, D)
    with Made() as made:
        backend.attention(q, k, v, causal=causal)
    assert max(made.elements) < H * S * D
