"""Gradients in PyTorch, by autograd."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from gaugeblock.spec.gradients import Gradients

Primal = Tensor | Mapping[str, Tensor]


class TorchGradients(Gradients):
    """torch.autograd.grad on leaves that share the primals' memory; the graph is kept for further cotangents."""

    def vjp(
        self, function: Callable[..., Tensor], *primals: Primal
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Primal, ...]]]:
        leaves = [_leaf(p) for p in primals]
        with torch.enable_grad():
            value = function(*leaves)
        flat = [x for leaf in leaves for x in _arrays(leaf)]

        def pullback(cotangent: Tensor) -> tuple[Primal, ...]:
            found = iter(_gradients(value, flat, cotangent))
            return tuple(_alike(p, found) for p in primals)

        return value.detach(), pullback


def _gradients(value: Tensor, flat: list[Tensor], cotangent: Tensor) -> list[Tensor]:
    if not value.requires_grad:  # none of the primals is read
        return [torch.zeros_like(x) for x in flat]
    found: Sequence[Tensor | None] = torch.autograd.grad(value, flat, cotangent, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(flat, found, strict=True)]


def _leaf(primal: Primal) -> Primal:
    if isinstance(primal, Tensor):
        return primal.detach().requires_grad_()
    return {name: x.detach().requires_grad_() for name, x in primal.items()}


def _arrays(primal: Primal) -> list[Tensor]:
    return [primal] if isinstance(primal, Tensor) else list(primal.values())


def _alike(primal: Primal, found: Iterator[Tensor]) -> Primal:
    """The next gradients, in the form of a primal."""
    return next(found) if isinstance(primal, Tensor) else {name: next(found) for name in primal}
