"""The reference of blocks against many-digit arithmetic, its bound against adversaries, and its gradients."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, Nonconformance
from gaugeblock.conformance.laws.compositions import steps_hold, traced
from gaugeblock.conformance.mutants.blocks import SublayersScaled
from gaugeblock.conformance.mutants.blocks_norms import GeluForSiluInABlock
from gaugeblock.conformance.strategies.blocks import NETWORKS, SIZES, BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.verdict import judge
from gaugeblock.spec.config import AttentionConfig, BlockConfig
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, FLOAT64, FORMATS, HALF, Contract, Level
from gaugeblock.spec.reference.blocks import block
from gaugeblock.spec.reference.bounded import ulps
from gaugeblock.spec.reference.formulas import norm
from gaugeblock.spec.reference.multihead import view
from gaugeblock.spec.reference.program import LINEAR, Step, derivative, local, run

Real = np.ndarray[Any, np.dtype[np.float64]]
LEVELS = (Level.STRICT, Level.FUSED, Level.STORED)
SWITCHES: tuple[dict[str, Any], ...] = (
    {},
    {"rotary": "half", "causal": True, "positions": "gaps"},
    {"rotary": "interleaved", "mask": "heads", "positions": "rows"},
    {"alibi": True, "window": (2, 1), "positions": "rows", "scale": 0.3},
    {"causal": True, "mask": "empty", "alibi": True},
)


def some_cases(sizes: int = 3, w: tuple[str, ...] = ("normal",)) -> Iterator[BlockCase]:
    """Every size with every set of switches, the other choices in turn."""
    n = 0
    for size in SIZES[:sizes]:
        for switches in SWITCHES:
            for placement in ("pre", "post"):
                activation, gated, ffn_bias = NETWORKS[n % len(NETWORKS)]
                crosses = n % 3 == 0
                yield BlockCase(
                    **{**size._asdict(), "S": size.S if crosses else 1},
                    **switches,
                    cross=crosses,
                    placement=placement,
                    context_mask="random" if n % 2 and crosses else "",
                    norm=("rms", "layer")[n // 2 % 2],
                    activation=activation,
                    gated=gated,
                    ffn_bias=ffn_bias,
                    bias=("", "all", "query+value+output")[n % 3],
                    w=w[n % len(w)],
                    seed=n,
                )
                n += 1


class ManyDigits:
    """The same definition, number by number, in mpmath: nothing of the reference is used."""

    def __init__(self, case: BlockCase, inputs: Inputs) -> None:
        self.case, self.config, self.inputs = case, case.block, inputs
        self.weights = {name: self._of(x) for name, x in weights_of(inputs).items()}

    def _of(self, x: Any) -> Any:
        return np.vectorize(lambda v: mpmath.mpf(float(v)), otypes=[object])(x)

    def block(self) -> Real:
        x = self._of(self.inputs["x"])
        sublayers = {"attention": self._attention, "feed_forward": self._network}
        if self.config.cross is not None:
            sublayers = {"attention": self._attention, "cross": self._cross, "feed_forward": self._network}
        for name, f in sublayers.items():
            pre = self.config.placement == "pre"
            x = x + f(self._norm(x, name)) if pre else self._norm(x + f(x), name)
        return np.asarray(np.vectorize(float, otypes=[float])(x))

    def _norm(self, x: Any, name: str) -> Any:
        M, eps = x.shape[-1], mpmath.mpf(self.config.eps)
        out = np.empty_like(x)
        for row in np.ndindex(x.shape[:-1]):
            values = list(x[row])
            mean = mpmath.fsum(values) / M if self.config.norm == "layer" else mpmath.mpf(0)
            root = mpmath.sqrt(mpmath.fsum((v - mean) ** 2 for v in values) / M + eps)
            out[row] = [(v - mean) / root for v in values]
        y = out * self.weights[f"{name}_norm.weight"]
        return y + self.weights[f"{name}_norm.bias"] if self.config.norm == "layer" else y

    def _linear(self, x: Any, layer: str) -> Any:
        y = np.dot(x, self.weights[f"{layer}.weight"])
        return y + self.weights[f"{layer}.bias"] if f"{layer}.bias" in self.weights else y

    def _network(self, x: Any) -> Any:
        up = self._linear(x, "feed_forward.up")
        if self.config.gated:
            hidden = self._activated(self._linear(x, "feed_forward.gate"), "silu") * up
        else:
            hidden = self._activated(up, self.config.activation)
        return self._linear(hidden, "feed_forward.down")

    def _activated(self, x: Any, kind: str) -> Any:
        def tanh_gelu(m: Any) -> Any:
            inner = mpmath.sqrt(2 / mpmath.pi) * (m + mpmath.mpf("0.044715") * m**3)
            return m * (1 + mpmath.tanh(inner)) / 2

        functions: dict[str, Callable[[Any], Any]] = {
            "relu": lambda m: max(m, mpmath.mpf(0)),
            "silu": lambda m: m / (1 + mpmath.exp(-m)),
            "gelu": lambda m: m * mpmath.erfc(-m / mpmath.sqrt(2)) / 2,
            "gelu_tanh": tanh_gelu,
        }
        return np.vectorize(functions[kind], otypes=[object])(x)

    def _attention(self, x: Any) -> Any:
        case, c = self.case, self.config.attention
        at = np.broadcast_to(self.inputs.get("positions", np.arange(case.T)), (case.B, case.T))
        mask = np.broadcast_to(self.inputs.get("mask", True), (case.B, case.H, case.T, case.T))

        def sees(b: int, h: int, i: int, j: int) -> bool:
            left, right = c.window or (None, None)
            away = int(at[b, j] - at[b, i])
            near = (left is None or away >= -left) and (right is None or away <= right)
            return bool(mask[b, h, i, j] and near and (j <= i or not case.causal))

        def slope(h: int) -> Any:
            """The authors' rule, for the numbers of heads that are drawn: powers of two, and those between."""
            low = 2 ** (c.heads.bit_length() - 1)
            if h < low:
                return mpmath.mpf(2) ** (mpmath.mpf(-8) * (h + 1) / low)
            return mpmath.mpf(2) ** (mpmath.mpf(-8) * (2 * (h - low) + 1) / (2 * low))

        def bias(b: int, h: int, i: int, j: int) -> Any:
            return -slope(h) * abs(int(at[b, i] - at[b, j])) if c.alibi else mpmath.mpf(0)

        return self._heads(x, x, "attention", c, sees, bias, at if c.rotary else None)

    def _cross(self, x: Any) -> Any:
        case, c = self.case, self.config.cross
        assert c is not None
        mask = np.broadcast_to(self.inputs.get("context_mask", True), (case.B, case.H, case.T, case.S))
        context = self._of(self.inputs["context"])
        return self._heads(x, context, "cross", c, lambda *at: bool(mask[at]), lambda *at: mpmath.mpf(0), None)

    def _heads(self, x: Any, y: Any, name: str, c: AttentionConfig, sees: Any, bias: Any, at: Any) -> Any:
        q, k, v = (self._linear(z, f"{name}.{layer}") for z, layer in ((x, "query"), (y, "key"), (y, "value")))
        D, E, group = c.head_width, c.value_width, c.heads // c.kv_heads
        scale = 1 / mpmath.sqrt(D) if c.scale is None else mpmath.mpf(c.scale)
        mixed = np.full((*x.shape[:2], c.heads * E), mpmath.mpf(0), object)
        for b, h, i in np.ndindex(x.shape[0], c.heads, x.shape[1]):
            g = h // group
            query = self._turned(q[b, i, h * D : (h + 1) * D], at, b, i, c)
            keys = [j for j in range(y.shape[1]) if sees(b, h, i, j)]
            rows = [self._turned(k[b, j, g * D : (g + 1) * D], at, b, j, c) for j in keys]
            scores = [scale * mpmath.fdot(query, row) for row in rows]
            e = [mpmath.exp(s + bias(b, h, i, j)) for j, s in zip(keys, scores, strict=True)]
            total = mpmath.fsum(e)
            for weight, j in zip(e, keys, strict=True):
                mixed[b, i, h * E : (h + 1) * E] += weight / total * v[b, j, g * E : (g + 1) * E]
        return self._linear(mixed, f"{name}.output")

    def _turned(self, x: Any, at: Any, b: int, i: int, c: AttentionConfig) -> Any:
        if at is None or c.rotary is None:
            return x
        D, turned = len(x), np.array(x)
        for n in range(D // 2):
            first, second = (n, n + D // 2) if c.rotary.layout == "half" else (2 * n, 2 * n + 1)
            angle = int(at[b, i]) * mpmath.mpf(c.rotary.base) ** (mpmath.mpf(-2 * n) / D)
            turned[first] = x[first] * mpmath.cos(angle) - x[second] * mpmath.sin(angle)
            turned[second] = x[second] * mpmath.cos(angle) + x[first] * mpmath.sin(angle)
        return turned


def test_blocks_agree_with_many_digits() -> None:
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        given = {name: inputs.get(name) for name in ("context", "positions", "mask", "context_mask")}
        got = block(inputs["x"], weights_of(inputs), case.block, **given, contract=EXACT)
        with mpmath.workdps(40):
            want = ManyDigits(case, inputs).block()
        assert np.all(np.isfinite(got.err)), case
        assert np.all(np.abs(got.value - want) <= got.err), case


def adversary(case: BlockCase, inputs: Inputs, contract: Contract, rng: np.random.Generator) -> tuple[Real, Real, Real]:
    """The result of an implementation that errs at every step by all that its local bound lets it, and value and bound.

    At one element of the result all errors push the same way; where the signs are drawn, they do not.
    """
    program, given = case.program(inputs), case.given(inputs)
    want = case.expected(inputs, contract, Conventions())
    clean, aim = run(program, given), int(rng.integers(want.value.size))
    known: dict[str, Any] = {name: np.asarray(x, np.float64) for name, x in given.items()}
    for n, step in enumerate(program):
        last = step is program[-1]
        made = local(step, known, contract, last=last)
        err = np.where(np.isfinite(made.err), made.err, 0.0)
        signs = rng.choice([-1.0, 1.0], made.value.shape)
        if not last and rng.random() < 0.9:
            slopes = derivative(program, n, clean, np.arange(made.value.size))
            signs = np.sign(slopes.reshape(made.value.size, -1)[:, aim]).reshape(made.value.shape)
        known[step.name] = made.value + signs * err
    return known[program[-1].name], want.value, want.err


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("level", LEVELS)
def test_first_order_bound_holds_for_errors_that_add_up(dtype: str, level: Level) -> None:
    contract, worst, determined = Contract(FORMATS[dtype], level), 0.0, 0
    for case in some_cases(2, w=("normal", "quiet", "only_attention", "closed")):
        inputs = case.inputs(contract.io)
        for turn in range(2):
            got, value, err = adversary(case, inputs, contract, np.random.default_rng([case.seed, turn]))
            allowed = err * (1 + 1e-12)
            error = np.where(np.isfinite(allowed), np.abs(got - value), 0.0)
            assert np.all(error <= allowed), (case, turn)
            worst = max(worst, float(np.max(error / np.where(allowed > 0, allowed, 1.0))))
            determined += bool(np.all(np.isfinite(err)))
    assert worst > 0.2, "the adversary does not come near the bound, which is doubled, and in float64 twice"
    assert determined > 10


def test_a_looser_level_never_has_a_smaller_bound() -> None:
    for name in HALF:
        for case in some_cases(1):
            inputs = case.inputs(FORMATS[name])
            contracts = [Contract(FORMATS[name], level) for level in sorted(LEVELS)]
            bounds = [case.expected(inputs, contract, Conventions()).err for contract in contracts]
            for looser, tighter in pairwise(bounds):
                assert np.all(tighter <= looser * (1 + 1e-12)), case


def test_rows_that_are_taken_together_give_the_derivatives_that_they_give_alone() -> None:
    for case in some_cases(2):
        inputs = case.inputs(FLOAT64)
        program, known = case.program(inputs), run(case.program(inputs), case.given(inputs))
        for n, step in enumerate(program[:-1]):
            if not step.rows:
                continue
            B, size = case.B, np.size(known[step.name]) // case.B
            alone = derivative(program, n, known, np.arange(B * size)).reshape(B, size, B, -1)
            together = derivative(program, n, known, np.arange(size), rows=B).reshape(size, B, -1)
            for b, c in np.ndindex(B, B):
                assert np.array_equal(alone[b, :, c], together[:, c] if b == c else np.zeros_like(together[:, c]))


def jacobian(case: BlockCase, inputs: Inputs) -> Real:
    """The derivative of the block of a case by x, by the complex step: (elements of x, elements of the result)."""
    x = inputs["x"].astype(np.float64)
    program = [Step("x", (), lambda: x, lambda _: local(program[1], {}, EXACT)), *case.program(inputs)]
    known = {**{n: a.astype(np.float64) for n, a in case.given(inputs).items()}, **run(program[1:], case.given(inputs))}
    return derivative(program, 0, known, np.arange(x.size)).reshape(x.size, -1)


def test_silent_pre_block_has_the_identity_as_derivative() -> None:
    for case in some_cases(2, w=("closed",)):
        if case.placement == "pre":
            J = jacobian(case, case.inputs(FLOAT64))
            assert np.array_equal(J, np.eye(len(J))), case


def layer_norm_jacobian(y: Real, eps: float, weight: Real) -> tuple[Real, Real]:
    """The derivative of LayerNorm of one row by that row (M by M, result by input), and a size for its roundings.

    J = diag(w) (I - 11^T / M - c c^T / (M s^2)) / s,   s^2 = var + eps
    """
    M = len(y)
    c = y - np.mean(y)
    s = np.sqrt(np.mean(c * c) + eps)
    rough = np.abs(y) + np.mean(np.abs(y))  # c before it cancels
    J = (np.eye(M) - 1 / M - np.outer(c, c) / (M * s * s)) / s
    size = (np.eye(M) + 1 / M + np.outer(rough, rough) / (M * s * s)) / s
    return weight[:, None] * J, np.abs(weight)[:, None] * size * (1 + np.max(rough) ** 2 / s**2)


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.5])
def test_layer_norm_projects_and_divides(eps: float) -> None:
    """The formula is the complex step's; each column sums to 0; at eps = 0 the normalised row is lost as well."""
    rng = np.random.default_rng(7)
    for M in (2, 5, 12):
        y, weight = rng.normal(size=M), 1 + 0.3 * rng.normal(size=M)
        J, size = layer_norm_jacobian(y, eps, weight)
        h = 1e-100
        pushed = np.broadcast_to(y, (M, M)) + 1j * h * np.eye(M)
        step = (norm(pushed, {"weight": weight, "bias": np.zeros(M)}, "layer", eps).imag / h).T
        room = ulps(8 * M + 40, FLOAT64.u) * size
        assert np.all(np.abs(step - J) <= room)
        plain, size = layer_norm_jacobian(y, eps, np.ones(M))
        room = ulps(9 * M + 40, FLOAT64.u) * size
        assert np.all(np.abs(np.sum(plain, axis=0)) <= np.sum(room, axis=0))
        if eps == 0:
            c = y - np.mean(y)
            assert np.all(np.abs(plain @ c) <= room @ (np.abs(y) + np.mean(np.abs(y))))


