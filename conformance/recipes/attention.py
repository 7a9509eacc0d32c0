"""How the arrays of an attention case are made: each recipe separates faults that plain random input hides."""

from collections.abc import Callable, Mapping

import numpy as np

from gaugeblock.spec.attention import Dims
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Bits, Real

Rng = np.random.Generator
Pair = tuple[Real, Real]

LARGE_LOGIT = 1000.0  # exp overflows float64 above 709.8, so an unshifted softmax cannot survive it
FAR_LOGIT = 2.0**17  # a maximum that is off by a thousandth of it leaves the range of exp in float32, 88.7 and -104


def _normal(d: Dims, rng: Rng) -> Pair:
    return rng.normal(size=(d.B, d.H, d.T, d.D)), rng.normal(size=(d.B, d.K, d.S, d.D))


def _zero(d: Dims, rng: Rng) -> Pair:
    """Equal scores: the weights count the visible keys."""
    return np.zeros((d.B, d.H, d.T, d.D)), np.zeros((d.B, d.K, d.S, d.D))


def _integers(d: Dims, rng: Rng) -> Pair:
    """Small integers: every partial sum of a score is exact."""
    q = rng.integers(-3, 4, (d.B, d.H, d.T, d.D)).astype(np.float64)
    return q, rng.integers(-3, 4, (d.B, d.K, d.S, d.D)).astype(np.float64)


def _scaled(d: Dims, rng: Rng) -> Pair:
    """Rows of very different magnitude."""
    q, k = _normal(d, rng)
    return q * 10 ** rng.uniform(-3, 1, (d.B, d.H, d.T, 1)), k * 10 ** rng.uniform(-3, 0.3, (d.B, d.K, d.S, 1))


def _near_ties(d: Dims, rng: Rng) -> Pair:
    q, k = _normal(d, rng)
    return q, k[:, :, :1] + 1e-3 * k


def _peaked(d: Dims, rng: Rng) -> Pair:
    q, k = _normal(d, rng)
    return 3 * q, 3 * k


def _cancelling(d: Dims, rng: Rng) -> Pair:
    """Large terms that cancel in the product: |q||k| is far above |q k|."""
    q, k = _normal(d, rng)
    signs = np.where(np.arange(d.D) % 2, -1.0, 1.0)
    return q + 20.0, k + 20.0 * signs * (np.arange(d.D) < d.D - d.D % 2)


def _heavy(d: Dims, rng: Rng) -> Pair:
    q, k = _normal(d, rng)
    return np.clip(rng.standard_t(1.5, q.shape), -20, 20), k


def _ascending(d: Dims, rng: Rng) -> Pair:
    """Every key beats the ones before it: an online softmax rescales in every block."""
    q, k = _normal(d, rng)
    step = np.arange(d.S)[:, None] * (12.0 / max(d.S, 1))
    return 1.0 + 0.1 * q, (step + 0.3 * k) / np.sqrt(d.D)


def _around(logit: float) -> Callable[[Dims, Rng], Pair]:
    def recipe(d: Dims, rng: Rng) -> Pair:
        q, k = _normal(d, rng)
        root = np.sqrt(abs(logit) / np.sqrt(d.D))
        return root + 0.0 * q, np.sign(logit) * root + (0.5 / root / np.sqrt(d.D)) * k

    return recipe


def _winner(d: Dims, rng: Rng) -> Pair:
    """One key at the largest score, the others far below it, at both signs of the exponent's range."""
    q, k = _normal(d, rng)
    root = np.sqrt(LARGE_LOGIT / np.sqrt(d.D))
    share = np.where(np.arange(d.S) == rng.integers(0, max(d.S, 1)), 1.0, rng.uniform(-1.0, 0.7, d.S))
    return root + 0.0 * q, (root * share)[None, None, :, None] + 0.0 * k


def _polytope(d: Dims, rng: Rng) -> Pair:
    """Keys sqrt(D) times plus and minus the unit vectors, queries of signs: the mean squared score is exactly 1."""
    q = rng.choice([-1.0, 1.0], (d.B, d.H, d.T, d.D))
    j = np.arange(d.S)
    k = np.sqrt(d.D) * np.where(j < d.D, 1.0, -1.0)[:, None] * (np.arange(d.D) == (j % d.D)[:, None])
    return q, np.broadcast_to(k, (d.B, d.K, d.S, d.D)).copy()


