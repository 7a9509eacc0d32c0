"""Which features of encoders and decoders a case uses, and the nearest case that does without one."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gaugeblock.spec.config import ACTIVATIONS, NORMS, PLACEMENTS, POSITIONS

if TYPE_CHECKING:
    from gaugeblock.conformance.strategies.model import ModelCase

Change = Callable[["ModelCase"], dict[str, Any]]

KINDS = ("left", "right", "middle")
SCHEMES = ("positionless", *POSITIONS, "rotary", "alibi")


def features(case: "ModelCase") -> frozenset[str]:
    """The features that a case uses, without encoder or decoder before them."""
    uses = {**_architecture(case), **_attention(case), **_call(case)}
    return frozenset(name for name, used in uses.items() if used)


def _architecture(case: "ModelCase") -> dict[str, bool]:
    """The blocks and what stands around them, in every stack that is loaded."""
    stacks = [stack for stack in (case.model.encoder, case.model.decoder) if stack is not None]
    blocks, decodes = [stack.block for stack in stacks], not case.encodes
    return {
        "ids": case.encodes and case.reads == "tokens",
        "vectors": case.reads == "vectors",
        "beside_decoder": case.encodes and case.kind == "both",
        "memory": case.remembers,
        "embedding_scale": any(stack.embedding_scale != 1 for stack in stacks),
        "embedding_norm": case.embedding_norm,
        "embedding_norm.none": not case.embedding_norm,
        "final_norm": any(stack.final_norm for stack in stacks),
        "final_norm.none": any(not stack.final_norm for stack in stacks),
        "layers.none": case.L == 0,
        **{name: any(block.placement == name for block in blocks) for name in PLACEMENTS},
        **{name: any(block.norm == name for block in blocks) for name in NORMS},
        "gated": case.gated,
        "plain": not case.gated,
        **{f"activation.{name}": case.activation == name and not case.gated for name in ACTIVATIONS},
        "feed_forward.bias": case.ffn_bias,
        "feed_forward.bias.none": not case.ffn_bias,
        "tied": decodes and case.tied,
        "untied": decodes and not case.tied,
        "head_bias": decodes and case.head_bias,
    }


def _attention(case: "ModelCase") -> dict[str, bool]:
    """The attention of the blocks."""
    return {
        "positionless": not _schemes(case) or (case.apart and case.kind == "both" and not case.positions),
        **{name: name in _schemes(case) for name in SCHEMES[1:]},
        "rotary.interleaved": case.rotary == "interleaved",
        "rotary.partial": bool(case.rotary) and case.rotary_dim not in (None, case.D),
        "rotary.scaling": bool(case.rotary) and bool(case.scaling),
        "window": case.window is not None,
        "scale": case.scale is not None,
        "grouped": case.K < case.H,
        "value_width": case.D != case.E,
        "inner_width": case.H * case.D != case.M,
        "bias": bool(case.biased),
        "bias.some": 0 < len(case.biased) < 4,
        "bias.none": not case.biased,
    }


def _call(case: "ModelCase") -> dict[str, bool]:
    """What the call is given."""
    where = pads(case.real)
    return {
        "token_mask": bool(case.pads),
        **{f"padding.{name}": name in where for name in (*KINDS, "rows")},
        "padding.ids": case.outside and case.reads == "tokens",
        "memory_mask": case.remembers and bool(case.memory_pads),
        "memory_mask.rows": case.remembers and case.memory_pads == "row",
        "last_only": case.last_only and not case.encodes,
        "empty.batch": case.B == 0,
        "empty.tokens": case.T == 0,
        "empty.memory": case.remembers and case.S == 0,
    }


def pads(real: Any) -> set[str]:
    """Where pads stand in the rows of a mask: left, right, middle of the real tokens, or in whole rows."""
    some, found = real[np.any(real, axis=1)], set()
    if len(some) < len(real) and real.shape[1]:
        found.add("rows")
    before, after = np.cumsum(some, axis=1), np.cumsum(some[:, ::-1], axis=1)[:, ::-1]
    found |= {"left"} if np.any(before == 0) else set()
    found |= {"right"} if np.any(after == 0) else set()
    return found | ({"middle"} if np.any(~some & (before > 0) & (after > 0)) else set())


def fewer_pads(feature: str, recipe: str) -> dict[str, Any]:
    """Pads of another kind, or none, in place of those that a feature names."""
    name = feature.removeprefix("padding.")
    if name == "ids":
        return {"outside": False}
    if name == "rows":
        return {"pads": "full"}
    if recipe == "ragged":
        return {"pads": "left" if name != "left" else "right"}
    return {"pads": (*KINDS, "full")[KINDS.index(name) + 1]}


def _schemes(case: "ModelCase") -> list[str]:
    """How a case tells positions apart."""
    told: dict[str, bool] = {name: case.positions == name for name in POSITIONS}
    told |= {"rotary": bool(case.rotary), "alibi": case.alibi}
    return [name for name, used in told.items() if used]


def _told_otherwise(scheme: str) -> Change:
    """Positions without a scheme: by what else tells them, or else by the next scheme."""

    def change(case: "ModelCase") -> dict[str, Any]:
        others = [name for name in _schemes(case) if name != scheme]
        turn = SCHEMES[(SCHEMES.index(scheme) + 1) % len(SCHEMES)]
        apart = case.apart and scheme != "positionless"  # an encoder apart has no positions but added ones
        return {**_told_by(case, others or [turn]), "apart": apart}

    return change


def _told_by(case: "ModelCase", schemes: list[str]) -> dict[str, Any]:
    rotary = (case.rotary or "half") if "rotary" in schemes else ""
    odd = case.D % 2 == 1 and case.rotary_dim is None
    return {
        "positions": next((name for name in POSITIONS if name in schemes), ""),
        "M": case.M + case.M % 2 if "sinusoidal" in schemes else case.M,
        "rotary": rotary,
        "rotary_dim": None if not rotary else case.D - 1 if odd else case.rotary_dim,
        "scaling": case.scaling if rotary else "",
        "alibi": "alibi" in schemes,
    }


def _whole_rotation(case: "ModelCase") -> dict[str, Any]:
    """All components turn, one more where they are odd; what was as wide as them stays so."""
    D = case.D + case.D % 2
    return {
        "rotary_dim": None,
        "D": D,
        "E": D if case.E == case.D else case.E,
        "M": case.H * D if case.M == case.H * case.D else case.M,
    }


def _inner_width(case: "ModelCase") -> dict[str, Any]:
    M = case.H * case.D
    return {"M": M, "positions": "learned" if M % 2 and case.positions == "sinusoidal" else case.positions}


def _other_activation(case: "ModelCase") -> dict[str, Any]:
    """The next activation, and behind the last one a gate."""
    last = case.activation == ACTIVATIONS[-1]
    turn = [name == case.activation for name in ACTIVATIONS].index(True) + 1
    return {"gated": True, "activation": "silu"} if last else {"activation": ACTIVATIONS[turn]}


def _other_kind(case: "ModelCase") -> dict[str, Any]:
    return {"kind": "encoder" if case.encodes else "decoder"}


NEAREST: Mapping[str, Change] = {
    "ids": lambda case: {"vectors": True},
    "vectors": lambda case: {"vectors": False},
    "beside_decoder": _other_kind,
    "memory": _other_kind,
    **{name: _told_otherwise(name) for name in SCHEMES},
    "embedding_scale": lambda case: {"embedding_scale": 1.0},
    "embedding_norm": lambda case: {"embedding_norm": False},
    "embedding_norm.none": lambda case: {"embedding_norm": True},
    "final_norm": lambda case: {"no_final_norm": True, "apart": False},
    "final_norm.none": lambda case: {"no_final_norm": False, "apart": False},
    "layers.none": lambda case: {"L": 1},
    "pre": lambda case: {"placement": "post", "apart": False},
    "post": lambda case: {"placement": "pre", "apart": False},
    "rms": lambda case: {"norm": "layer", "apart": False},
    "layer": lambda case: {"norm": "rms", "apart": False},
    "gated": lambda case: {"gated": False, "activation": ACTIVATIONS[0]},
    "plain": lambda case: {"gated": True, "activation": "silu"},
    **{f"activation.{name}": _other_activation for name in ACTIVATIONS},
    "feed_forward.bias": lambda case: {"ffn_bias": False},
    "feed_forward.bias.none": lambda case: {"ffn_bias": True},
    "tied": lambda case: {"tied": False},
    "untied": lambda case: {"tied": True},
    "head_bias": lambda case: {"head_bias": False},
    "rotary.interleaved": lambda case: {"rotary": "half"},
    "rotary.partial": _whole_rotation,
    "rotary.scaling": lambda case: {"scaling": ""},
    "window": lambda case: {"window": None},
    "scale": lambda case: {"scale": None},
    "grouped": lambda case: {"K": case.H},
    "value_width": lambda case: {"E": case.D},
    "inner_width": _inner_width,
    "bias": lambda case: {"bias": ""},
    "bias.some": lambda case: {"bias": ""},
    "bias.none": lambda case: {"bias": "all"},
    "token_mask": lambda case: {"pads": "", "outside": False},
    "memory_mask": lambda case: {"memory_pads": ""},
    "memory_mask.rows": lambda case: {"memory_pads": "full"},
    "last_only": lambda case: {"last_only": False},
    "empty.batch": lambda case: {"B": 1},
    "empty.tokens": lambda case: {"T": 1},
    "empty.memory": lambda case: {"S": 1},
}
