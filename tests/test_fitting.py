"""A backend is never asked for what it declares that it lacks, and the small case of an option shows the option."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from declarations import SCHEMES, lacking, of
from hypothesis import HealthCheck, Phase, given, settings

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.checks import Check, Plan, cases_of, registry, run
from gaugeblock.conformance.ignored import gives, unasked
from gaugeblock.conformance.refusals import (
    attention,
    blocks,
    feedforward,
    model,
    multihead,
    normalization,
    positions,
    rotary,
)
from gaugeblock.conformance.selection import of_backend
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import Unsupported
from gaugeblock.spec.features import unsupported_by

FEW = settings(
    max_examples=5,
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CHECKS = registry()
USING: Mapping[str, tuple[str, Callable[..., Case]]] = {
    "attention": ("attention", attention.using),
    "multihead": ("multihead", multihead.using),
    "block": ("blocks", blocks.using),
    "encoder": ("model", model.using),
    "decoder": ("model", model.using),
    "layer_norm": ("normalization", normalization.using),
    "rms_norm": ("normalization", normalization.using),
    "rotary": ("positions", rotary.using),
    "sinusoidal": ("positions", positions.using_sinusoidal),
    "alibi": ("positions", positions.using_alibi),
    "activations": ("feedforward", feedforward.using_activation),
    "feed_forward": ("feedforward", feedforward.using_network),
}
# what stands at a pad is nobody's, and an encoder is the same beside a decoder
SAME = ("encoder.padding.ids", "decoder.padding.ids", "encoder.beside_decoder")


class Lacking(NumpyBackend):
    """The NumPy backend with fewer features; a call that uses another one is refused."""

    name = "lacking"


def lacks(check: Check, random: Random) -> dict[str, str]:
    """A declaration under which the check is still run."""
    needed = {part for need in check.needs for part in need.split("+")}
    kept = {name for name in of(check.offer) if any(f"{need}.".startswith(f"{name}.") for need in needed)}
    kept |= {name for name in of(check.offer) if needed.issuperset(name.split("+"))}
    return {f"{check.offer}.{name}": "why" for name in lacking(check.offer, random) - kept}


def drawn(check: Check) -> list[Any]:
    found: list[Any] = []

    @FEW
    @given(cases_of(check, "default"))
    def draw(case: Any) -> None:
        found.append(case)

    draw()
    return found


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_case_uses_what_is_lacking(component: str) -> None:
    random, backend = Random(component), Lacking()
    for check in (check for check in CHECKS.values() if check.component == component and check.cases is not None):
        for case in drawn(check):
            for _ in range(3):
                backend.unsupported = lacks(check, random)
                cell = Cell(backend, component, "float32", check.needs, check.offer)
                fitted = cell.fit(case)
                used = unsupported_by(backend.unsupported, check.offer, "float32", fitted.used())
                assert not used, (check.name, str(case), str(fitted), sorted(backend.unsupported))
                fitted.inputs(cell.io)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a case that uses what is lacking is refused."""
    invoke = Cell.invoke

    def refusing(cell: Cell, case: Case, arrays: Mapping[str, Any]) -> Any:
        used = unsupported_by(cell.backend.unsupported, cell.offer, cell.dtype, case.used())
        if used:
            raise Unsupported(f"{cell.offer}: {', '.join(used)}")
        return invoke(cell, case, arrays)

    monkeypatch.setattr(Cell, "invoke", refusing)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("component", COMPONENTS)
def test_who_refuses_what_is_lacking_conforms(component: str) -> None:
    """The laws of the checks themselves ask for nothing that their cases do not name."""
    random, backend = Random(component), Lacking()
    for check in (check for check in CHECKS.values() if check.component == component and of_backend(check, backend)):
        if "UNSUPPORTED" not in check.clauses[0]:
            backend.unsupported = lacks(check, random)
            record = run(check, backend, "float32", Plan("quick", shrink=False))
            assert record.outcome == "pass", (record, sorted(backend.unsupported))


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("check", ["any_decoder", "chain_of_ids", "rows_end_one_by_one"])
def test_a_decoder_of_one_scheme_of_positions_conforms(scheme: str, check: str) -> None:
    """Whole heads can turn where their width is odd as drawn; what is added to an embedding breaks no chain of ids."""
    backend = Lacking()
    others = {*(SCHEMES - {scheme}), "rotary.interleaved", "rotary.partial", "rotary.scaling"}
    backend.unsupported = {f"decoder.{name}": "why" for name in others}
    record = run(CHECKS[check], backend, "float32", Plan("default", shrink=False))
    assert record.outcome == "pass", record


def test_no_queries_where_neither_lengths_may_differ_nor_keys_be_missing() -> None:
    check, backend = CHECKS["no_tokens"], Lacking()
    backend.unsupported = {"multihead.rectangular": "why", "multihead.empty.keys": "why"}
    cell = Cell(backend, "multihead", "float32", check.needs, check.offer)
    for case in drawn(check):
        assert not cell.fit(case).used() & {"rectangular", "empty.keys"}


@pytest.mark.parametrize("offer", USING)
def test_a_small_case_shows_the_option_that_it_uses(offer: str) -> None:
    """Else a backend that ignores the option would be right, and be told that it offers it."""
    component, using = USING[offer]
    cell, shown = Cell(NumpyBackend(), component, "float32", offer=offer), 0
    for feature in (name for name in of(offer) if f"{offer}.{name}" not in SAME):
        case = using(cell, feature)
        for part in feature.split("+") if set(feature.split("+")) <= case.used() else ():
            inputs = case.inputs(cell.io)
            other = unasked(cell, case, case.without(part), inputs)
            if other is not None:
                result = cell.expected(case, inputs).value.astype(cell.io.dtype)
                assert not gives(result, other, case.size(inputs)), (feature, str(case))
                shown += 1
    assert shown
