"""Transformer blocks: their interface and their shape rules (source 6.1; Vaswani et al. 2017; Xiong et al. 2020)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gaugeblock.spec import weights as names
from gaugeblock.spec.backend import Array
from gaugeblock.spec.config import BlockConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, ShapeError, refuse

Shape = Sequence[int]

SUBLAYERS = ("attention", "cross", "feed_forward")
# beside those of multi-head attention below attention and cross, whose output they add to the stream
TAPS = ("feed_forward", *(f"{layer}_{kind}" for layer in SUBLAYERS for kind in ("norm", "residual")))


class Block(ABC):
    """Self-attention, cross-attention where configured, feed-forward, each with a norm and a residual."""

    @abstractmethod
    def block(
        self,
        x: Array,
        weights: Mapping[str, Array],
        config: BlockConfig,
        *,
        context: Array | None = None,
        positions: Array | None = None,
        mask: Array | None = None,
        context_mask: Array | None = None,
    ) -> Array:
        """Pass the stream through the sublayers, one after another.

            pre    x = x + f(norm(x))
            post   x = norm(x + f(x))          for f = attention, then cross where there is one, then feed_forward

        x (B, T, M), context (B, S, M) if and only if config.cross is set; weights as spec.weights.block names them,
        all of x's dtype -> (B, T, M) of that dtype. positions (T,) or (B, T) integers, None is 0 to T - 1. mask bool
        (B|1, H|1, T|1, T|1) and context_mask bool (B|1, H|1, T|1, S|1), True = may attend.
        Raises ShapeError, DTypeError, PositionError, ConfigError (BLOCK-ERRORS lists what for).
        Clauses: spec/clauses/blocks.md, all of them. Source: Xiong et al. 2020, figure 1.
        """


class Dims(NamedTuple):
    """The sizes of a block call; S is the length of the context, 0 without one."""

    B: int
    T: int
    S: int
    M: int
    F: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._asdict().items())


def dims(
    x: Shape,
    weights: Mapping[str, Shape],
    config: BlockConfig,
    *,
    context: Shape | None = None,
    positions: Shape | None = None,
    mask: Shape | None = None,
    context_mask: Shape | None = None,
) -> Dims:
    """Read the sizes off the shapes of a call, or refuse them, its weights or a context that is missing or too much.

    Raises ShapeError, ConfigError. Clauses: BLOCK-SHAPES, BLOCK-WEIGHTS, BLOCK-ERRORS.
    """
    where = "block"
    if (context is None) != (config.cross is None):
        problem = "context must be given if and only if the block has cross-attention"
        raise refuse(ConfigError, "BLOCK-ERRORS", problem, where)
    if context_mask is not None and context is None:
        raise refuse(ConfigError, "BLOCK-ERRORS", "context_mask must come with a context", where)
    for name, shape in (("x", x), ("context", context)):
        if shape is not None:
            _require(len(shape) == 3, f"{name} must have rank 3, got rank {len(shape)}", where)
            _require(shape[2] == config.width, f"{name} must have the width {config.width}, got {shape[2]}", where)
    d = Dims(x[0], x[1], 0 if context is None else context[1], config.width, config.ffn_width)
    where = f"block({d})"
    _require(context is None or context[0] == d.B, f"context must have x's batch {d.B}", where)
    names.check(names.block(config), weights, {}, dtype=None, rule="BLOCK-WEIGHTS", where=where)
    if positions is not None:
        wanted = ((d.T,), (d.B, d.T))
        _require(tuple(positions) in wanted, f"positions must be (T,) or (B, T), got {tuple(positions)}", where)
    _mask("mask", mask, (d.B, config.attention.heads, d.T, d.T), where)
    _mask("context_mask", context_mask, (d.B, config.cross.heads if config.cross else 1, d.T, d.S), where)
    return d


def dtypes(
    x: str,
    weights: Mapping[str, str],
    *,
    context: str | None = None,
    positions: str | None = None,
    mask: str | None = None,
    context_mask: str | None = None,
) -> None:
    """Refuse a mixture of element types; the arguments are dtype names.

    Raises DTypeError. Clauses: BLOCK-DTYPE, BLOCK-ERRORS.
    """
    where = "block"
    floats = {"x": x, **({} if context is None else {"context": context}), **weights}
    names.check({}, {}, floats, dtype=None, rule="BLOCK-ERRORS", where=where)
    for name, kind in (("mask", mask), ("context_mask", context_mask)):
        if kind not in (None, "bool"):
            raise refuse(DTypeError, "BLOCK-ERRORS", f"{name} must be bool, got {kind}", where)
    if positions is not None and not positions.startswith(("int", "uint")):
        raise refuse(DTypeError, "BLOCK-ERRORS", f"positions must be integers, got {positions}", where)


def _mask(name: str, shape: Shape | None, full: tuple[int, ...], where: str) -> None:
    if shape is not None:
        fits = len(shape) == 4 and all(n in (1, m) for n, m in zip(shape, full, strict=True))
        _require(fits, f"{name} must be (B|1, H|1, T|1, S|1) of {full}, got {tuple(shape)}", where)


def _require(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise refuse(ShapeError, "BLOCK-SHAPES", problem, where)
