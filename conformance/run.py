"""A run under pytest: its backends and cells, and the record that it leaves."""

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from gaugeblock.conformance import checks, known, records
from gaugeblock.conformance.checks import Check, Plan, Record, label
from gaugeblock.conformance.load import load
from gaugeblock.conformance.selection import Missing, dtypes_of, known_dtypes, of_backend, selected
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.errors import NotAvailable


@dataclass(frozen=True)
class CellSpec:
    """One backend and dtype to run a check on; missing says why it cannot be."""

    name: str
    dtype: str
    backend: Backend | None
    word: str
    missing: str = ""


@dataclass
class Run:
    """What was asked for and what has come of it so far."""

    backends: dict[str, Backend | Missing]
    dtypes: Sequence[str]
    asked: list[Check]
    plan: Plan
    known: list[known.Known]
    out: Path | None
    done: list[Record] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: Namespace, main: bool) -> Self:
        """The run that the --gauge- options ask for; main is the process that writes the record.

        Raises ConfigError.
        """
        known_dtypes(options.gauge_dtype)
        plan = Plan(options.gauge_profile, options.gauge_seed, case=options.gauge_case)
        run = cls(
            _apart({word: _loaded(word) for word in options.gauge_backend}),
            options.gauge_dtype,
            selected(options.gauge_only, options.gauge_case),
            plan,
            known.read(options.gauge_known) if options.gauge_known else [],
            Path(options.gauge_out) if main and options.gauge_out else None,
        )
        if run.out:
            run.out.write_text("", encoding="utf-8")
            run.write(records.header([b for b in run.backends.values() if isinstance(b, Backend)], plan))
            run.write({"kind": "plan", "cells": [[c.name, s.name, s.dtype] for c in run.asked for s in run.cells(c)]})
        return run

    @property
    def summary(self) -> str:
        seed = "" if self.plan.seed is None else f", seed {self.plan.seed}"
        return f"{', '.join(map(_name, self.backends.values()))}; profile {self.plan.profile}{seed}"

    def cells(self, check: Check) -> list[CellSpec]:
        """The cells of a check; none if it was not asked for."""
        if check.name not in {c.name for c in self.asked}:
            return []
        return [s for word, b in self.backends.items() if of_backend(check, b) for s in self._of(word, b)]

    def _of(self, word: str, backend: Backend | Missing) -> list[CellSpec]:
        if isinstance(backend, Missing):
            return [CellSpec(word, d, None, word, backend.reason) for d in dtypes_of(backend, self.dtypes)]
        absent = f"{label(backend)} does not compute in {{}}; it declares {', '.join(sorted(backend.dtypes))}"
        return [
            CellSpec(label(backend), d, backend, word, "" if d in backend.dtypes else absent.format(d))
            for d in dtypes_of(backend, self.dtypes)
        ]

    def record(self, check: Check, spec: CellSpec) -> Record:
        """Run a cell."""
        if spec.backend is None or spec.missing:
            return Record(
                check.name, check.clauses, check.component, spec.name, spec.dtype, "not-available", spec.missing
            )
        record = checks.run(check, spec.backend, spec.dtype, self.plan)
        record.target = spec.word
        return known.apply(self.known, record)

    def add(self, data: dict[str, Any]) -> None:
        """Take in what became of a cell, perhaps in another process."""
        record = records.cell(data)
        self.done.append(record)
        self.write(record)

    def lost(self, nodeid: str, why: str) -> None:
        """Record a cell that ended without a record of its own: a crash or a timeout."""
        found = re.search(r"test_(\w+)\[(.+)-(\w+)\]$", nodeid)
        if found is None or found[1] not in checks.registry():
            return
        check = checks.registry()[found[1]]
        record = Record(check.name, check.clauses, check.component, found[2], found[3], "error", why)
        record.target = next((word for word, backend in self.backends.items() if _name(backend) == found[2]), "")
        self.add(vars(known.apply(self.known, record)))

    def finish(self) -> bool:
        """Record the entries of the known-failure list whose clause holds after all; whether there are any."""
        for entry, record in known.passing(self.known, self.done) if not self.plan.case else ():
            why = f"{entry.clause} is listed as a known failure ({entry.reason}), but holds"
            self.surprises.append(why)
            unexpected = Record(record.check, (entry.clause,), record.component, record.backend, record.dtype)
            unexpected.outcome, unexpected.reason, unexpected.target = "unexpected-pass", why, record.target
            self.write(unexpected)
        return bool(self.surprises)

    @property
    def missing(self) -> list[str]:
        """The backends and dtypes that were asked for and cannot run here, and why."""
        absent = (r for r in self.done if r.outcome == "not-available")
        return list(dict.fromkeys(f"{r.backend} in {r.dtype} is not available: {r.reason}" for r in absent))

    def write(self, record: Any) -> None:
        """Append a line to the record at once, so that nothing is lost if the process dies."""
        if self.out:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(records.line(record) + "\n")


def _name(backend: Backend | Missing) -> str:
    return backend.name if isinstance(backend, Missing) else label(backend)


def _apart(backends: dict[str, Backend | Missing]) -> dict[str, Backend | Missing]:
    """The backends, if no two of them go by one name in the report."""
    words: dict[str, str] = {}
    for word, backend in backends.items():
        records.distinct(words, _name(backend), word)
    return backends


def _loaded(word: str) -> Backend | Missing:
    try:
        return load(word)
    except NotAvailable as missing:
        return Missing(word, str(missing))
