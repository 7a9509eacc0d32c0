"""The figures that the errata of heads, normalization placement, cache and questions give, computed anew."""

import re
from math import e, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaugeblock.spec import counts
from gaugeblock.spec.cache import cache_bytes
from gaugeblock.spec.clause import clause, clauses
from gaugeblock.spec.reference.rotary import rotate

Real = np.ndarray[Any, np.dtype[np.float64]]
FAMILY = {"M": 4096, "H": 32, "K": 32, "D": 128, "E": 128}  # the width and heads of a model with 7 billion parameters


CLAUSES = Path(__file__).resolve().parents[1] / "spec" / "clauses"


def test_every_link_leads_to_its_clause() -> None:
    text = (CLAUSES / "errata.md").read_text(encoding="utf-8")
    links = re.findall(r"\[([A-Z]+(?:-[A-Z0-9]+)+)\]\((\w*\.md|)#([a-z0-9-]+)\)", text)
    assert len(links) > 100
    wrong = []
    for name, file, anchor in links:
        one = clauses().get(name)
        if one is None or anchor != name.lower() or (file or "errata.md") != f"{one.component}.md":
            wrong.append(name)
    assert wrong == []


def says(name: str, *figures: str) -> None:
    """The erratum holds these words."""
    text = " ".join(clause(name).body.split())
    assert [figure for figure in figures if figure not in text] == []


def normalized(x: Real, kind: str) -> tuple[Real, Real, float]:
    """A row, its Jacobian and its scale; weight one, eps zero."""
    d = len(x)
    centred = x - x.mean() if kind == "layer" else x
    scale = float(np.sqrt(np.mean(centred**2)))
    row = centred / scale
    lost = np.outer(row, row) / d + (1 / d if kind == "layer" else 0)
    return row, (np.eye(d) - lost) / scale, scale


def stack(placement: str, kind: str, layers: int, seed: int, d: int = 64) -> tuple[float, ...]:
    """Feed-forward sublayers at random: last scale, log of their product, gain, unprojected, at the end."""
    rng = np.random.default_rng(seed)
    x = normalized(rng.standard_normal(d), kind)[0]
    J, unprojected, logs, scale = np.eye(d), np.eye(d), 0.0, 1.0
    for _ in range(layers):
        up, down = (rng.standard_normal(s) / sqrt(s[1]) for s in ((4 * d, d), (d, 4 * d)))
        u, inner, _ = normalized(x, kind) if placement == "pre" else (x, np.eye(d), 1.0)
        hidden = sqrt(2) * up @ u
        slope = np.eye(d) + sqrt(2) * down @ ((hidden > 0)[:, None] * up) @ inner
        x = x + down @ np.maximum(hidden, 0)
        row, outer, scale = normalized(x, kind)
        if placement == "post":
            x, unprojected, slope = row, slope / scale @ unprojected, outer @ slope
        J, logs = slope @ J, logs - np.log(scale)
    end = normalized(x, kind)[1] @ J
    return scale, logs, gain(J), gain(unprojected), gain(end)


def gain(J: Real) -> float:
    return float(np.sqrt(np.sum(J**2) / len(J)))


def means(placement: str, kind: str, layers: int) -> Real:
    return np.mean([stack(placement, kind, layers, seed) for seed in range(20)], axis=0)


@pytest.mark.parametrize("layers", [6, 24, 48])
def test_gradients_do_not_decay_as_the_scales_do(layers: int) -> None:
    post, pre = means("post", "layer", layers), means("pre", "layer", layers)
    product = f"{np.exp(post[1]):.1e}".replace("e-0", "e-") if layers > 6 else f"{np.exp(post[1]):.2f}"
    row = (f"{post[0]:.2f}", product, f"{post[2]:.2f}", f"{pre[0]:.2f}", f"{pre[2]:.2f}", f"{pre[4]:.2f}")
    says("ERR-POSTLN-DECAY", f"| {layers} | {' | '.join(row)} |")
    if layers == 48:
        says("ERR-POSTLN-JACOBIAN", f"a gain of {post[2]:.2f}, by the document's product {post[3]:.2f}")
        says("ERR-PRELN-FINAL-NORM", f"gain {pre[2]:.2f} before, {pre[4]:.2f} behind it")
        rms = means("post", "rms", layers)
        says("ERR-NORM-PLACEMENT", f"σ {rms[0]:.2f}, gain {rms[2]:.2f}")


def test_branches_that_grow_and_branches_that_do_not() -> None:
    """ERR-POSTLN-DECAY: F(x) = x, F(x) = -x / 2, and F constant."""
    x = normalized(np.random.default_rng(1).standard_normal(64), "layer")[0]
    for slope, scale in ((1.0, 2.0), (-0.5, 0.5)):
        assert normalized(x + slope * x, "layer")[2] == pytest.approx(scale)
        assert (1 + slope) / scale == 1
    constant = normalized(np.random.default_rng(2).standard_normal(64), "layer")[0]
    assert normalized(x + constant, "layer")[2] > 1.2


