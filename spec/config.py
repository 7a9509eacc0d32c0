"""Configurations: frozen records of what a call or a model is built from; each refuses what has no meaning."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, get_args

from gaugeblock.spec.errors import ConfigError, refuse

Layout = Literal["half", "interleaved"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class Linear:
    """Every frequency is divided by factor, as if positions stood closer together (Chen et al. 2023, eq. 2).

    Raises ConfigError unless factor is positive and finite. Clauses: ROPE-LINEAR.
    """

    factor: float

    def __post_init__(self) -> None:
        _positive("Linear", factor=self.factor)


@dataclass(frozen=True)
class NTK:
    """The base grows by alpha ** (R / (R - 2)), so that the slowest pair turns alpha times slower (bloc97 2023).

    Raises ConfigError unless alpha is positive and finite. Clauses: ROPE-NTK.
    """

    alpha: float

    def __post_init__(self) -> None:
        _positive("NTK", alpha=self.alpha)


@dataclass(frozen=True)
class YaRN:
    """Fast pairs keep their frequency, slow ones are divided by factor, and a ramp lies between (Peng et al. 2024).

    original is the context length before scaling, fast and slow the turns within it at which the ramp begins and
    ends; attention_factor multiplies the rotated vector, None is 0.1 ln(factor) + 1 (1 for factor <= 1); truncate
    says whether the ends of the ramp are rounded outwards to whole pairs.
    Raises ConfigError. Clauses: ROPE-YARN, ROPE-YARN-MAGNITUDE.
    """

    factor: float
    original: float
    fast: float = 32
    slow: float = 1
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        _positive("YaRN", factor=self.factor, original=self.original, fast=self.fast, slow=self.slow)
        if self.attention_factor is not None:
            _positive("YaRN", attention_factor=self.attention_factor)
        if self.fast <= self.slow:
            raise refuse(ConfigError, "ROPE-ERRORS", f"fast must be above slow {self.slow}, got {self.fast}", "YaRN")


@dataclass(frozen=True)
class Llama3:
    """Pairs that turn more than high times within original keep their frequency, those below low are divided.

    Between them the frequency is interpolated (the rule of Llama 3.1, section 3.4.2 and its released code).
    Raises ConfigError. Clauses: ROPE-LLAMA3.
    """

    factor: float
    low: float
    high: float
    original: float

    def __post_init__(self) -> None:
        _positive("Llama3", factor=self.factor, low=self.low, high=self.high, original=self.original)
        if self.high <= self.low:
            raise refuse(ConfigError, "ROPE-ERRORS", f"high must be above low {self.low}, got {self.high}", "Llama3")


Scaling: TypeAlias = Linear | NTK | YaRN | Llama3


@dataclass(frozen=True)
class RotaryConfig:
    """How queries and keys are rotated; the parameters are those of Rotary.rotate.

    Raises ConfigError for a base that is not above 1, an unknown layout, an odd rotary_dim, or a scaling that is none.
    Clauses: ROPE-ERRORS.
    """

    base: float = 10000.0
    layout: Layout = "half"
    rotary_dim: int | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        _number("RotaryConfig", "base", self.base)
        if not (isfinite(self.base) and self.base > 1):
            problem = f"base must be finite and above 1, got {self.base}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        if self.layout not in LAYOUTS:
            problem = f"layout must be one of {', '.join(LAYOUTS)}, got {self.layout!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        R: object = self.rotary_dim
        if R is not None and (isinstance(R, bool) or not isinstance(R, int) or R < 2 or R % 2):
            problem = f"rotary_dim must be an even integer of at least 2, got {R!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")
        rule: object = self.scaling
        if rule is not None and not isinstance(rule, Scaling):
            problem = f"scaling must be None, Linear, NTK, YaRN or Llama3, got {rule!r}"
            raise refuse(ConfigError, "ROPE-ERRORS", problem, "RotaryConfig")


def _positive(where: str, **numbers: object) -> None:
    for name, number in numbers.items():
        value = _number(where, name, number)
        if not (isfinite(value) and value > 0):
            raise refuse(ConfigError, "ROPE-ERRORS", f"{name} must be finite and above 0, got {number!r}", where)


def _number(where: str, name: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise refuse(ConfigError, "ROPE-ERRORS", f"{name} must be a number, got {number!r}", where)
    return float(number)
