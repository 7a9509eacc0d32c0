"""A decoder and its cache driven by a script, beside a plain list of the tokens that were handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws import whole_number
from gaugeblock.conformance.laws.compositions import CLAUSES, steps_hold
from gaugeblock.conformance.memory import recall
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.decoding import DecodeCase, Op, memory_of
from gaugeblock.conformance.verdict import same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference import model as reference
from gaugeblock.spec.reference.bounded import Bits, Expected
from gaugeblock.spec.reference.program import Known, Step
from gaugeblock.spec.traced import Traced

# what a step computes from what was there before it
FROM_BEFORE = ("positions", "embedded", "rotated_query", "rotated_key", "keys", "values", "bias", "mixed")


@dataclass(frozen=True)
class History:
    """What a row of the cache has seen: ids (B, t), which are real, the memory, and what the last calls showed.

    held maps layers.N.attention.keys and values to all columns so far, and layers.N.cross.key and value to the memory.
    """

    ids: Numpy
    real: Bits
    memory: Mapping[str, Numpy]
    held: Mapping[str, Numpy]

    def rows(self, rows: Sequence[int]) -> "History":
        at = np.asarray(rows, np.int64)
        memory, held = ({name: x[at] for name, x in kept.items()} for kept in (self.memory, self.held))
        return History(self.ids[at], self.real[at], memory, held)

    def first(self, length: int) -> "History":
        held = {n: x[:, :, :length] if _of_tokens(n) else x for n, x in self.held.items()}
        return replace(self, ids=self.ids[:, :length], real=self.real[:, :length], held=held)

    def longer(self, ids: Numpy, real: Bits, shown: Mapping[str, Numpy]) -> "History":
        kept = {n: x for n, x in shown.items() if _of_tokens(n)}
        ids, real = np.concatenate([self.ids, ids], axis=1), np.concatenate([self.real, real], axis=1)
        return History(ids, real, self.memory, {**self.held, **kept})


@dataclass(frozen=True)
class Chunk:
    """One step as a program: what it computes from the new ids and from what was held before."""

    case: DecodeCase
    before: History
    ids: Numpy
    real: Bits | None
    last_only: bool

    @cached_property
    def now(self) -> reference.Tokens:
        return reference.Tokens.of(self.ids, self.real, self.before.real)

    def program(self, inputs: Inputs) -> Sequence[Step]:
        mask = self.before.memory.get("memory_mask")
        made = reference.decoder(weights_of(inputs), self.case.model, self.now, memory_mask=mask, past=True)
        return reference.last_only(made, self.now) if self.last_only else made

    def given(self, inputs: Inputs) -> Known:
        c = self.case
        known: dict[str, Any] = dict(self.before.held)
        for n in range(c.L):
            here = f"decoder.layers.{n}.attention."
            for name, width in (("key", c.D), ("value", c.E)):
                nothing = np.zeros((len(self.ids), c.K, 0, width))
                known[f"{here}past.{name}"] = self.before.held.get(f"{here}{name}s", nothing)
        return known

    def free(self, inputs: Inputs, step: str, shape: tuple[int, ...]) -> Bits | None:
        new, real = self.now.new_real, self.now.real
        name = step.rpartition(".")[2]
        if name in ("keys", "values"):
            return ~real[:, None, :, None]
        if name == "bias":
            return ~(new[:, None, :, None] & real[:, None, None, :])
        if name == "logits" and self.last_only:
            return np.asarray(~np.any(new, axis=1, keepdims=True)[..., None])
        return np.logical_not(new[:, None, :, None] if len(shape) == 4 else new[..., None])


@dataclass
class Session:
    """A decoder of the backend's with a cache, and the history of that cache; clause is what the script is about.

    plain makes the calls that a user makes, whose steps do not show: what they give is for the check to judge.
    """

    cell: Cell
    case: DecodeCase
    clause: str = "MODEL-CACHED"
    whole: bool = True
    plain: bool = False
    inputs: Inputs = field(init=False)
    model: Any = None
    cache: Any = None
    history: History = field(init=False)
    others: list[tuple[Any, History]] = field(default_factory=list)
    handed_out: list[tuple[Any, Numpy]] = field(default_factory=list)
    open: list[tuple[Numpy, Chunk, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        case, backend = self.case, self.cell.backend
        self.inputs = case.inputs(self.cell.io)
        arrays = {name: backend.asarray(x.copy()) for name, x in self.inputs.items()}
        self.model = self.ask(lambda: case.loaded(backend, arrays))
        self.cache, shown = self.shown("start", self.model, case.B, case.capacity, **memory_of(arrays))
        held = {name: x for name, x in shown.items() if ".cross." in name}
        nothing = np.zeros((case.B, 0), np.int64)
        self.history = History(nothing, nothing.astype(bool), memory_of(self.inputs), held)
        self._projected_once(held)

    @property
    def shows(self) -> bool:
        """Whether the backend shows its intermediates."""
        return isinstance(self.cell.backend, Traced) and not self.plain

    def ask(self, call: Any) -> Any:
        """Make a call that has no reason to raise."""
        return self.cell.guarded(self.case, call)

    def shown(self, method: str, *positional: Any, **keywords: Any) -> tuple[Any, dict[str, Numpy]]:
        """What a method gives, and copies of the taps where the backend shows them."""
        backend: Any = self.cell.backend
        if not self.shows:
            return self.ask(lambda: getattr(backend, method)(*positional, **keywords)), {}
        result, taps = self.ask(lambda: backend.traced(method, *positional, **keywords))
        return result, {name: np.array(backend.asnumpy(x)) for name, x in taps.items()}

    def follow(self) -> None:
        """Make the calls of the script; every step must give what all columns together would."""
        for op in self.case.script():
            self.take(op)
        self.finish()

    def take(self, op: Op) -> None:
        """Make one call that has a meaning; the refusals of a script are the checks' own."""
        backend: Any = self.cell.backend
        if op.kind in "sl":
            self.step(op)
            return
        self.against_all()
        if op.kind == "r":
            rows = backend.asarray(np.asarray(op.rows, np.int64))
            self.cache = self.ask(lambda: backend.reorder(self.cache, rows))
            self.history = self.history.rows(op.rows)
        elif op.kind == "t":
            self.cache = self.ask(lambda: backend.truncate(self.cache, op.n))
            self.history = self.history.first(op.n)
        elif op.kind == "f":
            copy = self.ask(lambda: backend.fork(self.cache))
            self.others.append((self.cache, self.history))
            self.cache = copy
        elif op.kind == "w":
            (self.cache, self.history), self.others[-1] = self.others[-1], (self.cache, self.history)

    def step(self, op: Op) -> Numpy:
        """A step over new ids, which must give what all columns together would."""
        backend, before = self.cell.backend, self.history
        ids, real = self.case.chunk(op, len(before.ids))
        keywords: dict[str, Any] = {} if real is None else {"token_mask": backend.asarray(real.copy())}
        keywords |= {"last_only": True} if op.kind == "l" else {}
        made, shown = self.shown("step", self.model, backend.asarray(ids.copy()), self.cache, **keywords)
        result, self.cache = made
        got = np.array(self.ask(lambda: backend.asnumpy(result)))
        self.handed_out.append((result, got))
        chunk = Chunk(self.case, before, ids, real, op.kind == "l")
        self.history = before.longer(ids, chunk.now.new_real, shown)
        self._of_right_kind(op, got)
        if self.shows:
            steps_hold(self.cell, self.case, self.inputs, {**shown, "logits": got}, self._clauses(op), chunk)
        if not self.plain and (not self.shows or (self.whole and self.cell.dtype == "float32")):
            self.open.append((got, chunk, before.ids.shape[1]))
        return got

    def against_all(self) -> None:
        """Compare the steps since the last call of another kind with the logits of all columns at once."""
        if not self.open:
            return
        history = self.history
        mask = history.real if self.case.pads else None
        memory: dict[str, Any] = dict(history.memory)

        @cache
        def whole(contract: Contract) -> Expected:
            model, weights = self.case.model, weights_of(self.inputs)
            arrays = {"token_mask": mask, **memory}

            def logits() -> Expected:
                return reference.logits(weights, model, history.ids, **arrays, contract=contract)

            return recall(logits, "logits", weights, model, history.ids, arrays, contract)

        for got, chunk, start in self.open:

            def expected(contract: Contract, chunk: Chunk = chunk, start: int = start) -> Expected:
                made = whole(self.cell.contract() if contract is EXACT else contract)
                columns = slice(start, start + chunk.now.T)
                value = made.value[:, columns]
                err = np.zeros_like(value) if contract is EXACT else made.err[:, columns]  # which has the own one in it
                real = chunk.now.new_real
                return _last(value, err, real) if chunk.last_only else Expected(value, err, free=~real[..., None])

            law = "a step must give the logits that all columns together give"
            self.cell.compare(self.case, got, expected, law, self.inputs, self.clause)
        self.open.clear()

    def finish(self) -> None:
        """What was handed out has not changed, and the cache is as long as what it was given."""
        self.against_all()
        self.cell.tally.judged += 1
        for array, held in self.handed_out:
            now = np.array(self.cell.backend.asnumpy(array))
            if not np.all(same_bits(now, held)):
                problem = "logits that were handed out have changed"
                raise self.cell.fail(problem, self.case, clause="MODEL-HANDED-OUT", inputs=self.inputs)
        backend: Any = self.cell.backend
        told = self.ask(lambda: backend.cache_length(self.cache))
        length = whole_number(self.cell, self.case, "cache_length", told, self.clause)
        if length != self.history.ids.shape[1]:
            problem = f"cache_length must be {self.history.ids.shape[1]}, got {length}"
            raise self.cell.fail(problem, self.case, clause=self.clause, inputs=self.inputs)

    def _clauses(self, op: Op) -> dict[str, str]:
        """The clause that a step breaks, by the name of the intermediate."""
        memory = "MODEL-CROSS-ONCE" if self.clause == "MODEL-CACHED" else self.clause
        mine = {**dict.fromkeys(FROM_BEFORE, self.clause), "cross.mixed": memory}
        return {**CLAUSES, **mine, **({"logits": self.clause} if op.kind == "l" else {})}

    def _of_right_kind(self, op: Op, got: Numpy) -> None:
        shape = (len(self.history.ids), 1 if op.kind == "l" else op.n, self.case.V)
        if got.shape != shape or got.dtype != self.cell.io.dtype:
            wanted = f"{shape} {self.cell.dtype}"
            problem = f"step must give {wanted}, got {got.shape} {got.dtype.name}"
            raise self.cell.fail(problem, self.case, clause=self.clause, inputs=self.inputs)

    def _projected_once(self, held: Mapping[str, Numpy]) -> None:
        """Start shows the keys and values of the memory, and they are right."""
        if not self.shows or not self.case.remembers:
            return
        steps = Projections(self.case)
        clauses = {**CLAUSES, "key": "MODEL-CROSS-ONCE", "value": "MODEL-CROSS-ONCE"}
        steps_hold(self.cell, self.case, self.inputs, held, clauses, steps)


@dataclass(frozen=True)
class Projections:
    """What start computes from a memory."""

    case: DecodeCase

    def program(self, inputs: Inputs) -> Sequence[Step]:
        return reference.projections(weights_of(inputs), self.case.model)

    def given(self, inputs: Inputs) -> Known:
        return {"memory": inputs["memory"]}

    def free(self, inputs: Inputs, step: str, shape: tuple[int, ...]) -> Bits | None:
        mask = inputs.get("memory_mask")
        return None if mask is None else np.logical_not(mask)[:, None, :, None]


def _last(value: Numpy, err: Numpy, real: Bits) -> Expected:
    """What stands at the last real column of each row; a row without one is free."""
    at = np.max(np.where(real, np.arange(real.shape[1]), 0), axis=1, initial=0)[:, None, None]
    shown = ~np.any(real, axis=1)[:, None, None]
    return Expected(np.take_along_axis(value, at, axis=1), np.take_along_axis(err, at, axis=1), free=shown)


def _of_tokens(name: str) -> bool:
    return name.endswith((".attention.keys", ".attention.values"))
