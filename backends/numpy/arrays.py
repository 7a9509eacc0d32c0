"""Half precision in NumPy: compute wide, round once."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def upcast(x: Array) -> Array:
    """x in at least float32, where bfloat16 has no einsum and float16 no fast product; it may be x itself."""
    return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)


def round_once(x: Array, dtype: np.dtype[Any]) -> Array:
    """x rounded to dtype; an overflow gives inf without a warning, as the formats define it."""
    with np.errstate(over="ignore"):
        return x.astype(dtype)
