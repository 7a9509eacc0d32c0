"""What a backend's blocks show of themselves, by the bound of each level."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gaugeblock.conformance.cell import BackendRaised, Cell, Nonconformance
from gaugeblock.conformance.laws.blocks import right
from gaugeblock.conformance.proposals.probing import known, lacking
from gaugeblock.conformance.refusals.blocks import BASE, using
from gaugeblock.conformance.strategies.blocks import SIZES, BlockCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.features import FEATURES
from gaugeblock.spec.precision import Level

CONVENTIONS: tuple[str, ...] = ()
BIASED: dict[str, Any] = {"norm": "layer", "bias": "all", "ffn_bias": True}
FAMILIES = (
    BASE,
    replace(BASE, **BIASED, placement="post", activation="gelu"),
    replace(BASE, **BIASED, activation="gelu_tanh", causal=True),
    replace(BASE, gated=True, causal=True),
)


def conventions(backend: Backend, dtype: str) -> Conventions:
    """Blocks know no conventions: what is declared stays."""
    return backend.conventions


def unsupported(backend: Backend, dtype: str) -> dict[str, str]:
    """Each feature that a call ignores or raises for, with the reason."""
    found: dict[str, str] = {}
    cell = Cell(backend, "blocks", dtype, offer="block")
    base = known(cell, FAMILIES)
    for name in (n.removeprefix("block.") for n in FEATURES if n.startswith("block.")):
        backend.unsupported = {**backend.unsupported, **found}
        error = lacking(cell, using(cell, name, base), name)
        if error:
            found[f"block.{name}"] = error
    return found


def level(backend: Backend, dtype: str) -> Level | None:
    """The tightest level at which every case holds."""
    return next((level for level in sorted(Level, reverse=True) if _holds(backend, dtype, level)), None)


def _holds(backend: Backend, dtype: str, level: Level) -> bool:
    cell = Cell(backend, "blocks", dtype, offer="block")
    cell.level = level
    try:
        for case in map(cell.fit, _cases()):
            right(cell, case)
    except (BackendRaised, Nonconformance):
        return False
    return True


def _cases() -> Iterator[BlockCase]:
    for seed, size in enumerate(SIZES[1:3]):
        for w in ("normal", "closed", "quiet"):
            for placement in ("pre", "post"):
                yield BlockCase(**size._asdict(), cross=True, placement=placement, w=w, bias="all", seed=seed)
