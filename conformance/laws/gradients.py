"""The laws of gradients: the pullback of a call against the reference's, and what must be zero in it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.cell import Cell, Nonconformance
from gaugeblock.conformance.mistakes.gradients import explained
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.gradients import Gradients
from gaugeblock.spec.precision import EXACT, HALF, Contract, Level
from gaugeblock.spec.reference.bounded import Bounded, Expected, Real, is_held, ulps

Found = Mapping[str, Bounded]
ByName = dict[str, Numpy]
Reference = Callable[[Inputs, Numpy, Contract], Found]  # the inputs of a call, a cotangent, a contract -> gradients


def float_names(cell: Cell, inputs: Inputs) -> list[str]:
    """The inputs that have a gradient: those of the cell's own dtype."""
    return [name for name, x in inputs.items() if x.dtype == cell.io.dtype]


def gradients_of_each(cell: Cell, case: Case, inputs: Inputs, dys: Sequence[Numpy]) -> tuple[Numpy, list[ByName]]:
    """The value under vjp, and the gradients for one cotangent after the other, from one pullback.

    Raises BackendRaised, and Nonconformance where a primal has no gradient at all, not even zero.
    """
    value, made = cell.guarded(case, lambda: _pulled(cell, case, inputs, dys))
    for found in made:
        lost = [name for name in float_names(cell, inputs) if name not in found]
        if lost:
            problem = f"the pullback must give a gradient of every primal, and gives none of {', '.join(lost)}"
            raise cell.fail(problem, case, inputs=inputs)
    return value, made


def gradients(cell: Cell, case: Case, inputs: Inputs, dy: Numpy) -> dict[str, Numpy]:
    """The gradient of every float array of a call, by the backend's vjp; weights travel as one mapping.

    Raises BackendRaised, and Nonconformance where one is not of its primal's shape and dtype.
    """
    return gradients_of_each(cell, case, inputs, [dy])[1][0]


def _pulled(cell: Cell, case: Case, inputs: Inputs, dys: Sequence[Numpy]) -> tuple[Numpy, list[ByName]]:
    backend = cell.backend
    assert isinstance(backend, Gradients)
    placed = {name: backend.asarray(x.copy() if x.flags.c_contiguous else x) for name, x in inputs.items()}
    names = float_names(cell, inputs)
    plain, weights = [n for n in names if "." not in n], {n: placed[n] for n in names if "." in n}

    def function(*primals: Any) -> Any:
        mapping = primals[len(plain)] if weights else {}
        return cell.invoke(case, {**placed, **dict(zip(plain, primals, strict=False)), **mapping})

    value, pullback = backend.vjp(function, *(placed[n] for n in plain), *([weights] if weights else []))
    made = []
    for dy in dys:
        found = pullback(backend.asarray(dy))
        whole = {**dict(zip(plain, found, strict=False)), **(found[len(plain)] if weights else {})}
        made.append({name: np.array(backend.asnumpy(g)) for name, g in whole.items()})
    return np.asarray(backend.asnumpy(value)), made


def cotangent(cell: Cell, case: Case, inputs: Inputs, kind: str = "normal") -> Numpy:
    """A cotangent of the result: normal, small integers, one single "one", or one normal "row" among zeros.

    An "early" row is not the last of its batch row, where there is another.
    """
    shape, _ = case.result(inputs)
    rng = case.random("cotangent")
    if kind == "integers":
        return rng.integers(-3, 4, shape).astype(cell.io.dtype)
    dy = rng.normal(size=shape)
    if kind in ("one", "row", "early") and dy.size:
        at = list(map(int, np.unravel_index(rng.integers(dy.size), shape)))
        if kind == "early" and shape[-2] > 1:
            at[-2] %= shape[-2] - 1
        chosen = tuple(at if kind == "one" else at[:-1])
        dy, whole = np.zeros(shape), dy
        dy[chosen] = 1.0 if kind == "one" else whole[chosen]
    return dy.astype(cell.io.dtype)


def right(
    cell: Cell,
    case: Case,
    reference: Reference,
    *,
    kind: str = "normal",
    inputs: Inputs | None = None,
    dy: Numpy | None = None,
) -> None:
    """Every gradient lies within the reference's bound; in half precision only what is certain is asked for.

    Constants are told apart in float32 and float64, where nothing is rounded on the way. A gradient that differs from
    zero, but whose bound everywhere admits zero, counts as undetermined.
    """
    inputs = case.inputs(cell.io) if inputs is None else inputs
    dy = cotangent(cell, case, inputs, kind) if dy is None else dy
    agrees(cell, case, inputs, dy, gradients(cell, case, inputs, dy), reference)


def agrees(cell: Cell, case: Case, inputs: Inputs, dy: Numpy, got: ByName, reference: Reference, law: str = "") -> None:
    """Gradients that were pulled back already, against the reference's."""
    expected, own = reference(inputs, dy, backward_contract(cell)), reference(inputs, dy, EXACT)
    for name, g in got.items():
        of_right_kind(cell, case, inputs, name, g)
        try:
            judged(cell, case, inputs, g, expected[name], own[name], f"the gradient of {name}{law}")
        except Nonconformance as failure:
            failure.advice = explained(case, inputs, dy, got, own)
            raise
        cell.tally.undetermined += cell.dtype not in HALF and _tells_nothing(expected[name], own[name])


