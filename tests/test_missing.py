"""A backend that raises is told what it seems to lack, and that one lack reads as one fault."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.check import check_backend
from gaugeblock.conformance.checks import Record
from gaugeblock.conformance.diagnosis import BROKEN
from gaugeblock.conformance.report.terminal import failures
from gaugeblock.conformance.unusual import unusual

Refused = Callable[[Any, Any, dict[str, Any]], bool]
REFUSED: dict[str, tuple[Refused, set[str]]] = {
    "values": (lambda q, v, o: q.shape[-1] != v.shape[-1], {"attention.value_width"}),
    "mask": (lambda q, v, o: o.get("mask") is not None, {"attention.mask"}),
    "heads of a mask": (
        lambda q, v, o: o.get("mask") is not None and o["mask"].shape[1] > 1,
        {"attention.mask.heads"},
    ),
    "two at once": (
        lambda q, v, o: o.get("mask") is not None and bool(o.get("causal")),
        {"attention.mask+causal"},
    ),
    "two, each by itself": (
        lambda q, v, o: q.shape[-1] != v.shape[-1] or o.get("window") is not None,
        {"attention.value_width", "attention.window"},
    ),
    "three, each by itself": (
        lambda q, v, o: q.shape[-1] != v.shape[-1] or o.get("window") is not None or o.get("bias") is not None,
        {"attention.value_width", "attention.window", "attention.bias"},
    ),
}
SILENT = {"OneOptionAtATime": 0, "PlainSelfAttention": 0, "NormsWithoutOptions": 0, "AppendOnly": 1}


class Refuses(NumpyBackend):
    """Attention that knows nothing of some calls, and says so in its own words."""

    name = "refuses"

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused

    def attention(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        if self.refused(q, v, options):
            raise RuntimeError("no kernel found")
        return super().attention(q, k, v, **options)


def errors(refused: Refused) -> list[Record]:
    found = check_backend(Refuses(refused), only=["attention"], profile="quick", dtypes=["float32"])
    wrong = [record for record in found if record.outcome not in ("pass", "unsupported")]
    assert wrong and {record.outcome for record in wrong} == {"error"}
    return wrong


def named(record: Record) -> Iterator[str]:
    yield from (hint["text"].removesuffix(" is not offered") for hint in (record.failure or {})["likely"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_named_is_what_is_refused(name: str) -> None:
    refused, lacking = REFUSED[name]
    wrong = errors(refused)
    assert {feature for record in wrong for feature in named(record)} == lacking
    nameless = {record.check for record in wrong if not list(named(record))}
    assert nameless <= {"mask_broadcasts"}  # its law writes a mask out for all heads, whatever the case has


@pytest.mark.parametrize("name", ["values", "two at once"])
def test_one_lack_is_one_failure(name: str) -> None:
    wrong = errors(REFUSED[name][0])
    assert len({record.clauses for record in wrong}) > 1
    assert len(failures(wrong)) == 1


@pytest.mark.parametrize("name", SILENT)
def test_implementations_that_declare_nothing_of_what_they_lack(name: str) -> None:
    """What is named is what they do declare; the caches that share nothing are two, and their case is plain."""
    way = unusual()[name]
    backend = way.make()
    lacking = set(backend.unsupported)
    backend.unsupported = {}
    found = check_backend(backend, only=[way.component], profile="quick", dtypes=["float32"])
    wrong = [record for record in found if record.outcome == "error"]
    assert {feature for record in wrong for feature in named(record)} <= lacking
    assert len(wrong) > 10 and sum(not list(named(record)) for record in wrong) == SILENT[name]


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("BertLike", ["model"]),
        ("LlamaLike", ["MODEL-GENERATE", "MODEL-GENERATE-EOS", "MODEL-GENERATE-TIES", "MODEL-TRUNCATE"]),
    ],
)
def test_what_is_raised_is_not_lost_where_a_feature_cannot_be_left_out(name: str, only: list[str]) -> None:
    """Some cases of models make no sense without what they are about."""
    backend = unusual()[name].make()
    backend.unsupported = {}
    found = check_backend(backend, only=only, profile="quick", dtypes=["float32"])
    wrong = [record for record in found if record.outcome == "error"]
    assert wrong and all(record.reason.startswith("raised ") for record in wrong)
    assert not any("could not explain" in hint["text"] for r in wrong for hint in (r.failure or {})["likely"])


def test_a_search_that_breaks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> list[str]:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("gaugeblock.conformance.missing.missing", breaks)
    for record in errors(REFUSED["mask"][0]):
        assert record.reason == "raised RuntimeError: no kernel found"
        (hint,) = (record.failure or {})["likely"]
        assert hint == {"text": f"{BROKEN}: ZeroDivisionError: on purpose", "declare": ""}


def test_nothing_is_named_where_every_call_raises() -> None:
    wrong = errors(lambda q, v, o: True)
    assert not any(feature for record in wrong for feature in named(record))
