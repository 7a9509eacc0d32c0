"""The gradients of encoders and of a decoder's logits (source 8), and what may be lost on the way to them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec import weights as names
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.bounded import Bounded, Uncertain, given, is_held, moved
from gaugeblock.spec.reference.gradients.blocks import backwards, sublayers
from gaugeblock.spec.reference.gradients.multihead import finished
from gaugeblock.spec.reference.gradients.positions import gathered
from gaugeblock.spec.reference.gradients.pullbacks import Back, Parts, Pulled, Weights, linear, merged, norm, under
from gaugeblock.spec.reference.model import Tokens
from gaugeblock.spec.reference.multihead import View, view
from gaugeblock.spec.reference.positions import sinusoidal

EMBEDDING = "embedding.weight"
TABLE = f"decoder.{EMBEDDING}"


def logits(
    weights: Weights,
    config: ModelConfig,
    tokens: ArrayLike,
    dy: ArrayLike,
    *,
    token_mask: ArrayLike | None = None,
    memory: ArrayLike | None = None,
    memory_mask: ArrayLike | None = None,
    contract: Contract = EXACT,
) -> dict[str, Bounded]:
    """The gradients of every weight, and of memory where there is one, for the cotangent dy of the logits.

        head   dW = x^T dy,   db = sum dy,   dx = dy W^T;   table   each row sums what its readers got, times the scale

    and between them the pullbacks of the blocks and norms. A tied table sums what both of its uses give it. Rows of
    the tables that no real token reads get nothing through them. dy must be zero at pads, where logits are unspecified.
    The arguments are those of spec.model.Decoder, dy (B, T, V) -> values and errors in the shapes of the weights and of
    memory, by their names. Raises ShapeError, ConfigError.
    Clauses: MODEL-GRADIENT, MODEL-GRADIENT-UNREAD, MODEL-GRADIENT-CAUSAL, MODEL-GRADIENT-TIED.
    """
    assert config.decoder is not None
    now = Tokens.of(tokens, token_mask)
    other = None if memory is None else given(memory, contract.acc)
    hides = None if memory_mask is None else np.asarray(memory_mask, bool)[:, None, None, :]
    with np.errstate(all="ignore"):
        x, back = _stack(names.part(weights, "decoder"), config.decoder, now, contract, memory=other, hides=hides)
        _, head = linear(x, _head(weights, config), "head", contract)
        found = head(given(dy, contract.acc))
        (dx,) = found.pop("x")
        below = under("decoder", back(dx))
        del below["x"]  # ids have no cotangent
        by_head = found.pop("head.weight") if config.tied else []
        below[TABLE] = [_table(weights[TABLE], now, below[TABLE], by_head, contract)]
        if "context" in below:
            below["memory"] = below.pop("context")
        return finished(merged(below, found), contract)


def encode(
    weights: Weights,
    config: ModelConfig,
    tokens_or_vectors: ArrayLike,
    dy: ArrayLike,
    *,
    token_mask: ArrayLike | None = None,
    contract: Contract = EXACT,
) -> dict[str, Bounded]:
    """The gradients of every weight of an encoder, and of vectors where it takes these, for the cotangent dy.

    The arguments are those of spec.model.Encoder, dy (B, T, M), zero at pads -> values and errors in the shapes of the
    weights and of the vectors, by their names. Raises ShapeError, ConfigError.
    Clauses: MODEL-GRADIENT, MODEL-GRADIENT-UNREAD.
    """
    c = config.encoder
    assert c is not None
    now = Tokens.of(tokens_or_vectors, token_mask)
    with np.errstate(all="ignore"):
        _, back = _stack(names.part(weights, "encoder"), c, now, contract)
        below = back(given(dy, contract.acc))
        dx = below.pop("x")
        if c.inputs == "ids":
            below[EMBEDDING] = [_table(weights[f"encoder.{EMBEDDING}"], now, below[EMBEDDING], [], contract)]
        inputs = {"vectors": dx} if c.inputs == "vectors" else {}
        return finished({**under("encoder", below), **inputs}, contract)


def _head(weights: Weights, config: ModelConfig) -> Weights:
    table = np.asarray(weights[TABLE]).T if config.tied else weights["head.weight"]
    return {"head.weight": table, **({"head.bias": weights["head.bias"]} if config.head_bias else {})}


def _stack(
    weights: Weights,
    c: StackConfig,
    now: Tokens,
    contract: Contract,
    *,
    memory: Bounded | None = None,
    hides: Any = None,
) -> Pulled:
    """A stack from its inputs on; the gradient of its table is still that of the rows that were read, (B, T, M)."""
    block = c.block
    x, inputs = _inputs(weights, c, now, contract)
    seen = view(now.positions, now.positions, causal=block.causal, window=block.attention.window, real=now.real)
    crossing = View(np.ones((1, 1, 1, 1), bool) if hides is None else hides, 0, 0)
    layers: list[Back] = [inputs]
    for n in range(c.layers):
        part = names.part(weights, f"layers.{n}")
        x, back = sublayers(x, part, block, seen, crossing, contract, context=memory)
        layers.append(_named(f"layers.{n}", back))
    if c.final_norm:
        x, back = norm(x, names.part(weights, "final_norm"), block.norm, block.eps, contract)
        layers.append(_named("final_norm", back))

    def through(dy: Bounded) -> Parts:
        return backwards(layers, dy, contract)

    return x, through


def _inputs(weights: Weights, c: StackConfig, now: Tokens, contract: Contract) -> Pulled:
    """Rows of the table times the scale, or vectors, plus those of the positions, through the norm if there is one."""
    a, block, back, scale = Arithmetic(contract), c.block, None, c.embedding_scale
    held = Bounded(np.array(scale), np.where(is_held(scale, contract.acc), 0.0, abs(scale) * contract.acc.u))
    ids = c.inputs == "ids"
    x = given(np.asarray(weights[EMBEDDING])[np.where(now.new_real, now.ids, 0)] if ids else now.ids, contract.acc)
    x = x if scale == 1 else a.result(a.mul(x, held))
    at = np.where(now.new_real, np.atleast_2d(now.positions), 0)  # (B, T)
    if c.positions is not None:
        rows: Uncertain = sinusoidal(at, block.width, contract=contract)
        rows = weights["positions.weight"][at] if c.positions == "learned" else rows
        x = a.result(a.add(x, given(rows, contract.acc)))
    if c.embedding_norm:
        x, back = norm(x, names.part(weights, "embedding_norm"), block.norm, block.eps, contract)

    def through(dy: Bounded) -> Parts:
        found = under("embedding_norm", back(dy)) if back else {"x": [dy]}
        (dx,) = found.pop("x")
        if c.positions == "learned":
            size = np.shape(weights["positions.weight"])
            found["positions.weight"] = [gathered((size[0], size[1]), at, dx, contract)]
        own = {EMBEDDING: [dx if scale == 1 else a.result(a.mul(dx, held))]} if ids else {}
        return {**found, **own, "x": [dx]}

    return x, through


def _table(table: Any, now: Tokens, read: list[Bounded], by_head: list[Bounded], contract: Contract) -> Bounded:
    """The rows of the table from their readers, and from the head where the table is tied to it."""
    size, (dx,) = np.shape(table), read
    beside = [moved(g, np.transpose) for g in by_head]
    return gathered((size[0], size[1]), np.where(now.new_real, now.ids, 0), dx, contract, beside=beside)


def _named(prefix: str, back: Back) -> Back:
    return lambda dy: under(prefix, back(dy))
