"""Cases of encoders and decoders: whole sequences through a model of any configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from hypothesis import strategies as st

from gaugeblock.conformance.case import Inputs
from gaugeblock.conformance.recipes.feedforward import LAYOUTS
from gaugeblock.conformance.recipes.model import PADS, TOKENS, padded
from gaugeblock.conformance.strategies import Draw, fields_of, pick
from gaugeblock.conformance.strategies.compositions import ModelFields, weights_of
from gaugeblock.conformance.strategies.model_features import NEAREST, features, fewer_pads
from gaugeblock.spec.backend import Backend
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.precision import Format
from gaugeblock.spec.reference import model as reference
from gaugeblock.spec.reference.bounded import Bits
from gaugeblock.spec.reference.program import Known, Step
from gaugeblock.spec.weights import part, shapes

ARRAYS = ("token_mask", "memory", "memory_mask")  # of a call, beside the tokens or vectors and the weights


@dataclass(frozen=True, kw_only=True)
class ModelCase(ModelFields):
    """A model, and one call of encode or logits on it.

    Where the model has both stacks, encode says that the encoder is called; the decoder then has nothing to do, and
    where the decoder is called its memory of S rows is random. tokens, pads and memory_pads name recipes of
    recipes.model, "" is no mask; outside puts ids that the vocabulary has not where the pads are. apart gives the
    encoder other settings than the decoder. layout says how the arrays lie in memory, and at is read by the checks
    that choose one place of many.
    """

    component: ClassVar[str] = "model"
    method: ClassVar[str] = "logits"
    positional: ClassVar[tuple[str, ...]] = ()
    shape_clause: ClassVar[str] = "MODEL-SHAPES"
    dtype_clause: ClassVar[str] = "MODEL-DTYPE"
    sizes: ClassVar[tuple[str, ...]] = ("B", "T", "M", "H", "K", "D", "E", "F", "V", "L")

    S: int = 1
    encode: bool = False
    apart: bool = False
    tokens: str = "random"
    pads: str = ""
    outside: bool = False
    memory_pads: str = ""
    last_only: bool = False
    layout: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        pick(TOKENS, "tokens", self.tokens)
        pick(("", *PADS), "pads", self.pads)
        pick(("", *PADS), "memory_pads", self.memory_pads)
        pick(LAYOUTS, "layout", self.layout)
        if self.outside and not self.pads:
            raise ConfigError(f"case: outside needs pads [{self}]")

    def configured(self) -> ModelConfig:
        config = super().configured()
        if config.encoder is None or config.decoder is None or not self.apart:
            return config
        return replace(config, encoder=_other(config.encoder))

    @property
    def encodes(self) -> bool:
        """Whether the encoder is called, not the decoder."""
        return self.kind == "encoder" or (self.kind == "both" and self.encode)

    @cached_property
    def stack(self) -> StackConfig:
        """The stack that is called."""
        called = self.model.encoder if self.encodes else self.model.decoder
        assert called is not None
        return called

    @property
    def called(self) -> str:
        return "encode" if self.encodes else "logits"

    @property
    def remembers(self) -> bool:
        """Whether the call is given a memory."""
        return self.kind == "both" and not self.encodes

    @property
    def reads(self) -> str:
        """The name of the input that goes through the stack."""
        return self.stack.inputs if self.stack.inputs == "vectors" else "tokens"

    def inputs(self, io: Format) -> Inputs:
        made = {**self.filled(shapes(self.model), io), **self.sequence(io)}
        if self.remembers:
            made["memory"] = self.rows("memory", (self.B, self.S, self.M), io)
            if self.memory_pads:
                made["memory_mask"] = padded(self.memory_pads, self.B, self.S, self.random("memory_mask"))
        return {name: LAYOUTS[self.layout](x) for name, x in made.items()}

    def sequence(self, io: Format) -> dict[str, Any]:
        """The tokens or vectors, and their mask where there is one."""
        made: dict[str, Any] = {"token_mask": self.real} if self.pads else {}
        if self.reads == "vectors":
            return {"vectors": self.rows("vectors", (self.B, self.T, self.M), io), **made}
        ids = TOKENS[self.tokens](self.B, self.T, self.V, self.random("tokens"))
        return {"tokens": self.hidden_ids(ids, self.real) if self.outside else ids, **made}

    def hidden_ids(self, ids: Any, real: Bits) -> Any:
        """The ids, with some that the vocabulary has not, negative ones among them, where nothing is real."""
        wrong = np.where(self.random("outside").random(ids.shape) < 0.5, -100, self.V + 7)
        return np.where(real, ids, wrong)

    @property
    def real(self) -> Bits:
        """Which of the tokens are real, (B, T)."""
        return padded(self.pads or "full", self.B, self.T, self.random("token_mask"))

    def prepared(self, backend: Backend, arrays: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
        model = self.loaded(backend, arrays)
        keywords = {name: arrays[name] for name in ARRAYS if name in arrays}
        return self.called, [model, arrays[self.reads]], {**keywords, **self.options()}

    def loaded(self, backend: Backend, arrays: Mapping[str, Any]) -> Any:
        """The backend's model of the weights among the arrays."""
        return backend.load(weights_of(arrays), self.model)  # type: ignore[attr-defined]

    def options(self) -> Mapping[str, Any]:
        return {"last_only": True} if self.last_only and not self.encodes else {}

    def program(self, inputs: Inputs) -> Sequence[Step]:
        weights = weights_of(inputs)
        now = reference.Tokens.of(inputs[self.reads], inputs.get("token_mask"))
        if self.encodes:
            return reference.stack(self.stack, part(weights, "encoder"), now, "encoder.")
        made = reference.decoder(weights, self.model, now, memory_mask=inputs.get("memory_mask"))
        return reference.at_last(made, now) if self.last_only else made

    def given(self, inputs: Inputs) -> Known:
        return {name: inputs[name] for name in ("vectors", "memory") if name in inputs}

    def free(self, inputs: Inputs, step: str, shape: tuple[int, ...]) -> Bits | None:
        real = np.asarray(inputs.get("token_mask", np.ones((self.B, self.T), bool)), bool)
        name = step.rpartition(".")[2]
        if name in ("key", "value") and step.endswith(f"cross.{name}"):
            mask = inputs.get("memory_mask")
            return None if mask is None else ~np.asarray(mask, bool)[:, None, :, None]
        if "token_mask" not in inputs and self.T:
            return None
        if name == "logits" and self.last_only:
            return np.asarray(~np.any(real, axis=1)[:, None, None])  # (B, 1, 1)
        if name == "bias":
            return np.asarray(~(real[:, None, :, None] & real[:, None, None, :]))  # (B, 1, T, S)
        return np.asarray(~real[:, None, :, None] if len(shape) == 4 else ~real[..., None])

    def result(self, inputs: Inputs) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
        width = self.M if self.encodes else self.V
        return (self.B, 1 if self.last_only and not self.encodes else self.T, width), None

    def used(self) -> frozenset[str]:
        return features(self)

    def without(self, feature: str) -> Self:
        if feature.startswith("padding."):
            return replace(self, **fewer_pads(feature, self.pads))
        return self.changed(**NEAREST[feature](self))

    def changed(self, **fields: Any) -> Self:
        """The case with other fields; vectors that no weight would meet meet a layer."""
        made = {name: fields.get(name, getattr(self, name)) for name in BARE}
        layer: dict[str, Any] = {"L": 1} if is_bare(made) else {}
        return replace(self, **{**fields, **layer})


