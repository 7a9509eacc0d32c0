"""Encoders and decoders as the specification defines them: programs of named steps (spec.reference.program)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec import weights as names
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference import blocks, multihead
from gaugeblock.spec.reference.arithmetic import Arithmetic, exact
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, given, is_held
from gaugeblock.spec.reference.multihead import View, Weights
from gaugeblock.spec.reference.positions import sinusoidal
from gaugeblock.spec.reference.program import Step, first_order

Ints = Any


def encode(
    weights: Weights,
    config: ModelConfig,
    tokens_or_vectors: ArrayLike,
    *,
    token_mask: ArrayLike | None = None,
    contract: Contract = EXACT,
) -> Expected:
    """The rows that leave the encoder and the first-order bound on them; rows at pads are free.

    The arguments are those of spec.model.Encoder -> value and err (B, T, M) float64. Clauses: MODEL-ENCODE.
    """
    assert config.encoder is not None
    arrays = {"vectors": np.asarray(tokens_or_vectors)} if config.encoder.inputs == "vectors" else {}
    now = Tokens.of(tokens_or_vectors, token_mask)
    made = first_order(stack(config.encoder, names.part(weights, "encoder"), now, "encoder."), arrays, contract)
    return Expected(made.value, made.err, free=~now.new_real[..., None])


def logits(
    weights: Weights,
    config: ModelConfig,
    tokens: ArrayLike,
    *,
    token_mask: ArrayLike | None = None,
    memory: ArrayLike | None = None,
    memory_mask: ArrayLike | None = None,
    last_only: bool = False,
    contract: Contract = EXACT,
) -> Expected:
    """The logits after each token and the first-order bound on them; rows at pads are free.

    The arguments are those of spec.model.Decoder -> value and err (B, T, V), or (B, 1, V), float64.
    Clauses: MODEL-LOGITS, MODEL-LAST-ONLY.
    """
    arrays = {} if memory is None else {"memory": np.asarray(memory)}
    now = Tokens.of(tokens, token_mask)
    program = decoder(weights, config, now, memory_mask=memory_mask)
    made = first_order(at_last(program, now) if last_only else program, arrays, contract)
    real = np.any(now.new_real, axis=1, keepdims=True) if last_only else now.new_real
    return Expected(made.value, made.err, free=~real[..., None])


@dataclass(frozen=True)
class Tokens:
    """The new columns of a call and all columns so far: ids or vectors (B, T, ...), T, real (B, S); padded or not."""

    ids: Ints
    T: int
    real: Bits
    padded: bool

    @classmethod
    def of(cls, tokens: ArrayLike, token_mask: ArrayLike | None = None, past: ArrayLike | None = None) -> "Tokens":
        """tokens (B, T) or vectors (B, T, M), token_mask (B, T) of them, past (B, S - T) of the columns before."""
        ids = np.asarray(tokens)
        B, T = ids.shape[:2]
        real = np.ones((B, T), bool) if token_mask is None else np.asarray(token_mask, bool)
        before = np.ones((B, 0), bool) if past is None else np.asarray(past, bool)
        padded = token_mask is not None or not bool(np.all(before))
        return cls(ids, T, np.concatenate([before, real], axis=1), padded)

    @property
    def positions(self) -> Ints:
        """The number of real tokens before each, (S,) or where there are pads (B, S)."""
        counted: Ints = np.cumsum(self.real, axis=1) - self.real
        return counted if self.padded else np.arange(self.real.shape[1])

    @property
    def new_positions(self) -> Ints:
        """The positions of the new columns, (T,) or (B, T)."""
        return self.positions[..., self.real.shape[1] - self.T :]

    @property
    def new_real(self) -> Bits:
        """Which new columns are no pads, (B, T)."""
        return self.real[:, self.real.shape[1] - self.T :]

    @property
    def last(self) -> Ints:
        """The new column of each row's last real token, (B,); any column where it has none, of at least one."""
        return np.max(np.where(self.new_real, np.arange(self.T), 0), axis=1, initial=0)


def decoder(
    weights: Weights,
    config: ModelConfig,
    now: Tokens,
    *,
    memory_mask: ArrayLike | None = None,
    past: bool = False,
) -> list[Step]:
    """The program from ids to logits.

    past says that every layer has the columns of earlier calls as decoder.layers.N.attention.past.key and .value, and
    that the keys and values of the memory were projected before, as decoder.layers.N.cross.key and .value.
    """
    assert config.decoder is not None
    c, part = config.decoder, names.part(weights, "decoder")
    crossing = None if memory_mask is None else np.asarray(memory_mask, bool)[:, None, None, :]
    made = stack(c, part, now, "decoder.", crossing=crossing, past=past)
    return [*made, _head(made[-1].name, weights, config)]


def at_last(steps: Sequence[Step], now: Tokens) -> list[Step]:
    """The program of the logits after each row's last real token; a row without one may hold anything.

    Clauses: MODEL-LAST-ONLY.
    """
    head, rows = steps[-1], now.last[:, None, None]

    def chosen(x: Any) -> Any:
        if x.shape[-2] == 0:
            return np.zeros((*x.shape[:-2], 1, x.shape[-1]))
        return np.take_along_axis(x, np.broadcast_to(rows, (*x.shape[:-2], 1, 1)), axis=-2)  # (..., B, 1, M)

    def bounded(contract: Contract, x: Any) -> Bounded:
        return head.bounded(contract, chosen(np.asarray(x)))

    return [*steps[:-1], replace(head, value=lambda x: head.value(chosen(x)), bounded=bounded)]


