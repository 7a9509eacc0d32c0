"""What a cache that holds something else looks like."""

from collections.abc import Iterator, Sequence

import numpy as np

from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import FORMATS, HALF


def likely(got: Numpy, want: Numpy, keys: Sequence[Numpy], values: Sequence[Numpy], layer: int) -> str:
    """The mistake that gives exactly what was read where want should have been; "" where none that is known does.

    keys and values are what the layers should hold, (B, K, T, D) and (B, K, T, E) each.
    """
    return next(
        (text for text, wrong in _mistakes(want, keys, values, layer) if _equal(got, wrong)), _by_part(got, want)
    )


def _mistakes(want: Numpy, keys: Sequence[Numpy], values: Sequence[Numpy], layer: int) -> Iterator[tuple[str, Numpy]]:
    yield "keys and values are exchanged", values[layer]
    yield "keys and values are exchanged", keys[layer]
    for other, held in [*enumerate(keys), *enumerate(values)]:
        if other != layer:
            yield f"it is what layer {other} should hold", held
    for name in HALF:
        with np.errstate(over="ignore"):
            yield f"values went through {name}", want.astype(FORMATS[name].dtype).astype(want.dtype)
    yield "the newest token comes first", want[:, :, ::-1]
    yield "heads are in the opposite order", want[:, ::-1]


def _by_part(got: Numpy, want: Numpy) -> str:
    """Which columns were never written, or which rows stand where others should."""
    zero = [t for t in range(got.shape[2]) if not np.any(got[:, :, t]) and np.any(want[:, :, t])]
    if zero:
        return f"columns {zero} hold zeros, as if they had never been written"
    rows = [next((r for r, right in enumerate(want) if _equal(row, right)), None) for row in got]
    if None not in rows and rows != list(range(len(rows))):
        return f"rows 0 to {len(rows) - 1} hold what rows {rows} should"
    columns = np.moveaxis(want, 2, 0)
    tokens = [
        next((t for t, right in enumerate(columns) if _equal(token, right)), None) for token in np.moveaxis(got, 2, 0)
    ]
    if None not in tokens and tokens != list(range(len(tokens))):
        return f"columns 0 to {len(tokens) - 1} hold the tokens {tokens}"
    return ""


def _equal(a: Numpy, b: Numpy) -> bool:
    return a.shape == b.shape and bool(np.all(same_bits(a, b)))