def _other(encoder: StackConfig) -> StackConfig:
    """An encoder that is built otherwise than the decoder beside it: whoever mixes up the two will show it."""
    block = encoder.block
    block = replace(
        block,
        placement="post" if block.placement == "pre" else "pre",
        norm="layer" if block.norm == "rms" else "rms",
        eps=block.eps + 0.01,
        attention=replace(block.attention, rotary=None, alibi=False, window=None),
    )
    return replace(encoder, block=block, layers=encoder.layers + 1, final_norm=not encoder.final_norm)


class Size(NamedTuple):
    """The axes of a call and the sizes of a model."""

    B: int
    T: int
    M: int
    H: int
    K: int
    D: int
    E: int
    F: int
    V: int
    L: int
    S: int


# The axes differ from one another, and so do H * D, K * D, H * E and M, but for one model of the usual shape.
SIZES = [
    Size(B=2, T=4, M=6, H=3, K=1, D=2, E=5, F=7, V=9, L=1, S=8),
    Size(B=3, T=5, M=10, H=6, K=2, D=4, E=7, F=9, V=11, L=1, S=1),
    Size(B=1, T=6, M=8, H=4, K=4, D=2, E=2, F=5, V=13, L=2, S=3),
    Size(B=2, T=1, M=4, H=6, K=3, D=5, E=3, F=8, V=7, L=1, S=4),
    Size(B=2, T=3, M=5, H=2, K=1, D=4, E=6, F=10, V=8, L=2, S=7),
]
LARGE = [Size(B=2, T=7, M=16, H=6, K=3, D=8, E=4, F=11, V=17, L=2, S=5)]
FEW = [SIZES[0], SIZES[4]]
PAIRS = [SIZES[4]._replace(B=1, T=2)]  # a pad beside it leaves one token
LONG = [Size(B=1, T=17, M=6, H=2, K=1, D=2, E=3, F=5, V=19, L=1, S=4)]
AT = 251  # values of at; a prime, so that it goes with nothing
NOTHING = [SIZES[0]._replace(**{name: 0}) for name in "TB"]

