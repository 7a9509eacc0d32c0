"""The record of the seeds that thorough runs have drawn."""

from dataclasses import asdict
from pathlib import Path

import pytest

from gaugeblock.conformance import records, seeds
from gaugeblock.conformance.checks import Record
from gaugeblock.spec.components import COMPONENTS
from gaugeblock.spec.errors import ConfigError

RECORD = Path(__file__).parents[1] / "docs" / "seeds.json"
RUN = {"kind": "run", "profile": "thorough", "seed": 7}


def line(check: str, dtype: str, component: str = "attention", **found: object) -> dict[str, object]:
    return {"kind": "cell", **asdict(Record(check, ("ATTN-MASK",), component, "mine", dtype)), **found}


def test_nothing_on_record_was_wrong_or_left_out() -> None:
    found = seeds.read(RECORD)
    assert found, "python -m gaugeblock.conformance.seeds docs/seeds.json RUN.jsonl"
    assert not [one for one in found if one.wrong or one.not_run]
    assert all(one.cells and one.examples and {"float32", "bfloat16"} <= set(one.worst) for one in found)
    assert all(0 <= worst <= 1 for one in found for worst in one.worst.values())
    assert {one.component for one in found} <= set(COMPONENTS)
    assert RECORD.read_text(encoding="utf-8") == seeds.dumps(found)


def test_a_run_is_taken_apart_by_component() -> None:
    lines = [
        RUN,
        {"kind": "plan", "cells": []},
        line("formula", "float32", examples=60, headroom=0.51234),
        line("formula", "bfloat16", examples=60, headroom=1.0),
        line("no_keys", "float32", examples=3, headroom=0.7, outcome="fail"),
        line("lookup", "float32", "positions", outcome="not-run"),
    ]
    first, second = seeds.pieces(lines)
    assert first == seeds.Piece(
        "attention", "mine", 7, 3, 123, {"float32": 0.7, "bfloat16": 1.0}, ["no_keys-float32"], []
    )
    assert (second.component, second.wrong, second.not_run) == ("positions", [], ["lookup-float32"])


def test_the_later_run_of_a_seed_counts(tmp_path: Path) -> None:
    old, new = (seeds.Piece("cache", "mine", 7, 1, n, {"float32": 0.5}, [], []) for n in (1, 2))
    path = tmp_path / "seeds.json"
    path.write_text(seeds.dumps([old, new]), encoding="utf-8")
    assert seeds.read(path) == [new]
    smaller = seeds.Piece("cache", "mine", 7, 0, 9, {"float32": 0.5}, [], [])
    seeds.keep(path, [smaller])
    assert seeds.read(path) == [new] and [one.name for one in tmp_path.iterdir()] == ["seeds.json"]
    assert seeds.table([new]).splitlines()[-1] == "| cache | mine | 1 of 200 | 2 |  | 0.50 |  |  | 0 |"


@pytest.mark.parametrize("run", [{}, {"profile": "default"}, {"seed": None}])
def test_only_thorough_runs_count(run: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected the record of a thorough run"):
        seeds.pieces([{**RUN, **run}] if run else [])


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    path.write_text(records.line({"kind": "run"}), encoding="utf-8")
    with pytest.raises(ConfigError, match="is not a record of seeds"):
        seeds.read(path)
