"""A backend that passes over an option is told which one, and the line that would be honest."""

from collections.abc import Callable
from typing import Any

import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Plan, Record, registry, run
from gaugeblock.conformance.diagnosis import MUST_RAISE
from gaugeblock.conformance.mutants import mutants
from gaugeblock.conformance.proposals.probing import IGNORED
from gaugeblock.conformance.propose import propose
from gaugeblock.conformance.report.terminal import failures
from gaugeblock.spec.backend import Backend

# mutant -> a check that finds it, once it no longer declares what it ignores
FOUND = {
    "AttentionIgnoresMask": "true_means_may_attend",
    "AttentionIgnoresScale": "scale_of_any_sign",
    "MultiheadIgnoresWindow": "window_goes_by_position",
    "MultiheadIgnoresRotaryInterleaved": "queries_and_keys_turn",
    "BlockIgnoresPost": "block",
    "BlockIgnoresActivationGelu": "block_on_views",
    "EncoderIgnoresWindow": "encoding_as_a_whole",
    "DecoderIgnoresEmbeddingScale": "decoder_reads_its_memory",
    "DecoderIgnoresTokenMask": "any_decoder",
}
OTHERWISE_WRONG = {"LayerNormEpsSquared": "layer_norm_eps", "ScaleInFloat32": "formula"}


class Passes(NumpyBackend):
    """Attention that passes over some options of some calls."""

    name = "passes"

    def __init__(self, over: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self.over = over

    def attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        return super().attention(q, k, v, **{name: x for name, x in options.items() if name != self.over(options)})


def silent(name: str) -> tuple[Backend, str]:
    """The mutant without its declaration, and the feature that it ignores."""
    backend = mutants()[name].make()
    (feature,) = backend.unsupported
    backend.unsupported = {}
    return backend, feature


def failing(backend: Backend, check: str, dtype: str = "float32") -> Record:
    record = run(registry()[check], backend, dtype, Plan("quick"))
    assert record.outcome == "fail"
    return record


def declared(record: Record) -> set[str]:
    return {hint["declare"] for hint in (record.failure or {})["likely"] if hint["declare"].startswith("unsupported")}


@pytest.mark.parametrize("name", FOUND)
def test_the_option_is_named(name: str) -> None:
    backend, feature = silent(name)
    assert declared(failing(backend, FOUND[name])) == {f'unsupported = {{"{feature}": "why"}}  # {MUST_RAISE}'}


@pytest.mark.parametrize("name", OTHERWISE_WRONG)
def test_no_option_is_named_for_other_faults(name: str) -> None:
    dtypes = mutants()[name].dtypes
    assert not declared(failing(mutants()[name].make(), OTHERWISE_WRONG[name], dtypes[0]))


def test_options_that_are_ignored_together() -> None:
    def mask_beside_causal(options: dict[str, Any]) -> str:
        return "mask" if options.get("causal") and options.get("mask") is not None else ""

    (line,) = declared(failing(Passes(mask_beside_causal), "mask_and_causal_intersect"))
    assert line.startswith('unsupported = {"attention.mask+causal"')


def test_one_ignored_option_is_one_failure() -> None:
    backend, _ = silent("AttentionIgnoresScale")
    wrong = [failing(backend, check) for check in ("scale_of_any_sign", "bias_goes_with_every_option")]
    assert wrong[0].clauses != wrong[1].clauses and len(failures(wrong)) == 1


def test_what_is_ignored_is_proposed(tmp_path: Any) -> None:
    text = """
from gaugeblock.backends.numpy import NumpyBackend

class Deaf(NumpyBackend):
    name = "deaf"

    def attention(self, q, k, v, *, window=None, **options):
        return super().attention(q, k, v, **options)
"""
    (tmp_path / "deaf.py").write_text(text)
    lines = propose(f"{tmp_path / 'deaf.py'}:Deaf", ["float32"])
    (line,) = (line for line in lines if line.startswith("unsupported"))
    assert line == f'unsupported = {{"attention.window": "{IGNORED}"}}'
