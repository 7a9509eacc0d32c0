"""What the cases of multi-head attention, blocks and models share: a program of named steps as their reference."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gaugeblock.conformance.case import Case, Inputs
from gaugeblock.conformance.recipes.compositions import ROWS, WEIGHTS, filled
from gaugeblock.conformance.recipes.rotary import SCALINGS
from gaugeblock.conformance.strategies import pick
from gaugeblock.spec.attention import Window
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.config import (
    LAYOUTS,
    PROJECTIONS,
    AttentionConfig,
    BlockConfig,
    Layout,
    ModelConfig,
    Projection,
    RotaryConfig,
    StackConfig,
)
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.precision import Contract, Format
from gaugeblock.spec.reference.bounded import Bits, Expected
from gaugeblock.spec.reference.program import Known, Step, first_order
from gaugeblock.spec.weights import Shapes


@dataclass(frozen=True, kw_only=True)
class ProgramCase(Case):
    """A case whose reference is a program; names with a dot among its inputs are weights."""

    conventional: ClassVar[bool] = False

    @abstractmethod
    def program(self, inputs: Inputs) -> Sequence[Step]:
        """The steps from the inputs to the result, the last of which is the result."""

    def given(self, inputs: Inputs) -> Known:
        """The inputs that the steps read, by the names by which they read them."""
        return {name: inputs[name] for name in ("x", "context") if name in inputs}

    def free(self, inputs: Inputs, step: str, shape: tuple[int, ...]) -> Bits | None:
        """Which elements of a step, of that shape, nothing is promised of: those that belong to pads."""
        return None

    def computed(self, inputs: Inputs, contract: Contract, conventions: Conventions) -> Expected:
        """The first-order bound."""
        program = self.program(inputs)
        made = first_order(program, self.given(inputs), contract)
        free = self.free(inputs, program[-1].name, made.value.shape)
        return Expected(made.value, made.err, free=np.zeros((), bool) if free is None else free)

    def own(self, inputs: Inputs, conventions: Conventions) -> Any:
        """Nothing: the first-order bound holds the reference's own errors already."""
        return np.zeros(())

    def size(self, inputs: Inputs) -> float:
        """Never vacuous: a bound that is too wide is inf already, and the example undetermined."""
        return 0.0