def last_only(steps: Sequence[Step], now: Tokens) -> list[Step]:
    """The same program, whose logits are those after each row's last real new token, (B, 1, V).

    A row without one shows its first column. Clauses: MODEL-LAST-ONLY.
    """
    head = steps[-1]
    B, T = now.new_real.shape
    at = np.max(np.where(now.new_real, np.arange(T), 0), axis=1, initial=0)

    def pick(x: Any) -> Any:
        x = np.asarray(x) if T else np.zeros((*np.shape(x)[:-2], 1, np.shape(x)[-1]))
        return x[..., np.arange(B), at, :][..., None, :]  # (..., B, 1, M)

    def value(x: Any) -> Any:
        return head.value(pick(x))

    return [*steps[:-1], replace(head, value=value, bounded=lambda contract, x: head.bounded(contract, pick(x)))]


def stack(
    config: StackConfig,
    weights: Weights,
    now: Tokens,
    prefix: str,
    *,
    crossing: Bits | None = None,
    past: bool = False,
) -> list[Step]:
    """The program of a stack: inputs, positions, the blocks, the final norm. Clauses: MODEL-STACK."""
    block = config.block
    made = _inputs(config, weights, now, prefix)
    seen = multihead.view(
        now.new_positions, now.positions, causal=block.causal, window=block.attention.window, real=now.real
    )
    hides = View(np.ones((1, 1, 1, 1), bool) if crossing is None else crossing, 0, 0)
    for n in range(config.layers):
        here = f"{prefix}layers.{n}."
        projected = (f"{here}cross.key", f"{here}cross.value") if past and block.cross is not None else None
        made += blocks.steps(
            block,
            names.part(weights, f"layers.{n}"),
            made[-1].name,
            seen,
            hides,
            context="memory",
            prefix=here,
            past=past,
            projected=projected,
        )
    if config.final_norm:
        part = names.part(weights, "final_norm")
        made.append(blocks.normalization(f"{prefix}final_norm", made[-1].name, part, block.norm, block.eps))
    return made


def projections(weights: Weights, config: ModelConfig) -> list[Step]:
    """The keys and values of a memory in every layer, which start makes. Clauses: MODEL-CROSS-ONCE."""
    assert config.decoder is not None and config.decoder.block.cross is not None
    cross, made = config.decoder.block.cross, list[Step]()
    for n in range(config.decoder.layers):
        part = names.part(weights, f"decoder.layers.{n}.cross")
        for name in ("key", "value"):
            prefix = f"decoder.layers.{n}.cross."
            made.append(multihead.projection(prefix, name, "memory", part, cross.kv_heads))
    return made


def _inputs(config: StackConfig, weights: Weights, now: Tokens, prefix: str) -> list[Step]:
    """The embedding, plus positions, through its norm, as configured."""
    made = [_embedding(config, weights, now, f"{prefix}embedding")]
    if config.positions is not None:
        made.append(_positions(config, weights, now, f"{prefix}positions"))
        made.append(blocks.addition(f"{prefix}embedded", *(step.name for step in made)))
    if config.embedding_norm:
        part = names.part(weights, "embedding_norm")
        kind, eps = config.block.norm, config.block.eps
        made.append(blocks.normalization(f"{prefix}embedding_norm", made[-1].name, part, kind, eps))
    return made


def _embedding(config: StackConfig, weights: Weights, now: Tokens, name: str) -> Step:
    """The rows of the ids, times the scale, which may be held in the accumulation format; or the vectors."""
    if config.inputs == "vectors":
        return Step(name, ("vectors",), lambda x: x, lambda _, x: exact(np.asarray(x).astype(np.float64)))
    table, scale = np.asarray(weights["embedding.weight"]), config.embedding_scale
    rows = table[np.where(now.new_real, now.ids, 0)]  # (B, T, M)

    def bounded(contract: Contract) -> Bounded:
        acc, arithmetic = contract.acc, Arithmetic(contract)
        held = Bounded(np.array(scale), np.where(is_held(scale, acc), 0.0, abs(scale) * acc.u))
        return arithmetic.result(given(rows, acc) if scale == 1 else arithmetic.mul(given(rows, acc), held))

    return Step(name, (), lambda: rows.astype(np.float64) * scale, bounded)


def _positions(config: StackConfig, weights: Weights, now: Tokens, name: str) -> Step:
    """The rows that are added for the positions, (1, T, M) or (B, T, M)."""
    at = np.atleast_2d(now.new_positions)
    at = np.where(now.new_real, at, 0) if now.padded else at  # a pad's row may be any of the table
    if config.positions == "learned":
        rows = np.asarray(weights["positions.weight"])[at].astype(np.float64)
        return Step(name, (), lambda: rows, lambda _: exact(rows))

    def bounded(contract: Contract) -> Bounded:
        return sinusoidal(at, config.block.width, contract=contract)

    return Step(name, (), lambda: bounded(EXACT).value, bounded)


def _head(x: str, weights: Weights, config: ModelConfig) -> Step:
    """The logits: by the head, or by the transposed embedding. Clauses: MODEL-LOGITS, MODEL-TIED."""
    table = np.asarray(weights["decoder.embedding.weight"]).T if config.tied else np.asarray(weights["head.weight"])
    head: Mapping[str, Any] = {"head.weight": table}
    head = {**head, "head.bias": weights["head.bias"]} if config.head_bias else head
    wide = {n: np.asarray(w).astype(np.float64) for n, w in head.items()}

    def value(x: Any) -> Any:
        y = x @ wide["head.weight"]
        return y + wide["head.bias"] if config.head_bias else y

    return Step("logits", (x,), value, lambda contract, x: multihead.layer(contract, x, head, "head"), rows=True)
