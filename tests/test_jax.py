"""The JAX backend as pure functions: compiled, mapped, differentiated, and stepped with a cache that is given up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.load import load
from gaugeblock.spec import weights as names
from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, RotaryConfig, StackConfig
from gaugeblock.spec.errors import CacheError, CapacityError, PositionError

jax = pytest.importorskip("jax")

B, T, N = 2, 3, 16
ATTENTION = AttentionConfig(width=8, heads=4, kv_heads=2, head_width=6, value_width=3, rotary=RotaryConfig())
BLOCK = BlockConfig(attention=ATTENTION, causal=True, ffn_width=5, activation="silu", gated=True)
CONFIG = ModelConfig(decoder=StackConfig(block=BLOCK, layers=2, vocabulary=11), tied=True)
PLAIN = AttentionConfig(width=8, heads=2, kv_heads=2, head_width=4, value_width=4)
TABLE = StackConfig(
    block=BlockConfig(attention=PLAIN, causal=True, ffn_width=5),
    layers=1,
    vocabulary=11,
    positions="learned",
    max_positions=5,
)
LEARNED = ModelConfig(decoder=TABLE, tied=True)
CROSSING = ModelConfig(
    encoder=replace(TABLE, block=replace(TABLE.block, causal=False)),
    decoder=replace(TABLE, block=replace(TABLE.block, cross=PLAIN)),
    tied=True,
)


@pytest.fixture(scope="module")
def backend() -> Any:
    return load("jax")


@pytest.fixture(scope="module")
def model(backend: Any) -> Any:
    return loaded(backend, CONFIG)


def loaded(backend: Any, config: ModelConfig) -> Any:
    weights = {name: numbers(*shape) for name, shape in names.shapes(config).items()}
    return backend.load({name: backend.asarray(w) for name, w in weights.items()}, config)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def tokens(backend: Any, columns: int = T) -> Any:
    return backend.asarray(np.arange(B * columns).reshape(B, columns) % 11)


def functions(backend: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Methods with arrays alone for arguments."""
    x, q, k, v = (numbers(*s) for s in ((B, T, 8), (B, 4, T, 6), (B, 2, T, 6), (B, 2, T, 3)))
    wide = {name: numbers(*shape) for name, shape in names.block(BLOCK).items()}
    gated = {name: numbers(*shape) for name, shape in names.swiglu(8, 5).items()}
    return {
        "attention": (partial(backend.attention, causal=True), (q, k, v)),
        "rotate": (backend.rotate, (q, np.arange(T))),
        "rms_norm": (partial(backend.rms_norm, eps=1e-5), (x, x[0, 0])),
        "layer_norm": (partial(backend.layer_norm, eps=1e-5), (x, x[0, 0], x[0, 1])),
        "swiglu": (backend.swiglu, (x, gated)),
        "block": (lambda x, w: backend.block(x, w, BLOCK), (x, wide)),
    }


MAPPED = {"attention": (0, 0, 0), "rotate": (0, None), "rms_norm": (0, None), "layer_norm": (0, None, None)}
MAPPED |= {"swiglu": (0, None), "block": (0, None)}


@pytest.mark.parametrize("name", MAPPED)
def test_a_compiled_method_gives_what_it_gives_alone(backend: Any, name: str) -> None:
    method, arguments = functions(backend)[name]
    placed = jax.device_put(arguments)
    close(jax.jit(method)(*placed), method(*placed))


@pytest.mark.parametrize("name", MAPPED)
def test_a_mapped_method_gives_each_call_by_itself(backend: Any, name: str) -> None:
    method, arguments = functions(backend)[name]
    axes = MAPPED[name]

    def pair(argument: Any, axis: int | None) -> Any:
        return argument if axis is None else np.stack([argument, -2 * argument])

    placed = jax.device_put(tuple(pair(a, axis) for a, axis in zip(arguments, axes, strict=True)))
    mapped = jax.vmap(method, in_axes=axes)(*placed)
    for n in range(2):
        close(mapped[n], method(*(a if axis is None else a[n] for a, axis in zip(placed, axes, strict=True))))


def test_logits_compiled_mapped_and_differentiated(backend: Any, model: Any) -> None:
    ids = tokens(backend)
    alone = backend.logits(model, ids)
    close(jax.jit(backend.logits)(model, ids), alone)
    close(jax.vmap(lambda row: backend.logits(model, row[None])[0])(ids), alone)
    slopes = jax.jit(jax.grad(lambda m: jax.nn.logsumexp(backend.logits(m, ids))))(model)
    assert jax.tree.structure(slopes) == jax.tree.structure(model)
    of_layers = jax.tree.leaves(slopes.decoder.layers)
    assert of_layers and all(np.isfinite(g).all() and np.any(g) for g in of_layers)