def _tells_nothing(expected: Bounded, own: Bounded) -> bool:
    size = np.abs(expected.value)
    return bool(np.any(size > own.err) and np.all(expected.err >= np.max(size)))


def keeps_its_word(cell: Cell, case: Case, reference: Reference) -> None:
    """The value under vjp is right as that of any call is, and so are the gradients of one pullback after the other.

    The first cotangent comes again behind another one: nothing is left of what was asked for in between.
    """
    inputs = case.inputs(cell.io)
    first, other = cotangent(cell, case, inputs), cotangent(cell, case, inputs, "row")
    dys = (first, other, first)
    value, found = gradients_of_each(cell, case, inputs, dys)
    cell.judge(case, inputs, value)
    for turn, (dy, got) in enumerate(zip(dys, found, strict=True), 1):
        agrees(cell, case, inputs, dy, got, reference, f", from call {turn} of the pullback")


def backward_contract(cell: Cell) -> Contract:
    """What gradients are judged under: in half precision one that lets every intermediate be rounded to the format.

    No level says what a backward pass stores, so that only what rounds nowhere in half precision is certain there.
    """
    return cell.contract(Level.NAIVE) if cell.dtype in HALF else cell.contract()


def certain(
    cell: Cell, case: Case, reference: Reference, law: str, *, kind: str = "row", dy: Numpy | None = None
) -> None:
    """Only what is exactly zero in the reference's gradients, in every dtype: where nothing is read nothing flows."""
    inputs = case.inputs(cell.io)
    dy = cotangent(cell, case, inputs, kind) if dy is None else dy
    got = gradients(cell, case, inputs, dy)
    for name, b in reference(inputs, dy, backward_contract(cell)).items():
        of_right_kind(cell, case, inputs, name, got[name])
        nothing = (b.value == 0) & (b.err == 0)
        cell.tally.judged += 1
        if np.any(nothing & ~(got[name].astype(np.float64) == 0)):
            advice = explained(case, inputs, dy, got, reference(inputs, dy, EXACT))
            raise cell.fail(f"{law}: the gradient of {name} is not zero there", case, inputs=inputs, advice=advice)


def of_right_kind(cell: Cell, case: Case, inputs: Inputs, name: str, got: Numpy) -> None:
    """A gradient has the shape and dtype of what it is the gradient of."""
    like = inputs[name]
    if (got.shape, got.dtype) != (like.shape, like.dtype):
        problem = f"the gradient of {name} must be {like.dtype} {like.shape}, got {got.dtype} {got.shape}"
        raise cell.fail(problem, case, inputs=inputs)


def judged(
    cell: Cell, case: Case, inputs: Inputs, got: Numpy, expected: Bounded, own: Bounded, law: str, clause: str = ""
) -> None:
    """Compare one gradient with what it should be, and keep the score."""
    free = getattr(expected, "free", np.zeros((), bool))
    if cell.dtype in HALF:
        sure = (own.err == 0) & (expected.err == 0) & is_held(expected.value, cell.io) & ~free
        free, own = ~sure, Bounded(own.value, np.zeros(own.err.shape))
    judge = Expected(expected.value, np.where(free, 0.0, expected.err), free=free)
    slack = Expected(own.value, np.where(free, 0.0, own.err))
    cell.compare(case, got, lambda asked: slack if asked is EXACT else judge, law, inputs, clause)


def vanishes(cell: Cell, case: Case, inputs: Inputs, sums: Real, allowed: Real, law: str) -> None:
    """A sum that the exact gradients make zero: it is within what its terms may be off by."""
    zeros = Bounded(np.zeros(sums.shape), allowed)
    cell.compare(case, sums, lambda _: Expected(zeros.value, allowed), law, inputs, "")


def orthogonal(cell: Cell, case: Any, reference: Reference, *, centres: bool) -> None:
    """Each row of dx is orthogonal to what a norm takes away: to the ones, and to the row itself where eps is 0.

    A check of half precision would have to know in which format the sums are kept; there only shapes are asked for.
    """
    if cell.dtype in HALF:
        right(cell, case, reference)
        return
    inputs = case.inputs(cell.io)
    dy = cotangent(cell, case, inputs)
    got = gradients(cell, case, inputs, dy)["x"].astype(np.float64)
    err = reference(inputs, dy, cell.contract())["x"].err + reference(inputs, dy, EXACT)["x"].err
    x = inputs["x"].astype(np.float64)
    against = [(np.ones(x.shape), "sums to zero")] if centres else []
    if case.eps == 0:
        against.append((x - np.mean(x, axis=-1, keepdims=True) if centres else x, "is orthogonal to the row"))
    for axis, law in against:
        size = np.abs(got) + err
        allowed = np.sum((err + ulps(case.M + 4, EXACT.io.u) * size) * (np.abs(axis) + np.abs(x) * EXACT.io.u), axis=-1)
        vanishes(cell, case, inputs, np.sum(got * axis, axis=-1), allowed, f"each row of the gradient of x {law}")
