"""The players in turn: every job is done by all of them, round after round, so that a slow moment hits them alike."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gaugeblock.bench.players import OURS, PEERS
from gaugeblock.bench.size import Size
from gaugeblock.spec.backend import Numpy
from gaugeblock.spec.errors import ConfigError

AGREE = 1e-3  # logits are of size one; a weight in the wrong place moves them by more than a hundred times as much
# One thread each: BLAS and OpenMP by their variables, XLA by its own flags.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is to be measured."""

    size: Size
    contexts: tuple[int, ...] = (128, 512, 2048)
    repeats: int = 5
    tokens: int = 8
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.size.config  # noqa: B018 refuses sizes that have no meaning
        unknown = [word for word in self.only if word.partition("@")[0] not in (*OURS, *PEERS)]
        if unknown:
            raise ConfigError(f"bench: only must be of {', '.join((*OURS, *PEERS))}, got {', '.join(unknown)}")
        for name, low, numbers in (("contexts", 1, self.contexts), ("repeats", 1, (self.repeats,))):
            if not numbers or min(numbers) < low:
                raise ConfigError(f"bench: {name} must be at least {low}, got {numbers}")

    @property
    def players(self) -> tuple[str, ...]:
        """The names of those who are asked to play."""
        return self.only or (*OURS, *PEERS)


@dataclass
class Result:
    """What was measured: CPU seconds by player, job and context, one for each round; a decode is that of one token."""

    request: Request
    not_available: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    cache_nbytes: dict[str, dict[int, int]] = field(default_factory=dict)
    peak: dict[str, dict[str, int | None]] = field(default_factory=dict)  # once loaded, then after each context
    difference: dict[str, dict[int, float]] = field(default_factory=dict)  # of the logits, from the first player's

    def time(self, player: str, job: str, context: int) -> float | None:
        """The median of the rounds, None where nothing was measured."""
        rounds = self.seconds.get(player, {}).get(job, {}).get(context)
        return median(rounds) if rounds else None

    def ratio(self, player: str, other: str, job: str, context: int) -> float | None:
        """The median over the rounds of one player's time by another's in the same round."""
        pair = [self.seconds.get(name, {}).get(job, {}).get(context) for name in (player, other)]
        if pair[0] is None or pair[1] is None:
            return None
        return median(a / b for a, b in zip(*pair, strict=True) if b > 0) if any(pair[1]) else None

    @property
    def agree(self) -> bool:
        """Whether all players gave the same logits, as far as float32 goes."""
        return all(off <= AGREE for by_context in self.difference.values() for off in by_context.values())


class Worker:
    """A player in its process."""

    def __init__(self, name: str, size: Size) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gaugeblock.bench.worker", name, json.dumps(asdict(size))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,  # a request goes out with its line
            env={**os.environ, **ONE_THREAD},
        )

    def answer(self) -> dict[str, Any]:
        """The next line that it says. Raises ConfigError where it has died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ConfigError(f"bench: {self.name} ended with status {self.process.wait()}; its message is above")
        said: dict[str, Any] = json.loads(line)
        return said

    def ask(self, job: str, *arguments: object) -> dict[str, Any]:
        """Let it do a job, and wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([job, arguments]) + "\n")
        return self.answer()

    def end(self) -> None:
        """Let it finish; its pipes are closed."""
        self.process.communicate()


def measure(request: Request, tick: Tick = lambda _: None) -> Result:
    """Measure all players; tick is called before each of the steps that the request has.

    Raises ConfigError for a player that there is not, or that dies.
    """
    result, workers = Result(request), []
    try:
        for name in request.players:
            tick(f"load {name}")
            workers.append(Worker(name, request.size))
            said = workers[-1].answer()
            if "refused" in said:
                raise ConfigError(said["refused"])
            if "not_available" in said:
                result.not_available[name] = said["not_available"]
                workers.pop().end()
            else:
                result.peak[name] = {"loaded": said["peak"]}
        for context in sorted(request.contexts):
            _compare(workers, context, result, tick)
            _race(workers, context, result, tick)
    finally:
        for worker in workers:
            worker.end()
    return result


def steps(request: Request) -> int:
    """How often measure ticks, at most."""
    return len(request.players) * (1 + len(request.contexts) * (1 + request.repeats))


def _compare(workers: Sequence[Worker], context: int, result: Result, tick: Tick) -> None:
    """Let each read the prompt and one more token, which also warms it up; all must say the same."""
    first: Numpy | None = None
    with tempfile.TemporaryDirectory() as folder:
        for worker in workers:
            tick(f"{worker.name}: {context} tokens, the same logits?")
            out = Path(folder, f"{worker.name}.npy")
            worker.ask("prefill", context)
            worker.ask("decode", 1)
            said = worker.ask("logits", str(out))
            scores: Numpy = np.load(out)
            first = scores if first is None else first
            result.cache_nbytes.setdefault(worker.name, {})[context] = said["cache_nbytes"]
            result.difference.setdefault(worker.name, {})[context] = float(np.abs(scores - first).max())


def _race(workers: Sequence[Worker], context: int, result: Result, tick: Tick) -> None:
    """Round after round; who begins changes from one to the next."""
    for n in range(result.request.repeats):
        start = n % max(len(workers), 1)
        for worker in (*workers[start:], *workers[:start]):
            tick(f"{worker.name}: {context} tokens, round {n + 1}")
            times = {
                "prefill": worker.ask("prefill", context)["seconds"],
                "decode": worker.ask("decode", result.request.tokens)["seconds"],
            }
            for job, seconds in times.items():
                by_context = result.seconds.setdefault(worker.name, {}).setdefault(job, {})
                by_context.setdefault(context, []).append(seconds)
    for worker in workers:
        result.peak[worker.name][str(context)] = worker.ask("memory")["peak"]
