"""Probes of caches, decoding and heads from the catalogue of public faults.

Right and wrong values are worked out row by row with many digits; test_probes.py says which probe is where.
"""

from typing import Any

import numpy as np
import plain_model
import pytest
from probing import Ours, floats, gamma, number, told
from probing_models import M, Probe, V, decoder, drawn, reader, standing

from gaugeblock.spec.config import AttentionConfig, BlockConfig, ModelConfig, StackConfig
from gaugeblock.spec.precision import FLOAT32

IDS = [3, 1, 4, 1, 5, 2, 6, 0, 7, 4]
PLAIN = AttentionConfig(width=V, heads=1, kv_heads=1, head_width=2, value_width=2)


def test_later_ids_do_not_reach_earlier_rows(backend: Ours) -> None:
    """Tokens 5 to 7 of 8 change: as a whole, through an empty cache, and as a chunk on a warm one."""
    probe, ids = Probe(backend, decoder()), IDS[:8]
    other = [*ids[:6], 7, 5]
    for a, b, same in ((ids, [*ids[:5], 0, 7, 5], 5), (ids, other, 6)):
        x, y = (probe.logits([row]) for row in (a, b))
        assert np.array_equal(x[:, :same], y[:, :same]) and not np.array_equal(x[:, same:], y[:, same:])
        x, y = (probe.step([row], probe.start(1))[0] for row in (a, b))
        assert np.array_equal(x[:, :same], y[:, :same])
    warm = [probe.step([ids[:5]], probe.start(1))[1] for _ in range(2)]
    x, y = (probe.step([row[5:]], cache)[0] for row, cache in zip((ids, other), warm, strict=True))
    assert np.array_equal(x[:, :1], y[:, :1]) and not np.array_equal(x[:, 1:], y[:, 1:])


def test_what_stands_at_pads_changes_nothing(backend: Ours) -> None:
    probe, real = Probe(backend, decoder()), np.array([[0, 1, 1, 0], [1, 1, 1, 0]], bool)
    junk = [[[7, 3, 1, 7], [4, 1, 5, 7]], [[0, 3, 1, 2], [4, 1, 5, 6]]]
    a, b = (probe.logits(rows, real)[real] for rows in junk)
    assert np.array_equal(a, b)


def test_vectors_at_pads_change_nothing(backend: Ours) -> None:
    attention = AttentionConfig(width=M, heads=2, kv_heads=1, head_width=2, value_width=2)
    block = BlockConfig(attention=attention, ffn_width=3)
    probe = Probe(backend, ModelConfig(encoder=StackConfig(block=block, layers=1, inputs="vectors")))
    real, x = np.array([[0, 1, 1, 0], [1, 1, 1, 0]], bool), np.random.default_rng(7).normal(size=(2, 4, M))
    made = []
    for junk in (-50.0, 1e3):
        given = floats(backend, np.where(real[..., None], x, junk))
        made.append(number(backend, backend.encode(probe.model, given, token_mask=probe.mask(real)))[real])
    assert np.array_equal(*made)


