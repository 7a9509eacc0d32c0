"""Cases of decoding: a model, and a script of the steps that it takes with a cache."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.model import TOKENS, padded
from gaugeblock.conformance.strategies import Draw
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Format
from gaugeblock.spec.reference.bounded import Bits

_OP = re.compile(r"(?P<kind>[sl])(?P<n>\d+)|r(?P<rows>\d+(\.\d+)*)|t(?P<length>\d+)|f|w|x|c|i")


class Op(NamedTuple):
    """One call of a script.

    kind is s step, l step with last_only, r reorder, t truncate, f fork and go on with the copy, w go on with the other
    one, x a step beyond the capacity, i a step with an id that the vocabulary has not, c a step on a consumed cache;
    n tokens or the length, rows of a reorder; number tells the calls of one kind apart.
    """

    kind: str
    number: int
    n: int = 0
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DecodeCase(ModelCase):
    """A decoder, and the calls that are made with its cache, one after another.

    What has no meaning in a script is bent to the nearest that has: a row counts modulo the batch, a truncation cuts
    to what is there. The capacity is what the script needs and spare columns more. pads is the recipe of every step.
    """

    method: ClassVar[str] = "step"

    ops: str = "s1"
    spare: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encodes:
            raise ConfigError(f"case: only decoders step [{self}]")
        for op in self.words:
            if not _OP.fullmatch(op):
                raise ConfigError(f"case: ops must be s3, l1, r2.0.0, t2, f, w, x, i or c, got {op!r} [{self.ops}]")

    @property
    def words(self) -> list[str]:
        """The script, word by word."""
        return [op for op in self.ops.split(",") if op]

    def script(self) -> Iterator[Op]:
        """The calls, each of which has a meaning where it stands."""
        length, B, others = 0, self.B, list[tuple[int, int]]()
        for number, word in enumerate(self.words):
            found = _OP.fullmatch(word)
            assert found is not None
            kind = word[0]
            if kind in "sl":
                length += int(found["n"])
                yield Op(kind, number, int(found["n"]))
            elif kind == "r" and B:
                rows = tuple(int(row) % B for row in found["rows"].split("."))
                B = len(rows)
                yield Op(kind, number, rows=rows)
            elif kind == "t":
                length = min(length, int(found["length"]))
                yield Op(kind, number, length)
            elif kind == "w" and others:
                (length, B), others[-1] = others[-1], (length, B)
                yield Op(kind, number)
            elif kind == "f":
                others.append((length, B))
                yield Op(kind, number)
            elif kind in "xic":
                yield Op(kind, number)

    @property
    def capacity(self) -> int:
        """The most columns that the script fills, and the spare ones."""
        length, most, others = 0, 0, list[int]()
        for op in self.script():
            if op.kind in "sl":
                length += op.n
            elif op.kind == "t":
                length = op.n
            elif op.kind == "f":
                others.append(length)
            elif op.kind == "w":
                length, others[-1] = others[-1], length
            most = max(most, length)
        return most + self.spare

    def chunk(self, op: Op, B: int) -> tuple[Numpy, Bits | None]:
        """The ids of a step (B, n), and which of them are real where the case has pads."""
        ids = TOKENS[self.tokens](B, op.n, self.V, self.random(f"tokens{op.number}"))
        if not self.pads:
            return ids, None
        real = padded(self.pads, B, op.n, self.random(f"token_mask{op.number}"))
        return (self.hidden_ids(ids, real) if self.outside else ids), real

    @property
    def real(self) -> Bits:
        """The pads of all steps of a batch that is not reordered, side by side."""
        masks = [self.chunk(op, self.B)[1] for op in self.script() if op.kind in "sl"]
        shown = [mask for mask in masks if mask is not None]
        return np.concatenate(shown, axis=1) if shown else np.ones((self.B, 1), bool)

    def inputs(self, io: Format) -> Inputs:
        return {name: x for name, x in super().inputs(io).items() if name not in ("tokens", "token_mask")}

    def prepared(self, backend: Backend, arrays: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
        """The first step, for the checks that make one call."""
        model = self.loaded(backend, arrays)
        ids, real = self.chunk(Op("s", 0, self.T), self.B)
        cache = backend.start(model, self.B, self.T, **memory_of(arrays))  # type: ignore[attr-defined]
        keywords = {} if real is None else {"token_mask": backend.asarray(real)}
        return "step", [model, backend.asarray(ids), cache], keywords

    def used(self) -> frozenset[str]:
        ops = list(self.script())
        kinds, steps = {op.kind for op in ops}, [op.n for op in ops if op.kind in "sl"]
        uses = {
            "step": True,
            "step.chunk": any(n > 1 for n in steps[1:]),
            "step.padding": bool(self.pads),
            "last_only": "l" in kinds,
            "reorder": "r" in kinds,
            "reorder.batch": any(op.kind == "r" and len(op.rows) != self.B for op in ops),
            "truncate": "t" in kinds,
            "fork": "f" in kinds,
            "empty.tokens": 0 in steps,
        }
        mine = frozenset(name for name, used in uses.items() if used)
        return (super().used() - {"empty.tokens", "last_only"}) | mine

    def without(self, feature: str) -> Self:
        changes: dict[str, str] = {
            "step.chunk": ",".join("s1" if word[0] in "sl" and n else word for n, word in enumerate(self.words)),
            "last_only": ",".join(word.replace("l", "s") for word in self.words),
            "reorder": self._only("r"),
            "reorder.batch": self._only("r"),
            "truncate": self._only("t"),
            "fork": self._only("fw"),
            "empty.tokens": ",".join(word for word in self.words if word not in ("s0", "l0")),
        }
        if feature in changes:
            return replace(self, ops=changes[feature] or "s1")
        return replace(self, pads="", outside=False) if feature == "step.padding" else super().without(feature)

    def _only(self, kinds: str) -> str:
        return ",".join(word for word in self.words if word[0] not in kinds)


def memory_of(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The memory and its mask, where a case has them."""
    return {name: arrays[name] for name in ("memory", "memory_mask") if name in arrays}


