"""Changes of the cache and the compositions in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import (
    CLAUSE,
    CONSUMED,
    COPIED,
    GREEDY,
    LAST,
    LATER,
    NUMBER,
    ONE_SHAPE,
    STARTED,
    STILL,
    SUM,
    UNCACHED,
    WIDENED,
    WORDING,
)

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
    (
        "blocks",
        "return self._tap(f'{name}_residual', self._residual(stream, y))",
        "return self._tap(f'{name}_residual', self._residual(y, stream))",
    ): SUM,
    (
        "blocks",
        "return add(x, f(norm(x)))",
        "return add(f(norm(x)), x)",
    ): SUM,
    (
        "blocks",
        "return norm(add(x, f(x)))",
        "return norm(add(f(x), x))",
    ): SUM,
    (
        "model",
        "return Model(dict(weights), config, rules.weights(shapes(weights), kinds(weights), config))",
        "return Model(weights, config, rules.weights(shapes(weights), kinds(weights), config))",
    ): "nothing is promised for a mapping that the caller changes after it was loaded",
    (
        "decoder",
        "return np.asarray(np.argmax(upcast(scores), axis=-1))",
        "return np.asarray(np.argmax(scores, axis=-1))",
    ): "widening keeps the order of numbers, and which are equal",
    (
        "decoder",
        "return np.asarray(np.argmax(upcast(scores), axis=-1))",
        "return np.asarray(np.argmax(upcast(scores), axis=1))",
    ): "the scores have two axes",
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 0, 0), c, 'generate')",
    ): LAST,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(1 - longest + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "scores, cache = self._step_on(model, ids, real, cache)",
        "scores, cache = _scaled(self._step_on(model, ids, real, cache), 1.001)",
    ): GREEDY,
    (
        "decoder",
        "scores, cache = self._step_on(model, ids, real, cache)",
        "scores, cache = _scaled(self._step_on(model, ids, real, cache), 0.99)",
    ): GREEDY,
    (
        "decoder",
        "return done if eos_id is None else done | (new == eos_id)",
        "return done | (new == eos_id)",
    ): "no id equals None",
    (
        "cache",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], lengths=list(cache.lengths), real=None if cache.real is None else cach"
        "e.real.copy())",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], lengths=cache.lengths, real=None if cache.real is None else cache.real"
        ".copy())",
    ): COPIED,
    (
        "cache",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], lengths=list(cache.lengths), real=None if cache.real is None else cach"
        "e.real.copy())",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], real=None if cache.real is None else cache.real.copy())",
    ): COPIED,
    (
        "cache",
        "return replace(cache, keys=[buffer[rows] for buffer in cache.keys], values=[buffer[rows] for bu"
        "ffer in cache.values], lengths=list(cache.lengths), real=None if cache.real is None else cache."
        "real[rows], cross=tuple(((k[rows], v[rows]) for k, v in cache.cross)), memory_mask=None if cach"
        "e.memory_mask is None else cache.memory_mask[rows])",
        "return replace(cache, keys=[buffer[rows] for buffer in cache.keys], values=[buffer[rows] for bu"
        "ffer in cache.values], lengths=cache.lengths, real=None if cache.real is None else cache.real[r"
        "ows], cross=tuple(((k[rows], v[rows]) for k, v in cache.cross)), memory_mask=None if cache.memo"
        "ry_mask is None else cache.memory_mask[rows])",
    ): COPIED,
    (
        "cache",
        "return replace(cache, keys=[buffer[rows] for buffer in cache.keys], values=[buffer[rows] for bu"
        "ffer in cache.values], lengths=list(cache.lengths), real=None if cache.real is None else cache."
        "real[rows], cross=tuple(((k[rows], v[rows]) for k, v in cache.cross)), memory_mask=None if cach"
        "e.memory_mask is None else cache.memory_mask[rows])",
        "return replace(cache, keys=[buffer[rows] for buffer in cache.keys], values=[buffer[rows] for bu"
        "ffer in cache.values], real=None if cache.real is None else cache.real[rows], cross=tuple(((k[r"
        "ows], v[rows]) for k, v in cache.cross)), memory_mask=None if cache.memory_mask is None else ca"
        "che.memory_mask[rows])",
    ): COPIED,
    (
        "cache",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], lengths=list(cache.lengths), real=None if cache.real is None else cach"
        "e.real.copy())",
        "return replace(cache, keys=[buffer.copy() for buffer in cache.keys], values=[buffer.copy() for "
        "buffer in cache.values], lengths=list(cache.lengths))",
    ): "a step copies the columns before it notes its own",
    (
        "cache",
        "return replace(cache, lengths=list(cache.lengths), consumed=False)",
        "return replace(cache, consumed=False)",
    ): CONSUMED,
    (
        "cache",
        "return replace(cache, lengths=list(cache.lengths), consumed=False)",
        "return replace(cache, lengths=cache.lengths, consumed=False)",
    ): CONSUMED,
    (
        "blocks",
        "within('positions', positions, LIMIT, f'block({d})', rule='BLOCK-ERRORS')",
        "within('positions', positions, LIMIT, f'block({d})')",
    ): CLAUSE,
    (
        "multihead",
        "within('positions', positions, LIMIT, f'multi_head_attention({d})', rule='MHA-ERRORS')",
        "within('positions', positions, LIMIT, f'multi_head_attention({d})')",
    ): CLAUSE,
    (
        "blocks",
        "if memory is not None and c.cross is not None:",
        "if memory is not None or c.cross is not None:",
    ): "a call with one of the two and not the other has been refused",
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 1) - 1, 0), c, 'generate')",
    ): "the larger of that and 0 is 0 in either case",
    (
        "decoder",
        "def generate(self, model: Model, tokens: Array, *, max_new_tokens: int, token_mask: Array | Non"
        "e=None, memory: Array | None=None, memory_mask: Array | None=None, eos_id: int | None=None, pad"
        "_id: int | None=None, use_cache: bool=True) -> Array:",
        "def generate(self, model: Model, tokens: Array, *, max_new_tokens: int, token_mask: Array | Non"
        "e=None, memory: Array | None=None, memory_mask: Array | None=None, eos_id: int | None=None, pad"
        "_id: int | None=None, use_cache: bool=False) -> Array:",
    ): UNCACHED,
    (
        "decoder",
        "longest = int(np.max(np.sum(real, axis=1), initial=0))",
        "longest = int(np.max(np.sum(real, axis=1), initial=-1))",
    ): "every prompt has columns",
    (
        "decoder",
        "cache = self.start(model, B, capacity, **seen) if use_cache and max_new_tokens else None",
        "cache = None",
    ): UNCACHED,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 - max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 2 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
    ): LATER,
    (
        "decoder",
        "real = np.ones((d.B, d.N), bool) if cache.real is None else cache.real.copy()",
        "real = cache.real.copy()",
    ): STARTED,
    (
        "decoder",
        "cache_rules.room(d, start, tokens.shape[1], f'step({d})')",
        "cache_rules.room(d, tokens.shape[1], start, f'step({d})')",
    ): SUM,
    (
        "decoder",
        "scores = self.logits(model, ids, token_mask=real, last_only=True, **seen)",
        "scores = _scaled(self.logits(model, ids, token_mask=real, last_only=True, **seen), 0.99)",
    ): GREEDY,
    (
        "decoder",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, 0), c, 'generate')",
        "rules.room(longest - 1 + max((numbers['max_new_tokens'] or 0) - 1, -1), c, 'generate')",
    ): "where no token is new none is read",
    (
        "decoder",
        "longest = int(np.max(np.sum(real, axis=1), initial=0))",
        "longest = np.max(np.sum(real, axis=1), initial=0)",
    ): NUMBER,
    (
        "decoder",
        "done = self._finished(done, new, eos_id)",
        "done = self._finished(done, eos_id, new)",
    ): "equality does not ask for the order, and no id equals None",
    (
        "decoder",
        "after = replace(cache, lengths=list(cache.lengths), real=noted)",
        "after = replace(cache, real=noted)",
    ): "nothing is refused after the first write, and then the cache is consumed",
    (
        "decoder",
        "scores = self.logits(model, ids, token_mask=real, last_only=True, **seen)",
        "scores = _scaled(self.logits(model, ids, token_mask=real, last_only=True, **seen), 1.001)",
    ): GREEDY,
}
