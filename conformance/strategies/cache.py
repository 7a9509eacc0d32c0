"""Cases of the key/value cache: sizes from a small pool, and a script of the calls to make."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.cache import FINITE, VALUES
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.cache import Dims
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Format

_OP = re.compile(r"a(?P<T>\d+)(@(?P<layer>\d+))?|r(?P<rows>\d+(\.\d+)*)?|t(?P<length>\d+)|f|s|o")


class Step(NamedTuple):
    """One step of a script, with every size such that the call has a meaning.

    kind is a append, r reorder, t truncate, f fork and go on with the copy, s go on with the other one, o read;
    B is the batch before it, layers are those that are appended to, in turn.
    """

    kind: str
    B: int
    layers: tuple[int, ...] = ()
    T: int = 0
    rows: tuple[int, ...] = ()
    length: int = 0


@dataclass(frozen=True, kw_only=True)
class CacheCase(Case):
    """A cache of L layers and capacity N, and the calls that are made of it, one after another.

    What has no meaning in a script is bent to the nearest that has: an append takes no more tokens than there is room
    for and none is made where there is no room, a row counts modulo the batch, a truncation cuts to what is there.
    at is read by the checks that choose one call of many.
    """

    component: ClassVar[str] = "cache"
    method: ClassVar[str] = "append"
    positional: ClassVar[tuple[str, ...]] = ("k", "v")
    shape_clause: ClassVar[str] = "CACHE-SHAPES"
    dtype_clause: ClassVar[str] = "CACHE-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = Dims._fields

    L: int = 1
    B: int = 1
    K: int = 1
    N: int = 1
    D: int = 1
    E: int = 1
    ops: str = ""
    values: str = "normal"
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        pick(VALUES, "values", self.values)
        if min(self.L, self.K, self.D, self.E) < 1 or self.layout not in ("", "strided"):
            problem = f"L={self.L}, K={self.K}, D={self.D}, E={self.E}, layout={self.layout!r}"
            raise ConfigError(f"case: L, K, D, E must be at least 1, and layout strided or nothing [{problem}]")
        for op in self.words:
            found = _OP.fullmatch(op)
            if not found:
                raise ConfigError(f"case: ops must be a3, a3@1, r2.0.0, t2, f, s or o, got {op!r} [{self.ops}]")
            if found["layer"] and int(found["layer"]) >= self.L:
                raise ConfigError(f"case: layers are 0 to {self.L - 1}, got {op!r} [{self.ops}]")

    @property
    def words(self) -> list[str]:
        """The script, word by word."""
        return [op for op in self.ops.split(",") if op]

    @property
    def dims(self) -> Dims:
        return Dims(self.L, self.B, self.K, self.N, self.D, self.E)

    def made(self, dtype: str) -> Mapping[str, Any]:
        """The keywords of init_cache."""
        names = ("layers", "batch", "kv_heads", "capacity", "key_width", "value_width")
        return {**dict(zip(names, self.dims, strict=True)), "dtype": dtype}

    def chunk(self, number: int, layer: int, B: int, T: int, io: Format) -> tuple[Numpy, Numpy]:
        """The keys and the values of T new tokens of B rows, for the call of this number in the script."""
        made = (self._tokens(f"{name}{number}.{layer}", (B, self.K, T, W), io) for name, W in self._widths())
        k, v = made
        return k, v

    def _widths(self) -> tuple[tuple[str, int], tuple[str, int]]:
        return ("k", self.D), ("v", self.E)

    def _tokens(self, purpose: str, shape: tuple[int, int, int, int], io: Format) -> Numpy:
        x = VALUES[self.values](shape, io, self.random(purpose)).astype(io.dtype)
        if not self.layout:
            return x
        return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)  # as a projection leaves them, (B, T, K, W)

    def steps(self) -> Iterator[Step]:
        """The script, with every step bent to one that has a meaning."""
        here, others = _Extent(self.B, [0] * self.L), list[_Extent]()
        for op in self.words:
            found = _OP.fullmatch(op)
            assert found is not None
            if op == "s" and others:
                here, others[-1] = others[-1], here
            elif op == "f":
                others.append(_Extent(here.B, list(here.lengths)))
            elif op == "s":
                continue
            step = _bent(op, found, here, self.N)
            if step is not None:
                yield step

    def used(self) -> frozenset[str]:
        steps = list(self.steps())
        appends, reorders = ([step for step in steps if step.kind == kind] for kind in "ar")
        uses = {
            "value_width": self.D != self.E,
            "layers.apart": any(len(step.layers) < self.L for step in appends),
            "reorder": bool(reorders),
            "reorder.repeat": any(sorted(step.rows) != list(range(step.B)) for step in reorders),
            "truncate": any(step.kind == "t" for step in steps),
            "fork": any(step.kind == "f" for step in steps),
            "capacity.zero": self.N == 0,
            "empty.batch": self.B == 0 or any(not step.rows for step in reorders),
            "empty.tokens": any(not step.T for step in appends),
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        if feature in ("value_width", "capacity.zero"):
            return replace(self, E=self.D) if feature == "value_width" else replace(self, N=max(self.N, 1))
        changed: dict[str, Any] = {"B": max(self.B, 1)} if feature == "empty.batch" else {}
        return replace(self, ops=",".join(_without(feature, self.words, self.B)), **changed)

    def inputs(self, io: Format) -> Inputs:
        """The first tokens of the first layer; a script makes its own, call by call."""
        k, v = self.chunk(0, 0, self.B, min(self.N, 1), io)
        return {"k": k, "v": v}

    def options(self) -> Mapping[str, Any]:
        return {}

    def computed(self, *_: Any) -> NoReturn:
        """Nothing is computed: the laws say what is read."""
        raise NotImplementedError("a cache has no reference but what was put into it")

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], None]:
        return inputs["k"].shape, None

    def size(self, inputs: Inputs) -> float:
        return 1.0


@dataclass
class _Extent:
    """The batch of a cache and the lengths of its layers."""

    B: int
    lengths: list[int]


def _bent(op: str, found: re.Match[str], here: _Extent, N: int) -> Step | None:
    """The step of a word where the cache has come to, which it takes there; None where nothing is left of it."""
    if op[0] == "a":
        layers = (int(found["layer"]),) if found["layer"] else tuple(range(len(here.lengths)))
        T = min(int(found["T"]), N - max(here.lengths[layer] for layer in layers))
        if T == 0 and int(found["T"]):
            return None
        for layer in layers:
            here.lengths[layer] += T
        return Step("a", here.B, layers=layers, T=T)
    if op[0] == "r":
        B, rows = here.B, tuple(int(row) % here.B for row in (found["rows"] or "").split(".") if row and here.B)
        here.B = len(rows)
        return Step("r", B, rows=rows)
    if op[0] == "t":
        length = min(int(found["length"]), *here.lengths)
        here.lengths = [length] * len(here.lengths)
        return Step("t", here.B, length=length)
    return Step(op, here.B)


def _without(feature: str, words: list[str], B: int) -> Iterator[str]:
    """The script without the words that use a feature, or with the nearest that do not."""
    dropped = {"reorder": "r", "truncate": "t", "fork": "fs"}.get(feature, "")
    for op in words:
        if op[0] in dropped or (feature == "empty.tokens" and re.match(r"a0+(@|$)", op)):
            continue
        if feature == "empty.batch" and op == "r":
            continue
        if feature == "layers.apart":
            op = op.partition("@")[0]
        if feature == "reorder.repeat" and op[0] == "r":
            rows = dict.fromkeys(int(row) % B for row in op[1:].split(".") if row and B)
            op = "r" + ".".join(map(str, [*rows, *(row for row in range(B) if row not in rows)]))
        yield op


# No two sizes agree where they can. JAX compiles each shape once, so that layers, the cheapest, vary most.
POOL = [
    Dims(*d)
    for d in ((1, 1, 1, 4, 2, 2), (2, 2, 1, 4, 3, 2), (3, 3, 2, 5, 2, 4), (2, 3, 2, 5, 4, 4), (1, 2, 3, 3, 1, 5))
]
LARGE = [Dims(*d) for d in ((4, 2, 2, 17, 8, 16), (2, 3, 4, 9, 33, 7))]
WORDS = ("a1", "a2", "a3", "o", "t0", "t1", "t2", "t3", "r1.0", "r2.0.1", "r0.0", "r1", "r2.1.1", "f", "s")


def cases(
    draw: Draw,
    *,
    ops: Sequence[str],
    sizes: Sequence[Dims] = POOL,
    values: Sequence[str] = FINITE,
    layout: Sequence[str] = ("",),
) -> st.SearchStrategy[CacheCase]:
    """Cases over these scripts, sizes and recipes; the first of each is the simplest."""

    def build(d: Dims, **chosen: Any) -> CacheCase:
        return CacheCase(**d._asdict(), **chosen)

    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE if sizes is POOL else [])),
        ops=st.sampled_from(ops),
        values=st.sampled_from(values),
        layout=st.sampled_from(layout),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )


def machines(draw: Draw, *, sizes: Sequence[Dims] = POOL) -> st.SearchStrategy[CacheCase]:
    """Scripts of any calls in any order, of which the first appends."""
    lengths = {"quick": 8, "default": 12, "thorough": 24}

    def build(case: CacheCase, first: str, more: list[str]) -> CacheCase:
        return replace(case, ops=",".join([first, *more]))

    words = st.lists(st.sampled_from(WORDS), max_size=lengths[draw.profile])
    return st.builds(build, cases(draw, ops=("",), sizes=sizes), st.sampled_from(("a1", "a2", "a3")), words)