SPLITS = ("s5", "s1,s1,s1,s1,s1", "s3,s1,s1", "s2,s3", "s1,s4", "s4,s1", "s2,s1,s2", "s3,s2", "s1,s2,s1,s1", "s0,s5")
REORDERS = ("s3,r1.0,s1", "s2,r0.0,s2,r1.1,s1", "s3,r1,s1,s1", "s2,r1.0.1,s1", "s1,r0.1.0.1,s2,r3.2,s1")
TRUNCATIONS = ("s4,t2,s2", "s3,s1,t3,s2", "s5,t0,s3", "s2,s3,t1,s1,s2", "s3,t3,s1")
FORKS = ("s3,f,s1,w,s2", "s2,f,s2,w,s2,w,s1", "s3,f,t1,s2,w,s1", "s2,f,r1.0,s1,w,s2")
MIXED = ("s3,r1.0,s1,t2,s2,f,s1,w,s1", "s2,t1,s1,r1.1,s1,f,t2,s1", "s4,f,r0,s1,w,t3,s1")


class Shape(NamedTuple):
    """The sizes of a decoder: no two of one size, but where a fault needs it."""

    B: int
    M: int
    H: int
    K: int
    D: int
    E: int
    F: int
    V: int
    L: int


# B  M  H  K  D  E  F   V  L
SHAPES = (
    Shape(2, 8, 4, 2, 6, 3, 5, 11, 2),
    Shape(2, 6, 2, 1, 4, 5, 7, 13, 1),
    Shape(3, 10, 3, 3, 4, 4, 9, 12, 1),
)
SMALL = SHAPES[1:2]
NO_LAYERS = tuple(shape._replace(L=0) for shape in SMALL)

SWITCHES: tuple[dict[str, Any], ...] = (
    {"rotary": "half"},
    {"rotary": "interleaved", "rotary_dim": 2, "window": (2, 0)},
    {"alibi": True, "norm": "layer", "placement": "post", "activation": "gelu"},
    {"positions": "learned", "bias": "query+value+output", "norm": "layer", "activation": "relu", "ffn_bias": True},
    {"positions": "sinusoidal", "embedding_norm": True, "tied": True, "window": (1, None)},
    {"rotary": "half", "gated": True, "tied": True, "embedding_scale": 2.5, "head_bias": True},
    {"alibi": True, "window": (3, 0), "gated": True},
    {
        "kind": "both",
        "positions": "learned",
        "bias": "query+value+output",
        "norm": "layer",
        "activation": "gelu",
        "S": 4,
    },
    {"kind": "both", "rotary": "half", "S": 3, "memory_pads": "ragged"},
)


def cases(
    draw: Draw,
    *,
    ops: tuple[str, ...] = SPLITS,
    shapes: tuple[Shape, ...] = SHAPES,
    pads: tuple[str, ...] = ("", "left", "right", "ragged"),
    switches: tuple[dict[str, Any], ...] = SWITCHES,
    spare: tuple[int, ...] = (0, 0, 2),
    outside: tuple[bool, ...] = (False,),
) -> st.SearchStrategy[DecodeCase]:
    """Decoding cases over these scripts, sizes and switches; the first of each is the simplest."""

    def build(shape: Shape, switch: dict[str, Any], pads: str, hidden: bool, **given: Any) -> DecodeCase:
        chosen = {"activation": "silu", **switch, **given}
        return DecodeCase(**{**shape._asdict(), **chosen}, pads=pads, outside=hidden and bool(pads))

    one_of = st.sampled_from
    return st.builds(
        build,
        one_of(draw.pool(shapes)),
        one_of(switches),
        one_of(pads),
        one_of(outside),
        ops=one_of(ops),
        spare=one_of(spare),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