def test_steps_of_one_length_are_traced_once_and_give_up_their_cache(backend: Any, model: Any) -> None:
    traces = 0

    @partial(jax.jit, donate_argnums=2)
    def step(model: Any, ids: Any, cache: Any) -> Any:
        nonlocal traces
        traces += 1
        return backend.step(model, ids, cache)

    ids, cache, plain = tokens(backend, 8), backend.start(model, B, N), backend.start(model, B, N)
    for n in range(8):
        given, before = cache, addresses(cache)
        scores, cache = step(model, ids[:, n : n + 1], cache)
        expected, plain = backend.step(model, ids[:, n : n + 1], plain)
        close(scores, expected)
        assert all(buffer.is_deleted() for buffer in (*given.keys, *given.values))
        assert addresses(cache) == before  # written in place
    assert traces == 1 and backend.cache_length(cache) == 8
    scores, cache = backend.step(model, ids, cache)  # and on without compiling
    expected, _ = backend.step(model, ids, plain)
    assert np.array_equal(np.asarray(scores).shape, (B, 8, 11)) and backend.cache_length(cache) == N
    close(scores, expected)
    with pytest.raises(CapacityError):
        backend.step(model, ids, cache)


def test_nothing_but_the_given_cache_is_given_up(backend: Any) -> None:
    model, ids, memory = loaded(backend, CROSSING), tokens(backend, 1), backend.asarray(numbers(B, 4, 8))
    mask = backend.asarray(np.array([[True] * 4, [False] + [True] * 3]))
    step = jax.jit(backend.step, donate_argnums=2)
    cache = backend.start(model, B, N, memory=memory, memory_mask=mask)
    forked = backend.fork(cache)
    scores, cache = step(model, ids, cache)
    close(step(model, ids, forked)[0], scores)
    backend.generate(model, ids, max_new_tokens=2, memory=memory, memory_mask=mask)
    assert not memory.is_deleted() and not mask.is_deleted() and not ids.is_deleted()


def test_steps_in_a_scan(backend: Any, model: Any) -> None:
    ids, cache = tokens(backend, 8), backend.start(model, B, N)

    def onwards(cache: Any, column: Any) -> tuple[Any, Any]:
        scores, cache = backend.step(model, column[:, None], cache)
        return cache, scores[:, 0]

    cache, scores = jax.jit(lambda cache: jax.lax.scan(onwards, cache, ids.T), donate_argnums=0)(cache)
    close(scores.swapaxes(0, 1), backend.logits(model, ids))
    assert backend.cache_length(cache) == 8


def test_a_cache_may_be_filled_and_cut_inside_a_compiled_function(backend: Any) -> None:
    sizes = {"layers": 1, "batch": B, "kv_heads": 2, "capacity": 5, "key_width": 4, "value_width": 3}
    k, v = backend.asarray(numbers(B, 2, T, 4)), backend.asarray(numbers(B, 2, T, 3))
    rows = backend.asarray(np.array([1, 0]))

    def filled(cache: Any) -> Any:
        cache = backend.truncate(backend.append(cache, 0, k, v), 1)
        return backend.reorder(backend.append(cache, 0, k, v), rows)

    cache = jax.jit(filled)(backend.init_cache(**sizes, dtype="float32"))
    assert backend.cache_length(cache) == 1 + T
    held, _ = backend.read(cache, 0)
    wanted = np.concatenate([np.asarray(k)[:, :, :1], np.asarray(k)], axis=2)[::-1]
    assert np.array_equal(held, wanted)


def test_a_compiled_step_copies_no_buffer(backend: Any, model: Any) -> None:
    cache = backend.start(model, 1, N)
    step = jax.jit(backend.step, donate_argnums=2).lower(model, tokens(backend, 1)[:1], cache)
    keys, values = (",".join(map(str, held[0].shape)) for held in (cache.keys, cache.values))
    made = [line for line in step.compile().as_text().splitlines() if f"[{keys}]" in line or f"[{values}]" in line]
    assert any("dynamic-update-slice" in line for line in made) and not any(" copy(" in line for line in made)


