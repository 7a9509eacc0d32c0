"""Number formats, and the contract levels to which an implementation may declare itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import total_ordering

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    p is its precision in bits, [2**emin, 2**(emax + 1)) its normal range; flush says that subnormal results
    and operands may be read as zero (IEEE 754-2019, section 3.3; XLA and most GPUs flush float32).
    """

    name: str
    p: int
    emin: int
    emax: int
    flush: bool

    @property
    def u(self) -> float:
        """The unit roundoff 2**-p: the largest relative error of one rounding to nearest."""
        return 2.0**-self.p

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0**self.emin

    @property
    def eta(self) -> float:
        """The largest absolute error of one rounding below the normal range."""
        return self.tiny if self.flush else self.tiny * self.u

    @property
    def max(self) -> float:
        """The largest finite number."""
        return 2.0**self.emax * (2.0 - 2.0 ** (1 - self.p))

    @property
    def limit(self) -> float:
        """Every number below it rounds to a finite one: half a unit beyond the largest, where float64 can hold that."""
        return self.max if self.p >= 53 else 2.0**self.emax * (2.0 - self.u)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype that carries the format."""
        return np.dtype(ml_dtypes.bfloat16 if self.name == "bfloat16" else self.name)


FLOAT64 = Format("float64", 53, -1022, 1023, flush=True)
FLOAT32 = Format("float32", 24, -126, 127, flush=True)
BFLOAT16 = Format("bfloat16", 8, -126, 127, flush=True)
FLOAT16 = Format("float16", 11, -14, 15, flush=False)
FORMATS: Mapping[str, Format] = {f.name: f for f in (FLOAT64, FLOAT32, BFLOAT16, FLOAT16)}
HALF = ("bfloat16", "float16")


@total_ordering
class Level(Enum):
    """How much an implementation may round on the way; a larger level is a stricter promise.

    STRICT  nothing is rounded to the io format but the result;
    FUSED   also the attention weights before the product with the values, a normalized row before its weight and before
            its bias, the entries of a rotary table and the products of a rotation;
    STORED  also every named intermediate: scaled queries and keys, scores, scores plus bias, and a feed-forward's
            hidden, gate, up and gated values;
    NAIVE   every operation is done in the io format. In half precision this never conforms.

    In float32 and float64 the first three are the same.
    """

    NAIVE = 0
    STORED = 1
    FUSED = 2
    STRICT = 3

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, Level) else NotImplemented

    def __str__(self) -> str:
        return self.name.lower()


def declared_level(levels: Mapping[str, Level], component: str, dtype: str) -> Level:
    """The level that holds for a component and dtype: the longest matching key, else the default.

    levels maps "dtype" or "component@dtype" to Level. The default is STORED in half precision, else STRICT.
    """
    default = Level.STORED if dtype in HALF else Level.STRICT
    return levels.get(f"{component}@{dtype}", levels.get(dtype, default))


@dataclass(frozen=True)
class Contract:
    """What an implementation promised: its io format, its level, and the freedom of its elementary functions.

    exp, log, tanh, rsqrt are the admitted relative errors of these functions, erf and trig the absolute ones of the
    error function and of sine and cosine at the given argument, all in units of u (contract N4). key_block is the
    smallest block of keys of an online softmax; float32_scalars says whether a scale may have been rounded to float32.
    """

    io: Format
    level: Level = Level.STRICT
    exp: float = 8.0
    log: float = 2.0
    tanh: float = 12.0
    erf: float = 32.0
    rsqrt: float = 4.0
    trig: float = 8.0
    key_block: int = 16
    float32_scalars: bool = False

    @property
    def acc(self) -> Format:
        """The format of the arithmetic: io, but at least float32 unless the level is naive."""
        return self.io if self.level is Level.NAIVE or self.io.name not in HALF else FLOAT32

    def rounds_at(self, level: Level) -> bool:
        """Whether intermediates that this level admits may be rounded to io."""
        return self.io.name in HALF and self.level <= level


EXACT = Contract(FLOAT64)
