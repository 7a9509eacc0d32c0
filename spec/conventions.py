"""The choices on which honest implementations differ; declared, then checked."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from gaugeblock.spec.errors import ConfigError

CausalAlignment = Literal["bottom_right", "top_left"]
EmptyRow = Literal["zeros", "mean", "nan"]
Route = Literal["mask", "bias", "causal", "window"]
HeadOrder = Literal["grouped", "tiled"]
Scalars = Literal["float64", "float32"]
RotaryPartial = Literal["compact", "proportional"]
SinusoidalOrder = Literal["interleaved", "halves"]
AlibiSlopes = Literal["authors", "geometric"]
AlibiBias = Literal["symmetric", "key_only"]
LayerNormForm = Literal["population", "sample_eps_outside"]
RMSWeight = Literal["w", "1+w"]
OutOfRange = Literal["raises", "nan", "clamps", "undefined"]
ConsumedCache = Literal["raises", "valid", "undefined"]
Capacity = Literal["fixed", "grows"]

ROUTES: tuple[Route, ...] = get_args(Route)


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """What an adapter cannot translate without computing; the first value of each is canonical.

    causal_alignment  the key that the last query (bottom_right) or the first query (top_left) is aligned with;
    empty_row         the output of a query that sees no key, or a mapping from the route that emptied it;
    head_order        which key/value head serves query head h: h // (H // K) (grouped) or h % K (tiled);
    scalars           the format in which scale and eps are held;
    rotary_partial    whether a partial rotation counts its frequencies and pairs inside rotary_dim or over all of D;
    sinusoidal_order  sines and cosines by turns, or all sines first;
    alibi_slopes      the authors' rule for head counts that are no power of two, or one geometric sequence;
    alibi_bias        -slope |i - j|, or slope * j, which differs by a constant of the row from -slope (i - j);
    layer_norm_form   population variance and eps inside the root, or sample deviation plus eps;
    rms_weight        whether the weight or one plus the weight scales the row;
    out_of_range      what an id or position outside the table gives;
    consumed_cache    what a cache is after a call has taken it: refused, still what it was, or anything;
    capacity          whether tokens beyond a cache's capacity are refused, or taken.

    Raises ConfigError for a value that is none of the choices.
    """

    causal_alignment: CausalAlignment = "bottom_right"
    empty_row: EmptyRow | Mapping[Route, EmptyRow] = "zeros"
    head_order: HeadOrder = "grouped"
    scalars: Scalars = "float64"
    rotary_partial: RotaryPartial = "compact"
    sinusoidal_order: SinusoidalOrder = "interleaved"
    alibi_slopes: AlibiSlopes = "authors"
    alibi_bias: AlibiBias = "symmetric"
    layer_norm_form: LayerNormForm = "population"
    rms_weight: RMSWeight = "w"
    out_of_range: OutOfRange = "raises"
    consumed_cache: ConsumedCache = "raises"
    capacity: Capacity = "fixed"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            _one_of(name, getattr(self, name), allowed)
        for route in ROUTES:
            _one_of("empty_row", self.empty_row_by(route), CHOICES_EMPTY_ROW)

    def empty_row_by(self, route: Route) -> EmptyRow:
        """The output of a row that this route emptied."""
        if isinstance(self.empty_row, str):
            return self.empty_row
        return self.empty_row.get(route, "zeros")

    def __str__(self) -> str:
        changed = (f for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Conventions({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"


CHOICES: Mapping[str, tuple[str, ...]] = {
    "causal_alignment": get_args(CausalAlignment),
    "head_order": get_args(HeadOrder),
    "scalars": get_args(Scalars),
    "rotary_partial": get_args(RotaryPartial),
    "sinusoidal_order": get_args(SinusoidalOrder),
    "alibi_slopes": get_args(AlibiSlopes),
    "alibi_bias": get_args(AlibiBias),
    "layer_norm_form": get_args(LayerNormForm),
    "rms_weight": get_args(RMSWeight),
    "out_of_range": get_args(OutOfRange),
    "consumed_cache": get_args(ConsumedCache),
    "capacity": get_args(Capacity),
}
CHOICES_EMPTY_ROW: tuple[EmptyRow, ...] = get_args(EmptyRow)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"conventions: {name} must be one of {', '.join(allowed)}, got {value!r} [Conventions]")
