"""The inputs: for each component its case, and the hypothesis strategies over sizes, options and recipes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

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


def fields_of(choices: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A value for each field, the first of which is the simplest.

    Each draw carries its field's name: hypothesis takes draws from equal lists for interchangeable, and fills many of
    its examples with copies of one field's choice in the place of another's.
    """
    given = {name: values[0] for name, values in choices.items() if len(values) == 1}
    drawn = [
        st.sampled_from([(name, value) for value in values]) for name, values in choices.items() if len(values) > 1
    ]
    return st.builds(lambda *pairs: {**given, **dict(pairs)}, *drawn)


def pick(known: Iterable[str], name: str, chosen: str) -> None:
    """Refuse a recipe or option that does not exist."""
    if chosen not in known:
        raise ConfigError(f"case: {name} must be one of {', '.join(known)}, got {chosen!r}")
