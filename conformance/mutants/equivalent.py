"""Changes of the NumPy backend that no check of a MUST clause can notice; each with the reason."""

from collections.abc import Mapping

ARRAY = "the value is an array already; asarray is for the type checker"
WIDENED = "the other factor is float32, and NumPy widens a half-precision factor to that, exactly"
WEAK = "a Python number takes the dtype of the array, rounded to it as before"
SHOULD = "only a SHOULD clause forbids it: a weight of one element, which broadcasts, is noted and not failed"

# (module, statement before, statement after) -> why
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "normalization",
        "return None if x is None else x.shape",
        "return None",
    ): SHOULD,
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
        "return np.asarray(np.mean(x * x, axis=-1, keepdims=True))",
        "return np.mean(x * x, axis=-1, keepdims=True)",
    ): ARRAY,
    (
        "normalization",
        "return upcast(weight)",
        "return weight",
    ): WIDENED,
    (
        "attention",
        "return None if x is None else x.shape",
        "return None",
    ): "a mask or bias of a wrong shape is refused by NumPy itself, by another exception; or broadcasts, as given",
    (
        "attention",
        "d = dims(q.shape, k.shape, v.shape, mask=_shape(mask), bias=_shape(bias))",
        "d = dims(q.shape, k.shape, v.shape, mask=_shape(mask))",
    ): "a bias of a wrong shape is refused by NumPy itself, by another exception; or broadcasts, as given",
    (
        "attention",
        "dtypes(q.dtype.name, k.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
        "dtypes(k.dtype.name, q.dtype.name, v.dtype.name, mask=_dtype(mask), bias=_dtype(bias))",
    ): "the two must be equal in either order; the wording of the refusal differs",
    (
        "attention",
        "return float(1 / np.sqrt(d.D)) if scale is None else float(scale)",
        "return 1 / np.sqrt(d.D) if scale is None else float(scale)",
    ): "the scale is rounded to the dtype of the queries before it is used",
    (
        "attention",
        "visible = visible & (j <= i)",
        "visible = j <= i",
    ): "every key is still visible there",
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
}
