"""Wrong generation: too many columns, the wrong id, rows that do not end."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaugeblock.backends.numpy import NumpyBackend
from gaugeblock.backends.numpy.arrays import Array
from gaugeblock.backends.numpy.cache import Cache
from gaugeblock.backends.numpy.model import Model
from gaugeblock.conformance.mutants import mutant
from gaugeblock.spec.precision import FORMATS


@mutant(killed_by=("MODEL-GENERATE-LENGTH",), reports=("huggingface/transformers#28579",), catalogue="M46")
class ZeroNewTokensGiveOne(NumpyBackend):
    """max_new_tokens=0 emits a token all the same."""

    def generate(self, model: Model, tokens: Array, *, max_new_tokens: int, **options: Any) -> Array:
        return super().generate(model, tokens, max_new_tokens=max_new_tokens or 1, **options)


@mutant(killed_by=("MODEL-GENERATE-LENGTH",), reports=("EleutherAI/gpt-neox#629",))
class LastTokenIsDropped(NumpyBackend):
    """One column less than asked for."""

    def generate(self, model: Model, tokens: Array, *, max_new_tokens: int, **options: Any) -> Array:
        made = super().generate(model, tokens, max_new_tokens=max_new_tokens, **options)
        return made[:, :-1] if max_new_tokens > 1 else made


@mutant(killed_by=("MODEL-GENERATE-LENGTH",))
class PromptIsCutOff(NumpyBackend):
    """The new columns alone."""

    def generate(self, model: Model, tokens: Array, **options: Any) -> Array:
        return super().generate(model, tokens, **options)[:, tokens.shape[1] :]


@mutant(killed_by=("MODEL-GENERATE-LENGTH",))
class StopsWhenAllRowsHaveEnded(NumpyBackend):
    """As soon as every row has ended nothing more comes."""

    def generate(
        self, model: Model, tokens: Array, *, max_new_tokens: int, eos_id: int | None = None, **options: Any
    ) -> Array:
        made = super().generate(model, tokens, max_new_tokens=max_new_tokens, eos_id=eos_id, **options)
        ended = np.all(np.cumsum(made[:, tokens.shape[1] :] == eos_id, axis=1) > 0, axis=0)
        extra = int(np.sum(ended)) - 1 if eos_id is not None else 0
        return made[:, : made.shape[1] - max(extra, 0)]


@mutant(killed_by=("MODEL-GENERATE",), dtypes=("float32",))
class PicksFromBfloat16(NumpyBackend):
    """The likeliest id is chosen among logits in bfloat16."""

    def _pick(self, scores: Array) -> Array:
        return super()._pick(scores.astype(FORMATS["bfloat16"].dtype))


@mutant(
    killed_by=("MODEL-GENERATE-EOS",),
    reports=("Dao-AILab/flash-attention#2784", "mistralai/mistral-inference#270"),
    catalogue="M46",
)
class FinishedRowsGoOn(NumpyBackend):
    """A row that has ended goes on until all have."""

    def _finished(self, done: Array, new: Array, eos_id: int | None) -> Array:
        ended = super()._finished(done, new, eos_id)
        return ended if np.all(ended) else np.zeros_like(ended)


@mutant(killed_by=("MODEL-GENERATE-EOS",))
class EosIsReplacedByThePad(NumpyBackend):
    """The eos itself is overwritten with the pad."""

    def _after_eos(self, new: Array, done: Array, eos_id: int | None, pad_id: int | None) -> Array:
        made = super()._after_eos(new, done, eos_id, pad_id)
        return made if eos_id is None or pad_id is None else np.where(made == eos_id, pad_id, made)


@mutant(killed_by=("MODEL-GENERATE-EOS",))
class PadIdIsIgnored(NumpyBackend):
    """After the end comes eos, whatever the pad."""

    def _after_eos(self, new: Array, done: Array, eos_id: int | None, pad_id: int | None) -> Array:
        return super()._after_eos(new, done, eos_id, None)


@mutant(killed_by=("MODEL-GENERATE-EOS",))
class PadsAreZero(NumpyBackend):
    """Where no pad is given a row that has ended goes on with id 0."""

    def _after_eos(self, new: Array, done: Array, eos_id: int | None, pad_id: int | None) -> Array:
        return super()._after_eos(new, done, eos_id, 0 if pad_id is None and eos_id is not None else pad_id)


@mutant(killed_by=("MODEL-GENERATE-EOS",))
class EosInThePromptEndsTheRow(NumpyBackend):
    """A prompt that holds the eos id counts as ended."""

    def generate(self, model: Model, tokens: Array, *, eos_id: int | None = None, **options: Any) -> Array:
        made = super().generate(model, tokens, eos_id=eos_id, **options)
        filler = options.get("pad_id") if options.get("pad_id") is not None else eos_id
        ended = np.any(tokens == eos_id, axis=1) if eos_id is not None else np.zeros(len(tokens), bool)
        made[ended, tokens.shape[1] :] = filler if filler is not None else 0
        return made


@mutant(killed_by=("MODEL-GENERATE-TIES",))
class HighestOfEquals(NumpyBackend):
    """Among equal logits the highest id is taken."""

    def _pick(self, scores: Array) -> Array:
        return np.asarray(scores.shape[1] - 1 - super()._pick(scores[:, ::-1]))


@mutant(killed_by=("MODEL-GENERATE",))
class LeastLikelyIsTaken(NumpyBackend):
    """The smallest logit wins."""

    def _pick(self, scores: Array) -> Array:
        return super()._pick(-scores)


@mutant(killed_by=("MODEL-GENERATE",))
class SecondLikeliestIsTaken(NumpyBackend):
    """The largest logit but one wins, where it is nearly as large."""

    def _pick(self, scores: Array) -> Array:
        best = super()._pick(scores)
        order = np.argsort(-scores.astype(np.float64), axis=1)[:, 1]
        rows = np.arange(len(scores))
        near = scores[rows, best].astype(np.float64) - scores[rows, order] < 0.2
        return np.where(near, order, best)


@mutant(killed_by=("MODEL-GENERATE-PADDING",))
class NewTokensFollowTheLastColumn(NumpyBackend):
    """The first new token follows the last column, whether it is a pad or not."""

    def _last_columns(self, real: Array) -> Array:
        return np.full(len(real), real.shape[1] - 1)


@mutant(killed_by=("MODEL-GENERATE",))
class PromptIsForgottenAfterTheFirstStep(NumpyBackend):
    """From the second new token on the cache is thrown away."""

    def _step_on(self, model: Model, ids: Array, real: Array, cache: Cache) -> tuple[Array, Cache]:
        held = self.cache_length(cache)
        return super()._step_on(model, ids, real, _blank(cache) if held else cache)


@mutant(killed_by=("MODEL-GENERATE",))
class EveryTokenIsFedTwice(NumpyBackend):
    """Without a cache the last token stands twice before the next is chosen."""

    def logits(self, model: Model, tokens: Array, *, last_only: bool = False, **options: Any) -> Array:
        if last_only and options.get("token_mask") is not None:
            real = options["token_mask"]
            rows = np.arange(len(tokens))
            again = tokens[rows, self._last_columns(real)]
            tokens = np.concatenate([tokens, again[:, None]], axis=1)
            options = {**options, "token_mask": np.concatenate([real, np.ones((len(tokens), 1), bool)], axis=1)}
        return super().logits(model, tokens, last_only=last_only, **options)


@mutant(killed_by=("MODEL-EMPTY-PROMPT",))
class EmptyPromptBegins(NumpyBackend):
    """An empty prompt is taken for one that begins with id 0."""

    def generate(self, model: Model, tokens: Array, **options: Any) -> Array:
        if tokens.ndim == 2 and tokens.shape[1] == 0:
            begun = super().generate(model, np.zeros((len(tokens), 1), np.int64), **options)
            return begun[:, 1:]
        return super().generate(model, tokens, **options)


@mutant(killed_by=("MODEL-EMPTY-PROMPT",))
class RowWithoutATokenGoesOn(NumpyBackend):
    """A row of pads is continued like any other."""

    def _check_generation(
        self,
        model: Model,
        tokens: Array,
        token_mask: Array | None,
        memory: Array | None,
        memory_mask: Array | None,
        numbers: Mapping[str, int | None],
    ) -> Array:
        if token_mask is not None and tokens.ndim == 2 and tokens.shape[1]:
            token_mask = np.where(np.any(token_mask, axis=1, keepdims=True), token_mask, True)
        return super()._check_generation(model, tokens, token_mask, memory, memory_mask, numbers)


def _blank(cache: Cache) -> Cache:
    """The cache with nothing but zeros in it."""
    for buffer in (*cache.keys, *cache.values):
        buffer[...] = 0
    return cache
