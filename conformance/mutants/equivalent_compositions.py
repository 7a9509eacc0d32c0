"""Changes of the cache and the compositions in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import ONE_SHAPE, STILL, WIDENED, WORDING

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "cache",
        "(B, K, N, D), E = (self.keys[0].shape, self.values[0].shape[3])",
        "(B, K, N, D), E = (self.keys[-1].shape, self.values[0].shape[3])",
    ): ONE_SHAPE,
    (
        "cache",
        "(B, K, N, D), E = (self.keys[0].shape, self.values[0].shape[3])",
        "(B, K, N, D), E = (self.keys[0].shape, self.values[-1].shape[3])",
    ): ONE_SHAPE,
    (
        "cache",
        "T = rules.appended(cache.dims, start, k.shape, v.shape, k.dtype.name, v.dtype.name, dtype)",
        "T = rules.appended(cache.dims, start, k.shape, v.shape, v.dtype.name, k.dtype.name, dtype)",
    ): WORDING,
    (
        "cache",
        "T = rules.appended(cache.dims, start, k.shape, v.shape, k.dtype.name, v.dtype.name, dtype)",
        "T = rules.appended(cache.dims, start, k.shape, v.shape, k.dtype.name, dtype, v.dtype.name)",
    ): WORDING,
    (
        "blocks",
        "if context is not None and config.cross is not None:",
        "if context is not None or config.cross is not None:",
    ): "a call with one of the two and not the other has been refused",
    (
        "multihead",
        "near = near & (away >= -left)",
        "near = away >= -left",
    ): STILL,
    (
        "multihead",
        "return round_once(y if bias is None else y + upcast(bias), x.dtype)",
        "return round_once(y if bias is None else y + bias, x.dtype)",
    ): WIDENED,
    (
        "decoder",
        "return self._tap('logits', round_once(scores if bias is None else scores + upcast(bias), hidden.dtype))",
        "return self._tap('logits', round_once(scores if bias is None else scores + bias, hidden.dtype))",
    ): WIDENED,
    (
        "model",
        "rules.room(int(np.max(positions, initial=-1, where=real)), c, where)",
        "rules.room(int(np.max(positions, initial=-0, where=real)), c, where)",
    ): "every table has a row for position 0",
}
