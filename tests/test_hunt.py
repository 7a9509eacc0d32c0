"""Thorough runs with seed after seed, which share what does not depend on the backend."""

from pathlib import Path

import pytest
from commanding import Gauge

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Plan, Record, registry, run
from gaugeblock.conformance.hunt import Hunt, hunt, records
from gaugeblock.conformance.seeds import read
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.conventions import Conventions


def told(record: Record) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in ("seconds", "target")}


def test_a_hunt_finds_what_single_runs_find() -> None:
    dtypes, plan = ("float32", "bfloat16"), Plan("thorough", 11, shrink=False)
    (found,) = records(Hunt(("numpy",), ("formula",), dtypes).checked(), "attention", 11).values()
    alone = [run(registry()["formula"], NumpyBackend(), dtype, plan) for dtype in dtypes]
    assert list(map(told, found)) == list(map(told, alone)) and found[0].examples >= 60


def test_a_piece_for_each_seed_component_and_backend() -> None:
    asked = Hunt(("numpy", "torch"), ("row_emptied_by_causal", "rms_norm_of_zeros"), ("float32",))
    found = [piece for pieces, wrong in hunt(asked, (3, 4)) for piece in pieces if not wrong]
    assert [(p.seed, p.component, p.backend) for p in found] == [
        (seed, component, backend)
        for seed in (3, 4)
        for component in ("attention", "normalization")
        for backend in ("numpy", "torch")
    ]


def test_what_is_found_is_shown_and_recorded(gauge: Gauge, tmp_path: Path) -> None:
    arguments = (
        "--only",
        "row_emptied_by_causal",
        "--dtype",
        "float32",
        "--seeds",
        "2",
        "--record",
        "seeds.json",
        "-j",
        "1",
    )
    said = gauge("hunt", "mine.py:Right", "mine.py:MeanOfAll", *arguments, "--seed", "5")
    assert said.status == 1, said
    assert "seeds 5 to 6" in said.out and "seed 6: FAIL  ATTN-EMPTY-ROW   mean of all  float32" in said.out
    assert "--case 'row_emptied_by_causal " in said.out and "| attention | right | 2 of 200 |" in said.out
    kept = read(tmp_path / "seeds.json")
    assert [(one.backend, one.seed, one.wrong) for one in kept] == [
        ("mean of all", 5, ["row_emptied_by_causal-float32"]),
        ("mean of all", 6, ["row_emptied_by_causal-float32"]),
        ("right", 5, []),
        ("right", 6, []),
    ]
    again = gauge("hunt", "mine.py:Right", *arguments, "--seed", "6")
    assert again.status == 0 and [one.seed for one in read(tmp_path / "seeds.json")] == [5, 6, 5, 6, 7]


def test_the_unusual_are_hunted_as_one(gauge: Gauge, tmp_path: Path) -> None:
    said = gauge("hunt", "unusual", "--only", "rms_norm_of_zeros", "--record", "seeds.json", "--seed", "1", "-j", "1")
    (kept,) = read(tmp_path / "seeds.json")
    ways = [way for way in unusual().values() if way.component == "normalization"]
    assert said.status == 0 and (kept.backend, kept.component, kept.wrong) == ("unusual", "normalization", [])
    assert len(ways) < kept.cells <= 4 * len(ways)


def test_an_unusual_one_that_fails_is_named(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    make = unusual()["OnePlusWeightDeclared"].make
    monkeypatch.setattr(make, "conventions", Conventions())
    said = gauge("hunt", "unusual", "--only", "RMS-FORMULA", "--dtype", "float32", "--seed", "1", "-j", "1")
    assert said.status == 1 and f"gaugeblock check {make.__module__}:OnePlusWeightDeclared --dtype float32" in said.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nump",), "there is no backend 'nump'"),
        (("numpy", "--only", "ATTN-MAKS"), "there is no clause 'ATTN-MAKS'"),
        (("numpy", "--dtype", "float8"), "dtype: must be one of float64"),
        (("numpy", "--record", "mine.py"), "mine.py is not a record of seeds"),
        (("numpy", "--record", "gone/seeds.json"), "record: must be a file in a folder that exists"),
        (("mine.py:Right", "./mine.py:Right"), "are both called 'right'"),
    ],
)
def test_what_cannot_be_hunted_is_refused(gauge: Gauge, words: tuple[str, ...], told: str) -> None:
    said = gauge("hunt", *words)
    assert (said.status, told in said.err) == (2, True), said
