"""The reference of blocks against many-digit arithmetic, and the derivatives that its bound is made of."""

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
from block_digits import ManyDigits

from gaugeblock.conformance.strategies.blocks import NETWORKS, SIZES, BlockCase
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.spec.precision import EXACT, FLOAT64
from gaugeblock.spec.reference.blocks import block
from gaugeblock.spec.reference.multihead import view
from gaugeblock.spec.reference.program import derivative, run

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


def test_blocks_agree_with_many_digits() -> None:
    for case in some_cases():
        inputs = case.inputs(FLOAT64)
        given = {name: inputs.get(name) for name in ("context", "positions", "mask", "context_mask")}
        got = block(inputs["x"], weights_of(inputs), case.block, **given, contract=EXACT)
        with mpmath.workdps(40):
            want = ManyDigits(case, inputs).block()
        assert np.all(np.isfinite(got.err)), case
        assert np.all(np.abs(got.value - want) <= got.err), case


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


def test_what_is_seen_is_what_the_reference_sees() -> None:
    seen = view(np.array([3, 1, 2]), np.array([3, 1, 2]), causal=True, window=(0, None)).visible
    assert seen[0, 0].tolist() == [[True, False, False], [True, True, False], [True, False, True]]