def test_silent_post_block_has_the_derivative_of_its_norms() -> None:
    """Row by row the product of the norms' Jacobians, the later to the left."""
    for case in some_cases(2, w=("closed", "closed_plain")):
        case = replace(case, placement="post", norm="layer", eps=1e-2)
        inputs = case.inputs(FLOAT64)
        B, T, M = inputs["x"].shape
        J = jacobian(case, inputs).reshape(B, T, M, B, T, M)
        weights, layers = weights_of(inputs), ("attention", *(("cross",) if case.cross else ()), "feed_forward")
        for b, t in np.ndindex(B, T):
            row, want, size = inputs["x"][b, t].astype(float), np.eye(M), np.eye(M)
            for layer in layers:
                w = {kind: weights[f"{layer}_norm.{kind}"] for kind in ("weight", "bias")}
                own, rough = layer_norm_jacobian(row, case.eps, w["weight"])
                want, size = own @ want, rough @ size
                row = norm(row, w, "layer", case.eps)
            apart = np.abs(J[b, t, :, b, t].T - want)
            assert np.all(apart <= ulps(30 * M + 120, FLOAT64.u) * size), case
            assert not np.any(np.delete(J[b, t].reshape(M, B * T, M), b * T + t, axis=1))


def test_identity_in_the_derivative_may_be_cancelled() -> None:
    """f(u) = -a u behind an RMSNorm, a the row's root mean square: all but one direction is lost in one layer."""
    x = np.array([1.0, -2.0, 0.5, 3.0])
    a, h = np.sqrt(np.mean(x * x)), 1e-100
    pushed = np.broadcast_to(x, (4, 4)) + 1j * h * np.eye(4)
    y = pushed - a * norm(pushed, {"weight": np.ones(4)}, "rms", 0.0)
    singular = np.linalg.svd(y.imag / h, compute_uv=False)
    assert singular[0] > 0.99 and np.all(singular[1:] <= ulps(64, FLOAT64.u))


