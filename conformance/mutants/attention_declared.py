"""Attention that declares what it does not do."""

from itertools import product

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.mutants import mutant
from gaugeblock.conformance.mutants.declared import declares, forgets, ignores
from gaugeblock.conformance.mutants.ignoring import IgnoresInCalls, dropped
from gaugeblock.conformance.unusual.attention_declared import (
    Eager,
    EverythingStored,
    MeanRows,
    NanRows,
    NanRowsByBias,
    OneOptionAtATime,
    PlainKernel,
    RootsStored,
    ScalarsInFloat32,
    TopLeft,
)
from gaugeblock.spec.conventions import ROUTES, Conventions
from gaugeblock.spec.precision import HALF, Level

declares(NumpyBackend, __name__, killed_by=("ATTN-EMPTY-ROW",), convention="empty_row", value="nan")
for route, row in product(ROUTES, ("mean", "nan")):
    declares(NumpyBackend, __name__, killed_by=("ATTN-EMPTY-ROW",), convention="empty_row", value={route: row})
declares(MeanRows, __name__, killed_by=("ATTN-EMPTY-ROW",), convention="empty_row", value="nan")
declares(NanRows, __name__, killed_by=("ATTN-EMPTY-ROW",), convention="empty_row", value="mean")
declares(NanRowsByBias, __name__, killed_by=("ATTN-EMPTY-ROW",), convention="empty_row", value={"mask": "nan"})
declares(TopLeft, __name__, killed_by=("ATTN-CAUSAL-ALIGN",), convention="causal_alignment", value="bottom_right")
declares(
    ScalarsInFloat32,
    __name__,
    killed_by=("ATTN-SCALE-GIVEN",),
    dtypes=("float64",),
    convention="scalars",
    value="float64",
)
IGNORED = {name: dropped(name) for name in ("mask", "bias", "causal", "scale")}
ignores(IgnoresInCalls, __name__, "attention", IGNORED, "ATTN-UNSUPPORTED")


@mutant(killed_by=("ATTN-EMPTY-ROW",))
class DeclaresNoRoute(NanRows):
    """Rows that see no key are NaN on every route, which is declared for a mask alone."""

    conventions = Conventions(empty_row={"mask": "nan"})


@mutant(killed_by=("ATTN-FORMULA",), dtypes=HALF)
class EverythingStoredButDeclaredStrict(EverythingStored):
    """Queries, scores and weights are rounded to half precision, and level strict is declared."""

    level = dict.fromkeys(HALF, Level.STRICT)


@mutant(killed_by=("ATTN-FORMULA",), dtypes=HALF)
class EagerButDeclaredFused(Eager):
    """One operation at a time is rounded to half precision, and level fused is declared."""

    level = dict.fromkeys(HALF, Level.FUSED)


@mutant(killed_by=("ATTN-FORMULA",), dtypes=HALF)
class RootsStoredButDeclaredFused(RootsStored):
    """Scaled queries, keys and scores are rounded to half precision, and level fused is declared."""

    level = dict.fromkeys(HALF, Level.FUSED)


# what a feature implies is tried only where that one is offered: these are refused for a reason that is still declared
forgets(
    PlainKernel,
    __name__,
    {
        "attention.mask.heads": "ATTN-PERMUTE",
        "attention.bias": "ATTN-BIAS",
        "attention.window": "ATTN-WINDOW",
        "attention.scale.nonpositive": "ATTN-SCALE-GIVEN",
        "attention.rectangular": "ATTN-CAUSAL-ALIGN",
        "attention.grouped": "ATTN-HEADS",
        "attention.value_width": "ATTN-VALUE-WIDTH",
        "attention.empty.batch": "ATTN-EMPTY-AXES",
    },
)
forgets(
    OneOptionAtATime,
    __name__,
    {
        "attention.mask+bias": "ATTN-INTERSECT",
        "attention.mask+causal": "ATTN-INTERSECT",
        "attention.mask+window": "ATTN-INTERSECT",
        "attention.bias+causal": "ATTN-CAUSAL-LEAK",
        "attention.bias+window": "ATTN-CAUSAL-LEAK",
        "attention.causal+window": "ATTN-INTERSECT",
    },
)
