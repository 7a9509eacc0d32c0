"""JAX's attention as it is: an adapter that moves axes, and computes nothing."""

import jax.nn
import jax.numpy as jnp

from gaugeblock import Conventions, Level
from gaugeblock.backends.jax.arrays import JaxArrays
from gaugeblock.spec.attention import Attention


class JaxNN(Attention, JaxArrays):
    name = "jax_nn"
    dtypes = frozenset({"float32", "bfloat16", "float16"})
    level = {"bfloat16": Level.FUSED, "float16": Level.FUSED}
    conventions = Conventions(causal_alignment="top_left", empty_row={"mask": "mean", "window": "mean", "bias": "nan"})
    unsupported = {"attention.value_width": "values have the shape of the keys"}

    def attention(self, q, k, v, *, mask=None, bias=None, causal=False, window=None, scale=None):
        ends = None if window is None else tuple(k.shape[2] if side is None else side for side in window)
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
        y = jax.nn.dot_product_attention(
            q, k, v, bias=bias, mask=mask, is_causal=causal, local_window_size=ends, scale=scale
        )
        return jnp.swapaxes(y, 1, 2)
