"""Multi-head attention as the specification defines it: a program of named steps (spec.reference.program)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.attention import Window
from gaugeblock.spec.config import AttentionConfig
from gaugeblock.spec.multihead import dims
from gaugeblock.spec.precision import EXACT, Contract
from gaugeblock.spec.reference import formulas
from gaugeblock.spec.reference.arithmetic import Arithmetic
from gaugeblock.spec.reference.attention import attention
from gaugeblock.spec.reference.bounded import Bits, Bounded, Expected, given
from gaugeblock.spec.reference.feedforward import linear
from gaugeblock.spec.reference.positions import alibi_bias
from gaugeblock.spec.reference.program import Known, Step, first_order
from gaugeblock.spec.reference.rotary import rotate

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class View:
    """What the queries of a layer may see, and where queries and keys stand.

    visible (B|1, H|1, T, S); queries (T,) or (B, T) and keys (S,) or (B, S) are positions.
    """

    visible: Bits
    queries: ArrayLike
    keys: ArrayLike


def multi_head_attention(
    x: ArrayLike,
    weights: Weights,
    config: AttentionConfig,
    *,
    context: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    causal: bool = False,
    contract: Contract = EXACT,
) -> Expected:
    """The value of a multi-head attention call and the first-order bound on it.

    The arguments are those of spec.multihead.MultiHeadAttention -> value and err (B, T, M) float64; err is inf where
    the bound is too wide to be linear. Raises ShapeError, ConfigError. Clauses: all of spec/clauses/multihead.md.
    """
    arrays = {"x": np.asarray(x), **({} if context is None else {"context": np.asarray(context)})}
    program = call(arrays, weights, config, positions=positions, mask=mask, causal=causal)
    made = first_order(program, arrays, contract)
    return Expected(made.value, made.err)


def call(
    arrays: Known,
    weights: Weights,
    config: AttentionConfig,
    *,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    causal: bool = False,
) -> list[Step]:
    """The program of one call on arrays x, and context where it is given."""
    seen = sight(arrays, weights, config, positions=positions, mask=mask, causal=causal)
    return steps(config, weights, "x", seen, context="context" if "context" in arrays else None)


def sight(
    arrays: Known,
    weights: Weights,
    config: AttentionConfig,
    *,
    positions: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    causal: bool = False,
) -> View:
    """What the queries of a call may see: everything of a context, of x itself what causality and window leave."""
    crosses = "context" in arrays
    context = np.shape(arrays["context"]) if crosses else None
    d = dims(np.shape(arrays["x"]), {n: np.shape(w) for n, w in weights.items()}, config, context=context)
    at = np.arange(d.T) if positions is None else np.asarray(positions)
    seen = View(np.ones((1, 1, d.T, d.S), bool), at, at)
    if not crosses:
        seen = view(at, at, causal=causal, window=config.window)
    if mask is not None:
        seen = View(seen.visible & np.asarray(mask, bool), seen.queries, seen.keys)
    return seen


def view(
    queries: ArrayLike, keys: ArrayLike, *, causal: bool, window: Window | None, real: ArrayLike | None = None
) -> View:
    """Which keys each query sees: causal by column, window by position, pads hidden.

        causal   j <= i + S - T          window   -left <= p_j - p_i <= right

    queries (T,) or (B, T), keys (S,) or (B, S), real (B, S) bool -> visible (B|1, 1, T, S).
    Clauses: MHA-CAUSAL, MHA-WINDOW, MHA-MASK. Source: 5.2.
    """
    p, r = (np.atleast_2d(np.asarray(positions, np.int64)) for positions in (queries, keys))
    T, S = p.shape[1], r.shape[1]
    visible = np.ones((1, 1, T, S), bool)
    if causal:
        visible = visible & (np.arange(S) <= np.arange(T)[:, None] + S - T)
    if window is not None:
        away = r[:, None, None, :] - p[:, None, :, None]  # (B|1, 1, T, S)
        left, right = window
        visible = visible & (away >= -left if left is not None else True)
        visible = visible & (away <= right if right is not None else True)
    if real is not None:
        visible = visible & np.asarray(real, bool)[:, None, None, :]
    return View(visible, queries, keys)


def steps(
    config: AttentionConfig,
    weights: Weights,
    x: str,
    seen: View,
    *,
    context: str | None = None,
    prefix: str = "",
    past: bool = False,
    projected: tuple[str, str] | None = None,
) -> list[Step]:
    """The program of one layer; x and context name earlier arrays, prefix stands before the names of the steps.

    past says that the arrays prefix + "past.key" and "past.value" hold the columns of earlier calls; projected names
    keys and values that were made before, as those of a memory are.
    """
    c, turns = config, config.rotary is not None and context is None and projected is None
    made = [projection(prefix, "query", x, weights, c.heads)]
    if projected is None:
        source = context or x
        made += [projection(prefix, name, source, weights, c.kv_heads) for name in ("key", "value")]
    q, k, v = (f"{prefix}{name}" for name in ("query", "key", "value"))
    k, v = projected or (k, v)
    if turns:
        made += [
            _rotation(f"{prefix}rotated_query", q, seen.queries, c),
            _rotation(f"{prefix}rotated_key", k, seen.queries, c),
        ]
        q, k = f"{prefix}rotated_query", f"{prefix}rotated_key"
    if past:
        made += [
            _columns(f"{prefix}keys", f"{prefix}past.key", k),
            _columns(f"{prefix}values", f"{prefix}past.value", v),
        ]
        k, v = f"{prefix}keys", f"{prefix}values"
    reads: tuple[str, ...] = (q, k, v)
    if c.alibi and context is None and projected is None:
        made.append(_alibi(f"{prefix}bias", c, seen))
        reads = (*reads, f"{prefix}bias")
    made.append(_mixture(f"{prefix}mixed", reads, c, seen.visible))
    return [*made, _output(f"{prefix}output", f"{prefix}mixed", weights)]


def layer(contract: Contract, x: Any, weights: Weights, name: str) -> Bounded:
    """x @ W + b with the error that the contract allows; x (..., in) -> (..., out). Clauses: MHA-PROJECT."""
    rows = given(np.asarray(x).reshape(-1, np.shape(x)[-1]), contract.acc)
    y = Arithmetic(contract).result(linear(rows, weights, name, contract))
    shape = (*np.shape(x)[:-1], y.value.shape[-1])
    return Bounded(y.value.reshape(shape), y.err.reshape(shape))


def projection(prefix: str, name: str, x: str, weights: Weights, heads: int) -> Step:
    """One of the projections of x, split into heads. Clauses: MHA-PROJECT, MHA-SPLIT."""
    wide = _wide(weights)

    def bounded(contract: Contract, x: Any) -> Bounded:
        y = layer(contract, x, weights, name)
        return Bounded(formulas.split(y.value, heads), formulas.split(y.err, heads))

    def value(x: Any) -> Any:
        return formulas.split(formulas.linear(x, wide, name), heads)

    return Step(f"{prefix}{name}", (x,), value, bounded, rows=True)


def _rotation(name: str, x: str, positions: ArrayLike, config: AttentionConfig) -> Step:
    rotary = config.rotary
    assert rotary is not None
    options = {"base": rotary.base, "layout": rotary.layout, "rotary_dim": rotary.rotary_dim, "scaling": rotary.scaling}

    def bounded(contract: Contract, x: Any) -> Bounded:
        return rotate(x, positions, **options, contract=contract)  # type: ignore[arg-type]

    return Step(name, (x,), lambda x: formulas.rotate(x, positions, rotary), bounded, rows=True)


def _columns(name: str, past: str, new: str) -> Step:
    def exact(_: Contract, past: Any, new: Any) -> Bounded:
        whole = np.concatenate([np.asarray(past, np.float64), np.asarray(new, np.float64)], axis=-2)
        return Bounded(whole, np.zeros_like(whole))

    return Step(name, (past, new), _joined, exact, rows=True)


def _joined(past: Any, new: Any) -> Any:
    lead = np.broadcast_shapes(past.shape[:-2], new.shape[:-2])
    return np.concatenate([np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (past, new)], axis=-2)


def _alibi(name: str, config: AttentionConfig, seen: View) -> Step:
    def bounded(contract: Contract) -> Bounded:
        return alibi_bias(config.heads, seen.queries, seen.keys, contract=contract)

    return Step(name, (), lambda: bounded(EXACT).value, bounded)


def _mixture(name: str, reads: Sequence[str], config: AttentionConfig, visible: Bits) -> Step:
    def bounded(contract: Contract, q: Any, k: Any, v: Any, bias: Any = None) -> Bounded:
        return attention(q, k, v, mask=visible, bias=bias, scale=config.scale, contract=contract)

    def value(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        return formulas.attention(q, k, v, visible=visible, scale=config.scale, bias=bias)

    return Step(name, tuple(reads), value, bounded, rows=True)


def _output(name: str, mixed: str, weights: Weights) -> Step:
    wide = _wide(weights)

    def bounded(contract: Contract, mixed: Any) -> Bounded:
        return layer(contract, formulas.join(np.asarray(mixed)), weights, "output")

    def value(mixed: Any) -> Any:
        return formulas.linear(formulas.join(mixed), wide, "output")

    return Step(name, (mixed,), value, bounded, rows=True)


def _wide(weights: Weights) -> dict[str, Any]:
    return {name: np.asarray(w).astype(np.float64) for name, w in weights.items()}
