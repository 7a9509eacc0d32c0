"""The cache: its closed form, the plain model that the checks drive beside it, and what our own caches carry along."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from gaugeblock.conformance.checks import Plan, registry, run
from gaugeblock.conformance.laws.cache_driver import Plain
from gaugeblock.conformance.mistakes.cache import likely
from gaugeblock.conformance.proposals.cache import conventions, level, unsupported
from gaugeblock.conformance.strategies.cache import CacheCase
from gaugeblock.conformance.unusual import unusual
from gaugeblock.spec import cache as rules
from gaugeblock.spec.cache import Dims, cache_bytes
from gaugeblock.spec.conventions import Conventions
from gaugeblock.spec.errors import CapacityError, ConfigError
from gaugeblock.spec.precision import FLOAT32, Level

BACKENDS = {"numpy": "NumpyBackend", "torch": "TorchBackend", "jax": "JaxBackend"}
SIZES: dict[str, Any] = {
    "layers": 2,
    "batch": 3,
    "kv_heads": 2,
    "capacity": 5,
    "key_width": 4,
    "value_width": 3,
    "dtype": "float32",
}


def made(name: str) -> Any:
    return getattr(import_module(f"gaugeblock.backends.{name}"), BACKENDS[name])()


def test_bytes_are_counted_by_hand() -> None:
    assert cache_bytes(layers=1, batch=1, kv_heads=1, length=1, key_width=1, value_width=1, dtype="float16") == 4
    # a model of 32 layers with 8 heads of 128, in 16 bits: 128 KiB for each token
    token = cache_bytes(layers=32, batch=1, kv_heads=8, length=1, key_width=128, value_width=128, dtype="bfloat16")
    assert token == 128 * 2**10
    arrays = [np.zeros((3, 2, 5, width), np.float64) for _ in range(4) for width in (4, 7)]
    counted = cache_bytes(layers=4, batch=3, kv_heads=2, length=5, key_width=4, value_width=7, dtype="float64")
    assert counted == sum(x.nbytes for x in arrays)
    assert cache_bytes(layers=2, batch=0, kv_heads=2, length=5, key_width=4, value_width=7, dtype="float64") == 0


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_our_caches_take_exactly_their_capacity(name: str, dtype: str) -> None:
    backend = made(name)
    sizes = {**SIZES, "dtype": dtype}
    cache = backend.init_cache(**sizes)
    capacity = sizes.pop("capacity")
    assert backend.cache_nbytes(cache) == cache_bytes(length=capacity, **sizes)
    wider = backend.reorder(cache, backend.asarray(np.array([0, 0, 1, 2, 2])))
    assert backend.cache_nbytes(wider) == cache_bytes(length=capacity, **{**sizes, "batch": 5})


@pytest.mark.parametrize("name", BACKENDS)
def test_what_a_decoder_keeps_is_carried_along(name: str) -> None:
    backend = made(name)
    cache = backend.init_cache(**SIZES)
    tokens = np.arange(3 * 2 * 4 * 2, dtype=np.float32).reshape(3, 2, 4, 2)
    real, seen = np.arange(15).reshape(3, 5) % 2 == 0, np.arange(12).reshape(3, 4) % 3 == 0
    cache.real, cache.memory_mask = backend.asarray(real.copy()), backend.asarray(seen.copy())
    cache.cross = [(backend.asarray(tokens.copy()), backend.asarray(-tokens)) for _ in range(2)]
    before = backend.cache_nbytes(cache)
    forked = backend.fork(cache)
    cut = backend.truncate(forked, 0)
    moved = backend.reorder(cache, backend.asarray(np.array([2, 0])))
    assert before == sum(x.nbytes for x in (*cut.keys, *cut.values))
    for held, rows in ((cut, [0, 1, 2]), (moved, [2, 0])):
        assert np.array_equal(backend.asnumpy(held.real), real[rows])
        assert np.array_equal(backend.asnumpy(held.memory_mask), seen[rows])
        assert len(held.cross) == 2 and np.array_equal(backend.asnumpy(held.cross[1][1]), -tokens[rows])


@pytest.mark.parametrize("name", BACKENDS)
def test_our_caches_raise_the_errors_that_are_named(name: str) -> None:
    for check in registry().values():
        if check.component == "cache":
            assert run(check, made(name), "float32", Plan("quick", shrink=False)).notes == []


def test_a_refusal_says_what_was_expected_and_got() -> None:
    with pytest.raises(CapacityError, match=r"room for 5 tokens and holds 4, got 2 more \[append\(L=2, B=1"):
        rules.appended(Dims(2, 1, 2, 5, 3, 4), 4, (1, 2, 2, 3), (1, 2, 2, 4), "float32", "float32", "float32")
    with pytest.raises(ConfigError, match=r"layer must be an integer in \[0, 2\), got -1"):
        rules.layer_of(Dims(2, 1, 2, 5, 3, 4), -1, "read")
    with pytest.raises(ConfigError, match="capacity must be an integer of at least 0, got True"):
        rules.dims(**{**SIZES, "capacity": True})


def test_the_plain_model() -> None:
    plain = Plain.empty(Dims(2, 2, 1, 9, 1, 1), FLOAT32)
    assert (plain.B, plain.length) == (2, 0)
    k = np.array([[1, 2], [3, 4]], np.float32)[:, None, :, None]
    plain.append(0, k, -k)
    assert plain.length == 0
    plain.append(1, 10 * k, -10 * k)
    forked = plain.fork()
    plain.reorder([1, 1, 0])
    plain.append(0, np.full((3, 1, 1, 1), 5, np.float32), np.full((3, 1, 1, 1), 6, np.float32))
    assert plain.keys[0][:, 0, :, 0].tolist() == [[3, 4, 5], [3, 4, 5], [1, 2, 5]]
    assert plain.values[0][2, 0, :, 0].tolist() == [-1, -2, 6] and plain.length == 2
    plain.truncate(1)
    assert plain.keys[1][:, 0, :, 0].tolist() == [[30], [30], [10]] and plain.length == 1
    assert forked.keys[0][:, 0, :, 0].tolist() == [[1, 2], [3, 4]] and (forked.B, forked.length) == (2, 2)


def test_a_script_is_bent_to_what_has_a_meaning() -> None:
    case = CacheCase(L=2, B=2, N=4, ops="a3,a3,a1,r5.0.0,t9,f,t1,s,a2@1,s,a2@1")
    told = [(step.kind, step.T or step.rows or step.length, step.layers) for step in case.steps()]
    assert told == [
        ("a", 3, (0, 1)),
        ("a", 1, (0, 1)),  # there is room for one more, and for none after that
        ("r", (1, 0, 0), ()),
        ("t", 4, ()),
        ("f", 0, ()),
        ("t", 1, ()),
        ("s", 0, ()),
        ("s", 0, ()),
        ("a", 2, (1,)),
    ]
    assert case.used() == {"reorder", "reorder.repeat", "truncate", "fork", "layers.apart"}


def test_every_feature_can_be_done_without() -> None:
    case = CacheCase(L=2, B=2, N=4, D=2, E=3, ops="a1,a0,f,r1.1.0,a1@1,t1,r,s,r1.0")
    for feature in sorted(case.used(), key=len, reverse=True):
        case = case.without(feature)
        assert feature not in case.used()
    assert not case.used()
    assert "capacity.zero" not in CacheCase(N=0, ops="a1").without("capacity.zero").used()
    assert "empty.batch" not in CacheCase(B=0, N=2, ops="a1,r").without("empty.batch").used()


def test_a_case_is_read_back() -> None:
    case = CacheCase(L=2, B=3, K=1, N=5, D=2, E=4, ops="a2@1,o,r2.0,r,t1,f,s", values="huge", layout="strided", seed=7)
    assert CacheCase.parse(str(case)) == case
    assert CacheCase.parse("L=1 B=1 K=1 N=1 D=1 E=1 ops=f") == CacheCase(ops="f")
    for text in ("ops=b1", "ops=a", "ops=a1@3", "ops=a1;o", "L=0", "values=odd", "layout=wild"):
        with pytest.raises(ConfigError):
            CacheCase.parse(text)


def test_what_a_wrong_cache_looks_like() -> None:
    random = np.random.default_rng(0)
    keys, values = ([random.normal(size=(3, 2, 4, 5)).astype(np.float32) for _ in range(2)] for _ in ("keys", "values"))

    def told(got: np.ndarray[Any, Any]) -> str:
        return likely(got, keys[0], keys, values, 0)

    hole = keys[0].copy()
    hole[:, :, 2] = 0
    assert told(values[0]) == "keys and values are exchanged"
    assert told(keys[1]) == "it is what layer 1 should hold"
    assert told(hole) == "columns [2] hold zeros, as if they had never been written"
    assert told(keys[0][[2, 0, 0]]) == "rows 0 to 2 hold what rows [2, 0, 0] should"
    assert told(keys[0][:, :, [0, 2, 2, 3]]) == "columns 0 to 3 hold the tokens [0, 2, 2, 3]"
    assert told(keys[0].astype(np.float16).astype(np.float32)) == "values went through float16"
    assert told(keys[0] + 1) == ""


def test_what_a_cache_shows_of_itself() -> None:
    shown = {
        name: conventions(unusual()[name].make(), "float32") for name in ("Growing", "NeverConsumed", "Concatenated")
    }
    assert shown["Concatenated"] == Conventions()
    assert shown["Growing"] == Conventions(capacity="grows")
    assert shown["NeverConsumed"] == Conventions(consumed_cache="valid")
    kernel = unusual()["AppendOnly"].make
    found = kernel()
    found.unsupported = {}
    wanted = set(kernel.unsupported) - {"kv_cache.reorder.repeat"}
    assert set(unsupported(found, "float32")) == wanted
    assert level(made("numpy"), "bfloat16") is Level.STRICT
