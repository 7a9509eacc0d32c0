"""Probes of attention from the catalogue of public faults: small inputs whose right and wrong values differ plainly.

Right and wrong values are worked out here, in fractions or by the formula; test_probes.py says which probe is where.
"""

from fractions import Fraction
from math import exp, inf, isfinite, sqrt, tanh
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from probing import Ours, attend, floats, mixed, number, told, uniform

from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.precision import FORMATS

DTYPES = ("float32", "float16", "bfloat16")
HALVES = DTYPES[1:]
Rows = list[list[float]]

# six query heads on two: in groups, in turn, and by the number of key/value heads, the last of which have no group
GROUPS = ([h // 3 for h in range(6)], [h % 2 for h in range(6)], [min(h // 2, 1) for h in range(6)])


def means(rows: Rows) -> list[float]:
    """The mean of the values that each row sees, zero where it sees none."""
    return [float(sum(map(Fraction, row)) / len(row)) if row else 0.0 for row in rows]


def seen(v: list[float], T: int, least: int, most: int) -> Rows:
    """The values from `least` to `most` places of each of T queries, the last of which stands at the last value."""
    S = len(v)
    return [[v[j] for j in range(S) if least <= j - (i + S - T) <= most] for i in range(T)]


def logistic(x: float) -> float:
    return 1 / (1 + exp(-x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "v"), [(1, [1, 2, 3, 4]), (2, [1, 2, 3, 4]), (5, [1, 2])])
def test_the_last_query_sees_the_last_key(backend: Ours, dtype: str, T: int, v: list[float]) -> None:
    right = means(seen(v, T, -9, 0))
    top_left = means([v[: i + 1] for i in range(T)])
    told(uniform(backend, v, T, causal=True, dtype=dtype), right, max(v) * mixed(len(v), dtype), top_left)


@pytest.mark.parametrize("dtype", DTYPES)
def test_later_keys_do_not_reach_earlier_queries(backend: Ours, dtype: str) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(1, 2, 8, 4)) for _ in "qkv")
    k2, v2 = k.copy(), v.copy()
    k2[:, :, 5:], v2[:, :, 5:] = 3.0, 100.0
    everything = np.ones((1, 1, 8, 8), bool)
    for options in ({}, {"mask": everything}):
        a, b = (attend(backend, q, *kv, causal=True, dtype=dtype, **options) for kv in ((k, v), (k2, v2)))
        assert np.array_equal(a[:, :, :5], b[:, :, :5])
        assert not np.array_equal(a[:, :, 5:], b[:, :, 5:])


@pytest.mark.parametrize("S", [31, 32, 33, 1023, 1024, 1025])
def test_no_key_is_lost_at_the_end_of_a_tile(backend: Ours, S: int) -> None:
    rng = np.random.default_rng(S)
    q, k, v = (rng.integers(-8, 9, size=(1, n, t, 4)) / 8 for n, t in ((6, 1), (2, S), (2, S)))
    v[:, :, -1] = 3 * S  # heavy, so that losing it shows
    right, total = by_formula(q, k, v)
    without, _ = by_formula(q, k[:, :, :-1], v[:, :, :-1])
    told(attend(backend, q, k, v), right, total * mixed(S, scores=4 / 2, D=4), without)  # 4 products of at most 1


