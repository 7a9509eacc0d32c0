"""Malformed models and calls, and the smallest calls that use one of their features."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.refusals import Malformed, declared, offers, placed
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ARRAYS, ModelCase
from gaugeblock.spec.errors import ConfigError, DTypeError, GaugeblockError, PositionError, ShapeError
from gaugeblock.spec.precision import FLOAT16, FLOAT32

SIZES: dict[str, Any] = {"B": 2, "T": 4, "M": 6, "H": 3, "K": 3, "D": 2, "E": 2, "F": 7, "V": 9, "L": 1, "S": 3}
ENCODER = ModelCase(**SIZES, kind="encoder", norm="layer", activation="gelu", positions="learned")
DECODER = ModelCase(**SIZES, norm="rms", activation="silu", gated=True, rotary="half")


@dataclass(frozen=True)
class MalformedModel(Malformed):
    """Weights that do not fit, or a call of a model that has no meaning; mentions is what the error should name.

    positional holds weights, configuration, and what the method is called with beside the model.
    """

    mentions: str = ""

    def raised(self, cell: Cell) -> Exception | None:
        weights, config, *first = self.positional
        try:
            model = cell.backend.load(placed(cell, weights), config)  # type: ignore[attr-defined]
            arrays = [placed(cell, x) for x in first]
            keywords = {name: placed(cell, x) for name, x in self.keywords.items()}
            cell.backend.asnumpy(getattr(cell.backend, self.method)(model, *arrays, **keywords))
        except Exception as error:
            return error
        return None


def malformed_weights(cell: Cell, case: ModelCase) -> Iterator[MalformedModel]:
    """Weights that do not fit the configuration of a case, one at a time."""
    case = cell.fit(case)
    yield from _weights(cell, case, case.inputs(cell.io))


def malformed_encoders(cell: Cell) -> Iterator[MalformedModel]:
    """Every malformed call of an encoder that the backend's features allow to state."""
    case = cell.fit(ENCODER)
    yield from _inputs(cell, case, case.inputs(cell.io))
    if offers(cell, "vectors"):
        yield from _vectors(cell, cell.fit(replace(ENCODER, vectors=True)))
    if offers(cell, "token_mask"):
        yield from _masks(cell.fit(replace(ENCODER, pads="left")), cell)


def malformed_decoders(cell: Cell) -> Iterator[MalformedModel]:
    """Every malformed call of a decoder that the backend's features allow to state."""
    case = cell.fit(DECODER)
    arrays = case.inputs(cell.io)
    yield from _inputs(cell, case, arrays)
    if offers(cell, "token_mask"):
        yield from _masks(cell.fit(replace(DECODER, pads="left")), cell)
    if offers(cell, "memory"):
        yield from _memories(cell, cell.fit(replace(DECODER, kind="both", memory_pads="left")))
        memory = np.zeros((case.B, case.S, case.M), cell.io.dtype)
        yield _call(case, change(arrays, memory=memory), ConfigError, "a decoder without cross-attention has a memory")


def unknown_ids(cell: Cell, case: ModelCase) -> Iterator[MalformedModel]:
    """Ids that the vocabulary has not, where they are looked at."""
    case = cell.fit(case)
    if case.reads == "tokens" and cell.backend.conventions.out_of_range == "raises":
        arrays = case.inputs(cell.io)
        for wrong in (-1, case.V, 2**20):
            tokens = arrays["tokens"].copy()
            tokens[-1, -1] = wrong
            yield _call(case, change(arrays, tokens=tokens), PositionError, f"an id is {wrong}")


def too_many_tokens(cell: Cell, case: ModelCase) -> Iterator[MalformedModel]:
    """More tokens than a learned table has rows, where they are counted."""
    if offers(cell, "learned") and cell.backend.conventions.out_of_range == "raises":
        full = cell.fit(replace(case, positions="learned", max_positions=case.T - 1))
        problem = "there are more tokens than the table of positions has rows"
        yield _call(full, full.inputs(cell.io), PositionError, problem)


