"""What `gaugeblock bench` measures, on a model so small that nothing is learnt of its speed."""

import json
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from rich.console import Console

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.bench import players
from gaugeblock.bench.match import AGREE, Request, Result, measure, steps
from gaugeblock.bench.report import as_json, report, request
from gaugeblock.bench.size import Size
from gaugeblock.bench.targets import growth, targets
from gaugeblock.bench.worker import ROOM, Bench, settled
from gaugeblock.spec import weights as names
from gaugeblock.spec.errors import ConfigError, NotAvailable

TINY = Size(width=32, layers=2, heads=4, kv_heads=2, ffn_width=88, vocabulary=100)
REQUEST = Request(TINY, contexts=(4, 12), repeats=2, tokens=2, only=("numpy",))


@pytest.fixture(scope="module")
def result() -> Result:
    return measure(REQUEST)


def test_every_round_is_recorded(result: Result) -> None:
    rounds = result.seconds["numpy"]
    assert {job: list(by_context) for job, by_context in rounds.items()} == {"prefill": [4, 12], "decode": [4, 12]}
    assert all(len(seconds) == 2 and min(seconds) > 0 for job in rounds.values() for seconds in job.values())


def test_the_cache_is_as_large_as_the_closed_form_says(result: Result) -> None:
    # 2 layers, 2 key/value heads, keys and values of width 8, four bytes each
    assert TINY.cache_bytes(10) == 2 * 2 * 10 * (8 + 8) * 4
    assert result.cache_nbytes["numpy"] == {n: TINY.cache_bytes(n + ROOM) for n in (4, 12)}
    (found,) = (t.found for t in targets(result) if t.text == "numpy cache bytes / closed form")
    assert found == 1


def test_a_token_reads_every_weight_and_its_past() -> None:
    size = Size()
    nbytes = sum(w.nbytes for w in TINY.weights().values())
    assert TINY.step_bytes(7) == nbytes + TINY.cache_bytes(8)
    assert names.count(names.shapes(size.config)) == 39_985_664
    assert round(size.step_bytes(2048) / size.step_bytes(128), 2) == 1.19


def test_memory_never_falls(result: Result) -> None:
    peaks = list(result.peak["numpy"].values())
    assert all(peak is None for peak in peaks) or peaks == sorted(peaks, key=lambda n: n or 0)
    assert list(result.peak["numpy"]) == ["loaded", "4", "12"]


def test_a_decode_leaves_the_cache_as_it_was() -> None:
    bench = Bench(players.Ours("numpy", TINY), TINY)
    bench.prefill(5)
    before = bench.player.decode(3)
    bench.player.rewind(5)
    bench.decode(4)
    assert np.array_equal(bench.player.decode(3), before)


def test_a_weight_in_the_wrong_place_is_seen() -> None:
    """The comparison of logits tells another model by far: here gate and up have changed places."""
    weights, backend = TINY.weights(), NumpyBackend()
    gate, up = (f"decoder.layers.0.feed_forward.{name}.weight" for name in ("gate", "up"))
    swapped = {**weights, gate: weights[up], up: weights[gate]}
    ids = TINY.tokens(6)[None]
    right, wrong = (backend.logits(backend.load(w, TINY.config), ids) for w in (weights, swapped))
    assert np.abs(right).max() < 10
    assert np.abs(right - wrong).max() > 100 * AGREE
    other = replace(TINY, seed=1)
    differ = Result(REQUEST, difference={"torch": {4: float(np.abs(right - wrong).max())}})
    assert not differ.agree and not np.array_equal(other.tokens(6), TINY.tokens(6))


def test_transformers_names_hold_the_same_weights() -> None:
    theirs, ours = players.llama_names(TINY), TINY.weights()
    assert len(theirs) == len(ours) + 1  # the head is there under its own name, too
    query = theirs["model.layers.1.self_attn.q_proj.weight"]
    assert np.array_equal(query, ours["decoder.layers.1.attention.query.weight"].T)


