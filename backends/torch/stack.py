"""Stacks of blocks in PyTorch: a loaded model, and the way from tokens to the last hidden row (source 5, 8)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gaugeblock.backends.torch.arrays import name_of, on_host
from gaugeblock.backends.torch.blocks import Parts, TorchBlock, block_parts
from gaugeblock.backends.torch.multihead import Extend, Pair, Weights
from gaugeblock.backends.torch.positions import TorchLearnedPositions, TorchSinusoidal
from gaugeblock.backends.torch.products import laid_out
from gaugeblock.spec import model as rules
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import ModelConfig, StackConfig


@dataclass(frozen=True)
class Stack:
    """An encoder or a decoder: the weights around its layers, and those of each layer by sublayer and norm."""

    config: StackConfig
    weights: Weights
    layers: tuple[Parts, ...]


@dataclass(frozen=True)
class Model:
    """What load returns: the caller's tensors, sorted; head.weight (M, V) is the transposed embedding if tied.

    Matrices that rows are multiplied with are copies on the CPU, unless the caller's are laid out like them.
    """

    config: ModelConfig
    dtype: torch.dtype
    encoder: Stack | None
    decoder: Stack | None
    head: Weights


class TorchStack(TorchBlock, TorchSinusoidal, TorchLearnedPositions):
    """What encoders and decoders share; positions and masks are made once for all layers."""

    def load(self, weights: Weights, config: ModelConfig) -> Model:
        shapes, kinds = {n: w.shape for n, w in weights.items()}, {n: name_of(w) for n, w in weights.items()}
        dtype: torch.dtype = getattr(torch, rules.weights(shapes, kinds, config))
        head = {name: laid_out(w) if w.dim() == 2 else w for name, w in weights.items() if name.startswith("head.")}
        if config.tied:
            head["head.weight"] = weights["decoder.embedding.weight"].mT  # (V, M) -> (M, V)
        encoder, decoder = (
            None if stack is None else _stack(names.part(weights, kind), stack)
            for kind, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        )
        return Model(config, dtype, encoder, decoder, head)

    def _check_tokens(self, model: Model, stack: Stack, tokens: Tensor, token_mask: Tensor | None, where: str) -> None:
        """Refuse what is no input of this stack; values only where they lie on the host."""
        c, mask = stack.config, None if token_mask is None else token_mask.shape
        rules.inputs(tokens.shape, name_of(tokens), c, name_of(model.dtype), mask, where)
        rules.mask_kind("token_mask", None if token_mask is None else name_of(token_mask), where)
        if c.inputs == "ids":
            real = None if token_mask is None else on_host(token_mask)
            known = token_mask is None or real is not None
            rules.ids(on_host(tokens) if known else None, real, c.vocabulary, where)

    def _check_room(self, stack: Stack, tokens: Tensor, real: Tensor | None, S: int, where: str) -> None:
        """Refuse more tokens than the learned table has rows; real (B, S) are all columns, None has no pads."""
        if stack.config.positions != "learned" or 0 in tokens.shape[:2]:
            return
        if real is None:
            rules.room(S - 1, stack.config, where)
        elif (values := on_host(real)) is not None:
            rules.room(int(values.sum(axis=1).max()) - 1, stack.config, where)

    def _hidden(
        self,
        model: Model,
        stack: Stack,
        inputs: Tensor,
        real: Tensor | None,
        *,
        S: int,
        extends: Sequence[Extend] | None = None,
        context: Tensor | Sequence[Pair] | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """The rows (B, T, M) that leave the stack; inputs are the last T of S columns, real (B, S) those without pads.

        extends puts a layer's new keys and values behind the earlier ones; context is the memory, or of each layer the
        keys and values of it.
        """
        c, device = stack.config, inputs.device
        at = None if real is None else real.cumsum(1) - real.long()  # (B, S): the tokens before each
        mask = None if real is None else real[:, None, None, :]
        T = inputs.shape[1]
        sight = self._sight(c.block.attention, model.dtype, at, mask, c.block.causal, T=T, S=S, device=device)
        x = self._embed(stack, inputs, sight.positions)
        far = None if context_mask is None else context_mask[:, None, None, :]
        for n, parts in enumerate(stack.layers):
            attend = self._attends(parts, c.block, sight, None if extends is None else extends[n])
            memory = context if context is None or isinstance(context, Tensor) else context[n]
            cross = self._crosses(parts, c.block, memory, far)
            with self._within("layers", str(n)):
                x = self._block(x, parts, c.block, attend, cross)
        if c.final_norm:
            x = self._tap("final_norm", self._norm(x, names.part(stack.weights, "final_norm"), c.block))
        return x

    def _embed(self, stack: Stack, inputs: Tensor, positions: Tensor | None) -> Tensor:
        """Rows of the table or vectors, plus positions, normalised: (B, T, M)."""
        c = stack.config
        x = self._tap("embedding", self._look_up(stack, inputs))
        if c.positions is not None and positions is not None:
            x = self._tap("embedded", x + self._tap("positions", self._place(stack, positions, x.dtype)))
        if c.embedding_norm:
            x = self._tap("embedding_norm", self._norm(x, names.part(stack.weights, "embedding_norm"), c.block))
        return x

    def _look_up(self, stack: Stack, inputs: Tensor) -> Tensor:
        c = stack.config
        if c.inputs == "vectors":
            return inputs
        ids = inputs.long().clamp(0, c.vocabulary - 1)  # those of pads may be anything
        rows = F.embedding(ids, stack.weights["embedding.weight"])  # (B, T, M)
        return rows if c.embedding_scale == 1 else rows * c.embedding_scale  # half precision is widened for a scalar

    def _place(self, stack: Stack, positions: Tensor, dtype: torch.dtype) -> Tensor:
        c = stack.config
        if c.positions == "sinusoidal":
            return self.sinusoidal(positions, c.block.width, dtype=name_of(dtype))
        # pads behind a full row count one more than the table has
        return self.learned_positions(stack.weights["positions.weight"], positions.clamp(max=c.max_positions - 1))


def _stack(weights: Weights, config: StackConfig) -> Stack:
    around = {name: w for name, w in weights.items() if not name.startswith("layers.")}
    inside = {name: laid_out(w) if w.dim() == 2 else w for name, w in weights.items() if name not in around}
    layers = tuple(block_parts(names.part(inside, f"layers.{n}"), config.block) for n in range(config.layers))
    return Stack(config, around, layers)
