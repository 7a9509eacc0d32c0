"""Calls of attention that have no meaning, and options that a backend says it does not have."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance, UnexpectedPass
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, ShapeError
from gaugeblock.spec.precision import FLOAT16, FLOAT32

BASE = AttentionCase(B=2, H=4, K=2, T=3, S=5, D=8, E=6)


@dataclass(frozen=True)
class Malformed:
    """A call without meaning: what is wrong with it, and the error that says so; must: no numbers may come back."""

    problem: str
    error: type[GaugeblockError]
    inputs: Inputs
    options: dict[str, Any]
    must: bool = True


def malformed(cell: Cell) -> Iterator[Malformed]:
    """Every malformed call that the backend's features allow to state."""
    case = cell.fit(BASE)
    made = case.inputs(cell.io)
    q, k, v = (made[name] for name in "qkv")
    mask, bias = np.ones((1, 1, 1, case.S - 1), bool), np.zeros((1, 1, case.T + 1, 1), q.dtype)
    more = np.concatenate([k, k[:1]]), np.concatenate([v, v[:1]])
    yield _shape("k is narrower than q", q=q, k=k[..., :7], v=v)
    yield _shape("v is shorter than k", q=q, k=k, v=v[:, :, :4])
    yield _shape("k and v have another batch", q=q, k=more[0], v=more[1])
    yield _shape("the heads do not divide", q=q, k=_heads(k, 3), v=_heads(v, 3))
    yield _shape("v has other heads than k", q=q, k=k, v=_heads(v, 3))
    if _has(cell, "mask"):
        yield _shape("the mask's key axis is neither S nor 1", q=q, k=k, v=v, mask=mask)
        integers = np.ones((1, 1, 1, 1), np.int64)
        yield Malformed("the mask holds integers", DTypeError, dict(q=q, k=k, v=v, mask=integers), {}, must=False)
    if _has(cell, "bias"):
        yield _shape("the bias's query axis is neither T nor 1", q=q, k=k, v=v, bias=bias)
    yield Malformed("q has rank 3", ShapeError, dict(q=q[0], k=k, v=v), {}, must=False)
    other = FLOAT16 if cell.dtype != "float16" else FLOAT32
    yield Malformed("k has another dtype", DTypeError, dict(q=q, k=k.astype(other.dtype), v=v), {}, must=False)
    if _has(cell, "window"):
        for window in ((-1, 0), (0.5, 0), (1, 2, 3)):
            yield Malformed(f"window is {window}", ConfigError, made, {"window": window}, must=False)
    if _has(cell, "scale"):
        for scale in (np.nan, np.inf):
            yield Malformed(f"scale is {scale}", ConfigError, made, {"scale": scale}, must=False)


def refused(cell: Cell) -> None:
    """A call whose sizes contradict one another gives no numbers."""
    for call in malformed(cell):
        cell.tally.judged += 1
        if call.must and _raised(cell, call) is None:
            raise cell.fail(f"{call.problem}, and the call was not refused: {_shapes(call.inputs)}", None)


def named(cell: Cell) -> None:
    """Where a refusal comes, it should be the error that the specification names; a note says where it is not."""
    for call in malformed(cell):
        cell.tally.judged += 1
        error = _raised(cell, call)
        if error is None:
            cell.note(f"{call.problem}: not refused, should raise {call.error.__name__}")
        elif not _stands_for(cell, error, call.error):
            cell.note(f"{call.problem}: {type(error).__name__}, should be {call.error.__name__}")


def unsupported(cell: Cell) -> None:
    """Call every option that is declared unsupported once: it must be refused, not ignored, and not work."""
    working = []
    for feature in _declared(cell):
        case = using(cell, feature)
        cell.tally.judged += 1
        inputs = case.inputs(cell.io)
        try:
            cell.judge(case, inputs)
        except BackendRaised as raised:
            cell.note(f"attention.{feature}: refused with {type(raised.cause).__name__}")
        except Nonconformance as wrong:
            wrong.problem = f"attention.{feature} is declared unsupported, and silently does something else"
            raise
        else:
            working.append(f"attention.{feature}")
    if working:
        raise UnexpectedPass(f"declared unsupported, but right: {', '.join(working)}")


def using(cell: Cell, feature: str) -> AttentionCase:
    """A small case that uses a feature, and otherwise only what the backend offers."""
    case = replace(BASE, T=5, K=4, E=8)
    for option in feature.split("+"):
        case = replace(case, **_USES[option])
    others = set(feature.split("+")) | {feature}
    for option in _declared(cell):
        if option not in others and set(option.split("+")) <= case.used():
            case = case.without(option)
    return case


_USES: dict[str, dict[str, Any]] = {
    "mask": {"mask": "random"},
    "mask.heads": {"mask": "heads"},
    "bias": {"bias": "normal"},
    "bias.infinite": {"bias": "infinite"},
    "causal": {"causal": True},
    "window": {"window": (1, 1)},
    "scale": {"scale": 0.3},
    "scale.nonpositive": {"scale": -0.5},
    "rectangular": {"T": 3},
    "grouped": {"K": 2},
    "value_width": {"E": 6},
    "empty.batch": {"B": 0},
    "empty.queries": {"T": 0},
    "empty.keys": {"S": 0},
}


def _declared(cell: Cell) -> list[str]:
    keys = (key.partition("@") for key in cell.backend.unsupported)
    return [name.removeprefix("attention.") for name, _, only in keys if only in ("", cell.dtype)]


def _has(cell: Cell, feature: str) -> bool:
    return feature not in _declared(cell)


def _shape(problem: str, **inputs: Numpy) -> Malformed:
    return Malformed(problem, ShapeError, inputs, {})


def _heads(x: Numpy, n: int) -> Numpy:
    return np.concatenate([x] * n, axis=1)[:, :n]


def _raised(cell: Cell, call: Malformed) -> Exception | None:
    arrays = {name: cell.backend.asarray(x.copy()) for name, x in call.inputs.items()}
    first = [arrays.pop(name) for name in "qkv"]
    try:
        cell.backend.asnumpy(cell.backend.attention(*first, **arrays, **call.options))  # type: ignore[attr-defined]
    except Exception as error:
        return error
    return None


def _stands_for(cell: Cell, error: Exception, wanted: type[GaugeblockError]) -> bool:
    meant = (ours for theirs, ours in cell.backend.errors.items() if isinstance(error, theirs))
    return isinstance(error, wanted) or any(issubclass(ours, wanted) for ours in meant)


def _shapes(inputs: Inputs) -> str:
    return ", ".join(f"{name} {x.shape}" for name, x in inputs.items())
