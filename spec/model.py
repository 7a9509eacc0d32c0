"""Encoders and decoders: their interfaces and their rules (source 5, 7, 8; Vaswani et al. 2017)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from gaugeblock.spec import weights as names
from gaugeblock.spec.backend import Array
from gaugeblock.spec.cache import Cache
from gaugeblock.spec.config import ModelConfig, StackConfig
from gaugeblock.spec.errors import ConfigError, DTypeError, PositionError, ShapeError, refuse
from gaugeblock.spec.positions import Integers

Shape = Sequence[int]
Model = Array  # opaque to the suite: it came from load

TAPS = ("embedding", "positions", "embedded", "embedding_norm", "final_norm")  # of a stack, beside layers.N.*
LOGITS = "logits"


class Encoder(ABC):
    """A stack that reads a whole sequence at once."""

    @abstractmethod
    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Model:
        """Make a model of its weights; nothing is computed, and the arrays are not written to.

        weights as spec.weights.shapes names them, of one float dtype, which is the model's.
        Raises ConfigError, ShapeError, DTypeError that name the weight. Clauses: MODEL-WEIGHTS, MODEL-ERRORS.
        """

    @abstractmethod
    def encode(self, model: Model, tokens_or_vectors: Array, *, token_mask: Array | None = None) -> Array:
        """Pass a sequence through the encoder.

        tokens (B, T) integers, or vectors (B, T, M) of the model's dtype where config.encoder.inputs says so;
        token_mask (B, T) bool, True = real token, pads may stand anywhere -> (B, T, M); rows at pads are unspecified.
        A token's position is the number of real tokens before it.
        Raises ShapeError, DTypeError, PositionError, ConfigError.
        Clauses: MODEL-ENCODE, MODEL-PADDING, MODEL-POSITIONS.
        """


class Decoder(ABC):
    """A causal stack with a head, whole or token by token.

    reorder, truncate, fork, cache_nbytes and cache_length are those of spec.cache.KVCache, on the caches of start.
    """

    @abstractmethod
    def load(self, weights: Mapping[str, Array], config: ModelConfig) -> Model:
        """Make a model of its weights; see Encoder.load."""

    @abstractmethod
    def logits(
        self,
        model: Model,
        tokens: Array,
        *,
        token_mask: Array | None = None,
        memory: Array | None = None,
        memory_mask: Array | None = None,
        last_only: bool = False,
    ) -> Array:
        """The scores of every id as the next token, after each token.

        tokens (B, T) integers, token_mask (B, T) bool, memory (B, S, M) if and only if the decoder has
        cross-attention, memory_mask (B, S) bool -> (B, T, V) of the model's dtype, unspecified at pads; with last_only
        (B, 1, V): those after each row's last real token.
        Raises ShapeError, DTypeError, PositionError, ConfigError. Clauses: MODEL-LOGITS, MODEL-LAST-ONLY,
        MODEL-PADDING, MODEL-POSITIONS, MODEL-CAUSAL.
        """

    @abstractmethod
    def start(
        self,
        model: Model,
        batch: int,
        capacity: int,
        *,
        memory: Array | None = None,
        memory_mask: Array | None = None,
    ) -> Cache:
        """An empty cache for step; keys and values of the memory are projected here, once.

        Raises ShapeError, DTypeError, ConfigError. Clauses: MODEL-CACHED, MODEL-CROSS-ONCE.
        """

    @abstractmethod
    def step(
        self, model: Model, tokens: Array, cache: Cache, *, token_mask: Array | None = None, last_only: bool = False
    ) -> tuple[Array, Cache]:
        """The logits after new tokens, and the cache with them in it; the given cache is consumed.

        tokens (B, T) integers, any T; token_mask (B, T) bool covers the new columns, the cache remembers the earlier
        ones -> (B, T, V), or (B, 1, V) with last_only, as logits would give for all columns together.
        Raises CapacityError, CacheError and what logits raises; a call that raises consumes nothing.
        Clauses: MODEL-CACHED, MODEL-STEP-ATOMIC.
        """

    @abstractmethod
    def generate(
        self,
        model: Model,
        tokens: Array,
        *,
        max_new_tokens: int,
        token_mask: Array | None = None,
        memory: Array | None = None,
        memory_mask: Array | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        use_cache: bool = True,
    ) -> Array:
        """Continue every row with the likeliest id, again and again.

        tokens (B, T) integers with a real token in every row -> (B, T + max_new_tokens) integers: the prompt's columns,
        then exactly max_new_tokens more. Equal logits go to the lowest id. A row's first new token follows its last
        real one. After eos_id a row holds pad_id, or eos_id where no pad_id is given.
        Raises ShapeError, DTypeError, PositionError, ConfigError. Clauses: MODEL-GENERATE, MODEL-GENERATE-LENGTH,
        MODEL-GENERATE-TIES, MODEL-GENERATE-EOS, MODEL-EMPTY-PROMPT.
        """


def weights(shapes: Mapping[str, Shape], dtypes: Mapping[str, str], config: ModelConfig) -> str:
    """Refuse weights that do not fit the configuration; the name of their dtype.

    Raises ConfigError, ShapeError, DTypeError. Clauses: MODEL-WEIGHTS, MODEL-ERRORS.
    """
    names.check(names.shapes(config), shapes, dtypes, dtype=None, rule="MODEL-WEIGHTS", where="load")
    return next(iter(dtypes.values()), "float32")


def inputs(x: Shape, dtype: str, config: StackConfig, model_dtype: str, token_mask: Shape | None, where: str) -> None:
    """Refuse tokens, vectors or a mask of theirs of the wrong shape or kind.

    Raises ShapeError, DTypeError. Clauses: MODEL-SHAPES, MODEL-ERRORS.
    """
    if config.inputs == "vectors":
        _require(len(x) == 3 and x[-1] == config.block.width, f"vectors must be (B, T, M), got {tuple(x)}", where)
        if dtype != model_dtype:
            raise refuse(DTypeError, "MODEL-ERRORS", f"vectors must be {model_dtype}, got {dtype}", where)
    else:
        _require(len(x) == 2, f"tokens must be (B, T), got {tuple(x)}", where)
        if not dtype.startswith(("int", "uint")):
            raise refuse(DTypeError, "MODEL-ERRORS", f"tokens must be integers, got {dtype}", where)
    if token_mask is not None:
        _require(
            tuple(token_mask) == tuple(x[:2]), f"token_mask must be {tuple(x[:2])}, got {tuple(token_mask)}", where
        )


def mask_kind(name: str, kind: str | None, where: str) -> None:
    """Refuse a mask that is not bool.

    Raises DTypeError. Clauses: MODEL-ERRORS.
    """
    if kind not in (None, "bool"):
        raise refuse(DTypeError, "MODEL-ERRORS", f"{name} must be bool, got {kind}", where)


def ids(tokens: Integers | None, token_mask: Integers | None, vocabulary: int, where: str) -> None:
    """Refuse ids of real tokens that the vocabulary has not; None stands for values that are not on the host.

    Raises PositionError. Clauses: MODEL-IDS.
    """
    if tokens is None:
        return
    real = tokens if token_mask is None else tokens[np.asarray(token_mask, bool)]
    outside = real[(real < 0) | (real >= vocabulary)]
    if outside.size:
        problem = f"ids must be in [0, {vocabulary}), got {int(outside.flat[0])}"
        raise refuse(PositionError, "MODEL-IDS", problem, where)


def room(last: int, config: StackConfig, where: str) -> None:
    """Refuse a position beyond the learned table; last is the largest position, -1 without tokens.

    Raises PositionError. Clauses: MODEL-ROOM.
    """
    if config.positions == "learned" and last >= config.max_positions:
        problem = f"positions must be in [0, {config.max_positions}), got {last}"
        raise refuse(PositionError, "MODEL-ROOM", problem, where)


def memory(
    shape: Shape | None,
    dtype: str | None,
    mask: Shape | None,
    *,
    config: ModelConfig,
    batch: int,
    model_dtype: str,
    where: str,
) -> None:
    """Refuse a memory that is missing, too much, or of the wrong shape or dtype; shapes and a dtype name.

    Raises ConfigError, ShapeError, DTypeError. Clauses: MODEL-MEMORY, MODEL-ERRORS.
    """
    crosses = config.decoder is not None and config.decoder.block.cross is not None
    if crosses != (shape is not None):
        problem = "memory must be given if and only if the decoder has cross-attention"
        raise refuse(ConfigError, "MODEL-MEMORY", problem, where)
    if shape is None:
        if mask is not None:
            raise refuse(ConfigError, "MODEL-MEMORY", "memory_mask must come with a memory", where)
        return
    M = config.decoder.block.width if config.decoder is not None else 0
    fits = len(shape) == 3 and shape[0] == batch and shape[2] == M
    _require(fits, f"memory must be ({batch}, S, {M}), got {tuple(shape)}", where)
    if dtype != model_dtype:
        raise refuse(DTypeError, "MODEL-ERRORS", f"memory must be {model_dtype}, got {dtype}", where)
    if mask is not None:
        _require(tuple(mask) == tuple(shape[:2]), f"memory_mask must be {tuple(shape[:2])}, got {tuple(mask)}", where)


def generation(tokens: Shape, real: Integers | None, vocabulary: int, numbers: Mapping[str, int | None]) -> None:
    """Refuse a prompt with an empty row, or counts and ids that have no meaning; real is the token mask on the host.

    numbers holds max_new_tokens, eos_id and pad_id. Raises ConfigError. Clauses: MODEL-EMPTY-PROMPT, MODEL-ERRORS.
    """
    where = "generate"
    count = numbers["max_new_tokens"]
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        problem = f"max_new_tokens must be an integer of at least 0, got {count!r}"
        raise refuse(ConfigError, "MODEL-ERRORS", problem, where)
    for name in ("eos_id", "pad_id"):
        number = numbers[name]
        if number is not None and not 0 <= number < vocabulary:
            raise refuse(ConfigError, "MODEL-ERRORS", f"{name} must be in [0, {vocabulary}), got {number!r}", where)
    if numbers["pad_id"] is not None and numbers["eos_id"] is None:
        raise refuse(ConfigError, "MODEL-ERRORS", "pad_id must come with an eos_id", where)
    if tokens[0] and (tokens[1] == 0 or (real is not None and not np.all(np.any(real, axis=1)))):
        raise refuse(ConfigError, "MODEL-EMPTY-PROMPT", "every row must have a real token", where)


def _require(holds: bool, problem: str, where: str) -> None:
    if not holds:
        raise refuse(ShapeError, "MODEL-SHAPES", problem, where)
