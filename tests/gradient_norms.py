"""How large the gradient of the last sublayer's weights is with norms before and behind the sublayers.

A law on average over random weights: a figure, with the probability that an honest sample misses it, and no check.
"""

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from gaugeblock.spec.reference.bounded import Real
from gaugeblock.spec.reference.formulas import norm

PLAIN = {"weight": 1.0}


@dataclass(frozen=True)
class Figure:
    """The mean logarithm of post over pre, what the law says of it, and the standard error of the mean."""

    measured: float
    law: float
    error: float

    def false_alarm(self, allowed: float) -> float:
        """The probability that a mean of so many honest samples is farther than allowed from the law.

        The mean of n independent logarithms is taken for normal around the law: erfc(allowed / (sqrt(2) error)).
        """
        return erfc(allowed / (sqrt(2) * self.error))


def figure(L: int, M: int = 64, samples: int = 100, seed: int = 0) -> Figure:
    """L residual sublayers x + W_2 relu(W_1 x), of weights that keep the variance, one position of width M.

        |dW_2| post / |dW_2| pre  ->  sqrt(L + 1) / sqrt(2)

    A post block divides the cotangent by the deviation of a sum of two rows of variance one, the norm behind a stack of
    pre blocks by that of L + 1 of them. Source: Xiong et al. 2020, theorem 1 (the order in L); He et al. 2015.
    """
    rng = np.random.default_rng([seed, L, M])
    logs = np.log([size(L, M, rng, "post") / size(L, M, rng, "pre") for _ in range(samples)])
    return Figure(
        float(np.mean(logs)), float(0.5 * np.log((L + 1) / 2)), float(np.std(logs, ddof=1) / np.sqrt(samples))
    )


def size(L: int, M: int, rng: np.random.Generator, placement: str) -> float:
    """The Frobenius norm of the gradient of the last W_2, for a normal cotangent of what the last norm gives."""
    x, hidden = normalised(rng.normal(size=M)), np.zeros(M)
    for n in range(L):
        first = rng.normal(size=(M, M)) / np.sqrt(M)
        second = rng.normal(size=(M, M)) * np.sqrt(2 / M)
        hidden = np.maximum((normalised(x) if placement == "pre" else x) @ first, 0.0)
        x = x + hidden @ second
        x = normalised(x) if placement == "post" and n < L - 1 else x
    return float(np.linalg.norm(hidden) * np.linalg.norm(back(x, rng.normal(size=M))))


def normalised(x: Real) -> Real:
    return np.asarray(norm(x, PLAIN, "layer", 0.0))


def back(x: Real, dy: Real) -> Real:
    """LayerNorm's transposed Jacobian at x, times dy."""
    s, y = np.std(x), normalised(x)
    return np.asarray((dy - np.mean(dy) - y * np.mean(dy * y)) / s)
