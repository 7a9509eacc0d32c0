"""Cases of sinusoidal and learned positions: sizes from a small pool, positions by recipe."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.positions import FAR_POSITIONS, LOOKUPS, POSITIONS, TABLES, strided
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.positions import Integers
from gaugeblock.spec.precision import Contract, Format
from gaugeblock.spec.reference import positions as reference
from gaugeblock.spec.reference.bounded import Expected

FASTEST = 20000  # from here on float32 holds no more of a fast angle than a bound of a twentieth would tell


@dataclass(frozen=True, kw_only=True)
class PositionsCase(Case, ABC):
    """One call on positions; rows gives every batch row its own."""

    component: ClassVar[str] = "positions"
    positional: ClassVar[tuple[str, ...]] = ()
    shape_clause: ClassVar[str] = "POS-SHAPES"
    dtype_clause: ClassVar[str] = "POS-DTYPE"

    def options(self) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True)
class SinusoidalCase(PositionsCase):
    """One call of sinusoidal; at is read by the checks that move positions or make other calls before."""

    method: ClassVar[str] = "sinusoidal"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M")

    B: int = 1
    T: int = 1
    M: int = 2
    rows: bool = False
    positions: str = "first"
    base: float = 10000.0
    at: int = 0

    def __post_init__(self) -> None:
        pick(POSITIONS, "positions", self.positions)
        if self.M < 2 or self.M % 2 or not isfinite(self.base) or self.base < 1:
            raise ConfigError(f"case: M must be even and at least 2, base at least 1 [M={self.M}, base={self.base}]")

    def inputs(self, io: Format) -> Inputs:
        made = POSITIONS[self.positions]((self.B, self.T), self.random("positions"))
        return {"positions": made if self.rows else made[:1].reshape(self.T)}

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [arrays["positions"], self.M], {} if self.base == 10000.0 else {"base": self.base}

    def asked(self, io: Format) -> Mapping[str, Any]:
        return {"dtype": io.name}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        p = inputs["positions"]
        return reference.sinusoidal(p, self.M, base=self.base, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        uses = {
            "base": self.base != 10000.0,
            "positions.rows": self.rows,
            "positions.far": self.positions in FAR_POSITIONS,
            "empty.positions": self.T == 0,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "base": {"base": 10000.0},
            "positions.rows": {"rows": False},
            "positions.far": {"positions": "edges"},
            "empty.positions": {"T": 1},
        }
        return replace(self, **nearest[feature])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], None]:
        return (*inputs["positions"].shape, self.M), None

    def size(self, inputs: Inputs) -> float:
        """One; but 0 (never vacuous) far out, where only pair 0 and the slow pairs tell anything."""
        return 1.0 if np.max(inputs["positions"], initial=0) < FASTEST else 0.0


@dataclass(frozen=True, kw_only=True)
class LookupCase(PositionsCase):
    """One call of learned_positions: a table of N rows."""

    method: ClassVar[str] = "learned_positions"
    positional: ClassVar[tuple[str, ...]] = ("table", "positions")
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "N", "M")

    B: int = 1
    T: int = 1
    N: int = 1
    M: int = 1
    rows: bool = False
    positions: str = "first"
    table: str = "normal"
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        pick(LOOKUPS, "positions", self.positions)
        pick(TABLES, "table", self.table)
        if self.N < 1 or self.layout not in ("", "strided"):
            raise ConfigError(f"case: N must be at least 1, and layout strided or nothing [N={self.N}]")

    def inputs(self, io: Format) -> Inputs:
        table = TABLES[self.table](self.N, self.M, self.random("table")).astype(io.dtype)
        made = LOOKUPS[self.positions]((self.B, self.T), self.N, self.random("positions")).astype(np.int64)
        p: Integers = made if self.rows else made[:1].reshape(self.T)
        return {"table": strided(table), "positions": strided(p)} if self.layout else {"table": table, "positions": p}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        return reference.learned_positions(inputs["table"], inputs["positions"], conventions=conventions)

    def used(self) -> frozenset[str]:
        uses = {"positions.rows": self.rows, "empty.positions": self.T == 0}
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {"positions.rows": {"rows": False}, "empty.positions": {"T": 1}}
        return replace(self, **nearest[feature])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return (*inputs["positions"].shape, self.M), inputs["table"].dtype

    def size(self, inputs: Inputs) -> float:
        return 1.0


class Widths(NamedTuple):
    """The sizes of a sinusoidal table."""

    B: int
    T: int
    M: int


class Tables(NamedTuple):
    """The sizes of a lookup."""

    B: int
    T: int
    N: int
    M: int


# No two sizes of a line agree where they can; a single position in several rows, and widths that are no power of two.
POOL = [Widths(*d) for d in ((1, 1, 2), (1, 3, 4), (2, 5, 8), (2, 1, 16), (3, 4, 10), (1, 7, 6), (1, 6, 64))]
LARGE = [Widths(*d) for d in ((1, 33, 512), (2, 65, 130), (1, 257, 4))]
TABLES_POOL = [Tables(*d) for d in ((1, 1, 1, 1), (1, 3, 5, 2), (2, 5, 7, 3), (2, 1, 6, 4), (3, 4, 2, 5), (1, 9, 4, 1))]
LARGE_TABLES = [Tables(*d) for d in ((1, 65, 512, 33), (2, 17, 1025, 8))]
NEAR = ("first", "rows", "gaps", "shuffled", "edges")
BASES = (10000.0, 500000.0, 100.0, 37.5, 1.0, 12345.678)  # no float32 holds the last


def cases(
    draw: Draw,
    *,
    sizes: Sequence[Widths] = POOL,
    positions: tuple[str, ...] = NEAR,
    rows: tuple[bool, ...] = (False,),
    base: tuple[float, ...] = (10000.0,),
) -> st.SearchStrategy[SinusoidalCase]:
    """Sinusoidal cases over these sizes, recipes and options; the first of each is the simplest."""

    def build(d: Widths, **chosen: Any) -> SinusoidalCase:
        return SinusoidalCase(**d._asdict(), **chosen)

    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE if sizes is POOL else [])),
        positions=st.sampled_from(positions),
        rows=st.sampled_from(rows),
        base=st.sampled_from(base),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )


def lookups(
    draw: Draw,
    *,
    sizes: Sequence[Tables] = TABLES_POOL,
    positions: tuple[str, ...] = tuple(LOOKUPS),
    rows: tuple[bool, ...] = (False,),
    table: tuple[str, ...] = tuple(TABLES),
    layout: tuple[str, ...] = ("",),
) -> st.SearchStrategy[LookupCase]:
    """Lookups over these sizes, recipes and options; the first of each is the simplest."""

    def build(d: Tables, **chosen: Any) -> LookupCase:
        return LookupCase(**d._asdict(), **chosen)

    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE_TABLES if sizes is TABLES_POOL else [])),
        positions=st.sampled_from(positions),
        rows=st.sampled_from(rows),
        table=st.sampled_from(table),
        layout=st.sampled_from(layout),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
