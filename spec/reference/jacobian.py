"""The derivative of the softmax by its scores (source 2.2)."""

import numpy as np
from numpy.typing import ArrayLike

from gaugeblock.spec.reference.bounded import Real, others


def softmax_jacobian(p: ArrayLike) -> Real:
    """The derivatives of the weights of each row by its scores.

        J_ij = dp_i / ds_j = p_i (delta_ij - p_j)

    p (..., S), rows of weights that sum to one or, where nothing is visible, are zero -> (..., S, S) float64, a value
    without a bound. A hidden key has a row and a column of zeros.
    Clauses: ATTN-JACOBIAN, ATTN-SATURATION. Source: the document's section 2.2.
    """
    weights = np.asarray(p, np.float64)
    jacobian = -weights[..., :, None] * weights[..., None, :]  # (..., S, S)
    i = np.arange(weights.shape[-1])
    # 1 - p_i as the sum of the other weights: near saturation the difference would cancel to zero
    jacobian[..., i, i] = weights * others(weights)
    return np.asarray(jacobian)
