"""What the backends aim at, each a ratio of one run, and whether this run reached it."""

from collections.abc import Iterator
from dataclasses import dataclass

from gaugeblock.bench.match import Result
from gaugeblock.bench.players import OURS, PEERS


@dataclass(frozen=True)
class Target:
    """A ratio that should be at most so much; None where what it takes was not measured."""

    text: str
    most: float
    found: float | None

    @property
    def held(self) -> bool | None:
        """Whether it was reached."""
        return None if self.found is None else self.found <= self.most


def targets(result: Result) -> list[Target]:
    """The targets, at the contexts that were measured: the longest for decoding, the middle one for a prompt."""
    contexts = sorted(result.request.contexts)
    longest, middle = contexts[-1], contexts[len(contexts) // 2]
    return [
        Target(f"torch decode {longest} / hf-eager", 0.5, result.ratio("torch", "hf-eager", "decode", longest)),
        Target(f"torch decode {longest} / best peer", 0.8, best(result, "torch", "decode", longest)),
        Target(f"torch prefill {middle} / best peer", 1.0, best(result, "torch", "prefill", middle)),
        Target(f"jax decode {longest} / torch", 1.3, result.ratio("jax", "torch", "decode", longest)),
        Target(f"numpy decode {longest} / best peer", 1.0, best(result, "numpy", "decode", longest)),
        *_growths(result, contexts[0], longest),
        *_bytes(result),
    ]


def best(result: Result, player: str, job: str, context: int) -> float | None:
    """A player's time by that of the peer that it compares worst with, which is the fastest."""
    ratios = [result.ratio(player, peer, job, context) for peer in PEERS if peer != player]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def growth(result: Result, player: str, short: int, long: int) -> float | None:
    """How many times a decoded token costs behind a long context what it costs behind a short one."""
    low, high = (result.time(player, "decode", context) for context in (short, long))
    return high / low if low and high else None


def _growths(result: Result, short: int, long: int) -> Iterator[Target]:
    """Growth of the cost by growth of the bytes that a token reads."""
    size = result.request.size
    read = size.step_bytes(long) / size.step_bytes(short)
    for name in OURS:
        grown = growth(result, name, short, long)
        yield Target(
            f"{name} decode growth {long} / {short}, by that of bytes read",
            1.1,
            None if grown is None else grown / read,
        )


def _bytes(result: Result) -> Iterator[Target]:
    """The largest ratio of a cache's bytes to the closed form."""
    from gaugeblock.bench.worker import ROOM

    size = result.request.size
    for name in OURS:
        ratios = [n / size.cache_bytes(context + ROOM) for context, n in result.cache_nbytes.get(name, {}).items()]
        yield Target(f"{name} cache bytes / closed form", 1.0, max(ratios, default=None))
