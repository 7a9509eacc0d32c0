"""The source document's own implementation, plugged in: the suite names the clause of every fault in it."""

from collections.abc import Iterable

import pytest

torch = pytest.importorskip("torch")

from document_listing import MAX_SEQ_LEN, DocumentListing, tables  # noqa: E402

from gaugeblock.conformance.check import check_backend  # noqa: E402
from gaugeblock.spec.precision import HALF  # noqa: E402


def outcomes(backend: DocumentListing, dtype: str, only: Iterable[str]) -> dict[str, set[str]]:
    """What becomes of each clause: the outcomes of the checks that cite it, or that fail it; unsupported ones apart."""
    found: dict[str, set[str]] = {}
    records = check_backend(backend, only=only, dtypes=[dtype], profile="quick")
    for record in [r for r in records if r.outcome != "unsupported"]:
        failed = (record.failure or {}).get("clause")
        for clause in (failed,) if record.outcome == "fail" and failed else record.clauses:
            found.setdefault(clause, set()).add(record.outcome)
    return found


def test_in_float32_its_modules_conform() -> None:
    found = outcomes(DocumentListing(), "float32", ["attention", "positions", "normalization", "feedforward"])
    wrong = {clause for clause, became in found.items() if became != {"pass"}}
    assert wrong == {"ROPE-STATELESS"}, "which calls it in float64, too"


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_unusable_for_the_mask_s_dtype(dtype: str) -> None:
    found = outcomes(DocumentListing(), dtype, ["attention"])
    for clause in ("ATTN-CAUSAL-ALIGN", "ATTN-CAUSAL-LEAK", "ATTN-COUNT"):
        assert found[clause] == {"error"}
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