def test_jacobian_of_layer_norm_by_complex_step() -> None:
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal(8)
        row, J, scale = normalized(x, "layer")
        step = np.stack([_layer_norm(x + 1j * h).imag / 1e-30 for h in 1e-30 * np.eye(8)], axis=-1)
        assert np.max(np.abs(step - J)) * scale < 1e-15
        assert np.linalg.matrix_rank(J) == 6
        assert np.max(np.abs(np.eye(8) / scale - J)) >= 2 / (8 * scale)
        assert np.max(np.abs(J @ row)) * scale < 1e-14 and np.max(np.abs(J @ np.ones(8))) * scale < 1e-14


def _layer_norm(x: Any) -> Any:
    centred = x - np.mean(x)
    return centred / np.sqrt(np.mean(centred * centred))


def test_the_identity_can_be_cancelled() -> None:
    """ERR-PRELN-IDENTITY: a branch of -a times an RMSNorm, a the scale of the row."""
    x = np.random.default_rng(3).standard_normal(16)
    row, J, scale = normalized(x, "rms")
    assert np.allclose(x - scale * row, 0)
    assert np.linalg.matrix_rank(np.eye(16) - scale * J, tol=1e-12) == 1


def test_one_head_keeps_sixteen_weights() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((16, 64)), rng.dirichlet(np.ones(16))
    found = np.linalg.lstsq(values.T, weights @ values, rcond=None)[0]
    assert np.max(np.abs(found - weights)) < 1e-15


def heads(x: Real, w: list[Real], by: str) -> Real:
    """Two heads of width 4, packed side by side or by turns."""
    to = {"side": lambda y: y.reshape(5, 2, 4).swapaxes(0, 1), "turns": lambda y: y.reshape(5, 4, 2).transpose(2, 0, 1)}
    q, k, v = (to[by](x @ m) for m in w[:3])
    p = np.exp(q @ k.swapaxes(1, 2) / 2)
    y = p / p.sum(-1, keepdims=True) @ v  # (2, 5, 4)
    return np.asarray((y.swapaxes(0, 1) if by == "side" else y.transpose(1, 2, 0)).reshape(5, 8) @ w[3])


def test_columns_of_heads() -> None:
    rng = np.random.default_rng(0)
    rng.standard_normal(8)
    w = [rng.standard_normal((8, 8)) / sqrt(8) for _ in range(4)]
    x = rng.standard_normal((5, 8))
    side, turns = heads(x, w, "side"), heads(x, w, "turns")
    says("ERR-HEAD-PACKING", f"{np.sqrt(np.mean((side - turns) ** 2) / np.mean(side**2)):.2f} times")
    order = np.arange(8).reshape(4, 2).T.reshape(-1)
    assert np.max(np.abs(heads(x, [*(m[:, order] for m in w[:3]), w[3][order]], "side") - turns)) < 1e-15


def test_space_of_attention() -> None:
    for N, maps, rest in ((64, 0.25, 3), (512, 16, 24), (4096, 1024, 192)):
        assert counts.weights_nbytes(B=1, H=32, T=N, S=N, itemsize=2) == maps * 2**20
        assert counts.activations_nbytes(B=1, T=N, S=N, itemsize=2, **FAMILY) == rest * 2**20


def test_where_attention_is_quadratic() -> None:
    shares = [counts.multi_head(B=1, T=N, S=N, **FAMILY) for N in (2048, 8192)]
    assert [f"{c.projections / c.total:.2f}" for c in shares] == ["0.80", "0.50"]


def test_cost_of_a_step_and_of_a_text() -> None:
    d, t = 4096, 2048
    cached, whole = (
        counts.multi_head(B=1, T=1, S=t, cached=t - 1, **FAMILY),
        counts.multi_head(B=1, T=t, S=t, **FAMILY),
    )
    assert (cached.projections, cached.attention) == (4 * d**2, 2 * t * d)
    assert whole.total == t * cached.total
    says("ERR-CACHE-COST", f"{cached.projections:.1e} + {cached.attention:.1e}".replace("+0", "").replace("e0", "e"))
    text = {c: counts.generation(t, B=1, cached=c, **FAMILY) for c in (True, False)}
    says("ERR-CACHE-COST", f"a factor of {text[False] // text[True]}")
    projections, attention = 2 * d**2 * t * (t + 1), d * t * (t + 1) * (2 * t + 1) // 3
    assert projections + attention == text[False]
    says("ERR-RECOMPUTE-COST", f"{projections:.1e}".replace("+", ""), f"{attention:.1e}".replace("+", ""))


