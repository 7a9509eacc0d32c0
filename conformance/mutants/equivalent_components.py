"""Changes of the simple components in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import (
    CONVERGED,
    ELSEWHERE,
    KEPT,
    NAMED,
    NEARER,
    REFUSED,
    STEP,
    STILL,
    VANISHED,
    WEAK,
    WIDENED,
    WORDING,
)

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "normalization",
        "return np.asarray(1 / np.sqrt(variance + variance.dtype.type(eps)))",
        "return np.asarray(1 / np.sqrt(variance + eps))",
    ): WEAK,
    (
        "normalization",
        "scaled = normalized if weight is None else normalized * upcast(weight)",
        "scaled = normalized if weight is None else normalized * weight",
    ): WIDENED,
    (
        "normalization",
        "return round_once(normalized if weight is None else normalized * self._gain(weight), x.dtype)",
        "return round_once(normalized if weight is None else normalized * weight, x.dtype)",
    ): "the gain is the weight, and " + WIDENED,
    (
        "normalization",
        "return upcast(weight)",
        "return weight",
    ): WIDENED,
    (
        "normalization",
        "dims(x.shape, _shape(weight), _shape(bias), method='layer_norm')",
        "dims(x.shape, _shape(bias), _shape(weight), method='layer_norm')",
    ): WORDING,
    (
        "normalization",
        "dtypes(x.dtype.name, _dtype(weight), _dtype(bias), method='layer_norm')",
        "dtypes(x.dtype.name, _dtype(bias), _dtype(weight), method='layer_norm')",
    ): WORDING,
    (
        "normalization",
        "return scaled if bias is None else scaled + upcast(bias)",
        "return scaled if bias is None else scaled + bias",
    ): WIDENED,
    (
        "normalization",
        "return np.asarray(1 / np.sqrt(mean_square + mean_square.dtype.type(eps)))",
        "return np.asarray(1 / np.sqrt(mean_square + eps))",
    ): WEAK,
    (
        "positions",
        "return np.dtype(ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype)",
        "return ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype",
    ): NAMED,
    (
        "positions",
        "return np.dtype(ml_dtypes.bfloat16 if dtype == 'bfloat16' else dtype)",
        "return np.dtype(dtype)",
    ): NAMED,
    (
        "positions",
        "return round_once(self._pe_table(angles), _named(dtype))",
        "return round_once(self._pe_table(angles), dtype)",
    ): NAMED,
    (
        "positions",
        "return round_once(self._alibi_slopes(n_heads), _named(dtype))",
        "return round_once(self._alibi_slopes(n_heads), dtype)",
    ): NAMED,
    (
        "positions",
        "return round_once(self._alibi_product(self._alibi_slopes(n_heads), distances), _named(dtype))",
        "return round_once(self._alibi_product(self._alibi_slopes(n_heads), distances), dtype)",
    ): NAMED,
    (
        "positions",
        "return np.asarray(float(base) ** (-2 * pairs / dim))",
        "return np.asarray(base ** (-2 * pairs / dim))",
    ): "a whole number as base becomes a float in the power, exactly",
    (
        "positions",
        "query = (query_positions.shape, query_positions.dtype.name, query_positions)",
        "query = _scaled((query_positions.shape, query_positions.dtype.name, query_positions), 1.001)",
    ): REFUSED,
    (
        "positions",
        "query = (query_positions.shape, query_positions.dtype.name, query_positions)",
        "query = _scaled((query_positions.shape, query_positions.dtype.name, query_positions), 0.99)",
    ): REFUSED,
    (
        "positions",
        "key = (key_positions.shape, key_positions.dtype.name, key_positions)",
        "key = _scaled((key_positions.shape, key_positions.dtype.name, key_positions), 1.001)",
    ): REFUSED,
    (
        "positions",
        "key = (key_positions.shape, key_positions.dtype.name, key_positions)",
        "key = _scaled((key_positions.shape, key_positions.dtype.name, key_positions), 0.99)",
    ): REFUSED,
    (
        "positions",
        "rules.alibi_bias(n_heads, query, key, dtype)",
        "rules.alibi_bias(n_heads, key, query, dtype)",
    ): WORDING,
    (
        "positions",
        "return np.asarray(np.abs(np.atleast_2d(query)[:, None, :, None] - np.atleast_2d(key)[:, None, None, :]))",
        "return np.asarray(np.abs(np.atleast_2d(key)[:, None, None, :] - np.atleast_2d(query)[:, None, :, None]))",
    ): "the distance is the same in either direction",
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R), min(max(high, 0), d.R - 1))",
    ): KEPT,
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R - 2), min(max(high, 0), d.R - 1))",
    ): KEPT,
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R - 0), min(max(high, 0), d.R - 1))",
    ): KEPT,
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R + 1), min(max(high, 0), d.R - 1))",
    ): KEPT,
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 1), d.R - 1))",
    ): STEP,
    (
        "rotary",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, 0), d.R - 1))",
        "low, high = (min(max(low, 0), d.R - 1), min(max(high, -1), d.R - 1))",
    ): STEP,
    (
        "rotary",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.001)",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.001001)",
    ): STEP,
    (
        "rotary",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.001)",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.00099)",
    ): STEP,
    (
        "rotary",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.001)",
        "ramp = (np.arange(d.R // 2) - low) / (high - low if high > low else 0.002)",
    ): STEP,
    (
        "rotary",
        "return 0.1 * log(scaling.factor) + 1 if scaling.factor > 1 else 1.0",
        "return 0.1 * log(scaling.factor) + 1 if scaling.factor >= 1 else 1.0",
    ): "the logarithm of 1 is 0",
    (
        "attention",
        "scores = self._scores(d, upcast(q), upcast(k), self._scale(d, scale))",
        "scores = self._scores(d, upcast(q), k, self._scale(d, scale))",
    ): WIDENED,
    (
        "attention",
        "return round_once(self._mix(d, weights, upcast(v)), q.dtype)",
        "return round_once(self._mix(d, weights, v), q.dtype)",
    ): WIDENED,
    (
        "attention",
        "return scores if bias is None else scores + upcast(bias)",
        "return scores if bias is None else scores + bias",
    ): WIDENED,
    (
        "attention",
        "dtypes(q.dtype.name, k.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
        "dtypes(k.dtype.name, q.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
    ): WORDING,
    (
        "attention",
        "return float(1 / np.sqrt(d.D)) if scale is None else float(scale)",
        "return 1 / np.sqrt(d.D) if scale is None else float(scale)",
    ): "the scale is rounded to the dtype of the queries before it is used",
    (
        "attention",
        "visible = visible & (j <= i)",
        "visible = j <= i",
    ): STILL,
    (
        "attention",
        "exps = np.exp(scores - np.where(highest == -np.inf, 0, highest))",
        "exps = np.exp(scores - np.where(highest == -np.inf, 1, highest))",
    ): "all scores of such a row are minus infinity, less any number",
    (
        "attention",
        "grouped = weights.reshape(d.B, d.K, d.H // d.K, d.T, d.S)",
        "grouped = weights.reshape(d.B, d.K, d.T, d.H // d.K, d.S)",
    ): "rows of weights are mixed one by one, and the order in memory is the same",
    (
        "feedforward",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 40))",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 39))",
    ): VANISHED,
    (
        "feedforward",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 40))",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 41))",
    ): VANISHED,
    (
        "feedforward",
        "return np.asarray(np.copysign(np.where(size > 2, 1 - rest, series), x))",
        "return np.asarray(np.copysign(np.where(size > 2, rest - 1, series), x))",
    ): "copysign takes the size alone",
    (
        "feedforward",
        "return np.asarray(x / 2 * (1 + np.tanh(x.dtype.type(np.sqrt(2 / np.pi)) * inner)))",
        "return np.asarray(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * inner)))",
    ): NEARER,
    (
        "feedforward",
        "return np.asarray(np.where(z < 0, e, 1) / (1 + e))",
        "return np.asarray(np.where(z <= 0, e, 1) / (1 + e))",
    ): "the exponential of 0 is 1",
    (
        "feedforward",
        "return round_once(self._relu(upcast(x)), x.dtype)",
        "return round_once(self._relu(x), x.dtype)",
    ): "the larger of a number and 0 is exact in every format",
    (
        "feedforward",
        "y = x @ upcast(weights[f'{layer}.weight'])",
        "y = x @ weights[f'{layer}.weight']",
    ): WIDENED,
    (
        "attention",
        "exps = np.exp(scores - np.where(highest == -np.inf, 0, highest))",
        "exps = np.exp(scores - np.where(highest == -np.inf, -1, highest))",
    ): "all scores of such a row are minus infinity, less any number",
    (
        "attention",
        "grouped = q.reshape(d.B, d.K, d.H // d.K, d.T, d.D)",
        "grouped = q.reshape(d.B, d.K, d.T, d.H // d.K, d.D)",
    ): "queries are scored one by one, and the order in memory is the same",
    (
        "attention",
        "visible = visible & (upcast(bias) != -np.inf)",
        "visible = visible & (upcast(bias) != np.inf)",
    ): "a score of minus infinity has weight 0, seen or not; plus infinity is not judged",
    (
        "attention",
        "dtypes(q.dtype.name, k.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
        "dtypes(q.dtype.name, v.dtype.name, k.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
    ): WORDING,
    (
        "attention",
        "visible = visible & (upcast(bias) != -np.inf)",
        "visible = visible & (bias != -np.inf)",
    ): "widening changes no number",
    (
        "attention",
        "exps = np.exp(scores - np.where(highest == -np.inf, 0, highest))",
        "exps = _scaled(np.exp(scores - np.where(highest == -np.inf, 0, highest)), 1.001)",
    ): "the factor stands in the sum as well, by which they are divided",
    (
        "attention",
        "exps = np.exp(scores - np.where(highest == -np.inf, 0, highest))",
        "exps = _scaled(np.exp(scores - np.where(highest == -np.inf, 0, highest)), 0.99)",
    ): "the factor stands in the sum as well, by which they are divided",
    (
        "attention",
        "visible = visible & (upcast(bias) != -np.inf)",
        "visible = visible",
    ): "a score of minus infinity has weight 0, seen or not",
    (
        "feedforward",
        "fraction = far",
        "fraction = _scaled(far, 0.99)",
    ): CONVERGED,
    (
        "feedforward",
        "fraction = far",
        "fraction = _scaled(far, 1.001)",
    ): CONVERGED,
    (
        "feedforward",
        "fraction = far",
        "fraction = _demoted(far)",
    ): CONVERGED,
    (
        "feedforward",
        "inner = x + x.dtype.type(0.044715) * x * x * x",
        "inner = x + 0.044715 * x * x * x",
    ): WEAK,
    (
        "feedforward",
        "return np.asarray(x * self._sigmoid(x.dtype.type(beta) * x))",
        "return np.asarray(x * self._sigmoid(beta * x))",
    ): WEAK,
    (
        "feedforward",
        "return np.asarray(y if bias is None else y + upcast(bias))",
        "return np.asarray(y if bias is None else y + bias)",
    ): WIDENED,
    (
        "feedforward",
        "hidden = self._linear(upcast(x), weights, 'up')",
        "hidden = self._linear(x, weights, 'up')",
    ): WIDENED,
    (
        "feedforward",
        "gate = self._linear(upcast(x), weights, 'gate')",
        "gate = self._linear(x, weights, 'gate')",
    ): WIDENED,
    (
        "feedforward",
        "up = self._linear(upcast(x), weights, 'up')",
        "up = self._linear(x, weights, 'up')",
    ): WIDENED,
    (
        "feedforward",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 40))",
        "near, far = (np.minimum(size, 3), np.clip(size, 2, 40))",
    ): ELSEWHERE,
    (
        "feedforward",
        "near, far = (np.minimum(size, 2), np.clip(size, 2, 40))",
        "near, far = (np.minimum(size, 2), np.clip(size, 1, 40))",
    ): ELSEWHERE,
}
