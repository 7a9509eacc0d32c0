"""The inputs: for each component its case, and the hypothesis strategies over sizes, options and recipes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gaugeblock.spec.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Draw:
    """What a strategy may know of the run: how thorough it is."""

    profile: str = "default"

    def pool(self, sizes: Sequence[T], large: Sequence[T] = ()) -> list[T]:
        """The sizes to draw from: the first few when quick, the large ones too when thorough."""
        if self.profile == "thorough":
            return [*sizes, *large]
        return list(sizes[:6] if self.profile == "quick" else sizes)


def pick(known: Iterable[str], name: str, chosen: str) -> None:
    """Refuse a recipe or option that does not exist."""
    if chosen not in known:
        raise ConfigError(f"case: {name} must be one of {', '.join(known)}, got {chosen!r}")
