"""PyTorch with other conventions, which it declares: right forwards, and by autograd right backwards."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gaugeblock.backends.torch import TorchBackend  # noqa: E402
from gaugeblock.conformance.checks import Check, Plan, registry, run  # noqa: E402
from gaugeblock.conformance.selection import of_backend  # noqa: E402
from gaugeblock.spec.conventions import Conventions  # noqa: E402


class OtherNorms(TorchBackend):
    """The sample deviation plus eps; a weight that stands for one plus itself."""

    conventions = Conventions(layer_norm_form="sample_eps_outside", rms_weight="1+w")

    def layer_norm(self, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
        super().layer_norm(x, weight, bias, eps=eps)  # for what it refuses
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = (wide - wide.mean(-1, keepdim=True)) / (wide.std(-1, keepdim=True) + eps)
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).to(x.dtype)

    def rms_norm(self, x: Any, weight: Any, *, eps: float) -> Any:
        plain = super().rms_norm(x, weight, eps=eps)
        if weight is None:
            return plain
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * (1 + weight.to(wide.dtype))).to(x.dtype)


class OtherHeads(TorchBackend):
    """Query head h reads key/value head h % K; diagonals and windows begin at the first key."""

    conventions = Conventions(head_order="tiled", causal_alignment="top_left")

    def attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        return self._otherwise("attention", q, k, v, **options)

    def soft_capped_attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        return self._otherwise("soft_capped_attention", q, k, v, **options)

    def _otherwise(self, name: str, q: Any, k: Any, v: Any, **options: Any) -> Any:
        call = getattr(super(), name)
        call(q, k, v, **options)  # for what it refuses
        H, K, T, S = q.shape[1], k.shape[1], q.shape[2], k.shape[2]
        heads = torch.arange(H).reshape(H // K, K).T.reshape(-1)  # those that read key/value head 0, then 1, ...
        given = {n: x[:, heads] if n in ("mask", "bias") and x.shape[1] > 1 else x for n, x in options.items()}
        seen = from_the_first(T, S, given.pop("causal", False), given.pop("window", None))
        given["mask"] = seen & given["mask"] if "mask" in given else seen
        return call(q[:, heads], k, v, **given)[:, heads.argsort()]


def from_the_first(T: int, S: int, causal: bool, window: Any) -> Any:
    """What query i sees of the keys around key i, (1, 1, T, S)."""
    left, right = window or (None, None)
    ahead = torch.arange(S) - torch.arange(T)[:, None]
    seen = torch.ones(1, 1, T, S, dtype=torch.bool)
    for most, distance in ((0 if causal else None, ahead), (right, ahead), (left, -ahead)):
        seen = seen if most is None else seen & (distance <= most)
    return seen


CASES = [
    pytest.param(make, dtype, check, id=f"{check.name}-{dtype}")
    for make, component in ((OtherNorms, "normalization"), (OtherHeads, "attention"))
    for check in registry().values()
    for dtype in ("float64", "float32", "bfloat16")
    if check.component == component and of_backend(check, make())
]


@pytest.mark.parametrize(("make", "dtype", "check"), CASES)
def test_conforms(make: type[TorchBackend], dtype: str, check: Check) -> None:
    record = run(check, make(), dtype, Plan("quick", shrink=False))
    assert record.outcome in ("pass", "unsupported"), (record.reason, record.failure)
