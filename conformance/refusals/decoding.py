"""Malformed steps and generations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.laws.decoding import follows
from gaugeblock.conformance.laws.generation import takes_the_likeliest
from gaugeblock.conformance.refusals import Malformed, offers
from gaugeblock.conformance.strategies.decoding import DecodeCase
from gaugeblock.conformance.strategies.generation import GenerateCase
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError

SIZES: Mapping[str, Any] = {"B": 2, "T": 2, "M": 4, "H": 2, "K": 1, "D": 2, "E": 3, "F": 3, "V": 5, "L": 1}
SMALL = DecodeCase(**SIZES, rotary="half", activation="relu")
MODEL = ModelCase(**SIZES, rotary="half", activation="relu")


@dataclass(frozen=True)
class OfModel(Malformed):
    """A malformed call of a model that the case describes; the method's other arguments come behind the model.

    A step is made with a fresh cache of four columns.
    """

    case: ModelCase = MODEL

    def raised(self, cell: Cell) -> Exception | None:
        """What the backend raises for the call."""
        backend, case = cell.backend, cell.fit(self.case)
        arrays = {name: backend.asarray(x.copy()) for name, x in case.inputs(cell.io).items()}
        model = cell.guarded(case, lambda: case.loaded(backend, arrays))
        cache = cell.guarded(case, lambda: _started(backend, model)) if self.method == "step" else None
        try:
            first = [backend.asarray(x) if hasattr(x, "dtype") else x for x in self.positional]
            named = {name: backend.asarray(x) if hasattr(x, "dtype") else x for name, x in self.keywords.items()}
            given = getattr(backend, self.method)(model, *first, *([cache] if cache is not None else []), **named)
            backend.asnumpy(given[0] if isinstance(given, tuple) else given)
        except Exception as error:
            return error
        return None


def _started(backend: Any, model: Any) -> Any:
    return backend.start(model, MODEL.B, 4)


def ids(*shape: int) -> Numpy:
    """Ids that every model here knows."""
    return np.ones(shape, np.int64)


def malformed_steps(cell: Cell) -> Iterator[OfModel]:
    """Steps without meaning, but for those beyond the capacity and with unknown ids."""
    yield _of("step", ShapeError, "tokens have rank 1", ids(2))
    yield _of("step", ShapeError, "tokens have more rows than the cache", ids(3, 1))
    yield _of("step", ShapeError, "tokens have fewer rows than the cache", ids(1, 1))
    yield _of("step", DTypeError, "tokens are floats", np.ones((2, 1), cell.io.dtype), must=False)
    yield _of("step", ShapeError, "token_mask is longer than tokens", ids(2, 1), token_mask=np.ones((2, 3), bool))
    yield _of(
        "step", DTypeError, "token_mask holds floats", ids(2, 1), must=False, token_mask=np.ones((2, 1), np.float32)
    )


def malformed_generations(cell: Cell) -> Iterator[OfModel]:
    """Generations without meaning."""
    n: dict[str, Any] = {"max_new_tokens": 2}
    yield _of("generate", ConfigError, "the prompt has no columns", ids(2, 0), **n)
    empty = np.array([[True, True], [False, False]])
    yield _of("generate", ConfigError, "a row has no real token", ids(2, 2), token_mask=empty, **n)
    yield _of("generate", ConfigError, "max_new_tokens is negative", ids(2, 2), max_new_tokens=-1)
    yield _of("generate", ShapeError, "tokens have rank 1", ids(2), **n)
    if cell.backend.conventions.out_of_range == "raises":
        wrong = np.array([[0, SMALL.V], [1, 2]])
        yield _of("generate", PositionError, "an id is not in the vocabulary", wrong, **n)
        yield _of("generate", PositionError, "an id is negative", -wrong, **n)
    yield _of("generate", ConfigError, "eos_id is not in the vocabulary", ids(2, 2), must=False, eos_id=SMALL.V, **n)
    yield _of("generate", ConfigError, "pad_id comes without an eos_id", ids(2, 2), must=False, pad_id=1, **n)


def beyond_the_table(cell: Cell) -> Iterator[OfModel]:
    """Generations that would read more tokens than a learned table has rows, which prompt and number tell."""
    if offers(cell, "learned") and cell.backend.conventions.out_of_range == "raises":
        short = replace(MODEL, rotary="", positions="learned", max_positions=4)
        problem = "prompt and answer have more tokens than the table of positions has rows"
        yield OfModel(problem, PositionError, "generate", (ids(2, 3),), {"max_new_tokens": 3}, case=short)


def using(cell: Cell, feature: str) -> ModelCase:
    """A small case of steps or of generation that uses a feature, if it is one of theirs."""
    if feature.startswith("generate"):
        return replace(PROMPT, **GENERATES.get(feature, {}))
    return replace(SMALL, **STEPS.get(feature, {}))


def try_out(cell: Cell, case: ModelCase) -> None:
    """Make the calls of a case and judge them."""
    if isinstance(case, GenerateCase):
        takes_the_likeliest(cell, case)
    elif isinstance(case, DecodeCase):
        follows(cell, case)


PROMPT = GenerateCase(B=2, T=3, M=4, H=2, K=1, D=2, E=3, F=3, V=5, L=1, rotary="half", activation="relu", new=3)

STEPS: Mapping[str, dict[str, Any]] = {
    "step": {"ops": "s2"},
    "step.chunk": {"ops": "s1,s2"},
    "step.padding": {"ops": "s3", "pads": "left"},
    "reorder": {"ops": "s2,r1.0,s1"},
    "reorder.batch": {"ops": "s2,r1.0.1,s1"},
    "truncate": {"ops": "s2,t1,s1"},
    "fork": {"ops": "s2,f,s1"},
}
GENERATES: Mapping[str, dict[str, Any]] = {
    "generate": {},
    "generate.eos": {"eos": 1},
    "generate.pad": {"eos": 1, "pad": 2},
    "generate.uncached": {"uncached": True},
}


def _of(
    method: str, error: type[GaugeblockError], problem: str, *first: Any, must: bool = True, **named: Any
) -> OfModel:
    return OfModel(problem, error, method, first, named, must)