PADDED = ("left", "right", "middle", "ragged")
BIASES = ("", "all", "query+value+output", "key")
WINDOWS = (None, (1, 1), (2, None), (None, 0), (0, 1))
NETWORKS = ((True, "silu"), (False, "relu"), (False, "gelu"), (False, "gelu_tanh"), (False, "silu"))
CALL: dict[str, tuple[Any, ...]] = {
    "kind": ("decoder", "both"),
    "encode": (False,),
    "pads": ("", *PADDED),
    "outside": (False, True),
    "memory_pads": ("", "full", "left", "ragged"),
    "last_only": (False, True),
}
FREE: dict[str, tuple[Any, ...]] = {
    "norm": ("rms", "layer"),
    "placement": ("pre", "post"),
    "eps": (1e-5, 0.1),
    "bias": BIASES,
    "ffn_bias": (False, True),
    "positions": ("", "learned", "sinusoidal"),
    "rotary": ("", "half", "interleaved"),
    "rotary_dim": (None, 2),
    "base": (10000.0, 100.0),
    "scaling": ("", "linear4", "yarn4", "llama3-64"),
    "alibi": (False, True),
    "window": WINDOWS,
    "scale": (None, 0.6),
    "embedding_scale": (1.0, 2.3),
    "embedding_norm": (False, True),
    "no_final_norm": (False, True),
    "tied": (False, True),
    "head_bias": (False, True),
    "vectors": (False, True),
    "apart": (False, True),
    "tokens": ("random", "distinct"),
    "x": ("normal", "scaled"),
}


def cases(draw: Draw, *, sizes: list[Size] = SIZES, **choices: Any) -> st.SearchStrategy[ModelCase]:
    """Cases over these sizes; every field that choices do not restrict, or name one value of, is drawn freely.

    choices maps a field of ModelCase to a tuple of values, the first of which is the simplest. What does not fit
    together is bent to what does.
    """

    def build(seed: int, given: dict[str, Any]) -> ModelCase:
        size, (gated, activation) = given.pop("size"), given.pop("network")
        made = {**size._asdict(), "gated": gated, "activation": activation, "at": seed % AT, **given}
        return ModelCase(**fitting({**made, "seed": seed}))

    pool = draw.pool(sizes, LARGE if sizes is SIZES else [])
    fields = {"size": pool, "network": NETWORKS, **CALL, **FREE, **choices}
    return st.builds(build, st.integers(0, 2**16 - 1), fields_of(fields))


def fitting(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a case, with those that do not fit together bent: widths to their rotation and sinusoids."""
    made = dict(given)
    if made["positions"] == "sinusoidal":
        made["M"] += made["M"] % 2
    if not made["rotary"]:
        made |= {"rotary_dim": None, "scaling": "", "base": 10000.0}
    elif made["D"] % 2 and made["rotary_dim"] is None:
        made["rotary_dim"] = made["D"] - 1
    if made["kind"] != "both":
        made |= {"encode": False, "apart": False, "memory_pads": ""}
    if made["kind"] == "encoder":
        made |= {"tied": False, "head_bias": False}
    if made["kind"] == "decoder":
        made["vectors"] = False
    if made["encode"] or made["kind"] == "encoder":
        made |= {"last_only": False, "memory_pads": ""}
    if not made["pads"]:
        made["outside"] = False
    if is_bare(made):
        made["no_final_norm"] = False
    return made


BARE = ("kind", "vectors", "L", "positions", "embedding_norm", "no_final_norm")


def is_bare(fields: Mapping[str, Any]) -> bool:
    """Whether an encoder would have no weights at all: no configuration."""
    kind, vectors, L, positions, embedding_norm, no_final_norm = (fields[name] for name in BARE)
    normed = embedding_norm or not no_final_norm
    return bool(kind == "encoder" and vectors and not L and positions != "learned" and not normed)