def _probe(d: Dims, rng: Rng) -> Pair:
    """Key 0 equals the query, a multiple of e1 - e2; the others are zero: key 0's weight reveals the scale."""
    direction = np.sqrt(0.75 * np.sqrt(d.D)) * ((np.arange(d.D) == 0) - 1.0 * (np.arange(d.D) == 1))
    q = np.broadcast_to(direction, (d.B, d.H, d.T, d.D)).copy()
    k = np.where(np.arange(d.S)[:, None] == 0, direction, 0.0)
    return q, np.broadcast_to(k, (d.B, d.K, d.S, d.D)).copy()


def _abyss(d: Dims, rng: Rng) -> Pair:
    """Even keys at a score of -12000, odd ones at 0: a finite fill of -1e4 is not below the even ones."""
    root = np.sqrt(12000.0 / np.sqrt(d.D))
    q = np.full((d.B, d.H, d.T, d.D), root)
    k = np.where(np.arange(d.S)[:, None] % 2, 0.0, -root)
    return q, np.broadcast_to(k, (d.B, d.K, d.S, d.D)).copy()


def _v_normal(d: Dims, rng: Rng) -> Real:
    return rng.normal(size=(d.B, d.K, d.S, d.E))


def _v_index(d: Dims, rng: Rng) -> Real:
    """Key j holds j + 1: with equal scores the output is the mean index of the visible keys."""
    return np.broadcast_to(np.arange(1.0, d.S + 1)[:, None], (d.B, d.K, d.S, d.E)).copy()


def _v_first(d: Dims, rng: Rng) -> Real:
    """Key 0 holds one, the others zero: the output is the weight of key 0."""
    return np.broadcast_to((np.arange(d.S) == 0)[:, None] * 1.0, (d.B, d.K, d.S, d.E)).copy()


def _v_parity(d: Dims, rng: Rng) -> Real:
    """Even keys hold one, odd ones zero."""
    return np.broadcast_to((np.arange(d.S) % 2 == 0)[:, None] * 1.0, (d.B, d.K, d.S, d.E)).copy()


def _v_head(d: Dims, rng: Rng) -> Real:
    """Key/value head g holds g + 1: the output names the head that was read."""
    return np.broadcast_to(np.arange(1.0, d.K + 1)[:, None, None], (d.B, d.K, d.S, d.E)).copy()


def _v_constant(d: Dims, rng: Rng) -> Real:
    """Every key of a head holds the same row, which then is the output."""
    return np.broadcast_to(rng.normal(size=(d.B, d.K, 1, d.E)), (d.B, d.K, d.S, d.E)).copy()


def _v_integers(d: Dims, rng: Rng) -> Real:
    return rng.integers(-3, 4, (d.B, d.K, d.S, d.E)).astype(np.float64)


def _v_offset(d: Dims, rng: Rng) -> Real:
    return 100.0 + _v_normal(d, rng)


def _v_cancelling(d: Dims, rng: Rng) -> Real:
    return np.where(np.arange(d.S) % 2, -1.0, 1.0)[:, None] * (5.0 + _v_normal(d, rng))


def _ragged(d: Dims, rng: Rng) -> Bits:
    """Padding: keys at either end or in the middle of a row are hidden from all its queries."""
    keep = rng.random((d.B, 1, 1, d.S)) < 0.6
    keep[..., rng.integers(0, max(d.S, 1)) : d.S : max(d.S, 1)] = True
    return keep


def _some_empty(d: Dims, rng: Rng) -> Bits:
    """The first query and about every third one see nothing."""
    rows = (rng.random((d.B, 1, d.T, 1)) < 0.6) & (np.arange(d.T)[:, None] > 0)
    return rows & (rng.random((d.B, 1, d.T, d.S)) < 0.8)


def _hide(d: Dims, rng: Rng) -> Real:
    """Nothing but 0 and -inf: a mask in the guise of a bias."""
    return np.where(_some_empty(d, rng), 0.0, -np.inf)


