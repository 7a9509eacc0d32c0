"""The three backends refuse malformed normalizations as the specification words it, and write to nothing."""

import re
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.load import load
from gaugeblock.conformance.proposals import normalization as proposals
from gaugeblock.conformance.refusals.normalization import malformed
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import GaugeblockError
from gaugeblock.spec.precision import HALF, Level

WORDING = re.compile(r"^(LN|RMS)-(SHAPES|ERRORS): .+, got .+ \[(layer|rms)_norm(\(x=.+\))?\]$")


@pytest.fixture(scope="module", params=["numpy", "torch", "jax"])
def backend(request: pytest.FixtureRequest) -> Backend:
    pytest.importorskip(request.param)
    return load(request.param)


@pytest.mark.parametrize("offer", ["layer_norm", "rms_norm"])
def test_every_malformed_call_is_refused_as_specified(backend: Backend, offer: str) -> None:
    seen = set()
    for dtype in sorted(backend.dtypes):
        for call in malformed(Cell(backend, "normalization", dtype, offer=offer)):
            given = [x for x in call.positional if isinstance(x, np.ndarray)]
            before = [x.tobytes() for x in given]
            with pytest.raises(GaugeblockError) as refused:
                first: list[Any] = [backend.asarray(x) if isinstance(x, np.ndarray) else x for x in call.positional]
                getattr(backend, call.method)(*first, **call.keywords)
            told = f"{call.problem} in {dtype}: {refused.value}"
            assert refused.type is call.error and WORDING.match(str(refused.value)), told
            assert [x.tobytes() for x in given] == before, told
            seen.add(call.problem)
    assert len(seen) > 10


def test_what_the_backend_shows_is_what_it_declares(backend: Backend) -> None:
    assert proposals.unsupported(backend, "float32") == {}
    assert proposals.conventions(backend, "float32") == Conventions()
    assert {proposals.level(backend, dtype) for dtype in HALF} == {Level.STRICT}
