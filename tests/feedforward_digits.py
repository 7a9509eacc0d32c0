"""Activations and networks with many digits, and numbers and networks to compare them on."""

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np

from gaugeblock.conformance.strategies.feedforward import ANY_W, ANY_X, NETWORKS, FeedForwardCase
from gaugeblock.spec.feedforward import ACTIVATIONS

Real = np.ndarray[Any, np.dtype[np.float64]]
BETAS = (1.0, 0.0, 1.702, -0.7, 30.0)


def exact(x: float, kind: str, beta: float = 1.0) -> Any:
    """An activation with as many digits as mpmath has at the moment."""
    m = mpmath.mpf(x)
    if kind == "relu":
        return max(m, mpmath.mpf(0))
    if kind == "silu":
        return m / (1 + mpmath.exp(-mpmath.mpf(beta) * m))
    if kind == "gelu":
        return m * mpmath.erfc(-m / mpmath.sqrt(2)) / 2
    return m * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (m + mpmath.mpf("0.044715") * m**3))) / 2


def numbers(seed: int) -> Real:
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** rng.uniform(-60, 60, 150) * rng.choice([-1, 1], 150)
    return np.concatenate([rng.uniform(-14, 14, 400), sizes, [0.0, 1.0, -2.0, 3.0, -2.699, 40.0, -40.0]])


def some_networks(gated: bool, x: tuple[str, ...] = ANY_X, w: tuple[str, ...] = ANY_W) -> Iterator[FeedForwardCase]:
    for seed, size in enumerate(s for s in NETWORKS if s.B * s.H * s.T * s.M * s.F < 400):
        for n, recipe in enumerate(x):
            yield FeedForwardCase(
                **size._asdict(),
                gated=gated,
                activation=ACTIVATIONS[(seed + n) % 4],
                x=recipe,
                w=w[(seed + n) % len(w)],
                bias=("", "all", "up+down", "down")[(seed + 2 * n) % 4],
                seed=seed,
            )


def many_digits(case: FeedForwardCase, inputs: dict[str, Any]) -> Real:
    """The same definition, element by element, with 60 digits."""
    given = {name: x.astype(float) for name, x in inputs.items()}
    out = np.zeros((int(np.prod(case.shape[:-1])), case.M))

    def layer(row: list[Any], name: str) -> list[Any]:
        w = given[f"{name}.weight"]
        bias = given.get(f"{name}.bias", np.zeros(w.shape[1]))
        return [mpmath.fdot(row, w[:, j].tolist()) + mpmath.mpf(bias[j]) for j in range(w.shape[1])]

    with mpmath.workdps(60):
        for n, row in enumerate(given["x"].reshape(-1, case.M)):
            hidden = layer([mpmath.mpf(v) for v in row.tolist()], "up")
            if case.gated:
                gate = layer([mpmath.mpf(v) for v in row.tolist()], "gate")
                hidden = [exact(g, "silu") * u for g, u in zip(gate, hidden, strict=True)]
            else:
                hidden = [exact(h, case.activation) for h in hidden]
            out[n] = [float(y) for y in layer(hidden, "down")]
    return out.reshape(case.shape)