def ratios(backend: NumpyBackend, case: BlockCase, dtype: str) -> tuple[float, float]:
    """Error over bound of a block: by the first-order bound of the whole, and by the first step that does not hold."""
    cell = Cell(backend, "blocks", dtype, offer="block")
    inputs = case.inputs(cell.io)
    want = cell.expected(case, inputs)
    whole = judge(cell.call(case, inputs), want).ratio  # 0 where nothing is promised
    result, taps = traced(cell, case, inputs)
    try:
        steps_hold(cell, case, inputs, {**taps, case.program(inputs)[-1].name: result})
    except Nonconformance as wrong:
        assert wrong.verdict is not None
        return whole, wrong.verdict.ratio
    return whole, cell.tally.headroom


class AttentionScaled(NumpyBackend):
    """What attention gives is 2 % too large."""

    def _mix(self, d: Any, weights: Any, v: Any) -> Any:
        return super()._mix(d, weights, v) * weights.dtype.type(1.02)


FAULTS: dict[str, type[NumpyBackend]] = {
    "none": NumpyBackend,
    "attention 2 % too large": AttentionScaled,
    "sublayers 2 % too small": SublayersScaled,
    "GELU for SiLU": GeluForSiluInABlock,
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_the_bound_of_the_whole_kills_and_what_the_steps_kill(dtype: str) -> None:
    """In float32 the black-box bound kills every planted fault in every block; the steps kill by far more."""
    sizes = [size._asdict() | {"S": 1} for size in SIZES[1:]]
    blocks = [
        BlockCase(**size, placement=placement, norm=norm, gated=True, causal=True, rotary="half", seed=seed)
        for seed, size in enumerate(sizes)
        for placement, norm in (("pre", "rms"), ("post", "layer"))
    ]
    print(f"\n{dtype:9} error / bound, smallest and largest:        whole              steps")
    for fault, make in FAULTS.items():
        found = np.array([ratios(make(), case, dtype) for case in blocks])
        low, high = np.min(found, axis=0), np.max(found, axis=0)
        print(f"{fault:28} {low[0]:10.3g} to {high[0]:8.3g}   {low[1]:10.3g} to {high[1]:8.3g}")
        if fault == "none":
            assert np.all(high <= 1)
            continue
        assert np.all(found[:, 1] > 1), fault
        assert np.all(found[:, 1] > found[:, 0]), fault
        if dtype == "float32":
            assert np.all(found[:, 0] > 1), fault


def test_linearization_is_given_up_where_the_bound_is_wide() -> None:
    case = BlockCase(**SIZES[1]._asdict(), cross=True)
    made = case.expected(case.inputs(FORMATS["bfloat16"]), Contract(FORMATS["bfloat16"], Level.STORED), Conventions())
    finite = made.err[np.isfinite(made.err)]
    assert np.any(np.isinf(made.err))
    assert np.all(finite <= LINEAR * np.max(np.abs(made.value)))


def test_what_is_seen_is_what_the_reference_sees() -> None:
    seen = view(np.array([3, 1, 2]), np.array([3, 1, 2]), causal=True, window=(0, None)).visible
    assert seen[0, 0].tolist() == [[True, False, False], [True, True, False], [True, False, True]]


def test_configuration_of_a_block_has_a_width() -> None:
    attention = AttentionConfig(width=6, heads=2, kv_heads=1, head_width=4, value_width=3)
    assert BlockConfig(attention=attention, ffn_width=5).width == 6
