"""The inputs: for each component its case, and the hypothesis strategies over sizes, options and recipes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

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
