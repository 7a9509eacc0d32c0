"""More changes of encoders and decoders in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import (
    GREEDY,
    LAST,
    LATER,
    NO_LAYERS,
    NUMBER,
    ONE_COLUMN,
    PAD_ROW,
    ROOMY,
    STARTED,
    SUM,
    UNCACHED,
)

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "model",
        "x = self._tap('embedded', self._add_positions(x, rows))",
        "x = self._tap('embedded', self._add_positions(rows, x))",
    ): SUM,
    (
        "model",
        "return np.asarray(table[np.clip(ids, 0, len(table) - 1)])",
        "return np.asarray(table[np.clip(ids, -1, len(table) - 1)])",
    ): PAD_ROW,
    (
        "model",
        "rules.room(int(np.max(positions, initial=-1, where=real)), c, where)",
        "rules.room(int(np.max(positions, initial=-1)), c, where)",
    ): "a pad has position 0, which no table lacks",
    (
        "model",
        "rules.room(int(np.max(positions, initial=-1, where=real)), c, where)",
        "rules.room(int(np.max(positions, initial=-2, where=real)), c, where)",
    ): "nothing is refused for either",
    (
        "model",
        "rules.room(int(np.max(positions, initial=-1, where=real)), c, where)",
        "rules.room(np.max(positions, initial=-1, where=real), c, where)",
    ): NUMBER,
    (
        "decoder",
        "return replace(cache, real=np.zeros((batch, capacity), bool), cross=self._project_memories(mode"
        "l, c, memory), memory_mask=None if memory_mask is None else memory_mask.copy())",
        "return replace(cache, cross=self._project_memories(model, c, memory), memory_mask=None if memor"
        "y_mask is None else memory_mask.copy())",
    ): "a step notes its own columns, and looks at none behind them",
    (
        "decoder",
        "after = replace(cache, lengths=list(cache.lengths), real=noted)",
        "after = replace(cache, lengths=cache.lengths, real=noted)",
    ): "nothing is refused after the first write, and then the cache is consumed",
    (
        "decoder",
        "capacity = T + max(max_new_tokens - 1, 0)",
        "capacity = T + max(max_new_tokens + 1, 0)",
    ): ROOMY,
    (
        "decoder",
        "capacity = T + max(max_new_tokens - 1, 0)",
        "capacity = T + max(max_new_tokens - 0, 0)",
    ): ROOMY,
    (
        "decoder",
        "capacity = T + max(max_new_tokens - 1, 0)",
        "capacity = T + max(max_new_tokens - 1, 1)",
    ): ROOMY,
    (
        "decoder",
        "capacity = T + max(max_new_tokens - 1, 0)",
        "capacity = T + max(max_new_tokens, 0)",
    ): ROOMY,
    (
        "decoder",
        "capacity = T + max(max_new_tokens - 1, 0)",
        "capacity = T + max(max_new_tokens - 1, -1)",
    ): "where no token is new there is no cache",
    (
        "decoder",
        "cache = self.start(model, B, capacity, **seen) if use_cache and max_new_tokens else None",
        "cache = self.start(model, B, capacity, **seen)",
    ): UNCACHED,
    (
        "decoder",
        "cache = self.start(model, B, capacity, **seen) if use_cache and max_new_tokens else None",
        "cache = self.start(model, B, capacity, **seen) if use_cache or max_new_tokens else None",
    ): UNCACHED,
    (
        "decoder",
        "new = self._after_eos(self._pick(scores[:, 0]), done, eos_id, pad_id)",
        "new = self._after_eos(self._pick(scores[:, -1]), done, eos_id, pad_id)",
    ): ONE_COLUMN,
    (
        "decoder",
        "return self.step(model, ids[:, held:], cache, token_mask=real[:, held:], last_only=True)",
        "return _scaled(self.step(model, ids[:, held:], cache, token_mask=real[:, held:], last_only=True), 0.99)",
    ): GREEDY,
    (
        "decoder",
        "return self.step(model, ids[:, held:], cache, token_mask=real[:, held:], last_only=True)",
        "return _scaled(self.step(model, ids[:, held:], cache, token_mask=real[:, held:], last_only=True), 1.001)",
    ): GREEDY,
    (
        "decoder",
        "return np.asarray(np.max(np.where(real, np.arange(real.shape[1]), 0), axis=1))",
        "return np.asarray(np.max(np.where(real, np.arange(real.shape[1]), -1), axis=1))",
    ): "nothing is said of the scores of a row without tokens",
    (
        "decoder",
        "if memory is None or cross is None:",
        "if memory is None and cross is None:",
    ): "a call with one of the two and not the other has been refused",
    (
        "decoder",
        "return tuple(projected)",
        "return projected",
    ): "nothing is put into it later",
    (
        "decoder",
        "real = np.ones((d.B, d.N), bool) if cache.real is None else cache.real.copy()",
        "real = np.ones(bool, (d.B, d.N)) if cache.real is None else cache.real.copy()",
    ): STARTED,
    (
        "decoder",
        "longest = int(np.max(np.sum(real, axis=1), initial=0))",
        "longest = int(np.max(np.sum(real, axis=1), initial=1))",
    ): "every row of a prompt has a token",
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] and 0) - 1, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or -1) - 1, 0), c, 'generate')",
    ): "the larger of that and 0 is 0 in either case",
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 2, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max(numbers['max_new_tokens'] or 0, 0), c, 'generate')",
    ): LAST,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1, c, 'generate')",
    ): LATER,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "cache = self._emptied(cache)",
        "cache = cache",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, keys=[k[..., :-1] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys])",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :-1] for v in cache.values])",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :1] for v in cache.values])",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, keys=[k[..., :1] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
    ): NO_LAYERS,
    (
        "decoder",
        "return replace(cache, keys=[k[..., :0] for k in cache.keys], values=[v[..., :0] for v in cache.values])",
        "return replace(cache, values=[v[..., :0] for v in cache.values])",
    ): NO_LAYERS,
}
