"""Encodings of positions that declare what they do not do."""

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.conformance.mutants.declared import declares
from gaugeblock.conformance.unusual.positions import (
    BaseInFloat32,
    HalvesKept,
    KeyPositionsOnly,
    OutsideIsNan,
    OutsideIsNearest,
    OutsideIsUndefined,
    SlopesAllGeometric,
)
from gaugeblock.conformance.unusual.positions_rotary import AnyPositionDeclared, ProportionalDeclared

RANGE = ("POS-LOOKUP-RANGE",)

declares(NumpyBackend, __name__, killed_by=RANGE, convention="out_of_range", value="nan")
declares(NumpyBackend, __name__, killed_by=RANGE, convention="out_of_range", value="clamps")
declares(OutsideIsNan, __name__, killed_by=RANGE, convention="out_of_range", value="raises")
declares(OutsideIsNan, __name__, killed_by=RANGE, convention="out_of_range", value="clamps")
declares(OutsideIsNearest, __name__, killed_by=RANGE, convention="out_of_range", value="raises")
declares(OutsideIsNearest, __name__, killed_by=RANGE, convention="out_of_range", value="nan")
declares(OutsideIsUndefined, __name__, killed_by=RANGE, convention="out_of_range", value="raises")
declares(AnyPositionDeclared, __name__, killed_by=("ROPE-RANGE",), convention="out_of_range", value="raises")
declares(HalvesKept, __name__, killed_by=("PE-ORDER",), convention="sinusoidal_order", value="interleaved")
declares(SlopesAllGeometric, __name__, killed_by=("ALIBI-SLOPES-ANY",), convention="alibi_slopes", value="authors")
declares(KeyPositionsOnly, __name__, killed_by=("ALIBI-BIAS",), convention="alibi_bias", value="symmetric")
declares(ProportionalDeclared, __name__, killed_by=("ROPE-PARTIAL",), convention="rotary_partial", value="compact")
declares(BaseInFloat32, __name__, killed_by=("PE-BASE",), dtypes=("float64",), convention="scalars", value="float64")
