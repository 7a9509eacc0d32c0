"""How hypothesis draws the examples of a check: the same ones everywhere, and one failure of them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Flaky
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.strategies import SearchStrategy

from gaugeblock.conformance.cell import BackendRaised, Nonconformance
from gaugeblock.conformance.memory import recall

# of the usual examples; by it, and by nothing in the text of the suite, they are chosen
SEED = 0x42D44AC0226452CE0CDD32E3449FA54ED30B9A6BA4DF4B558162D8F281ECAD9089E338E0F052FF2E48D2CE202BB02998


def try_examples(
    inputs: SearchStrategy[Any], example: Callable[[Any], None], count: int, seed: int | None, shrink: bool
) -> None:
    """Call example with count inputs, the simplest first; seed None draws the usual ones.

    Raises what example raises, with shrink for the simplest input that can be found.
    """
    if shrink:
        _draw(inputs, example, count, seed, shrink)
        return
    with quiet():
        for one in recall(lambda: _drawn(inputs, count, seed), "examples", id(inputs), count, seed)[0]:
            example(one)


def _drawn(inputs: SearchStrategy[Any], count: int, seed: int | None) -> tuple[list[Any], SearchStrategy[Any]]:
    """The examples, and the strategy: as long as they are kept, no other one can have its id."""
    found: list[Any] = []
    _draw(inputs, lambda one: found.append(one), count, seed, shrink=False)
    return found, inputs


def _draw(
    inputs: SearchStrategy[Any], example: Callable[[Any], None], count: int, seed: int | None, shrink: bool
) -> None:
    drawn = settings(
        max_examples=count,
        phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if shrink else ())),
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )(given(inputs)(example))
    with quiet(), _own_draws(), _one_failure():
        with_seed(SEED if seed is None else seed)(drawn)()


@contextmanager
def _own_draws() -> Iterator[None]:
    """Draw the same examples everywhere.

    Hypothesis mixes numbers into its draws that it finds in the source of the modules that are loaded, unless they are
    installed; with them every later draw of an example is another one.
    """
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        with patch.object(providers, "_get_local_constants", Constants):
            yield
    finally:
        providers.CONSTANTS_CACHE.cache.clear()


@contextmanager
def _one_failure() -> Iterator[None]:
    """A failure that does not repeat itself is still a failure: unpack it from hypothesis' report of flakiness."""
    try:
        yield
    except Flaky as flaky:
        for cause in getattr(flaky, "exceptions", ()):
            if isinstance(cause, Nonconformance | BackendRaised):
                raise cause from None
        raise


@contextmanager
def quiet() -> Iterator[None]:
    """Overflow and NaN in a result under check are findings of the check, not warnings of the suite."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
