"""In which format a backend holds the numbers among its arguments; only float64 shows it."""

from dataclasses import replace

from gaugeblock.conformance.case import Case
from gaugeblock.conformance.cell import Cell
from gaugeblock.conformance.proposals.attention import PROBE
from gaugeblock.conformance.proposals.probing import fits
from gaugeblock.conformance.refusals.normalization import BASES
from gaugeblock.conformance.strategies.activations import ActivationCase
from gaugeblock.conformance.strategies.positions import SinusoidalCase
from gaugeblock.conformance.strategies.rotary import RotaryCase
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.components import offers
from gaugeblock.spec.conventions import Conventions

# in each the number decides the result, and float32 does not hold it
PROBES: tuple[tuple[str, str, Case], ...] = (
    ("attention", "attention", replace(PROBE, qk="normal", v="normal", scale=0.3)),
    ("normalization", "layer_norm", replace(BASES["layer_norm"], M=4, eps=0.3)),
    ("normalization", "rms_norm", replace(BASES["rms_norm"], M=4, eps=0.3)),
    ("feedforward", "activations", ActivationCase(B=2, T=3, M=4, function="silu", beta=1.7)),
    ("positions", "sinusoidal", SinusoidalCase(T=3, M=4, base=1000.3)),
    ("positions", "rotary", RotaryCase(B=1, H=1, T=3, D=4, base=1000.3)),
)


def scalars(backend: Backend) -> Conventions:
    """The backend's conventions, with float32 for its numbers where a call conforms only so."""
    narrow = replace(backend.conventions, scalars="float32")
    for component, offer, case in PROBES:
        if offers(backend, component, offer):
            cell = Cell(backend, component, "float64", offer=offer)
            case = cell.fit(case)
            if not fits(cell, case, backend.conventions) and fits(cell, case, narrow):
                return narrow
    return backend.conventions