def _weights(cell: Cell, case: ModelCase, arrays: Inputs) -> Iterator[MalformedModel]:
    other, first = FLOAT16 if cell.dtype != "float16" else FLOAT32, next(iter(weights_of(arrays)))
    extra = change(arrays, **{"encoder.layers.7.other.weight": np.ones((2, 3), cell.io.dtype)})
    yield _call(case, extra, ConfigError, "a weight has an unknown name", must=False, mentions="layers.7.other.weight")
    for name, w in weights_of(arrays).items():
        without = {n: x for n, x in arrays.items() if n != name}
        yield _call(case, without, ConfigError, f"{name} is missing", mentions=name)
        short = change(arrays, **{name: w[:-1]})
        yield _call(case, short, ShapeError, f"{name} has a row less", mentions=name)
        if w.ndim == 2 and w.shape[0] != w.shape[1]:
            turned = change(arrays, **{name: w.T.copy()})
            yield _call(case, turned, ShapeError, f"{name} is transposed", mentions=name)
        alien = change(arrays, **{name: w.astype(other.dtype)})
        told = name if name != first else ""  # which of two formats is wrong, the first weight cannot tell
        yield _call(case, alien, DTypeError, f"{name} has another dtype", must=False, mentions=told)


def _inputs(cell: Cell, case: ModelCase, arrays: Inputs) -> Iterator[MalformedModel]:
    x = arrays[case.reads]
    yield _call(case, change(arrays, **{case.reads: x[0]}), ShapeError, f"the {case.reads} have an axis less")
    yield _call(case, change(arrays, **{case.reads: x[None]}), ShapeError, f"the {case.reads} have an axis more")
    if case.reads == "tokens":
        real = change(arrays, tokens=np.ones(x.shape, cell.io.dtype))
        yield _call(case, real, DTypeError, "the ids are no integers", must=False)


def _vectors(cell: Cell, case: ModelCase) -> Iterator[MalformedModel]:
    arrays = case.inputs(cell.io)
    x, other = arrays["vectors"], FLOAT16 if cell.dtype != "float16" else FLOAT32
    yield _call(case, change(arrays, vectors=x[..., :-1]), ShapeError, "the vectors are narrower than the model")
    yield _call(case, change(arrays, vectors=x[..., :1]), ShapeError, "the vectors have one component")
    alien = change(arrays, vectors=x.astype(other.dtype))
    yield _call(case, alien, DTypeError, "the vectors have another dtype than the model", must=False)


def _masks(case: ModelCase, cell: Cell) -> Iterator[MalformedModel]:
    arrays = case.inputs(cell.io)
    mask = arrays["token_mask"]
    yield _call(case, change(arrays, token_mask=mask[:, :-1]), ShapeError, "the token mask is a column short")
    yield _call(case, change(arrays, token_mask=mask[:1]), ShapeError, "the token mask is a row short")
    yield _call(case, change(arrays, token_mask=mask[:, None]), ShapeError, "the token mask has an axis more")
    numbers = change(arrays, token_mask=mask.astype(cell.io.dtype))
    yield _call(case, numbers, DTypeError, "the token mask is not boolean", must=False)


def _memories(cell: Cell, case: ModelCase) -> Iterator[MalformedModel]:
    arrays = case.inputs(cell.io)
    memory, other = arrays["memory"], FLOAT16 if cell.dtype != "float16" else FLOAT32
    without = {name: x for name, x in arrays.items() if not name.startswith("memory")}
    yield _call(case, without, ConfigError, "a decoder with cross-attention has no memory")
    yield _call(case, change(arrays, memory=memory[..., :-1]), ShapeError, "the memory is narrower than the model")
    yield _call(case, change(arrays, memory=memory[:1]), ShapeError, "the memory has fewer rows than the tokens")
    yield _call(case, change(arrays, memory=memory[0]), ShapeError, "the memory has an axis less")
    alien = change(arrays, memory=memory.astype(other.dtype))
    yield _call(case, alien, DTypeError, "the memory has another dtype than the model", must=False)
    if "memory_mask" in arrays:
        mask = arrays["memory_mask"]
        yield _call(case, change(arrays, memory_mask=mask[:, :-1]), ShapeError, "the memory's mask is a column short")
        numbers = change(arrays, memory_mask=mask.astype(cell.io.dtype))
        yield _call(case, numbers, DTypeError, "the memory's mask is not boolean", must=False)


