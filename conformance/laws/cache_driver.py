"""A cache under check and a plain model of it, driven side by side: what is read must be what was put in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws import whole_number
from gaugeblock.conformance.mistakes.cache import likely
from gaugeblock.conformance.refusals import offers
from gaugeblock.conformance.strategies.cache import CacheCase, Step
from gaugeblock.conformance.verdict import Status, Verdict, same_bits
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.cache import Dims
from gaugeblock.spec.precision import Format


@dataclass
class Plain:
    """What a cache is: for each layer the keys and values that were put into it, (B, K, length, D or E)."""

    keys: list[Numpy]
    values: list[Numpy]

    @classmethod
    def empty(cls, d: Dims, io: Format) -> Self:
        keys, values = ([np.zeros((d.B, d.K, 0, W), io.dtype) for _ in range(d.L)] for W in (d.D, d.E))
        return cls(keys, values)

    def append(self, layer: int, k: Numpy, v: Numpy) -> None:
        self.keys[layer] = np.concatenate([self.keys[layer], k], axis=2)
        self.values[layer] = np.concatenate([self.values[layer], v], axis=2)

    def reorder(self, rows: Sequence[int]) -> None:
        at = np.asarray(rows, np.int64)
        self.keys, self.values = [k[at] for k in self.keys], [v[at] for v in self.values]

    def truncate(self, length: int) -> None:
        self.keys, self.values = [k[:, :, :length] for k in self.keys], [v[:, :, :length] for v in self.values]

    def fork(self) -> "Plain":
        return Plain(list(self.keys), list(self.values))

    @property
    def B(self) -> int:
        return len(self.keys[0])

    @property
    def length(self) -> int:
        return min(int(k.shape[2]) for k in self.keys)


@dataclass
class Kept:
    """An array of the backend's, and what it held when it was handed out or passed in."""

    name: str
    array: Any
    held: Numpy