def by_formula(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """One query of six heads on two, one head at a time, and the same of the magnitudes of the values."""
    made, total = np.empty((1, 6, 1, 4)), np.empty((1, 6, 1, 4))
    for h in range(6):
        w = np.array([exp(float(row @ q[0, h, 0]) / sqrt(4)) for row in k[0, h // 3]])
        for out, x in ((made, v), (total, np.abs(v))):
            out[0, h, 0] = (w / w.sum()) @ x[0, h // 3]
    return made, total


def test_two_keys_at_the_end_of_many(backend: Ours) -> None:
    S = 32769
    mask = (np.arange(S) >= S - 2).reshape(1, 1, 1, S)
    right = [float(Fraction(S - 2 + S - 1, 2))]
    got = uniform(backend, list(map(float, range(S))), 1, mask=mask)
    told(got, right, S * mixed(2), [S - 2], [S - 1], [(S - 1) / 2])  # exponentials of hidden keys are exact zeros


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_that_sees_nothing_is_zero(backend: Ours, dtype: str) -> None:
    mask = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], bool).reshape(1, 1, 3, 3)
    right = means([[1, 2, 3], [], [1]])
    bound = 3 * mixed(3, dtype) * np.array([1, 0, 1])  # nothing is rounded in an empty row
    for options in ({"mask": mask}, {"bias": np.where(mask, 0, -inf)}):
        got = uniform(backend, [1, 2, 3], 3, dtype=dtype, **options)
        told(got, right, bound, [2, 2, 1])
        assert np.all(np.isfinite(got))


@pytest.mark.parametrize("dtype", HALVES)
def test_the_lowest_number_hides_nothing_and_makes_no_nan(backend: Ours, dtype: str) -> None:
    """Left pads: a hidden key under a plane of lowest numbers must neither give NaN nor hide the keys beside it."""
    lowest = -FORMATS[dtype].max
    mask = np.array([0, 0, 1], bool).reshape(1, 1, 1, 3)
    bias = np.full((1, 1, 3, 3), lowest)
    told(uniform(backend, [1, 2, 3], 3, mask=mask, bias=bias, dtype=dtype), [3, 3, 3], 3 * mixed(3, dtype), [2, 2, 2])
    assert isfinite(lowest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_left_pads_and_causality_leave_rows_empty(backend: Ours, dtype: str) -> None:
    """Two planes of lowest numbers that are added up overflow where both hide, and show the keys that one hides."""
    mask = np.array([0, 0, 1], bool).reshape(1, 1, 1, 3)
    got = uniform(backend, [1, 2, 3], 3, mask=mask, causal=True, dtype=dtype)
    told(got, [0, 0, 3], 3 * mixed(3, dtype) * np.array([0, 0, 1]), [np.nan, np.nan, 3], [2, 3, 3], [1, 1.5, 3])


def test_lowest_numbers_of_half_precision_do_not_add_up() -> None:
    """Half a unit below -65504 lies -65520: a tie, which goes to the even neighbour, and that is infinite."""
    lowest = np.float16(-65504)
    with np.errstate(over="ignore"):
        assert lowest == np.finfo(np.float16).min
        assert lowest + lowest == -inf and lowest + np.float16(-16) == -inf
        assert lowest + np.float16(-15) == lowest
        low = np.asarray(-FORMATS["bfloat16"].max).astype(ml_dtypes.bfloat16)
        assert np.isfinite(low) and float(low + low) == -inf


def test_a_hidden_key_loses_against_any_score(backend: Ours) -> None:
    """Scores -12000 and 0, the second hidden: a fill of -10000 that is added would let it win."""
    mask = np.array([1, 0], bool).reshape(1, 1, 1, 2)
    got = attend(backend, [[[[1.0]]]], [[[[-12000.0], [0.0]]]], [[[[1.0], [0.0]]]], mask=mask, scale=1.0)
    told(got.ravel(), [1.0], mixed(1), [exp(-12000.0 + 10000.0)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_row_of_the_batch_has_its_mask(backend: Ours, dtype: str) -> None:
    mask = np.array([[1, 1], [1, 0]], bool).reshape(2, 1, 1, 2)
    v = np.broadcast_to(np.reshape([1, 3], (1, 1, 2, 1)), (2, 2, 2, 1))
    got = attend(backend, np.zeros((2, 2, 1, 1)), np.zeros((2, 2, 2, 1)), v, mask=mask, dtype=dtype)
    both, first = means([[1, 3], [1]])
    told(got.reshape(2, 2), [[both, both], [first, first]], 3 * mixed(2, dtype), [[both, first], [both, first]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_true_keeps_and_minus_infinity_hides(backend: Ours, dtype: str) -> None:
    keep = np.array([1, 0], bool).reshape(1, 1, 1, 2)
    for options in ({"mask": keep}, {"bias": np.where(keep, 0, -inf)}):
        told(uniform(backend, [1, 3], 1, dtype=dtype, **options), [1], mixed(1, dtype), [3], [2])


def test_an_empty_sequence_in_a_batch(backend: Ours) -> None:
    """Lengths 3, 0 and 2 in one batch."""
    lengths, v = [3, 0, 2], [1.0, 2.0, 4.0]
    mask = (np.arange(3) < np.reshape(lengths, (3, 1))).reshape(3, 1, 1, 3)
    values = np.broadcast_to(np.reshape(v, (1, 1, 3, 1)), (3, 1, 3, 1))
    got = attend(backend, np.zeros((3, 1, 3, 1)), np.zeros((3, 1, 3, 1)), values, mask=mask)[:, 0, :, 0]
    right = np.repeat(np.reshape(means([v[:n] for n in lengths]), (3, 1)), 3, axis=1)
    told(got, right, 4 * mixed(3) * np.reshape([1, 0, 1], (3, 1)), np.repeat([[7 / 3], [7 / 3], [1.5]], 3, axis=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_window_of_three(backend: Ours, dtype: str) -> None:
    """The query's own key and the two before it: one more, one fewer and none left out show in the last row."""
    v = [1.0, 2.0, 3.0, 4.0, 5.0]
    right = means(seen(v, 5, -2, 0))
    wider, narrower, ignored, open_right = (means(seen(v, 5, *w)) for w in ((-3, 0), (-1, 0), (-9, 0), (-2, 9)))
    assert (right[4], wider[4], narrower[4], ignored[4]) == (4, 3.5, 4.5, 3)
    everything = np.ones((1, 1, 5, 5), bool)
    for options in ({}, {"mask": everything}, {"causal": True}, {"causal": True, "mask": everything}):
        got = uniform(backend, v, 5, window=(2, 0), dtype=dtype, **options)
        told(got, right, 5 * mixed(5, dtype), wider, narrower, ignored, open_right)


def test_the_scale_is_that_of_a_head(backend: Ours) -> None:
    """Four heads of width 4: scores 4 / sqrt(4) and 0."""
    q = np.broadcast_to(np.eye(1, 4) * 2, (1, 4, 1, 4))
    k = np.broadcast_to(np.stack([np.eye(1, 4)[0] * 2, np.zeros(4)]), (1, 4, 2, 4))
    v = np.broadcast_to(np.reshape([1, 0], (1, 1, 2, 1)), (1, 4, 2, 1))
    right, model, missing, inverted = (logistic(4 * s) for s in (1 / sqrt(4), 1 / sqrt(16), 1, sqrt(4)))
    got = attend(backend, q, k, v).reshape(4)
    told(got, [right] * 4, mixed(2, scores=2, D=4), *([x] * 4 for x in (model, missing, inverted)))


def test_weights_add_up_over_the_keys(backend: Ours) -> None:
    told(uniform(backend, [1, 1], 3), [1, 1, 1], mixed(2), [2 / 3] * 3)


@pytest.mark.parametrize("cap", [1.0, 5.0])
def test_a_cap_does_not_show_a_hidden_key(backend: Ours, cap: float) -> None:
    """Capped after the mask, a hidden score is no lower than -cap."""
    mask = np.array([1, 0], bool).reshape(1, 1, 1, 2)
    told(uniform(backend, [1, 0], 1, mask=mask, softcap=cap), [1], mixed(2), [logistic(-cap * tanh(-inf))])


def test_two_large_scores_differ_by_one(backend: Ours) -> None:
    got = attend(backend, [[[[1.0]]]], [[[[2000.0], [1999.0]]]], [[[[1.0], [0.0]]]], scale=1.0)
    # integers below 2**24: products and sums are exact, and so is their difference
    told(got.ravel(), [logistic(1)], mixed(2), [0.5], [1.0])
    assert np.all(np.isfinite(got))


@pytest.mark.parametrize("dtype", HALVES)
def test_products_beyond_half_precision(backend: Ours, dtype: str) -> None:
    """64 * 40 * 40 = 102400 overflows float16, an eighth of it does not."""
    assert 64 * 40 * 40 > float(np.finfo(np.float16).max) > 64 * 40 * 40 / 8
    rows = np.full((1, 1, 2, 64), 40.0)
    got = attend(backend, rows[:, :, :1], rows, [[[[1.0], [0.0]]]], dtype=dtype)
    told(got.ravel(), [0.5], mixed(2, dtype), [np.nan])  # equal keys have equal scores, however rounded


@pytest.mark.parametrize("dtype", DTYPES)
def test_query_heads_read_their_group(backend: Ours, dtype: str) -> None:
    H, K = 6, 2
    q, k = np.random.default_rng(18).normal(size=(1, H, 1, 2)), np.zeros((1, K, 3, 2))
    v = np.broadcast_to(np.reshape([1, 2], (1, K, 1, 1)), (1, K, 3, 1))
    right, tiled, by_kv = ([float(g + 1) for g in order] for order in GROUPS)
    told(attend(backend, q, k, v, dtype=dtype).ravel(), right, 2 * mixed(3, dtype), tiled, by_kv)


def test_query_heads_read_the_keys_of_their_group(backend: Ours) -> None:
    """Each kv head has its own favourite key, the values are the same: only the keys tell."""
    k = np.zeros((1, 2, 2, 1))
    k[0, 0, 0, 0] = k[0, 1, 1, 0] = 30.0
    v = np.broadcast_to(np.reshape([1, 2], (1, 1, 2, 1)), (1, 2, 2, 1))
    by_group = [1 + logistic(-30), 1 + logistic(30)]
    right, tiled, by_kv = ([by_group[g] for g in order] for order in GROUPS)
    told(attend(backend, np.ones((1, 6, 1, 1)), k, v).ravel(), right, 2 * mixed(2, scores=30), tiled, by_kv)


def test_heads_are_merged_token_by_token(backend: Ours) -> None:
    """Each token sees itself only and every projection is the identity: what goes in comes out."""
    config = AttentionConfig(width=2, heads=2, kv_heads=2, head_width=1, value_width=1, window=(0, 0))
    weights = {f"{n}.weight": floats(backend, np.eye(2)) for n in ("query", "key", "value", "output")}
    a, b, c, d = 1.0, 2.0, 4.0, 8.0
    x, positions = floats(backend, [[[a, c], [b, d]]]), backend.asarray(np.arange(2))
    got = number(backend, backend.multi_head_attention(x, weights, config, positions=positions))
    told(got, [[[a, c], [b, d]]], 8 * mixed(2), [[[a, b], [c, d]]])


def test_strided_values_are_read_by_their_strides(backend: Ours) -> None:
    """Heads and tokens exchanged, seen through a window that shows each query its own value."""
    flat = np.arange(12, dtype=np.float32)
    v, wrong = flat.reshape(1, 3, 2, 2).transpose(0, 2, 1, 3), flat.reshape(1, 2, 3, 2)
    assert v[0, 0].tolist() == [[0, 1], [4, 5], [8, 9]] and wrong[0, 0].tolist() == [[0, 1], [2, 3], [4, 5]]
    zeros = floats(backend, np.zeros((1, 2, 3, 2)))
    got = backend.attention(zeros, zeros, backend.asarray(v), window=(0, 0))
    told(number(backend, got), v, 11 * mixed(3), wrong)


def test_a_call_repeated_gives_the_same(backend: Ours) -> None:
    """Nothing is dropped: two calls agree bit for bit, and the weights of a row add up to one."""
    q, k, v = (np.random.default_rng(22).normal(size=(1, 2, 4, 4)) for _ in "qkv")
    assert np.array_equal(attend(backend, q, k, v), attend(backend, q, k, v))
    told(attend(backend, q, k, np.ones((1, 2, 4, 1))), np.ones((1, 2, 4, 1)), mixed(4), np.full((1, 2, 4, 1), 0.5))


def test_a_penalty_by_distance_reaches_a_single_query(backend: Ours) -> None:
    """The first of eight heads has slope 1/2: the query at 3 weighs the keys 0 to 3 by exp(-distance / 2)."""
    at, keys = (backend.asarray(np.asarray(p)) for p in ([3], [0, 1, 2, 3]))
    bias = backend.alibi_bias(8, at, keys)
    q, k = (floats(backend, np.zeros((1, 8, n, 1))) for n in (1, 4))
    v = floats(backend, np.broadcast_to(np.reshape([1, 2, 3, 4], (1, 1, 4, 1)), (1, 8, 4, 1)))
    w = [exp(-(3 - j) / 2) for j in range(4)]
    right = sum(p * x for p, x in zip(w, (1, 2, 3, 4), strict=True)) / sum(w)
    got = number(backend, backend.attention(q, k, v, bias=bias))[0, 0, 0]
    told(got, [right], 4 * mixed(4, scores=1.5), [2.5])