def _call(
    case: ModelCase,
    arrays: Inputs,
    error: type[GaugeblockError],
    problem: str,
    *,
    must: bool = True,
    mentions: str = "",
) -> MalformedModel:
    keywords = {name: arrays[name] for name in ARRAYS if name in arrays}
    positional = (weights_of(arrays), case.model, arrays[case.reads])
    return MalformedModel(problem, error, case.called, positional, {**keywords, **case.options()}, must, mentions)


def mentioned(cell: Cell, calls: Iterable[MalformedModel]) -> None:
    """Where a weight is refused, the error should name it."""
    for call in calls:
        error = call.raised(cell) if call.mentions else None
        cell.tally.judged += bool(call.mentions)
        if error is not None and call.mentions not in str(error):
            cell.note(f"{call.problem}: the error does not name it")


def using(cell: Cell, feature: str, base: ModelCase | None = None) -> ModelCase:
    """A small case that uses a feature, and otherwise only what the backend offers; base is what it starts from."""
    case = replace(base or (ENCODER if cell.offer == "encoder" else DECODER), **USES.get(feature, {}))
    for _ in declared(cell):
        for option in sorted(set(declared(cell)) & case.used() - {feature}):
            changed = case.without(option)
            case = changed if feature in changed.used() else case
    return case


WIDER = {"D": 4, "E": 4, "M": 12}  # a head of one pair of components has but one layout
USES: Mapping[str, dict[str, Any]] = {
    "token_mask": {"pads": "left"},
    **{f"padding.{name}": {"pads": name} for name in ("left", "right", "middle")},
    "padding.rows": {"pads": "row"},
    "padding.ids": {"pads": "left", "outside": True},
    "learned": {"positions": "learned", "rotary": ""},
    "sinusoidal": {"positions": "sinusoidal", "rotary": ""},
    "rotary": {"positions": "", "rotary": "half"},
    "rotary.interleaved": {"positions": "", "rotary": "interleaved", **WIDER},
    "rotary.partial": {"positions": "", "rotary": "half", "rotary_dim": 2, **WIDER},
    "rotary.scaling": {"positions": "", "rotary": "half", "scaling": "linear4"},
    "alibi": {"positions": "", "rotary": "", "alibi": True},
    "positionless": {"positions": "", "rotary": ""},
    "window": {"window": (1, 1)},
    "scale": {"scale": 0.6},
    "grouped": {"K": 1},
    "value_width": {"E": 3},
    "inner_width": {"M": 8},
    "bias": {"bias": "all"},
    "bias.some": {"bias": "query"},
    "bias.none": {"bias": ""},
    "pre": {"placement": "pre"},
    "post": {"placement": "post"},
    "rms": {"norm": "rms"},
    "layer": {"norm": "layer"},
    "gated": {"gated": True, "activation": "silu"},
    "plain": {"gated": False},
    **{f"activation.{name}": {"gated": False, "activation": name} for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "feed_forward.bias": {"ffn_bias": True},
    "feed_forward.bias.none": {"ffn_bias": False},
    "embedding_scale": {"embedding_scale": 2.5},
    "embedding_norm": {"embedding_norm": True},
    "embedding_norm.none": {"embedding_norm": False},
    "final_norm": {"no_final_norm": False},
    "final_norm.none": {"no_final_norm": True},
    "layers.none": {"L": 0},
    "empty.batch": {"B": 0},
    "empty.tokens": {"T": 0},
    "ids": {"vectors": False},
    "vectors": {"vectors": True},
    "beside_decoder": {"kind": "both", "encode": True},
    "memory": {"kind": "both"},
    "memory_mask": {"kind": "both", "memory_pads": "left"},
    "memory_mask.rows": {"kind": "both", "memory_pads": "row"},
    "tied": {"tied": True},
    "untied": {"tied": False},
    "head_bias": {"head_bias": True},
    "last_only": {"last_only": True},
    "empty.memory": {"kind": "both", "S": 0},
}