def _shifted(d: Dims, rng: Rng) -> Real:
    """A row-wise constant that the softmax does not see and an unshifted exponential does.

    On top of it integers, or one key far above the others, which is certain even where scores are stored in half.
    """
    shift = rng.choice([-960.0, 0.0, 960.0], (1, d.H, d.T, 1))
    above = np.where(np.arange(d.S) == rng.integers(0, d.S, (1, d.H, d.T, 1)), 0.0, -480.0)
    return np.asarray(shift + (above if rng.random() < 0.5 else rng.integers(0, 8, (1, d.H, d.T, d.S))))


def _infinite(d: Dims, rng: Rng) -> Real:
    bias = rng.normal(size=(d.B, 1, d.T, d.S)) * 2
    return np.where(rng.random(bias.shape) < 0.3, -np.inf, bias)


def _strided(x: Numpy) -> Numpy:
    """The same values, every axis read with a gap, the last two in each other's place."""
    B, H, T, D = x.shape
    room = np.zeros((B, H, 2 * D + 1, 2 * T + 1), x.dtype)
    view = room[:, :, 1::2, 1::2].swapaxes(-1, -2)[:, :, :T, :D]
    view[...] = x
    return view


def _repeated(x: Numpy) -> Numpy:
    """The first batch row and head for all of them, by strides of zero."""
    return np.broadcast_to(x[:1, :1], x.shape)


QUERIES_KEYS: Mapping[str, Callable[[Dims, Rng], Pair]] = {
    "normal": _normal,
    "zero": _zero,
    "integers": _integers,
    "scaled": _scaled,
    "near-ties": _near_ties,
    "peaked": _peaked,
    "cancelling": _cancelling,
    "heavy": _heavy,
    "ascending": _ascending,
    "low": _around(-20.0),
    "high": _around(LARGE_LOGIT),
    "deep": _around(-LARGE_LOGIT),
    "far": _around(FAR_LOGIT),
    "far-below": _around(-FAR_LOGIT),
    "winner": _winner,
    "polytope": _polytope,
    "probe": _probe,
    "abyss": _abyss,
}
VALUES: Mapping[str, Callable[[Dims, Rng], Real]] = {
    "normal": _v_normal,
    "index": _v_index,
    "first": _v_first,
    "parity": _v_parity,
    "head": _v_head,
    "constant": _v_constant,
    "integers": _v_integers,
    "offset": _v_offset,
    "cancelling": _v_cancelling,
}
MASKS: Mapping[str, Callable[[Dims, Rng], Bits]] = {
    "random": lambda d, rng: (rng.random((d.B, 1, d.T, d.S)) < 0.6) | (np.arange(d.S) == 0),
    "keys": _ragged,
    "heads": lambda d, rng: (rng.random((d.B, d.H, d.T, d.S)) < 0.6) | (np.arange(d.S) == 0),
    "shared": lambda d, rng: (rng.random((1, 1, d.T, d.S)) < 0.6) | (np.arange(d.S) == 0),
    "queries": lambda d, rng: rng.random((d.B, 1, d.T, 1)) < 0.6,
    "empty": _some_empty,
    "all": lambda d, rng: np.ones((1, 1, 1, 1), bool),
    "none": lambda d, rng: np.zeros((1, 1, 1, 1), bool),
    "evens": lambda d, rng: (np.arange(d.S) % 2 == 0)[None, None, None, :],
    "last": lambda d, rng: (np.arange(d.S) >= d.S - 2)[None, None, None, :],
}
BIASES: Mapping[str, Callable[[Dims, Rng], Real]] = {
    "normal": lambda d, rng: 2 * rng.normal(size=(1, d.H, d.T, d.S)),
    "full": lambda d, rng: 2 * rng.normal(size=(d.B, d.H, d.T, d.S)),
    "keys": lambda d, rng: 2 * rng.normal(size=(d.B, 1, 1, d.S)),
    "zero": lambda d, rng: np.zeros((1, 1, d.T, d.S)),
    "shifted": _shifted,
    "abyss": lambda d, rng: np.full((1, 1, d.T, d.S), -30000.0),
    "infinite": _infinite,
    "hide": _hide,
}
LAYOUTS: Mapping[str, Callable[[Numpy], Numpy]] = {"": lambda x: x, "strided": _strided, "repeated": _repeated}