@dataclass
class Driver:
    """A cache of the backend's and the plain model of it."""

    cell: Cell
    case: CacheCase
    law: str
    cache: Any = None
    plain: Plain = field(init=False)
    others: list[tuple[Any, Plain]] = field(default_factory=list)
    handed_out: list[Kept] = field(default_factory=list)
    passed_in: list[Kept] = field(default_factory=list)
    told: list[tuple[int, int]] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.cache = self.ask("init_cache", **self.case.made(self.cell.dtype))
        self.plain = Plain.empty(self.case.dims, self.cell.io)

    def ask(self, method: str, *positional: Any, **keywords: Any) -> Any:
        """Call the backend, which has no reason to raise."""
        return self.cell.guarded(self.case, lambda: getattr(self.cell.backend, method)(*positional, **keywords))

    def follow(self, steps: Iterable[Step]) -> None:
        """Make the calls of a script, and ask for the length after each."""
        for step in steps:
            self.step(step)
            self.agree_on_length()

    def step(self, step: Step) -> None:
        if step.kind == "a":
            for layer in step.layers:
                self.append(layer, step.T)
        elif step.kind == "r":
            self.cache = self.ask("reorder", self.cache, self.rows(step.rows))
            self.plain.reorder(step.rows)
        elif step.kind == "t":
            self.cache = self.ask("truncate", self.cache, step.length)
            self.plain.truncate(step.length)
        elif step.kind == "f":
            self.others.append((self.cache, self.plain))
            self.cache, self.plain = self.ask("fork", self.cache), self.plain.fork()
        elif step.kind == "s":
            here = self.cache, self.plain
            (self.cache, self.plain), self.others[-1] = self.others[-1], here
        else:
            self.read()

    def append(self, layer: int, T: int) -> None:
        """Append new tokens to both."""
        (k, v), placed = self.tokens(layer, T)
        self.cache = self.ask("append", self.cache, layer, *placed)
        self.plain.append(layer, k, v)

    def tokens(self, layer: int, T: int) -> tuple[tuple[Numpy, Numpy], list[Any]]:
        """New keys and values for a layer, and the same as arrays of the backend's."""
        self.calls += 1
        k, v = self.case.chunk(self.calls, layer, self.plain.B, T, self.cell.io)
        placed = [self.cell.backend.asarray(x.copy("K")) for x in (k, v)]
        self.passed_in += [Kept(n, a, x) for n, a, x in zip(("k", "v"), placed, (k, v), strict=True)]
        return (k, v), placed

    def rows(self, rows: Sequence[int]) -> Any:
        """The rows as an array of the backend's."""
        at = np.asarray(rows, np.int64)
        placed = self.cell.backend.asarray(at.copy())
        self.passed_in.append(Kept("rows", placed, at))
        return placed

    def read(self, law: str = "") -> None:
        """Read every layer, compare bit for bit, and keep what was handed out."""
        for layer in range(self.case.L):
            pair = self.ask("read", self.cache, layer)
            wanted = self.plain.keys[layer], self.plain.values[layer]
            for name, array, want in zip(("k", "v"), pair, wanted, strict=True):
                got = self.cell.guarded(self.case, partial(self.cell.backend.asnumpy, array))
                self.require(got, want, law or self.law, f"{name} of layer {layer}", layer)
                self.handed_out.append(Kept(f"{name} of layer {layer}", array, got.copy()))

    def agree_on_length(self) -> None:
        """cache_length is the length that every layer has reached."""
        if not offers(self.cell, "layers.apart") and len({k.shape[2] for k in self.plain.keys}) > 1:
            return
        told, want = self.ask("cache_length", self.cache), self.plain.length
        got = whole_number(self.cell, self.case, "cache_length", told, "CACHE-LENGTH")
        self.cell.tally.judged += 1
        if got != want:
            self.read()  # where the tokens are wrong too, that is what there is to say
            lengths = [k.shape[2] for k in self.plain.keys]
            problem = f"cache_length must be {want}, got {got}: the layers hold {lengths} tokens"
            raise self.cell.fail(problem, self.case, clause="CACHE-LENGTH")
        self.told.append((told, want))

    def finish(self) -> None:
        """Read all that is still alive, and look at all that was handed out or passed in before."""
        self.read()
        for cache, plain in self.others:
            self.cache, self.plain = cache, plain
            self.read("a cache and its fork must not see one another's later tokens")
            self.agree_on_length()
        self.unchanged()

    def unchanged(self) -> None:
        """What was handed out or passed in holds what it held."""
        self._hold(self.handed_out, "was handed out, and a later call has written to it", "CACHE-HANDED-OUT")
        if any(length != held for length, held in self.told):
            raise self.cell.fail(
                "a length was told, and a later call has changed it", self.case, clause="CACHE-HANDED-OUT"
            )
        self._hold(self.passed_in, "was passed in, and a call has written to it", "CACHE-INPUTS-INTACT")

    def _hold(self, arrays: list[Kept], problem: str, clause: str) -> None:
        for kept in arrays:
            now = self.cell.guarded(self.case, partial(self.cell.backend.asnumpy, kept.array))
            self.cell.tally.judged += 1
            if now.shape != kept.held.shape or not np.all(same_bits(now, kept.held)):
                raise self.cell.fail(f"{kept.name} {problem}", self.case, clause=clause)

    def require(self, got: Numpy, want: Numpy, law: str, what: str, layer: int) -> None:
        """Require that what was read is what was put in, bit for bit."""
        self.cell.tally.judged += 1
        if got.shape != want.shape:
            problem = f"{what} must have shape {want.shape}, got {got.shape}: {law}"
            raise self.cell.fail(problem, self.case, clause=self._shape_clause(got, want))
        if got.dtype != want.dtype:
            problem = f"{what} must have dtype {want.dtype.name}, got {got.dtype.name}"
            raise self.cell.fail(problem, self.case, clause="CACHE-DTYPE")
        differ = ~same_bits(got, want)
        if not np.any(differ):
            return
        index = tuple(int(i) for i in np.argwhere(differ)[0])
        wrong = int(np.sum(differ))
        verdict = Verdict(Status.FAIL, np.inf, index, float(got[index]), float(want[index]), 0.0, wrong)
        advice = likely(got, want, self.plain.keys, self.plain.values, layer)
        raise self.cell.fail(f"{law} ({what})", self.case, verdict=verdict, advice=advice)

    def _shape_clause(self, got: Numpy, want: Numpy) -> str:
        """A wrong number of rows or tokens alone is a matter of the law itself."""
        same = got.ndim == 4 and got.shape[1] == want.shape[1] and got.shape[3] == want.shape[3]
        return "" if same else "CACHE-SHAPES"
