"""Cases of ALiBi: numbers of heads that are powers of two and others, positions of queries and keys by recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.positions import FAR_PAIRS, PAIRS
from gaugeblock.conformance.strategies import Draw, pick
from gaugeblock.conformance.strategies.positions import PositionsCase
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import EXACT, Contract, Format
from gaugeblock.spec.reference import positions as reference
from gaugeblock.spec.reference.bounded import Expected

ROWS = ("", "queries", "keys", "both")


@dataclass(frozen=True, kw_only=True)
class HeadsCase(PositionsCase):
    """What the cases of both methods of ALiBi have in common: H heads, and a dtype that is asked for."""

    H: int = 1

    def __post_init__(self) -> None:
        if self.H < 1:
            raise ConfigError(f"case: H must be at least 1, got {self.H}")

    def asked(self, io: Format) -> Mapping[str, Any]:
        return {"dtype": io.name}

    @property
    def uneven(self) -> bool:
        """Whether the number of heads is no power of two."""
        return self.H & (self.H - 1) != 0


@dataclass(frozen=True, kw_only=True)
class SlopesCase(HeadsCase):
    """One call of alibi_slopes."""

    method: ClassVar[str] = "alibi_slopes"
    sizes: ClassVar[tuple[str, ...]] = ("H",)

    def inputs(self, io: Format) -> Inputs:
        return {}

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [self.H], {}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        return reference.alibi_slopes(self.H, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        return frozenset({"heads"} if self.uneven else ())

    def without(self, feature: str) -> Self:
        return replace(self, H=2 ** (self.H.bit_length() - 1)) if feature == "heads" else self

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], None]:
        return (self.H,), None

    def size(self, inputs: Inputs) -> float:
        return float(np.max(self.expected(inputs, EXACT, Conventions()).value))


@dataclass(frozen=True, kw_only=True)
class BiasCase(HeadsCase):
    """One call of alibi_bias; rows says which positions every batch row has for itself: queries, keys or both."""

    method: ClassVar[str] = "alibi_bias"
    sizes: ClassVar[tuple[str, ...]] = ("B", "H", "T", "S")

    B: int = 1
    T: int = 1
    S: int = 1
    rows: str = ""
    positions: str = "cached"
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(PAIRS, "positions", self.positions)
        if self.rows not in ROWS:
            raise ConfigError(f"case: rows must be one of {', '.join(ROWS[1:])}, got {self.rows!r}")

    def inputs(self, io: Format) -> Inputs:
        query, key = PAIRS[self.positions](self.B, self.T, self.S, self.random("positions"))
        return {
            "query_positions": query if self.rows in ("queries", "both") else query[:1].reshape(self.T),
            "key_positions": key if self.rows in ("keys", "both") else key[:1].reshape(self.S),
        }

    def arguments(self, arrays: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [self.H, arrays["query_positions"], arrays["key_positions"]], {}

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        query, key = inputs["query_positions"], inputs["key_positions"]
        return reference.alibi_bias(self.H, query, key, contract=contract, conventions=conventions)

    def used(self) -> frozenset[str]:
        uses = {
            "heads": self.uneven,
            "positions": self.positions != "cached" or bool(self.rows),
            "positions.rows": bool(self.rows),
            "positions.far": self.positions in FAR_PAIRS,
            "empty.positions": self.T == 0 or self.S == 0,
        }
        return frozenset(name for name, used in uses.items() if used)

    def without(self, feature: str) -> Self:
        nearest: dict[str, dict[str, Any]] = {
            "heads": {"H": 2 ** (self.H.bit_length() - 1)},
            "positions": {"positions": "cached", "rows": ""},
            "positions.rows": {"rows": ""},
            "positions.far": {"positions": "thousand"},
            "empty.positions": {"T": 1, "S": max(self.S, 1)},
        }
        return replace(self, **nearest[feature])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], None]:
        return (self.B if self.rows else 1, self.H, self.T, self.S), None

    def size(self, inputs: Inputs) -> float:
        return float(np.max(np.abs(self.expected(inputs, EXACT, Conventions()).value), initial=0.0))


class Extent(NamedTuple):
    """The sizes of a bias."""

    B: int
    H: int
    T: int
    S: int


# T is at most S, so that the recipe "cached" has a key for every query
POOL = [
    Extent(*d)
    for d in (
        (1, 1, 1, 1),
        (1, 2, 3, 3),
        (2, 6, 2, 5),
        (1, 3, 1, 7),
        (2, 4, 5, 9),
        (1, 8, 4, 6),
        (2, 12, 1, 3),
        (1, 16, 2, 4),
        (3, 20, 2, 8),
    )
]
LARGE = [Extent(*d) for d in ((1, 5, 17, 257), (2, 7, 31, 33), (1, 40, 1, 1025))]
SQUARE = [Extent(*d) for d in ((1, 2, 3, 3), (2, 6, 5, 5), (1, 12, 4, 4))]
EVEN_HEADS = (1, 2, 4, 8, 16, 32)
OTHER_HEADS = (3, 6, 12, 20, 5, 7, 9, 24, 40)
NEAR = ("cached", "padded", "gaps", "both", "thousand", "same")


def slopes(draw: Draw, *, heads: tuple[int, ...] = EVEN_HEADS) -> st.SearchStrategy[SlopesCase]:
    """A case for each number of heads."""
    large = tuple(range(1, 65)) if heads is OTHER_HEADS else (64, 128)
    return st.builds(SlopesCase, H=st.sampled_from(draw.pool(heads, large)))


def cases(
    draw: Draw,
    *,
    sizes: Sequence[Extent] = POOL,
    positions: tuple[str, ...] = NEAR,
    rows: tuple[str, ...] = ("",),
) -> st.SearchStrategy[BiasCase]:
    """ALiBi cases over these sizes and recipes; the first of each is the simplest."""

    def build(d: Extent, **chosen: Any) -> BiasCase:
        return BiasCase(**d._asdict(), **chosen)

    return st.builds(
        build,
        st.sampled_from(draw.pool(sizes, LARGE if sizes is POOL else [])),
        positions=st.sampled_from(positions),
        rows=st.sampled_from(rows),
        at=st.integers(0, 255),
        seed=st.integers(0, 2**16 - 1),
    )
