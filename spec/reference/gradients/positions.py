"""The gradients of the rotation and of learned positions (source 4.2, 4.3)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.config import Layout, Scaling
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference.bounded import Bounded, Expected, Uncertain, given, rounded, ulps
from gaugeblock.spec.reference.rotary import entries, frequencies, pairs, turned, unsaid
from gaugeblock.spec.rotary import dims


def rotate(
    positions: ArrayLike,
    dy: Uncertain,
    *,
    base: float = 10000.0,
    layout: Layout = "half",
    rotary_dim: int | None = None,
    scaling: Scaling | None = None,
    contract: Contract = EXACT,
    conventions: Conventions = Conventions(),
) -> Expected:
    """The gradient of x through a rotation, for the cotangent dy: the rotation by the opposite angles.

        dx = R(p)^T dy,   da = da' cos(p w) + db' sin(p w),   db = db' cos(p w) - da' sin(p w)

    The magnitude of a scaling stays what it is. Two products and a sum, as in the rotation itself.
    dy (B, H, T, D), positions (T,) or (B, T) -> value and error (B, H, T, D). Raises ShapeError.
    Clauses: ROPE-GRADIENT. Source: Su et al. 2021, eq. 34 (an orthogonal map, transposed).
    """
    d = dims(np.shape(dy), np.shape(positions), rotary_dim=rotary_dim)
    table = entries(frequencies(d, base, scaling, contract, conventions), positions, scaling, contract)
    back = replace(table, sin=Bounded(-table.sin.value, table.sin.err))
    made = turned(dy, back, pairs(d, layout, conventions), contract)
    return replace(made, free=np.full((d.B, d.H, d.T, 1), unsaid(d, scaling, conventions)))


def learned_positions(shape: tuple[int, int], positions: ArrayLike, dy: ArrayLike, contract: Contract) -> Bounded:
    """The gradient of a table, for the cotangent dy of the rows that were read: each row sums what its readers got.

        dtable_p = sum of dy_t over all t with positions_t = p

    shape is that of the table (N, M), positions (T,) or (B, T), dy (T, M) or (B, T, M) -> (N, M). A row that nobody
    reads has the gradient zero, one with a single reader its cotangent, exactly. Clauses: POS-LOOKUP-GRADIENT.
    """
    return gathered(shape, positions, given(dy, contract.acc), contract)


def gathered(
    shape: tuple[int, int], positions: ArrayLike, g: Bounded, contract: Contract, *, beside: Sequence[Bounded] = ()
) -> Bounded:
    """The sums over the readers of each row of a table, and over other uses of the whole table, in any order.

    shape is that of the table (N, M), positions (...,), g (..., M), beside (N, M) each -> (N, M).
    """
    value, err, size, count = (np.zeros(shape) for _ in range(4))
    read = np.asarray(positions).reshape(-1)
    whole = np.abs(g.value) + g.err
    for total, part in ((value, g.value), (err, g.err), (size, whole), (count, (whole > 0).astype(float))):
        np.add.at(total, read, part.reshape(-1, shape[1]))
    for use in beside:
        most = np.abs(use.value) + use.err
        value, err, size, count = value + use.value, err + use.err, size + most, count + (most > 0)
    off = err + ulps(np.maximum(count - 1, 0), contract.acc.u) * size
    return Bounded(value, np.where(count > 1, rounded(value, off, contract.io), off))
