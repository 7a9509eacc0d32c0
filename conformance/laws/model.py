"""The laws of encoders and decoders that hold bit for bit, and what their calls leave alone."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.cell import Cell, change
from gaugeblock.conformance.laws.compositions import same_result
from gaugeblock.conformance.strategies.compositions import weights_of
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.spec.backend import Backend, Numpy
from gaugeblock.spec.precision import FORMATS
from gaugeblock.spec.reference.bounded import Bits, Expected
from gaugeblock.spec.traced import Traced


def looks_at_no_later_token(cell: Cell, case: ModelCase) -> None:
    """Other ids from some column on, pads among them, leave the rows before it as they are, bit for bit."""
    inputs = case.inputs(cell.io)
    columns = np.arange(case.T)
    from_here = 1 + case.at % max(case.T - 1, 1)
    changed = change(inputs, tokens=np.where(columns >= from_here, others(case, inputs["tokens"]), inputs["tokens"]))
    where = case.real & (columns < from_here)
    cell.same(case, inputs, changed, "a later token must change nothing", where=where[..., None])


def ignores_pads(cell: Cell, case: ModelCase) -> None:
    """Whatever stands at the pads, the rows of the real tokens stay as they are, bit for bit."""
    inputs = case.inputs(cell.io)
    changed = dict(inputs)
    if case.reads == "tokens":
        ids = case.hidden_ids(inputs["tokens"], case.real) if case.outside else others(case, inputs["tokens"])
        changed["tokens"] = np.where(case.real, inputs["tokens"], ids)
        inputs = change(inputs, tokens=np.where(case.real, inputs["tokens"], inputs["tokens"] % case.V))
    else:
        changed["vectors"] = replaced(cell, case, "vectors", inputs, case.real)
    cell.same(case, inputs, changed, "what stands at a pad must change nothing", where=promised(case))


def ignores_pads_of_the_memory(cell: Cell, case: ModelCase) -> None:
    """Whatever stands at the pads of the memory, the logits stay as they are, bit for bit."""
    inputs = case.inputs(cell.io)
    changed = change(inputs, memory=replaced(cell, case, "memory", inputs, inputs["memory_mask"]))
    cell.same(case, inputs, changed, "what stands at a pad of the memory must change nothing", where=promised(case))


def keeps_rows_apart(cell: Cell, case: ModelCase) -> None:
    """Other tokens, vectors and memories in the other batch rows leave a row as it is, bit for bit."""
    inputs = case.inputs(cell.io)
    kept = np.arange(case.B) == case.at % max(case.B, 1)
    changed = dict(inputs)
    for name in {case.reads, "memory"} & set(inputs):
        if name == "tokens":
            changed[name] = np.where(kept[:, None], inputs[name], others(case, inputs[name] % case.V))
        else:
            changed[name] = replaced(cell, case, name, inputs, np.broadcast_to(kept[:, None], inputs[name].shape[:2]))
    where = promised(case) & kept[:, None, None]
    cell.same(case, inputs, changed, "another batch row must change nothing in this one", where=where)


def depends_on_its_token(cell: Cell, case: ModelCase) -> None:
    """With sublayers that give nothing, other tokens and memories leave the row of a token as it is, bit for bit."""
    inputs = case.inputs(cell.io)
    kept = _one_of(case)
    changed = dict(inputs)
    if case.reads == "tokens":
        changed["tokens"] = np.where(kept, inputs["tokens"], others(case, inputs["tokens"] % case.V))
    else:
        changed["vectors"] = replaced(cell, case, "vectors", inputs, kept)
    if "memory" in inputs:
        changed["memory"] = replaced(cell, case, "memory", inputs, np.zeros(inputs["memory"].shape[:2], bool))
    law = "where the sublayers give nothing another token must change nothing"
    cell.same(case, inputs, changed, law, where=kept[..., None])


def reads_only_its_rows(cell: Cell, case: ModelCase) -> None:
    """An id that does not occur: with a row of zeros in the embedding it changes no other logit, and none but its own.

    The logit of a head's column of zeros is exactly its bias, or zero: of the embedding's where the head is tied to it,
    of the head's own where it is not.
    """
    inputs, v = _without_an_id(case, case.inputs(cell.io))
    stack = "encoder" if case.encodes else "decoder"
    table = f"{stack}.embedding.weight"
    cleared = change(inputs, **{table: _cleared(inputs[table], v)})
    judged = promised(case) & (np.arange(case.M if case.encodes else case.V) != v)
    if case.encodes or not case.tied:
        judged = promised(case)
    cell.same(case, inputs, cleared, "the embedding of an id that does not occur must change nothing", where=judged)
    if not case.encodes:
        if not case.tied:
            cleared = change(inputs, **{"head.weight": _cleared(inputs["head.weight"].T, v).T.copy()})
        _gives_the_bias(cell, case, cleared, v)


def _gives_the_bias(cell: Cell, case: ModelCase, inputs: Inputs, v: int) -> None:
    got = cell.call(case, inputs)
    bias = float(inputs["head.bias"][v]) if case.head_bias else 0.0
    value = np.where(np.arange(case.V) == v, bias, got.astype(np.float64))
    expected = Expected(value, np.zeros(got.shape), free=~promised(case))
    told = "transposed embedding" if case.tied else "head"
    cell.against(case, got, expected, inputs, f"a column of zeros in the {told} must give the bias, or zero")


@dataclass(frozen=True, kw_only=True)
class AmongOthers(ModelCase):
    """The same call, after another model has been loaded and both have been called on other tokens."""

    io: str = "float32"

    def prepared(self, backend: Backend, arrays: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
        made = super().prepared(backend, arrays)
        model = made[1][0]
        for T in (self.T + 2, self.T):
            other = replace(self, T=T, seed=self.seed + 1, pads="", outside=False)
            given = {name: backend.asarray(x) for name, x in other.inputs(FORMATS[self.io]).items()}
            _, (stranger, tokens), keywords = ModelCase.prepared(other, backend, given)
            for one in (stranger, model):
                getattr(backend, self.called)(one, tokens, **keywords)
        return made


def keeps_no_state(cell: Cell, case: ModelCase) -> None:
    """A call gives the same bits whatever was loaded and called before it."""
    inputs = case.inputs(cell.io)
    later = AmongOthers(**{f.name: getattr(case, f.name) for f in fields(case)}, io=cell.dtype)
    law = "a call must not depend on other models or on calls before it"
    cell.same(case, inputs, inputs, law, where=promised(case), to=later)


def mapping_intact(cell: Cell, case: ModelCase) -> None:
    """After load the mapping of weights holds the names and the arrays that it held before."""
    inputs = case.inputs(cell.io)
    weights = weights_of({name: cell.backend.asarray(x.copy()) for name, x in inputs.items()})
    before = dict(weights)
    cell.guarded(case, lambda: cell.backend.load(weights, case.model))  # type: ignore[attr-defined]
    cell.tally.judged += 1
    if set(weights) != set(before) or any(weights[name] is not x for name, x in before.items()):
        raise cell.fail("load has changed the mapping of weights", case, inputs=inputs)


def shows_the_same(cell: Cell, case: ModelCase) -> None:
    """A traced call gives what the plain one gives; a backend that shows nothing has nothing to hold to."""
    if isinstance(cell.backend, Traced):
        same_result(cell, case)


def nan_stays(cell: Cell, case: ModelCase) -> None:
    """A NaN in a vector or a memory makes what reads it NaN, and no other batch row."""
    inputs = case.inputs(cell.io)
    name = "vectors" if case.reads == "vectors" else "memory"
    places = np.argwhere(visible(case, inputs, name))
    b, t = places[case.at % len(places)]
    poisoned = inputs[name].copy()
    poisoned[b, t, case.at % case.M] = np.nan
    changed = change(inputs, **{name: poisoned})
    rows = promised(case) & (np.arange(case.B) != b)[:, None, None]
    cell.same(case, inputs, changed, "a NaN must stay in its batch row", where=rows)
    got = cell.call(case, changed)
    reached: Bits = promised(case)[b]
    if name == "vectors":
        reached = np.asarray(np.arange(case.T) == t)[:, None]
    if not np.all(np.isnan(got[b].astype(np.float64)) | ~reached):
        raise cell.fail(f"a NaN in the {name} must reach what reads it", case, inputs=changed)


def visible(case: ModelCase, inputs: Inputs, name: str) -> Bits:
    """Which of the vectors, or rows of the memory, are no pads."""
    hidden = inputs.get("token_mask" if name == "vectors" else "memory_mask")
    return np.ones(inputs[name].shape[:2], bool) if hidden is None else np.asarray(hidden, bool)


def promised(case: ModelCase) -> Bits:
    """The rows of the result that are specified: those of real tokens, (B, T, 1) or (B, 1, 1)."""
    shortened = case.last_only and not case.encodes
    real = np.any(case.real, axis=1, keepdims=True) if shortened else case.real
    return np.asarray(real)[..., None]


def _one_of(case: ModelCase) -> Bits:
    """One of the real tokens, (B, T)."""
    places = np.argwhere(case.real)
    chosen = np.zeros((case.B, case.T), bool)
    chosen[tuple(places[case.at % max(len(places), 1)])] = True
    return chosen


def others(case: ModelCase, ids: Numpy) -> Numpy:
    """At every place another id of the vocabulary."""
    step = case.random("others").integers(1, max(case.V, 2), ids.shape)
    return np.asarray((ids + step) % case.V)


def replaced(cell: Cell, case: ModelCase, name: str, inputs: Inputs, kept: Bits) -> Numpy:
    """Vectors, or a memory, with others in the rows that are not kept, (B, T)."""
    noise = np.asarray(4 * case.random(f"other {name}").normal(size=inputs[name].shape))
    return np.where(kept[..., None], inputs[name], noise.astype(cell.io.dtype))


def _without_an_id(case: ModelCase, inputs: Inputs) -> tuple[Inputs, int]:
    """The call on tokens among which one id does not occur, and that id; pads keep theirs."""
    v, ids = case.at % case.V, inputs["tokens"]
    return change(inputs, tokens=np.where((ids == v) & case.real, (v + 1) % case.V, ids)), v


def _cleared(table: Numpy, row: int) -> Numpy:
    made = table.copy()
    made[row] = 0
    return made