def weights_of(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The weights among the arrays of a case."""
    return {name: x for name, x in arrays.items() if "." in name}


@dataclass(frozen=True, kw_only=True)
class AttentionFields(ProgramCase):
    """What describes an attention layer.

    bias is "", "all", or names joined by +, as in "query+value+output"; rotary is "" or a layout; scaling names a rule
    of recipes.rotary; x and w name recipes of recipes.compositions.
    """

    B: int = 1
    T: int = 1
    M: int = 1
    H: int = 1
    K: int = 1
    D: int = 1
    E: int = 1
    bias: str = ""
    rotary: str = ""
    rotary_dim: int | None = None
    base: float = 10000.0
    scaling: str = ""
    alibi: bool = False
    window: Window | None = None
    scale: float | None = None
    x: str = "normal"
    w: str = "normal"

    def __post_init__(self) -> None:
        pick(ROWS, "x", self.x)
        pick(WEIGHTS, "w", self.w)
        pick(("", *LAYOUTS), "rotary", self.rotary)
        pick(("", *SCALINGS), "scaling", self.scaling)
        for name in self.biased:
            pick(PROJECTIONS, "bias", name)
        _ = self.attention  # refuses what has no meaning

    @property
    def biased(self) -> frozenset[Projection]:
        """The projections that have a bias."""
        if self.bias == "all":
            return frozenset(PROJECTIONS)
        return frozenset(self.bias.split("+") if self.bias else ())  # type: ignore[arg-type]

    @cached_property
    def attention(self) -> AttentionConfig:
        rule = SCALINGS[self.scaling] if self.scaling else None
        turns = None
        if self.rotary:
            layout: Layout = "interleaved" if self.rotary == "interleaved" else "half"
            turns = RotaryConfig(base=self.base, layout=layout, rotary_dim=self.rotary_dim, scaling=rule)
        return replace(self.plain, rotary=turns, alibi=self.alibi, window=self.window)

    @cached_property
    def plain(self) -> AttentionConfig:
        """The same sizes, biases and scale without what belongs to self-attention only."""
        return AttentionConfig(
            width=self.M,
            heads=self.H,
            kv_heads=self.K,
            head_width=self.D,
            value_width=self.E,
            bias=self.biased,
            scale=self.scale,
        )

    def filled(self, shapes: Shapes, io: Format) -> dict[str, Numpy]:
        """Weights of these shapes by the case's recipe, rounded to the format."""
        return {name: x.astype(io.dtype) for name, x in filled(shapes, self.w, self.random).items()}

    def rows(self, name: str, shape: tuple[int, ...], io: Format) -> Numpy:
        """An input array by the case's recipe, rounded to the format."""
        return ROWS[self.x](shape, self.random(name)).astype(io.dtype)


@dataclass(frozen=True, kw_only=True)
class BlockFields(AttentionFields):
    """What describes a block beside its attention; cross gives it a cross-attention of the same sizes."""

    F: int = 1
    norm: str = "rms"
    placement: str = "pre"
    eps: float = 1e-5
    activation: str = "silu"
    gated: bool = False
    ffn_bias: bool = False
    causal: bool = False
    cross: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.block

    @cached_property
    def block(self) -> BlockConfig:
        return BlockConfig(
            attention=self.attention,
            cross=self.plain if self.cross else None,
            causal=self.causal,
            norm=self.norm,  # type: ignore[arg-type]
            eps=self.eps,
            placement=self.placement,  # type: ignore[arg-type]
            activation=self.activation,  # type: ignore[arg-type]
            gated=self.gated,
            ffn_width=self.F,
            ffn_bias=self.ffn_bias,
        )


@dataclass(frozen=True, kw_only=True)
class ModelFields(BlockFields):
    """What describes a model beside its blocks: the encoder's blocks are the decoder's without causality and cross.

    kind is "decoder", "encoder" or "both"; vectors says that the encoder takes vectors; cross follows from the kind.
    """

    V: int = 1
    L: int = 1
    kind: str = "decoder"
    vectors: bool = False
    positions: str = ""
    max_positions: int = 64
    embedding_scale: float = 1.0
    embedding_norm: bool = False
    no_final_norm: bool = False
    tied: bool = False
    head_bias: bool = False

    def __post_init__(self) -> None:
        pick(("decoder", "encoder", "both"), "kind", self.kind)
        super().__post_init__()
        _ = self.model

    @cached_property
    def model(self) -> ModelConfig:
        return self.configured()

    def configured(self) -> ModelConfig:
        """What model is made of, once for each case."""
        decodes = self.kind != "encoder"
        return ModelConfig(
            encoder=self._stack(causal=False, cross=False, vectors=self.vectors) if self.kind != "decoder" else None,
            decoder=self._stack(causal=True, cross=self.kind == "both", vectors=False) if decodes else None,
            tied=self.tied and decodes,
            head_bias=self.head_bias and decodes,
        )

    def _stack(self, *, causal: bool, cross: bool, vectors: bool) -> StackConfig:
        return StackConfig(
            block=replace(self.block, causal=causal, cross=self.plain if cross else None),
            layers=self.L,
            inputs="vectors" if vectors else "ids",
            vocabulary=0 if vectors else self.V,
            positions=self.positions or None,  # type: ignore[arg-type]
            max_positions=self.max_positions if self.positions == "learned" else 0,
            embedding_scale=1.0 if vectors else self.embedding_scale,
            embedding_norm=self.embedding_norm,
            final_norm=not self.no_final_norm,
        )
