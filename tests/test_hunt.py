"""Thorough runs with seed after seed, which share what does not depend on the backend."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commanding import Gauge

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.checks import Plan, Record, registry, run
from gaugeblock.conformance.hunt import Hunt, _together, hunt, records
from gaugeblock.conformance.seeds import read
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import ConfigError

ONE = "gaugeblock.conformance.unusual.attention:SumsReversed"


def told(record: Record) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in ("seconds", "target")}


def test_a_hunt_finds_what_single_runs_find() -> None:
    """On the second backend most is kept from the first."""
    dtypes, plan = ("float32", "bfloat16"), Plan("thorough", 11, shrink=False)
    found = records(Hunt(("numpy", ONE), ("formula",), dtypes).checked(), "attention", (11,))[11]
    backends = (NumpyBackend(), unusual()["SumsReversed"].make())
    for backend, mine in zip(backends, found.values(), strict=True):
        alone = [run(registry()["formula"], backend, dtype, plan) for dtype in dtypes]
        assert list(map(told, mine)) == list(map(told, alone)) and mine[0].examples >= 60
    assert [mine[0].headroom for mine in found.values()] == sorted({mine[0].headroom for mine in found.values()})


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_piece_for_each_seed_component_and_backend(jobs: int) -> None:
    asked = Hunt(("numpy", "torch", "numpy"), ("row_emptied_by_causal", "rms_norm_of_zeros"), ("float32",))
    found = [piece for pieces, open_ in hunt(asked, (3, 4), jobs=jobs) for piece in pieces if not open_]
    assert {piece.cells for piece in found} == {1}
    assert sorted((p.seed, p.component, p.backend) for p in found) == [
        (seed, component, backend)
        for seed in (3, 4)
        for component in ("attention", "normalization")
        for backend in ("numpy", "torch")
    ]


@pytest.mark.parametrize(("count", "jobs", "sizes"), [(20, 1, [8, 8, 4]), (20, 4, [5, 5, 5, 5]), (2, 4, [1, 1])])
def test_seeds_go_together_and_no_process_without(count: int, jobs: int, sizes: list[int]) -> None:
    groups = _together(range(count), jobs)
    assert [len(group) for group in groups] == sizes and [seed for group in groups for seed in group] == [*range(count)]


def test_an_unusual_one_beside_all_of_them() -> None:
    asked = Hunt((ONE, "unusual"), ("formula",), ("float32",))
    found = records(asked, "attention", (1,))[1]
    assert [len(mine) for mine in found.values()] == [
        1,
        sum("float32" in way.make.dtypes for way in unusual().values() if way.component == "attention"),
    ]


def test_what_is_found_is_shown_and_recorded(gauge: Gauge, tmp_path: Path) -> None:
    arguments = ("--only", "attention", "--record", "seeds.json", "-j", "1")
    said = gauge("hunt", "mine.py:Right", "mine.py:MeanOfAll", *arguments, "--seeds", "2", "--seed", "5")
    assert said.status == 1, said
    assert "seeds 5 to 6" in said.out and "seed 6: FAIL  ATTN-EMPTY-ROW   mean of all  float32" in said.out
    assert "--case 'row_emptied_by_causal " in said.out and "smallest" not in said.out
    assert "| attention | right | 2 of 200 |" in said.out
    kept = read(tmp_path / "seeds.json")
    named = [("mean of all", 5), ("mean of all", 6), ("right", 5), ("right", 6)]
    assert [(one.backend, one.seed) for one in kept] == named
    assert [bool(one.wrong) for one in kept] == [True, True, False, False]
    again = gauge("hunt", "mine.py:Right", *arguments, "--seed", "7")
    assert again.status == 0 and [one.seed for one in read(tmp_path / "seeds.json")] == [5, 6, 5, 6, 7]


def test_an_unusual_one_that_fails_is_named(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    make = unusual()["OnePlusWeightDeclared"].make
    monkeypatch.setattr(make, "conventions", Conventions())
    said = gauge("hunt", "unusual", "--only", "RMS-FORMULA", "--dtype", "float32", "--seed", "1", "-j", "1")
    assert said.status == 1 and f"gaugeblock check {make.__module__}:OnePlusWeightDeclared --dtype float32" in said.out
    ((piece,), _) = next(hunt(Hunt(("unusual",), ("RMS-FORMULA",), ("float32",)), (1,)))
    assert piece.backend == "unusual" and all(name.startswith("OnePlusWeightDeclared: ") for name in piece.wrong)


ONLY = ("--only", "row_emptied_by_causal")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("nump",), 2, "there is no backend 'nump'"),
        (("numpy", "--only", "ATTN-MAKS"), 2, "there is no clause 'ATTN-MAKS'"),
        (("numpy", "--dtype", "float8"), 2, "dtype: must be one of float64"),
        (("numpy", "--record", "mine.py"), 2, "mine.py is not a record of seeds"),
        (("numpy", "--record", "gone/seeds.json"), 2, "record: must be a file in a folder that exists"),
        (("numpy", "--record", "."), 2, "record: must be a file in a folder that exists"),
        (("numpy", *ONLY, "--record", "s.json"), 2, "record: holds whole components, not row_emptied_by_causal"),
        (("numpy", "--dtype", "float32", "--record", "s.json"), 2, "record: needs float32 and bfloat16, got float32"),
        (("mine.py:Right", "./mine.py:Right"), 2, "are both called 'right'"),
        (("mine.py:Right", "--dtype", "float64"), 3, "right does not compute in float64"),
    ],
)
def test_what_cannot_be_hunted_is_refused(gauge: Gauge, words: tuple[str, ...], status: int, told: str) -> None:
    said = gauge("hunt", *words)
    assert (said.status, told in said.err) == (status, True), said


def test_nothing_to_run_is_nothing_known(gauge: Gauge) -> None:
    assert gauge("hunt", "numpy", "--only", "gradients_of_attention", "-j", "1").status == 3


def test_what_stays_open_is_shown(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    def undetermined(*given: Any) -> Record:
        return replace(run(*given), outcome="undetermined", reason="the bound of every example overflows")

    monkeypatch.setattr("gaugeblock.conformance.hunt.run", undetermined)
    said = gauge("hunt", "mine.py:Right", *ONLY, "-j", "1")
    assert said.status == 3 and "UNDETERMINED  ATTN-EMPTY-ROW   right" in said.out


def test_an_exception_ends_a_cell_and_not_the_hunt(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyBackend, "rest", lambda self: 1 / 0)
    said = gauge("hunt", "numpy", *ONLY, "--dtype", "float32", "-j", "1", "--seeds", "2")
    assert said.status == 1 and said.out.count("the suite is wrong: ZeroDivisionError: division by zero") == 2


def test_a_hunt_that_is_ended_tells_what_it_found(gauge: Gauge, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*given: Any, **_: Any) -> Iterator[Any]:
        yield next(hunt(*given))
        raise ConfigError("ended")

    monkeypatch.setattr("gaugeblock.conformance.report.hunt.hunt", ended)
    said = gauge("hunt", "mine.py:Right", *ONLY, "-j", "1", "--seeds", "9")
    assert said.status == 2 and "| attention | right | 1 of 200 |" in said.out
