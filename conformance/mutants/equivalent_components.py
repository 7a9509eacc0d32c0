"""Changes of normalizations and positions in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import KEPT, NAMED, REFUSED, STEP, UNWRITTEN, WEAK, WIDENED, WORDING

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "arrays",
        "return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)",
        "return x if x.dtype == np.float64 else x.astype(np.float32, copy=True)",
    ): UNWRITTEN,
    (
        "arrays",
        "return x if x.dtype == np.float64 else x.astype(np.float32, copy=False)",
        "return x if x.dtype == np.float64 else x.astype(np.float32)",
    ): UNWRITTEN,
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
}
