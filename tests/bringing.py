"""What the tests of loading share: a file of the user's, with what they bring."""

import textwrap
from pathlib import Path

HEAD = """
import numpy as np
from gaugeblock import Backend, Conventions, Level
from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.attention import NumpyAttention
from gaugeblock.spec.attention import Attention

class Good(NumpyAttention, Backend):
    name = "good"
    dtypes = frozenset({"float32"})
"""

CANONICAL = "def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):"
GIVES = " return NumpyBackend().attention(q, k, v)"


def written(folder: Path, text: str = "", name: str = "mine.py") -> Path:
    """A file of the user's, with a good backend and what else the test needs."""
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    return path


def attending(signature: str, declarations: str = "") -> str:
    """A backend class with this method and these declarations."""
    lines = ["class X(Attention, Backend):", 'dtypes = frozenset({"float32"})', *declarations.splitlines()]
    return "\n    ".join([*lines, signature + GIVES]) + "\n"


def declaring(declarations: str) -> str:
    """A right backend with these declarations."""
    return f"class X(NumpyBackend):\n    {declarations}\n"