def test_what_a_compiled_function_puts_beyond_the_capacity_is_not_written(backend: Any) -> None:
    sizes = {"layers": 1, "batch": B, "kv_heads": 2, "capacity": T + 1, "key_width": 4, "value_width": 3}
    k, v = backend.asarray(numbers(B, 2, T, 4)), backend.asarray(numbers(B, 2, T, 3))

    def twice(cache: Any) -> Any:
        return backend.append(backend.append(cache, 0, k, v), 0, k + 1, v + 1)

    cache = backend.truncate(jax.jit(twice)(backend.init_cache(**sizes, dtype="float32")), T)
    assert all(np.array_equal(*pair) for pair in zip(backend.read(cache, 0), (k, v), strict=True))


def test_a_consumed_cache_is_refused_by_a_compiled_function_too(backend: Any, model: Any) -> None:
    cache = backend.start(model, B, N)
    backend.step(model, tokens(backend), cache)
    with pytest.raises(CacheError):
        jax.jit(backend.step)(model, tokens(backend), cache)


def test_every_product_is_of_the_highest_precision_and_nothing_calls_the_host(backend: Any, model: Any) -> None:
    made = jax.make_jaxpr(backend.step)(model, tokens(backend), backend.start(model, B, N))
    equations = list(within(made.jaxpr))
    products = [e for e in equations if e.primitive.name == "dot_general"]
    highest = (jax.lax.Precision.HIGHEST,) * 2
    assert len(products) == 2 * (4 + 2 + 3) + 1 and all(e.params["precision"] == highest for e in products)
    assert not [e for e in equations if "callback" in e.primitive.name]


@pytest.mark.parametrize("eos", [None, 8])
@pytest.mark.parametrize("new", [0, 1, 6])
def test_the_compiled_loop_generates_what_whole_calls_do(backend: Any, model: Any, new: int, eos: int | None) -> None:
    mask = backend.asarray(np.array([[True] * T, [False] + [True] * (T - 1)]))
    ends = {} if eos is None else {"eos_id": eos, "pad_id": 0}
    asked = {"max_new_tokens": new, "token_mask": mask, **ends}
    loop, whole = (backend.generate(model, tokens(backend), **asked, use_cache=cached) for cached in (True, False))
    assert loop.shape == (B, T + new) and np.array_equal(loop, whole)


def test_a_loop_is_one_step_however_long_it_runs(backend: Any, model: Any) -> None:
    steps = 0

    class Counting(type(backend)):  # type: ignore[misc]
        def step(self, *arguments: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            return super().step(*arguments, **options)

    counting = Counting()
    for columns in (T, T + 1):  # of one capacity
        counting.generate(model, tokens(backend, columns), max_new_tokens=6)
    assert steps == 3  # two prompts, and the loop


@pytest.mark.parametrize("cached", [True, False])
def test_generation_has_the_room_of_the_table(backend: Any, cached: bool) -> None:
    model, ids = loaded(backend, LEARNED), tokens(backend)
    assert backend.generate(model, ids, max_new_tokens=3, use_cache=cached).shape == (B, 6)
    with pytest.raises(PositionError):
        backend.generate(model, ids, max_new_tokens=4, use_cache=cached)


def test_generation_inside_a_trace_shows_the_prompt_alone(backend: Any, model: Any) -> None:
    ids, taps = backend.traced("generate", model, tokens(backend), max_new_tokens=4)
    assert np.array_equal(ids, backend.generate(model, tokens(backend), max_new_tokens=4))
    assert np.asarray(taps["decoder.layers.1.attention.query"]).shape == (B, 4, T, 6)


def within(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of inner functions among them."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda p: hasattr(p, "jaxpr")):
            if hasattr(inner, "jaxpr"):
                yield from within(inner.jaxpr)


def addresses(cache: Any) -> list[int]:
    return [buffer.unsafe_buffer_pointer() for buffer in (*cache.keys, *cache.values)]


def close(got: Any, expected: Any) -> None:
    """A compiled whole may round elsewhere, by some units in the last place of the largest number."""
    a, b = np.asarray(got), np.asarray(expected)
    assert a.shape == b.shape and np.abs(a - b).max() <= 64 * np.finfo(np.float32).eps * np.abs(b).max()


@pytest.mark.parametrize("crowded", [True, False])
def test_programs_are_dropped_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch, crowded: bool) -> None:
    from gaugeblock.backends.jax import BETWEEN

    dropped: list[int] = []
    monkeypatch.setattr("gaugeblock.backends.jax._crowded", lambda: crowded)
    monkeypatch.setattr(jax, "clear_caches", lambda: dropped.append(1))
    backend = load("jax")
    for _ in range(2 * BETWEEN):
        backend.rest()
    assert len(dropped) == 2 * crowded