def test_ratios_are_of_one_round() -> None:
    seconds = {"numpy": {"decode": {4: [1.0, 9.0, 2.0]}}, "hf-sdpa": {"decode": {4: [2.0, 3.0, 4.0]}}}
    made = Result(REQUEST, seconds=seconds)
    assert made.ratio("numpy", "hf-sdpa", "decode", 4) == 0.5
    assert made.ratio("numpy", "torch", "decode", 4) is None
    assert made.time("numpy", "decode", 4) == 2
    assert growth(made, "numpy", 4, 4) == 1


def test_the_command_writes_tables_and_json(tmp_path: Path) -> None:
    screen, out = StringIO(), tmp_path / "bench.json"
    status = report(request("1", 1, ["numpy"], width=512, layers=8, small=True), out, Console(file=screen, width=150))
    said, shown = json.loads(out.read_text(encoding="utf-8")), screen.getvalue()
    assert status == 0
    assert ("decode: one token behind it" in shown, "MiB read" in shown, "reached" in shown) == (True, True, True)
    assert said["kind"] == "bench"
    assert list(said["seconds"]["numpy"]["decode"]) == ["8", "24"]
    assert {"text", "most", "found", "reached"} == set(said["targets"][0])


def test_who_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(players, "find_spec", lambda name: None)
    with pytest.raises(NotAvailable, match="needs transformers and torch"):
        players.player("hf-sdpa", TINY)


def test_without_a_peer_the_others_are_measured(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(result, not_available={"hf-sdpa": "needs transformers"})
    monkeypatch.setattr("gaugeblock.bench.report.measure", lambda request, tick: lacking)
    screen = StringIO()
    assert report(REQUEST, None, Console(file=screen, width=150)) == 3
    assert "not-available  hf-sdpa: needs transformers" in screen.getvalue()
    assert as_json(lacking)["not_available"] == {"hf-sdpa": "needs transformers"}


def test_logits_that_differ_are_no_success(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = replace(result, difference={"torch": {4: 1.0}})
    monkeypatch.setattr("gaugeblock.bench.report.measure", lambda request, tick: odd)
    assert report(REQUEST, None, Console(file=StringIO(), width=150)) == 1


def test_a_peer_says_the_same() -> None:
    pytest.importorskip("transformers")
    ids = TINY.tokens(9)
    ours = players.Ours("numpy", TINY)
    for mode in players.PEERS:
        peer = players.Llama(mode, TINY)
        assert np.abs(ours.prefill(ids, 12) - peer.prefill(ids, 12)).max() < AGREE
        assert np.abs(ours.decode(3) - peer.decode(3)).max() < AGREE
        peer.rewind(9)
        assert np.abs(ours.decode(5) - peer.decode(5)).max() > AGREE  # the one has read a token more


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"contexts": "12,x"}, "contexts must be numbers"),
        ({"contexts": "0"}, "contexts must be at least 1"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"only": ["tensorflow"]}, "only must be of numpy, torch, jax"),
        ({"width": 200}, "width must be a multiple of 128"),
        ({"layers": -1}, "layers must be an integer"),
    ],
)
def test_what_cannot_be_measured_is_refused(asked: dict[str, object], problem: str) -> None:
    given = {"contexts": "8", "repeats": 1, "only": [], "width": 128, "layers": 1, "small": False, **asked}
    contexts, repeats, only = given.pop("contexts"), given.pop("repeats"), given.pop("only")
    with pytest.raises(ConfigError, match=problem):
        request(contexts, repeats, only, **given)  # type: ignore[arg-type]


def test_the_bar_has_as_many_steps_as_there_are() -> None:
    seen: list[str] = []
    one = replace(REQUEST, contexts=(4,), repeats=1)
    measure(one, seen.append)
    assert len(seen) == steps(one)


def test_what_a_call_leaves_to_other_threads_is_counted() -> None:
    began = time.process_time()
    thread = Thread(target=lambda: sum(n * n for n in range(1_000_000)))
    thread.start()
    assert settled() - began > 0.02 and not thread.is_alive()