def test_memory_of_the_cache() -> None:
    sizes = {"layers": 32, "batch": 1, "key_width": 128, "value_width": 128, "dtype": "float16"}
    assert cache_bytes(kv_heads=32, length=1, **sizes) == 512 * 1024  # type: ignore[arg-type]
    assert cache_bytes(kv_heads=8, length=1, **sizes) == 128 * 1024  # type: ignore[arg-type]
    assert cache_bytes(kv_heads=32, length=4096, **sizes) == 2 * 2**30  # type: ignore[arg-type]
    assert round(2 * 6.74e9 / (512 * 1024), -2) == 25700


@pytest.mark.parametrize("causal", [True, False])
def test_a_cache_is_right_for_causal_attention_only(causal: bool) -> None:
    rng = np.random.default_rng(7)
    layers, x = rng.standard_normal((2, 3, 16, 16)) / 4, rng.standard_normal((6, 16))
    before, after = keys(x[:-1], layers, causal), keys(x, layers, causal)
    first, second = (float(np.max(np.abs(b[:5] - a))) for a, b in zip(before, after, strict=True))
    assert first < 1e-14  # a product of fewer rows may be summed in another order
    assert second < 1e-14 if causal else second > 0.1


def keys(x: Real, layers: Real, causal: bool) -> list[Real]:
    """The keys of each layer of a network that is attention and nothing else."""
    made = []
    for wq, wk, wv in layers:
        made.append(x @ wk)
        s = (x @ wq) @ made[-1].T / 4
        s = np.where(np.tri(len(x), dtype=bool), s, -np.inf) if causal else s
        p = np.exp(s - s.max(-1, keepdims=True))
        x = x + p / p.sum(-1, keepdims=True) @ (x @ wv)
    return made


def test_the_steep_region_flattens_with_the_number_of_keys() -> None:
    rng = np.random.default_rng(0)
    for N, rows, digits in ((100, 20000, 3), (1000, 1000, 3), (100_000, 20, 4)):
        s = rng.standard_normal((rows, N))
        p = np.exp(s) / np.sum(np.exp(s), axis=-1, keepdims=True)
        squares = np.sum(p**2, axis=-1)
        norm = float(np.mean(np.sqrt(squares - 2 * np.sum(p**3, axis=-1) + squares**2)))
        count = "100 000" if N == 100_000 else str(N)
        says("ERR-STEEP-REGION", f"{norm:.{digits}f} and {sqrt(e / N):.{digits}f} for {'N = ' * (N == 100)}{count}")


def test_an_offset_has_a_sign() -> None:
    q, k = (np.array(x, float).reshape(1, 1, 1, 2) for x in ((1, 0), (0, 1)))
    turned = [[rotate(x, np.array([p])).value.ravel() for p in (5, 3)] for x in (q, k)]
    ahead, behind = float(turned[0][0] @ turned[1][1]), float(turned[0][1] @ turned[1][0])
    says("ERR-SIGNED-OFFSET", f"{ahead:.3f} for m − n = 2, −{-behind:.3f} for −2")


def test_shapes_of_section_10() -> None:
    wq, wk, x = np.ones((8, 4)), np.ones((8, 4)), np.ones(8)
    assert (wq.T @ wk).shape == (4, 4)
    with pytest.raises(ValueError, match="mismatch"):
        x @ (wq.T @ wk) @ x
    assert (x @ wq @ wk.T @ x).shape == ()


def test_first_step_of_adam() -> None:
    torch = pytest.importorskip("torch")
    steps = []
    for size in (1.0, 1e-3, 1e-6, 1e-8):
        parameter = torch.zeros(1, requires_grad=True)
        parameter.grad = torch.tensor([size])
        torch.optim.Adam([parameter], lr=1.0).step()
        steps.append(f"{-parameter.item():.4f}")
    says("ERR-POSTLN-CAUSE", "{} for a gradient of 1, {} for 1e-3, {} for 1e-6, {} for 1e-8".format(*steps))


@pytest.mark.parametrize("kept", ["written", "concatenated", "written without gradients"])
def test_what_autograd_says_of_caches(kept: str) -> None:
    """ERR-CAT-IN-PLACE: three steps of attention over a growing cache."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    weight, tokens = torch.randn(4, 4, requires_grad=True), torch.randn(3, 1, 4)
    buffer, keys_so_far, total = torch.zeros(3, 4), torch.zeros(0, 4), torch.zeros(())
    with torch.set_grad_enabled("without" not in kept):
        for t, token in enumerate(tokens):
            if kept == "concatenated":
                keys_so_far = torch.cat((keys_so_far, token @ weight))
            else:
                buffer[t] = (token @ weight)[0]
                keys_so_far = buffer[: t + 1]
            total = total + ((token @ weight) @ keys_so_far.T).softmax(-1).square().sum()
    if kept == "written":
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()
    elif kept == "concatenated":
        total.backward()
        depth, node = 0, keys_so_far.grad_fn
        while node is not None and "Cat" in type(node).__name__:
            depth, node = depth + 1, node.next_functions[0][0]
        assert depth == 3
    else:
        assert not total.requires_grad