def test_steps_stand_behind_the_prompt(backend: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tokens at once, then four one by one at positions 6 to 9; or all of them at 6, or at 0."""
    probe = Probe(backend, decoder())
    made, cache = probe.step([IDS[:6]], probe.start(1))
    steps = [made[0]]
    for token in IDS[6:]:
        made, cache = probe.step([[token]], cache)
        steps.append(made[0])
    right, bound = probe.alone(IDS), probe.bound(IDS)
    wrong = []
    for p in (6, 0):
        monkeypatch.setattr(plain_model, "turned", standing([*range(6), p, p, p, p]))
        wrong.append(probe.alone(IDS))
        monkeypatch.undo()
    told(np.concatenate(steps), right, bound, *wrong)


@pytest.mark.parametrize("side", ["left", "right"])
def test_ragged_rows_go_on_as_if_alone(backend: Ours, side: str) -> None:
    """Lengths 6, 4 and 2 beside pads, then two steps; a row at the wrong place would go on from another's length."""
    probe = Probe(backend, decoder(rotary=None, learned=True))
    rows = [IDS[:6], IDS[2:6], IDS[7:9]]
    pads = [[0] * (6 - len(r)) for r in rows]
    tokens = [p + r if side == "left" else r + p for r, p in zip(rows, pads, strict=True)]
    ones = [[False] * len(p) + [True] * len(r) for r, p in zip(rows, pads, strict=True)]
    real = ones if side == "left" else [row[::-1] for row in ones]
    cache = probe.step(tokens, probe.start(3), real)[1]
    news = [[5, 1], [2, 7], [6, 6]]
    for t in range(2):
        made, cache = probe.step([[new[t]] for new in news], cache, [[True]] * 3)
        for i, (row, new) in enumerate(zip(rows, news, strict=True)):
            whole = row + new[: t + 1]
            late = probe.alone(whole, moved(probe, 6 - len(row), 0 if side == "left" else len(row)))[-1]
            told(made[i, 0], probe.alone(whole)[-1], probe.bound(whole), *([late] if len(row) < 6 else []))


def moved(probe: Probe, by: int, first: int) -> dict[str, Any]:
    """The weights with which a row from zero gives what it would give if its tokens from `first` on stood later."""
    table = probe.weights["decoder.positions.weight"]
    later = np.concatenate([table[:first], table[first + by :], table[:by]])
    return probe.weights | {"decoder.positions.weight": later}


def test_three_pads_on_the_left_take_no_positions(backend: Ours) -> None:
    probe, row = Probe(backend, decoder(rotary=None, learned=True)), IDS[:6]
    got = probe.logits([[0, 0, 0, *row]], [[False] * 3 + [True] * 6])[0, 3:]
    told(got, probe.alone(row), probe.bound(row), probe.alone(row, moved(probe, 3, 0)))


@pytest.mark.parametrize("T", [3, 4, 5, 9])
def test_a_window_of_four_in_steps(backend: Ours, T: int) -> None:
    probe, ids = Probe(backend, decoder(window=4)), IDS[:T]
    cache, made = probe.start(1), []
    for token in ids:
        row, cache = probe.step([[token]], cache)
        made.append(row[0, 0])
    narrow, wide = (Probe(backend, decoder(window=w), probe.weights).alone(ids) for w in (3, 5))
    told(made, probe.alone(ids), probe.bound(ids), *([narrow] if T > 3 else []), *([wide] if T > 4 else []))


def test_what_was_handed_out_stays(backend: Ours) -> None:
    probe = Probe(backend, decoder())
    tokens = np.array([IDS[:4]])
    first, cache = backend.step(probe.model, backend.asarray(tokens), probe.start(1))
    before, length = number(backend, first), backend.cache_length(cache)
    second, cache = backend.step(probe.model, probe.ids([[IDS[4]]]), cache)
    backend.step(probe.model, probe.ids([[IDS[5]]]), cache)
    assert np.array_equal(number(backend, first), before) and tokens.tolist() == [IDS[:4]] and length == 4
    told(number(backend, second)[0], probe.alone(IDS[:5])[-1:], probe.bound(IDS[:5]))


def test_beams_go_on_from_their_prefixes(backend: Ours) -> None:
    """Prefixes A, B, C of unequal lengths become C, A, A."""
    probe = Probe(backend, decoder())
    rows = [IDS[:4], IDS[4:7], IDS[7:9]]
    padded = [[0] * (4 - len(r)) + r for r in rows]
    cache = probe.step(padded, probe.start(3), [[i >= 4 - len(r) for i in range(4)] for r in rows])[1]
    made, _ = probe.step([[5], [2], [6]], backend.reorder(cache, probe.ids([2, 0, 0])), [[True]] * 3)
    for got, row, kept, new in zip(made, (rows[2], rows[0], rows[0]), rows, (5, 2, 6), strict=True):
        wrong = [probe.alone([*kept, new])[-1]] if kept != row else []
        told(got[0], probe.alone([*row, new])[-1], probe.bound([*row, new]), *wrong)


def test_beams_take_their_memories_along(backend: Ours) -> None:
    """Three memories of unequal lengths; the self-attention adds nothing."""
    probe = Probe(backend, reader())
    memory, lengths = np.random.default_rng(51).integers(-8, 9, size=(3, 4, M)) / 8, (4, 2, 1)
    cache = probe.start(3, memory=memory, real=[[j < n for j in range(4)] for n in lengths])
    cache = backend.reorder(probe.step([[1], [1], [1]], cache)[1], probe.ids([2, 0, 0]))
    made, _ = probe.step([[5], [5], [5]], cache)
    right, bound = [probe.alone([1, 5], memory=memory[i, :n])[-1] for i, n in enumerate(lengths)], probe.bound([1] * 4)
    told(made[:, 0], [right[i] for i in (2, 0, 0)], bound, right)
    whole = [probe.alone([1, 5], memory=m)[-1] for m in memory]
    told(made[:1, 0], right[2:], bound, whole[2:])


def test_a_row_is_freed(backend: Ours) -> None:
    """The other two go on as they were."""
    probe = Probe(backend, decoder())
    rows = [IDS[:3], IDS[3:6], IDS[6:9]]
    cache = backend.reorder(probe.step(rows, probe.start(3))[1], probe.ids([1, 2]))
    made, _ = probe.step([[5], [5]], cache)
    for got, row, wrong in zip(made, rows[1:], rows, strict=False):
        told(got[0], probe.alone([*row, 5])[-1], probe.bound([*row, 5]), probe.alone([*wrong, 5])[-1])


def test_truncated_tokens_were_never_there(backend: Ours) -> None:
    """Five tokens, back to two, two more."""
    probe, ids = Probe(backend, decoder()), [*IDS[:2], 7, 6]
    cache = backend.truncate(probe.step([IDS[:5]], probe.start(1))[1], 2)
    made, cache = probe.step([ids[2:]], cache)
    assert backend.cache_length(cache) == 4
    told(made[0], probe.alone(ids)[2:], probe.bound(ids), probe.alone([*IDS[:5], 7, 6])[5:])


@pytest.mark.parametrize("stale", [np.nan, 1e3])
def test_what_lies_behind_the_length_is_not_read(backend: Ours, stale: float) -> None:
    """A layer full of it, emptied, then three tokens and two more: what was written is read, and nothing else."""
    sizes = {"layers": 1, "batch": 1, "kv_heads": 1, "capacity": 6, "key_width": 2, "value_width": 2}
    cache, k = backend.init_cache(**sizes, dtype="float32"), np.arange(10.0).reshape(1, 1, 5, 2)
    full = floats(backend, np.full((1, 1, 6, 2), stale))
    cache = backend.truncate(backend.append(cache, 0, full, full), 0)
    for part in (k[:, :, :3], k[:, :, 3:4], k[:, :, 4:]):
        cache = backend.append(cache, 0, floats(backend, part), floats(backend, -part))
    keys, values = (number(backend, x) for x in backend.read(cache, 0))
    assert np.array_equal(keys, k) and np.array_equal(values, -k)


def chain(backend: Ours, **options: Any) -> Probe:
    """A model without layers in which id n is followed by n + 1: one-hot rows, and a head that moves them on."""
    block = BlockConfig(attention=PLAIN, causal=True)
    config = ModelConfig(decoder=StackConfig(block=block, layers=0, vocabulary=V, final_norm=False, **options))
    weights = {"decoder.embedding.weight": np.eye(V), "head.weight": np.roll(np.eye(V), 1, axis=1)}
    return Probe(backend, config, weights)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_so_many_new_tokens(backend: Ours, n: int) -> None:
    probe = chain(backend)
    got = backend.asnumpy(backend.generate(probe.model, probe.ids([[7, 5, 0, 1]]), max_new_tokens=n))
    assert got.tolist() == [[7, 5, 0, 1, *(2 + i for i in range(n))]]


@pytest.mark.parametrize("pad", [7, 5])
def test_a_row_ends_at_its_first_new_end(backend: Ours, pad: int) -> None:
    """The end is 5: row 0 says it at step 1, row 1 at step 3; in the prompt and at its pads it ends nothing."""
    probe = chain(backend)
    prompt, real = [[5, 5, 5, 4], [5, 5, 1, 2]], [[False, True, True, True], [False, False, True, True]]
    for rows in ([0, 1], [0], [1]):
        given, mask = probe.ids([prompt[i] for i in rows]), probe.mask([real[i] for i in rows])
        options = {"max_new_tokens": 5, "eos_id": 5, "pad_id": pad}
        got = backend.asnumpy(backend.generate(probe.model, given, token_mask=mask, **options))
        new = [[5, pad, pad, pad, pad], [3, 4, 5, pad, pad]]
        assert got[:, 4:].tolist() == [new[i] for i in rows]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_row_of_the_embedding_moves_its_logit(backend: Ours, tied: bool, bias: bool) -> None:
    """Five ids of width 3 in small integers, so that every logit is exact; the scale is the embedding's alone."""
    attention = AttentionConfig(width=3, heads=1, kv_heads=1, head_width=2, value_width=2)
    stack = StackConfig(
        block=BlockConfig(attention=attention, causal=True),
        layers=0,
        vocabulary=5,
        final_norm=False,
        embedding_scale=2.0,
    )
    config = ModelConfig(decoder=stack, tied=tied, head_bias=bias)
    E, W, b = (np.random.default_rng(47).integers(-4, 5, size=s).astype(float) for s in ((5, 3), (3, 5), (5,)))
    changed = E + np.eye(5)[2][:, None]
    ids, own = [0, 1, 3, 4], {} if tied else {"head.weight": W}
    own |= {"head.bias": b} if bias else {}
    made = [Probe(backend, config, {"decoder.embedding.weight": e} | own).logits([ids])[0] for e in (E, changed)]
    for got, e in zip(made, (E, changed), strict=True):
        y, added = e[ids] @ (e.T if tied else W), b if bias else 0.0 * b
        told(got, 2 * y + added, 0, y + added, 4 * y + added, *([2 * y] if bias else []))
    moved = np.any(made[0] != made[1], axis=0)
    assert moved.tolist() == ([False, False, True, False, False] if tied else [False] * 5)


def test_the_head_reads_a_normalised_row(backend: Ours) -> None:
    """Sublayers that add nothing, final weights of one, the identity for a head: logits of root mean square 1."""
    attention = AttentionConfig(width=V, heads=1, kv_heads=1, head_width=2, value_width=2)
    block = BlockConfig(attention=attention, causal=True, eps=0.0)
    config = ModelConfig(decoder=StackConfig(block=block, layers=1, vocabulary=V))
    weights = drawn(config) | {"head.weight": np.eye(V), "decoder.final_norm.weight": np.ones(V)}
    weights["decoder.layers.0.attention.output.weight"] *= 0
    probe = Probe(backend, config, weights)
    x = weights["decoder.embedding.weight"][[3, 5]]
    right = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True))
    told(probe.logits([[3, 5]])[0], right, np.abs(right) * gamma(V / 2 + 10, FLOAT32.u), x)
