"""The closed forms of operations and bytes against loops that count one by one."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from gaugeblock.spec import counts

SIZES = [
    # B, T, S, M, H, K, D, E, cached
    (1, 1, 1, 1, 1, 1, 1, 1, 0),
    (2, 3, 3, 4, 2, 2, 2, 2, 0),
    (1, 3, 5, 4, 4, 2, 3, 2, 0),
    (2, 1, 6, 3, 2, 1, 2, 5, 5),
    (1, 2, 6, 3, 3, 3, 1, 2, 4),
    (1, 4, 3, 2, 2, 1, 2, 3, 0),
    (0, 2, 2, 3, 1, 1, 2, 2, 0),
]


class Tally:
    """Counts what a matrix product written as three loops does, and the elements of what it makes."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def matmul(self, part: str, n: int, m: int, p: int) -> tuple[int, int]:
        for _ in product(range(n), range(m), range(p)):
            self.done[part] += 1
        return n, p


def naive(
    B: int, T: int, S: int, M: int, H: int, K: int, D: int, E: int, cached: int, causal: bool = False
) -> Counter[str]:
    """Multi-head attention as section 3.2 writes it, head by head, nothing but counted."""
    tally = Tally()
    for _ in range(B):
        for _ in range(K):
            tally.matmul("key", S - cached, M, D)
            tally.matmul("value", S - cached, M, E)
        for _ in range(H):
            tally.matmul("query", T, M, D)
            for i, j in product(range(T), range(S)):
                if not causal or j <= i + S - T:
                    tally.matmul("scores", 1, D, 1)
                    tally.matmul("mix", 1, 1, E)
                    tally.done["exponentials"] += 1
        tally.matmul("output", T, H * E, M)
    return tally.done


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_multi_head_is_what_loops_do(sizes: tuple[int, ...], causal: bool) -> None:
    B, T, S, M, H, K, D, E, cached = sizes
    if causal and T > S:
        with pytest.raises(ValueError, match="T <= S"):
            counts.multi_head(B=B, T=T, S=S, M=M, H=H, K=K, D=D, E=E, cached=cached, causal=True)
        return
    got = counts.multi_head(B=B, T=T, S=S, M=M, H=H, K=K, D=D, E=E, cached=cached, causal=causal)
    want = naive(*sizes, causal=causal)
    assert {part: count for part, count in vars(got).items() if count} == dict(want)
    assert got.total == sum(count for part, count in want.items() if part != "exponentials")
    assert got.projections + got.attention == got.total
    if not causal:
        assert got.attention == counts.attention(B=B, H=H, T=T, S=S, D=D, E=E)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("cached", [True, False])
def test_generation_is_the_sum_of_its_steps(n: int, cached: bool) -> None:
    sizes = {"B": 2, "M": 6, "H": 4, "K": 2, "D": 3, "E": 2}
    steps = [(1, t, t - 1) if cached else (t, t, 0) for t in range(1, n + 1)]
    want = sum(
        sum(v for k, v in naive(T=T, S=S, cached=c, **sizes).items() if k != "exponentials") for T, S, c in steps
    )
    assert counts.generation(n, cached=cached, **sizes) == want


def test_cached_must_fit() -> None:
    with pytest.raises(ValueError, match="cached must be in 0 to S = 2"):
        counts.multi_head(B=1, T=1, S=2, M=1, H=1, K=1, D=1, E=1, cached=3)


def test_bytes_are_those_of_arrays() -> None:
    B, T, S, M, H, K, D, E = 2, 3, 5, 8, 4, 2, 3, 6
    for dtype in (np.float16, np.float32):
        size = np.dtype(dtype).itemsize
        made = [(B, T, M), (B, H, T, D), (B, K, S, D), (B, K, S, E), (B, H, T, E), (B, T, M)]
        bytes_made = sum(np.zeros(shape, dtype).nbytes for shape in made)
        got = counts.activations_nbytes(B=B, T=T, S=S, M=M, H=H, K=K, D=D, E=E, itemsize=size)
        assert got == bytes_made
        assert counts.weights_nbytes(B=B, H=H, T=T, S=S, itemsize=size) == np.zeros((B, H, T, S), dtype).nbytes


@pytest.mark.parametrize(("d", "H"), [(64, 4), (512, 8), (4096, 32)])
def test_the_document_s_orders_with_their_factors(d: int, H: int) -> None:
    """Section 3.3 with d_k = d_v = d / h: 4 N d² + 2 N² d, and the two meet at N = 2 d."""
    for N in (1, 100, 2 * d):
        got = counts.multi_head(B=1, T=N, S=N, M=d, H=H, K=H, D=d // H, E=d // H)
        assert (got.projections, got.attention, got.exponentials) == (4 * N * d**2, 2 * N**2 * d, H * N**2)
    assert got.projections == got.attention


def test_causal_halves_the_pairs() -> None:
    whole, half = (
        counts.multi_head(B=1, T=1000, S=1000, M=8, H=2, K=2, D=4, E=4, causal=c).attention for c in (False, True)
    )
    assert half / whole == 0.5005
