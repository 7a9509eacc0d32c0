"""gaugeblock: what a Transformer component must do, and whether an implementation does it."""

from typing import TYPE_CHECKING, Any

from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import (
    CacheError,
    CapacityError,
    ConfigError,
    DTypeError,
    GaugeblockError,
    NotAvailable,
    PositionError,
    ShapeError,
    Unsupported,
)
from gaugeblock.spec.precision import Level

if TYPE_CHECKING:
    from gaugeblock.conformance.check import check_backend as check_backend

__version__ = "0.1.0"

__all__ = [
    "Backend",
    "CacheError",
    "CapacityError",
    "ConfigError",
    "Conventions",
    "DTypeError",
    "GaugeblockError",
    "Level",
    "NotAvailable",
    "PositionError",
    "ShapeError",
    "Unsupported",
    "__version__",
    "check_backend",
]


def __getattr__(name: str) -> Any:
    # pytest and hypothesis load only when somebody checks, not when a backend subclasses Backend
    if name == "check_backend":
        from gaugeblock.conformance.check import check_backend

        return check_backend
    raise AttributeError(f"module 'gaugeblock' has no attribute {name!r}")
