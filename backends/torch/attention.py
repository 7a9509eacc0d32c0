"""Scaled dot-product attention in PyTorch (source 2.1-2.2; Vaswani et al. 2017, eq. 1)."""

from contextlib import nullcontext
from math import isfinite

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from gaugeblock.backends.torch.products import WIDE
from gaugeblock.spec.attention import Attention, Dims, SoftCapped, Window, cap, dims, dtypes, options

FEW = 8  # queries


class TorchAttention(Attention, SoftCapped):
    """One call of F.scaled_dot_product_attention; everything that hides a key is folded into its mask.

    Its own is_causal aligns the first query with the first key, so it serves only where T = S. A few queries that see
    every key are written out: a decoded token is one.
    """

    fused = True

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Tensor:
        d = dims(q.shape, k.shape, v.shape, mask=_shape(mask), bias=_shape(bias))
        dtypes(_name(q), _name(k), _name(v), mask=_dtype(mask), bias=_dtype(bias))
        options(window, scale)
        if _few(d, q) and mask is None and bias is None and window is None and (not causal or d.T == 1):
            return _by_products(d, q, k, v, scale)
        fused = self.fused and not _hold_nan(q, k)  # on the CPU they give zeros for a row whose scores are all NaN
        shares = d.H == d.K or (fused and q.device.type == "cpu")  # that kernel reads a key for all heads that share it
        with nullcontext() if fused else sdpa_kernel(SDPBackend.MATH):
            if causal and d.T == d.S and mask is None and bias is None and window is None and shares:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=d.H != d.K)
            attend = _fold(d, _attend(d, mask, bias, causal, window, q.device))
            grouped = q.reshape(d.B, d.K, d.H // d.K * d.T, d.D)  # (B, K, H/K * T, D): shared keys are not repeated
            mixed = F.scaled_dot_product_attention(grouped, k, v, attn_mask=attend, scale=scale)
        return mixed.reshape(d.B, d.H, d.T, d.E)

    def soft_capped_attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        softcap: float,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        window: Window | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """By single operations, since the fused kernels have no cap."""
        d = dims(q.shape, k.shape, v.shape, mask=_shape(mask), bias=_shape(bias))
        dtypes(_name(q), _name(k), _name(v), mask=_dtype(mask), bias=_dtype(bias))
        options(window, scale)
        cap(softcap)
        wide = torch.promote_types(q.dtype, torch.float32)
        grouped = q.to(wide).reshape(d.B, d.K, d.H // d.K * d.T, d.D)  # (B, K, H/K * T, D)
        scores = grouped @ k.to(wide).mT * (d.D**-0.5 if scale is None else scale)
        scores = _hidden(
            softcap * torch.tanh(scores / softcap), _fold(d, _attend(d, mask, bias, causal, window, q.device))
        )
        weights = scores.softmax(-1).masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0)
        return (weights @ v.to(wide)).to(q.dtype).reshape(d.B, d.H, d.T, d.E)


def _few(d: Dims, q: Tensor) -> bool:
    """Whether so few queries read a key that two products take no longer than a kernel, and need no look for NaN."""
    return d.H // d.K * d.T <= FEW and d.S > 0 and q.dtype in WIDE and q.device.type == "cpu"


def _by_products(d: Dims, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Queries that see every key."""
    grouped = q.reshape(d.B, d.K, d.H // d.K * d.T, d.D)  # (B, K, H/K * T, D)
    scores = grouped @ k.mT * (d.D**-0.5 if scale is None else scale)  # (B, K, H/K * T, S)
    return (scores.softmax(dim=-1) @ v).reshape(d.B, d.H, d.T, d.E)


def _hold_nan(q: Tensor, k: Tensor) -> bool:
    """Whether scores may be NaN; only asked of values on the host, so that nothing waits for a device or a tracer."""
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if isfinite(q.sum().item()) and isfinite(k.sum().item()):
        return False  # a sum is made in a small part of the time, but may overflow
    return not bool(q.isfinite().all() and k.isfinite().all())


def _attend(
    d: Dims, mask: Tensor | None, bias: Tensor | None, causal: bool, window: Window | None, device: torch.device
) -> Tensor | None:
    """What SDPA takes as attn_mask: None, bool (True = may attend), or a bias with -inf at hidden keys."""
    visible = _diagonals(d, causal, window, device)
    if mask is not None:
        visible = mask if visible is None else mask & visible
    if bias is None or visible is None:
        return visible if bias is None else bias
    return torch.where(visible, bias, -torch.inf)


def _hidden(scores: Tensor, attend: Tensor | None) -> Tensor:
    """The scores with -inf at hidden keys and the bias added, as SDPA takes its attn_mask."""
    if attend is None:
        return scores
    return scores.masked_fill(~attend, -torch.inf) if attend.dtype == torch.bool else scores + attend


def _diagonals(d: Dims, causal: bool, window: Window | None, device: torch.device) -> Tensor | None:
    """The band of keys that causal and window leave, (T, S); None where neither is given."""
    left, right = window or (None, None)
    if causal:
        right = 0 if right is None else min(right, 0)
    if left is None and right is None:
        return None
    band = torch.ones(d.T, d.S, dtype=torch.bool, device=device)
    offset = d.S - d.T  # the last query is aligned with the last key
    if right is not None:
        band = band.tril(offset + right)
    return band if left is None else band.triu(offset - left)


def _fold(d: Dims, attend: Tensor | None) -> Tensor | None:
    """Give attn_mask the folded query axis: (.., H|1, T|1, S|1) -> (.., K|1, H/K * T | 1, S)."""
    if attend is None or d.H == d.K:
        return attend
    attend = attend.reshape((1,) * (4 - attend.dim()) + attend.shape)
    B, H, T, _ = attend.shape
    if H == T == 1:
        return attend
    attend = attend.expand(B, H if H > 1 else d.H // d.K, d.T, -1)  # (B|1, H | H/K, T, S|1)
    return attend.reshape(B, 1 if H == 1 else d.K, d.H // d.K * d.T, attend.shape[-1])


def _shape(x: Tensor | None) -> torch.Size | None:
    return None if x is None else x.shape


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _dtype(x: Tensor | None) -> str | None:
    return None if x is None else _name(x)
