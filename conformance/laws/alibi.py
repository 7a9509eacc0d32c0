"""The laws of ALiBi that are more than one comparison with the reference."""

from dataclasses import replace

import numpy as np

from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.strategies.alibi import BiasCase
from gaugeblock.conformance.verdict import same_bits


def symmetric(cell: Cell) -> bool:
    """Whether the bias is declared to depend on the distance; the laws below hold for nothing else."""
    return cell.backend.conventions.alibi_bias == "symmetric"


def shifted(cell: Cell, case: BiasCase) -> None:
    """Queries and keys moved by the same number of positions: not a bit changes."""
    inputs = case.inputs(cell.io)
    if not symmetric(cell):
        cell.judge(case, inputs)
        return
    by = 1 + 13 * case.at
    moved = {name: p + by for name, p in inputs.items()}
    cell.same(case, inputs, moved, f"all positions moved by {by} must change nothing")


def decays(cell: Cell, case: BiasCase) -> None:
    """No key has a larger bias than one that is nearer; under key_only, than one that comes later."""
    inputs = case.inputs(cell.io)
    got = cell.judge(case, inputs).astype(np.float64)
    i, j = (p if p.ndim == 2 else p[None] for p in (inputs["query_positions"], inputs["key_positions"]))
    i, j = i[:, :, None], j[:, None, :]
    rank = np.broadcast_to(-np.abs(i - j) if symmetric(cell) else j + 0 * i, (*got.shape[:1], *got.shape[2:]))
    order = np.broadcast_to(np.argsort(rank, axis=-1, kind="stable")[:, None], got.shape)
    ranked = np.take_along_axis(got, order, axis=-1)
    if np.any(np.diff(ranked, axis=-1) < 0):
        raise cell.fail("a key must not have a larger bias than a nearer one", case, inputs=inputs)


def both_ways(cell: Cell, case: BiasCase) -> None:
    """With queries where the keys are, the bias of i for j is that of j for i, bit for bit, and zero for i itself."""
    made = case.inputs(cell.io)
    inputs = change(made, key_positions=made["query_positions"])
    case = replace(case, S=case.T)
    got = cell.judge(case, inputs)
    if not symmetric(cell):
        return
    if not np.all(same_bits(got, got.swapaxes(-1, -2))):
        raise cell.fail("the bias of i for j must be that of j for i", case, inputs=inputs)
    if np.any(np.diagonal(got, axis1=-2, axis2=-1) != 0):
        raise cell.fail("the bias of a position for itself must be zero", case, inputs=inputs)


def neighbours(case: BiasCase) -> list[BiasCase]:
    """Calls that a bias which is kept between calls would confuse with this one."""
    longer = replace(case, S=case.S + 3, seed=case.seed + 1)
    return [longer, replace(case, T=1), replace(case, H=case.H + 1), replace(case, positions="thousand")]
