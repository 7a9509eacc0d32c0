"""No check fails a correct implementation, however unusual."""

from collections.abc import Iterator

import pytest

from gaugeblock.conformance.checks import Plan, Record, registry, run
from gaugeblock.conformance.memory import remembering
from gaugeblock.conformance.selection import of_backend
from gaugeblock.conformance.unusual import Unusual, unusual
from gaugeblock.spec.precision import FORMATS


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    """Examples and references are the same for all of them."""
    with remembering():
        yield


def records(way: Unusual, dtype: str, profile: str = "quick") -> list[Record]:
    """Every check of what it offers of its component, each on a backend of its own."""
    checks = [check for check in registry().values() if check.component == way.component]
    offered = [check for check in checks if of_backend(check, way.make())]
    return [run(check, way.make(), dtype, Plan(profile, shrink=False)) for check in offered]


CLAIMED = [(way, dtype) for way in unusual().values() for dtype in FORMATS if dtype in way.make.dtypes]


@pytest.mark.parametrize(("way", "dtype"), CLAIMED, ids=[f"{way.name}-{dtype}" for way, dtype in CLAIMED])
def test_conforms(way: Unusual, dtype: str) -> None:
    failed = [record for record in records(way, dtype) if record.outcome not in ("pass", "unsupported")]
    assert not failed, f"{way.way} {[(record.check, record.reason, record.failure) for record in failed]}"


def test_a_gradient_that_only_float32_computes_exactly_is_uncertain_in_half_precision() -> None:
    way, check = unusual()["NetworksBackwardInTheFormat"], registry()["gradients_of_a_network"]
    record = run(check, way.make(), "bfloat16", Plan("thorough", 8, shrink=False))  # examples that meet such a gradient
    assert record.outcome == "pass", record.failure


def test_what_is_declared_unsupported_is_left_out() -> None:
    outcomes = [record.outcome for record in records(unusual()["PlainKernel"], "float32")]
    assert {"pass", "unsupported"} == set(outcomes) and outcomes.count("pass") > outcomes.count("unsupported")


def test_what_does_not_repeat_is_seen() -> None:
    assert sum(record.nondeterministic for record in records(unusual()["OrderAtRandom"], "float32", "default"))
