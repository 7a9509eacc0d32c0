"""The backends that the probes are tried on."""

from collections.abc import Iterator

import mpmath
import pytest
from probing import Ours, installed


@pytest.fixture(params=["numpy", "torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Iterator[Ours]:
    """A backend, while right and wrong values are worked out with thirty digits."""
    with mpmath.workdps(30):
        yield installed(str(request.param))
