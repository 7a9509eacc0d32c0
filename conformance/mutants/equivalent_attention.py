"""Changes of attention and of feed-forward networks in NumPy that no check can notice; each with the reason."""

from collections.abc import Mapping

from gaugeblock.conformance.mutants.reasons import CONVERGED, ELSEWHERE, NEARER, STILL, VANISHED, WEAK, WIDENED, WORDING

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "attention",
        "scores = self._scores(d, upcast(q), upcast(k), self._scale(d, scale))",
        "scores = self._scores(d, upcast(q), k, self._scale(d, scale))",
    ): WIDENED,
    (
        "attention",
        "scores = self._soft_cap(self._scores(d, upcast(q), upcast(k), self._scale(d, scale)), softcap)",
        "scores = self._soft_cap(self._scores(d, upcast(q), k, self._scale(d, scale)), softcap)",
    ): WIDENED,
    (
        "attention",
        "c = scores.dtype.type(softcap)",
        "c = softcap",
    ): WEAK,
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
    (
        "feedforward",
        "return np.asarray(np.copysign(np.where(size > 2, 1 - rest, series), x))",
        "return np.asarray(np.copysign(np.where(size >= 2, 1 - rest, series), x))",
    ): "both ways give the value at 2",
    (
        "attention",
        "return np.asarray(scores.reshape(d.B, d.H, d.T, d.S) * q.dtype.type(scale))",
        "return np.asarray(scores.reshape(d.B, d.H, d.T, d.S) * scale)",
    ): WEAK,
    (
        "attention",
        "return np.asarray(exps / np.where(total == 0, 1, total))",
        "return np.asarray(exps / np.where(total == 0, 2, total))",
    ): "the exponentials of such a row are all 0",
    (
        "attention",
        "return float(1 / np.sqrt(d.D)) if scale is None else float(scale)",
        "return float(1 / np.sqrt(d.D)) if scale is None else scale",
    ): "a whole number as scale becomes a float in the product, exactly",
}
