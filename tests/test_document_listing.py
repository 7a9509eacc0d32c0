"""The source document's own implementation, plugged in: the suite names the clause of every fault in it."""

from collections.abc import Iterable
from dataclasses import replace
from math import log

import pytest

torch = pytest.importorskip("torch")

from document_listing import MAX_SEQ_LEN, DocumentDecoder, DocumentListing, Model, tables  # noqa: E402

from gaugeblock.conformance.cell import Cell  # noqa: E402
from gaugeblock.conformance.check import check_backend  # noqa: E402
from gaugeblock.conformance.checks import Plan, Record, parse_case, run  # noqa: E402
from gaugeblock.conformance.refusals.decoding import malformed_generations  # noqa: E402
from gaugeblock.spec import weights  # noqa: E402
from gaugeblock.spec.clause import clause  # noqa: E402
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig  # noqa: E402
from gaugeblock.spec.precision import HALF  # noqa: E402


def outcomes(backend: DocumentListing, dtype: str, only: Iterable[str], profile: str = "quick") -> dict[str, set[str]]:
    """What becomes of each clause: the outcomes of the checks that cite it, or that fail it; unsupported ones apart."""
    found: dict[str, set[str]] = {}
    records = check_backend(backend, only=only, dtypes=[dtype], profile=profile)
    for record in [r for r in records if r.outcome != "unsupported"]:
        failed = (record.failure or {}).get("clause")
        for name in (failed,) if record.outcome == "fail" and failed else record.clauses:
            found.setdefault(name, set()).add(record.outcome)
    return found


def test_in_float32_its_modules_conform() -> None:
    found = outcomes(DocumentListing(), "float32", ["attention", "positions", "normalization", "feedforward"])
    wrong = {clause for clause, became in found.items() if became != {"pass"}}
    assert wrong == {"ROPE-STATELESS"}, "which calls it in float64, too"


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_unusable_for_the_mask_s_dtype(dtype: str) -> None:
    found = outcomes(DocumentListing(), dtype, ["attention"], "default")
    for name in ("ATTN-CAUSAL-ALIGN", "ATTN-CAUSAL-LEAK", "ATTN-COUNT"):
        assert found[name] == {"error"}
    assert "pass" in found["ATTN-DTYPE"] | found["ATTN-SCALE"], "one token at a time, and no mask, it works"


def test_the_mask_s_error_is_that_of_two_dtypes() -> None:
    (record,) = check_backend(DocumentListing(), only=["ATTN-CAUSAL-ALIGN"], dtypes=["bfloat16"], profile="quick")
    assert "dtype" in record.reason or "scalar type" in record.reason


def test_rms_norm_overflows_in_float16() -> None:
    found = outcomes(DocumentListing(), "float16", ["RMS-LARGE", "RMS-FORMULA"])
    assert found == {"RMS-LARGE": {"fail"}, "RMS-FORMULA": {"fail"}}
    rows = torch.full((2, 4), 256.0, dtype=torch.float16)
    rows[1] = 255.0
    got = DocumentListing().rms_norm(rows, torch.ones(4, dtype=torch.float16), eps=1e-6)
    assert got.tolist() == [[0.0] * 4, [1.0] * 4]


def test_rms_norm_rounds_too_often_in_bfloat16() -> None:
    assert outcomes(DocumentListing(), "bfloat16", ["RMS-FORMULA"]) == {"RMS-FORMULA": {"fail"}}


def test_a_model_in_float64_has_tables_of_float32() -> None:
    found = outcomes(DocumentListing(), "float64", ["ROPE-FORMULA", "ROPE-ANGLE", "ROPE-NORM"])
    assert found == {"ROPE-FORMULA": {"fail"}, "ROPE-ANGLE": {"fail"}, "ROPE-NORM": {"fail"}}


class Narrowed(DocumentListing):
    """Gives back the element type that came in, so that more than the type can be judged."""

    def rotate(self, x: torch.Tensor, positions: torch.Tensor, *, base: float = 10000.0) -> torch.Tensor:
        return super().rotate(x, positions, base=base).to(x.dtype)


@pytest.mark.parametrize("dtype", HALF)
def test_a_table_that_grows_in_a_converted_model(dtype: str) -> None:
    """It is float32 again, and made of rounded frequencies."""
    assert outcomes(DocumentListing(), dtype, ["ROPE-DTYPE"]) == {"ROPE-DTYPE": {"fail"}}
    found = outcomes(Narrowed(), dtype, ["ROPE-DTYPE", "ROPE-ANGLE", "ROPE-FORMULA"])
    assert (found["ROPE-DTYPE"], found["ROPE-ANGLE"], found["ROPE-FORMULA"]) == ({"pass"}, {"fail"}, {"fail"})


def test_how_far_off_the_grown_table_is() -> None:
    """ERR-ROPE-HALF-BUFFERS."""
    cos, _ = tables(32, 10000.0, torch.bfloat16, 4096)
    exact = torch.outer(torch.arange(4096.0).double(), 10000.0 ** -(torch.arange(0, 32, 2).double() / 32)).cos()
    assert cos.dtype is torch.float32
    error = (cos[:, :16] - exact).abs()
    assert (f"{float(error[4095].max()):.2f}", f"{float(error.max()):.2f}") == ("0.59", "0.71")
    first, _ = tables(32, 10000.0, torch.bfloat16, MAX_SEQ_LEN)
    assert float((first[:, :16] - exact[:MAX_SEQ_LEN]).abs().max()) < 2**-8


