"""What the tests of the command line share: backends as a user might bring them, and what a command came to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# What a user might bring: one right backend, and what can be wrong with one.
BACKENDS = '''
import os
import time

import numpy as np

from gaugeblock import Backend
from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.spec.attention import Attention


class Right(NumpyAttention, Backend):
    name = "right"
    dtypes = frozenset({"float32"})


class Second(Right):
    name = "second"


class MeanOfAll(Right):
    """Gives the mean of all values where no key is visible."""

    name = "mean of all"

    def _softmax(self, scores, visible):
        weights = super()._softmax(scores, visible)
        return np.where(np.any(visible, axis=-1, keepdims=True), weights, 1 / max(scores.shape[-1], 1))


class Dies(Right):
    name = "dies"

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        if window is not None:
            os._exit(7)
        return super().attention(q, k, v, mask=mask, bias=bias, causal=causal, scale=scale)


class Hangs(Right):
    name = "hangs"

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        if bias is not None:
            time.sleep(600)
        return super().attention(q, k, v, mask=mask, causal=causal, window=window, scale=scale)


class Half(NumpyAttention, Backend):
    name = "half"
    dtypes = frozenset({"float16"})


class NoMethod(Attention, Backend):
    dtypes = frozenset({"float32"})


class OtherNames(Attention, Backend):
    dtypes = frozenset({"float32"})

    def attention(self, query, key, value, *, attn_mask=None, causal=False, window=None, scale=None):
        return value


class UnknownFeature(Right):
    unsupported = {"attention.dropout": "never"}
'''


class Said(NamedTuple):
    """What a command came to."""

    status: int
    out: str
    err: str


Gauge = Callable[..., Said]


QUICK = ("--profile", "quick", "-j", "1")


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a record, in order, without the seconds that they took."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line["kind"] == "cell"]
    return sorted(
        ({k: v for k, v in c.items() if k != "seconds"} for c in found), key=lambda c: (c["check"], c["dtype"])
    )


def outcomes(path: Path) -> dict[str, str]:
    return {cell["check"]: cell["outcome"] for cell in cells(path)}
