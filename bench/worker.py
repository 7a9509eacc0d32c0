"""One player in a process of its own: it takes a request a line on stdin, and answers each in a line on stdout.

Run as `python -m gaugeblock.bench.worker NAME SIZE`. A process of its own has its own memory and its own CPU time, and
no other framework's threads.
"""

import json
import os
import sys
import time
from typing import Any

import numpy as np

from gaugeblock.bench.players import Player, player
from gaugeblock.bench.size import Size
from gaugeblock.spec.errors import ConfigError, NotAvailable

ROOM = 64  # columns behind the context, for the tokens that are decoded
PAUSE = 0.02  # seconds
PATIENCE = 500  # pauses, for a library whose threads never rest


class Bench:
    """The jobs that a player is asked to do, by name."""

    def __init__(self, player: Player, size: Size) -> None:
        self.player, self.size, self.context = player, size, 0

    def prefill(self, context: int) -> dict[str, Any]:
        """A prompt of this many tokens into a new cache."""
        ids = self.size.tokens(context)
        began = time.process_time()
        self.player.prefill(ids, context + ROOM)
        self.context = context
        return {"seconds": settled() - began}

    def decode(self, tokens: int) -> dict[str, Any]:
        """So many tokens behind the prompt, one at a time; then the cache is as it was."""
        began = time.process_time()
        for id in range(tokens):
            self.player.decode(id)
        seconds = (settled() - began) / tokens
        self.player.rewind(self.context)
        return {"seconds": seconds}

    def logits(self, out: str) -> dict[str, Any]:
        """What stands behind the prompt and one more token, for comparison; and what the cache takes up."""
        scores = self.player.decode(0)
        np.save(out, scores)
        nbytes = self.player.cache_nbytes()
        self.player.rewind(self.context)
        return {"cache_nbytes": nbytes}

    def memory(self) -> dict[str, Any]:
        """The most that the process has held so far, in bytes; None where the system does not say."""
        return {"peak": peak_nbytes()}


def settled() -> float:
    """The CPU time of the process once it rests: what a call leaves to other threads, as freeing its memory, is its."""
    now = time.process_time()
    for _ in range(PATIENCE):
        before = now
        time.sleep(PAUSE)
        now = time.process_time()
        if now - before < PAUSE / 20:
            break
    return now


def peak_nbytes() -> int | None:
    """The largest resident size so far; Linux counts in KiB, macOS in bytes."""
    try:
        import resource
    except ImportError:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(name: str, size: str) -> None:
    """Load the player, then answer until stdin ends; the first answer says whether there is one."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between the answers

    def answer(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    measured = Size(**json.loads(size))
    try:
        bench = Bench(player(name, measured), measured)
    except NotAvailable as missing:
        return answer({"not_available": str(missing)})
    except ConfigError as refusal:
        return answer({"refused": str(refusal)})
    answer({"peak": peak_nbytes()})
    for line in sys.stdin:
        job, argument = json.loads(line)
        answer(getattr(bench, job)(*argument))


if __name__ == "__main__":
    main(*sys.argv[1:])