ATTENTION = AttentionConfig(width=128, heads=4, kv_heads=4, head_width=32, value_width=32, rotary=RotaryConfig())
BLOCK = BlockConfig(attention=ATTENTION, causal=True, eps=1e-6, ffn_width=weights.swiglu_width(128))
DEMONSTRATION = ModelConfig(decoder=StackConfig(block=BLOCK, layers=2, vocabulary=500), tied=True)
PROMPT = torch.tensor([[12, 45, 102, 88, 7, 23]])


def fresh(seed: int, dtype: torch.dtype = torch.float32) -> Model:
    """The model of the demonstration as its modules initialize themselves: normal embeddings, uniform matrices."""
    torch.manual_seed(seed)
    made = {}
    for name, shape in weights.shapes(DEMONSTRATION).items():
        if name.endswith("embedding.weight"):
            made[name] = torch.randn(shape)
        else:
            made[name] = torch.empty(shape).uniform_(-1, 1) / shape[0] ** 0.5 if len(shape) == 2 else torch.ones(shape)
    return DocumentDecoder().load({name: w.to(dtype) for name, w in made.items()}, DEMONSTRATION)


def says(name: str, *figures: str) -> None:
    """The erratum holds these words."""
    text = " ".join(clause(name).body.split())
    assert [figure for figure in figures if figure not in text] == []


def test_parameters_are_those_of_the_weights_with_the_tied_table_once() -> None:
    shapes = weights.shapes(DEMONSTRATION)
    total = weights.count(shapes)
    V, d, L, F = 500, 128, 2, 384
    assert total == V * d + L * (4 * d**2 + 3 * d * F + 2 * d) + d
    says("ERR-PARAMETER-COUNT", f"{total:,}", f"{total + V * d:,}", f"{total:,}".replace(",", " "))
    assert not any(name.startswith("head") for name in shapes)


LLAMA = "M=8 H=2 K=2 D=4 E=4 rotary=half F=7 gated V=13 L=2 tied"  # the kind of decoder that section 8 is


def judged(text: str, dtype: str = "float32") -> Record:
    """What becomes of one case of a check."""
    return run(parse_case(text)[0], DocumentDecoder(), dtype, Plan("quick", case=text))


@pytest.mark.parametrize("check", ["any_decoder B=2 T=5", "steps_give_what_the_whole_gives B=2 T=1 ops=s3,s1,s2"])
def test_in_float32_the_decoder_conforms(check: str) -> None:
    assert judged(f"{check} {LLAMA}").outcome == "pass"


@pytest.mark.parametrize(("asked", "outcome"), [(0, "fail"), (1, "pass"), (4, "pass")])
def test_a_token_that_nobody_asked_for(asked: int, outcome: str) -> None:
    record = judged(f"likeliest_id B=2 T=3 {LLAMA} new={asked}")
    assert record.outcome == outcome
    if outcome == "fail":
        assert record.failure and record.failure["clause"] == "MODEL-GENERATE-LENGTH"
    columns = DocumentDecoder().generate(fresh(42), PROMPT, max_new_tokens=asked).shape[1]
    assert columns == 6 + max(asked, 1)


def test_an_empty_prompt_is_answered_with_nothing() -> None:
    """MODEL-EMPTY-PROMPT: the suite's own malformed prompt raises nothing, for the kind of model that it can be."""
    cell = Cell(DocumentDecoder(), "model", "float32", offer="decoder")
    (call,) = [call for call in malformed_generations(cell) if call.problem == "the prompt has no columns"]
    kind = replace(call.case, K=call.case.H, E=call.case.D, M=call.case.H * call.case.D, gated=True, activation="silu")
    assert replace(call, case=replace(kind, tied=True)).raised(cell) is None
    for asked in (0, 1, 4):
        assert DocumentDecoder().generate(fresh(42), PROMPT[:, :0].expand(2, 0), max_new_tokens=asked).shape == (2, 0)


def test_cached_equals_uncached_and_old_caches_stay() -> None:
    backend, model = DocumentDecoder(), fresh(1, torch.float64)
    cache = backend.start(model, 1, 6)
    first, then = backend.step(model, PROMPT[:, :3], cache)
    rest, _ = backend.step(model, PROMPT[:, 3:], then)
    both = torch.cat((first, rest), dim=1)
    assert float((both - backend.logits(model, PROMPT)).abs().max()) < 1e-12
    assert (backend.cache_length(cache), backend.cache_length(then)) == (0, 3)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_takes_one_token_at_a_time(dtype: str) -> None:
    backend, model = DocumentDecoder(), fresh(1, getattr(torch, dtype))
    assert backend.logits(model, PROMPT[:, :1]).shape == (1, 1, 500)
    with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
        backend.logits(model, PROMPT)
    outcome = {T: judged(f"any_decoder B=2 T={T} {LLAMA}", dtype).outcome for T in (2, 5)}
    assert outcome == {2: "error", 5: "error"}


def test_it_starts_by_predicting_its_input() -> None:
    """ERR-TIED-INIT."""
    backend, model = DocumentDecoder(), fresh(42)
    ids, targets = torch.randint(500, (64, 32)), torch.randint(500, (64, 32))
    logits = backend.logits(model, ids)
    assert bool((logits.argmax(-1) == ids).all())
    assert 12 < float(logits.std()) < 13.5
    own = float(logits.gather(-1, ids[..., None]).mean())
    loss = float(torch.nn.functional.cross_entropy(logits.reshape(-1, 500), targets.reshape(-1)))
    assert (own, loss) == (pytest.approx(125, abs=3), pytest.approx(125, abs=3))
    says("ERR-TIED-INIT", f"ln 500 = {log(500):.1f}")
    made = backend.generate(model, PROMPT, max_new_tokens=10)
    assert made[0, 6:].tolist() == [23] * 10
