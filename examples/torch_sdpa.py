"""PyTorch's fused attention as it is, with its own is_causal: an adapter that translates and computes nothing."""

import torch.nn.functional as F

from gaugeblock import Conventions, Level
from gaugeblock.backends.torch.arrays import TorchArrays
from gaugeblock.spec.attention import Attention

ONE = "takes one of attn_mask and is_causal"


class TorchSDPA(Attention, TorchArrays):
    name = "torch_sdpa"
    dtypes = frozenset({"float64", "float32", "bfloat16", "float16"})
    level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}
    conventions = Conventions(causal_alignment="top_left")
    unsupported = {
        "attention.window": "no such argument",
        "attention.mask+bias": "attn_mask is either boolean or additive",
        "attention.mask+causal": ONE,
        "attention.bias+causal": ONE,
    }

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, scale=None):
        if sum(x is not None for x in (mask, bias)) + causal > 1:
            raise ValueError(ONE)
        attend = bias if mask is None else mask
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=attend, is_causal=causal, scale=scale, enable_gqa=grouped
        )
