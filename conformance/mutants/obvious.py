"""The four laws that everybody writes, as most people would write them: what a suite without a specification catches.

U  scores and norm outputs have unit variance       C  a later token changes no earlier row
S  rotated products depend on the distance only     K  token by token gives what the whole sequence gives
All of them in float32, batch 1, on one plain shape, with no option on and a tolerance chosen by eye; C and K of
attention, and of what is built from it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gaugeblock.conformance.mutants.obvious_models import leaks, steps
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.components import offers

HEADS, LENGTH, WIDTH = 4, 8, 16
CLOSE = 1e-4


def obvious(backend: Backend) -> tuple[str, ...]:
    """The letters of the laws that a backend breaks; a law of what it does not offer is not broken."""
    return tuple(name for name, law in LAWS.items() if not _holds(law, backend))


def _holds(law: Callable[[Backend], Iterator[bool]], backend: Backend) -> bool:
    with np.errstate(all="ignore"):
        try:
            return all(law(backend))
        except Exception:
            return False  # a law that cannot be run has found a fault as well


def _unit_variance(backend: Backend) -> Iterator[bool]:
    rng = np.random.default_rng(0)
    if offers(backend, "attention", "attention"):
        q, k = rng.normal(size=(2, 1, HEADS, 128, WIDTH)).astype(np.float32)
        eye = np.broadcast_to(np.eye(128, dtype=np.float32), (1, HEADS, 128, 128)).copy()
        logs = np.log(_call(backend, "attention", q, k, eye))
        yield bool(0.8 < np.var(logs - logs.mean(axis=-1, keepdims=True)) < 1.25)
    x = 3 * rng.normal(size=(16, 64)).astype(np.float32)
    for name, weights in (("layer_norm", (None, None)), ("rms_norm", (None,))):
        if _has(backend, "normalization", name):
            y = _call(backend, name, x, *weights, eps=1e-5)
            yield bool(np.all(np.abs(np.mean(y * y, axis=-1) - 1) < 1e-2))


def _no_leak(backend: Backend) -> Iterator[bool]:
    if offers(backend, "attention", "attention"):
        q, k, v = _qkv()
        later_k, later_v = k.copy(), v.copy()
        later_k[:, :, 5:] += 1
        later_v[:, :, 5:] += 1
        before = _call(backend, "attention", q, k, v, causal=True)
        after = _call(backend, "attention", q, later_k, later_v, causal=True)
        yield bool(np.all(np.abs(before - after)[:, :, :5] < CLOSE))
    yield from leaks(backend)


def _distance_only(backend: Backend) -> Iterator[bool]:
    if _has(backend, "positions", "rotary"):
        q, k, _ = _qkv()
        near, far = np.arange(LENGTH), np.arange(LENGTH) + 5
        yield bool(np.all(np.abs(_products(backend, q, k, near) - _products(backend, q, k, far)) < 1e-3))


def _products(backend: Backend, q: Numpy, k: Numpy, positions: Numpy) -> Numpy:
    rotated = _call(backend, "rotate", q, positions), _call(backend, "rotate", k, positions)
    return np.asarray(rotated[0] @ rotated[1].swapaxes(-1, -2))


def _cached_is_full(backend: Backend) -> Iterator[bool]:
    if offers(backend, "attention", "attention"):
        q, k, v = _qkv()
        full = _call(backend, "attention", q, k, v, causal=True)
        for t in range(4, LENGTH):
            step = _call(backend, "attention", q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1])
            yield bool(np.all(np.abs(step[:, :, 0] - full[:, :, t]) < CLOSE))
    yield from steps(backend)


LAWS: Mapping[str, Callable[[Backend], Iterator[bool]]] = {
    "U": _unit_variance,
    "C": _no_leak,
    "S": _distance_only,
    "K": _cached_is_full,
}


def _qkv() -> Numpy:
    """q, k and v (1, H, T, D), stacked."""
    return np.random.default_rng(1).normal(size=(3, 1, HEADS, LENGTH, WIDTH)).astype(np.float32)


def _has(backend: Backend, component: str, offer: str) -> bool:
    from gaugeblock.spec.components import INTERFACES

    return offer in INTERFACES.get(component, {}) and offers(backend, component, offer)


def _call(backend: Backend, method: str, *arrays: Any, **keywords: Any) -> Numpy:
    placed = [None if x is None else backend.asarray(np.ascontiguousarray(x)) for x in arrays]
    return backend.asnumpy(getattr(backend, method)(*placed, **keywords)).astype(np.float64)
