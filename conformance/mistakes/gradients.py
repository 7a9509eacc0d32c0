"""The mistakes that are made on the way back, as variations of the definition: what a wrong gradient looks like."""

from collections.abc import Iterator, Mapping

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.diagnosis import broken
from gaugeblock.conformance.mistakes import gradients_components, gradients_compositions, gradients_elements
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.attention import AttentionCase
from gaugeblock.conformance.strategies.blocks import BlockCase
from gaugeblock.conformance.strategies.feedforward import FeedForwardCase
from gaugeblock.conformance.strategies.model import ModelCase
from gaugeblock.conformance.strategies.multihead import MultiHeadCase
from gaugeblock.conformance.strategies.normalization import NormCase
from gaugeblock.conformance.strategies.positions import LookupCase
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.reference.bounded import Bounded, Real

Found = Mapping[str, Bounded]
CLOSE = 1e-5  # of the largest element: a hint is no verdict, and mistakes are larger
NOISE = 1e-6  # of the largest of all gradients: what is left of one that cancels, such as that of a key bias


def explained(case: Case, inputs: Inputs, dy: Numpy, got: Mapping[str, Numpy], right: Found) -> str:
    """The first mistake that gives all of these gradients and not the right ones, or nothing."""
    wide = {name: g.astype(np.float64) for name, g in got.items()}
    values = {name: b.value for name, b in right.items()}
    if any(g.shape != values[name].shape for name, g in wide.items()):
        return ""
    try:
        return _first(case, inputs, dy, wide, values)
    except Exception as error:  # whatever it is, the failure that was to be explained must not be lost with it
        return broken(error)


def _first(case: Case, inputs: Inputs, dy: Numpy, got: Mapping[str, Real], right: Mapping[str, Real]) -> str:
    with np.errstate(all="ignore"):
        for text, changed in _varied(case, inputs, dy, right):
            wrong = {**right, **changed}
            if _alike(got, wrong) and not _alike(wrong, right):
                return text
    return ""


def _varied(
    case: Case, inputs: Inputs, dy: Numpy, right: Mapping[str, Real]
) -> Iterator[tuple[str, Mapping[str, Real]]]:
    """Each likely mistake with the gradients that it changes."""
    if isinstance(case, AttentionCase):
        yield from gradients_components.attention(case, inputs, dy, right)
    elif isinstance(case, NormCase):
        yield from gradients_components.norm(case, inputs, dy, right)
    elif isinstance(case, MultiHeadCase):
        yield from gradients_compositions.layer(case, inputs, dy, right)
    elif isinstance(case, BlockCase):
        yield from gradients_compositions.block(case, dy, right)
    elif isinstance(case, ActivationCase):
        yield from gradients_elements.activation(case, inputs, dy)
    elif isinstance(case, FeedForwardCase):
        yield from gradients_elements.network(case, inputs, dy, right)
    elif isinstance(case, RotaryCase):
        yield from gradients_elements.rotary(case, inputs, dy, right)
    elif isinstance(case, LookupCase):
        yield from gradients_elements.lookup(case, inputs, dy, right)
    elif isinstance(case, ModelCase):
        yield from gradients_compositions.model(case, inputs, dy, right)
    for name, g in right.items():
        yield f"{name} has no gradient", {name: np.zeros(g.shape)}


def _alike(one: Mapping[str, Real], other: Mapping[str, Real]) -> bool:
    sizes = {name: _size(g, other[name]) for name, g in one.items()}
    noise = NOISE * max(sizes.values(), default=0.0)
    return all(bool(np.all(np.abs(g - other[n]) <= max(CLOSE * sizes[n], noise))) for n, g in one.items())


def _size(a: Real, b: Real) -> float:
    return float(np.max(np.maximum(np.abs(a), np.abs(b)), initial=0.0))
