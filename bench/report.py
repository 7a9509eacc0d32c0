"""The command: measure with a bar on the screen, print tables, write JSON, say with which status to end."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from gaugeblock.bench.match import Request, Result, measure, steps
from gaugeblock.bench.players import PEERS
from gaugeblock.bench.size import Size
from gaugeblock.bench.targets import best, growth, targets
from gaugeblock.spec.errors import ConfigError
from gaugeblock.spec.weights import swiglu_width

JOBS = {"prefill": "a prompt", "decode": "one token behind it"}


def request(contexts: str, repeats: int, only: Sequence[str], *, width: int, layers: int, small: bool) -> Request:
    """What the command line asks for; heads and the rest of the model go with its width.

    Raises ConfigError for what has no meaning.
    """
    try:
        lengths = tuple(int(length) for length in contexts.split(","))
    except ValueError:
        raise ConfigError(f"bench: contexts must be numbers with commas between them, got {contexts!r}") from None
    if small:
        size = Size(width=32, layers=2, heads=4, kv_heads=2, ffn_width=88, vocabulary=100)
        return Request(size, contexts=(8, 24), repeats=2, tokens=4, only=tuple(only))
    if width < 128 or width % 128:
        raise ConfigError(f"bench: width must be a multiple of 128, got {width}")
    heads, network = {"heads": width // 64, "kv_heads": width // 128}, swiglu_width(width)
    size = Size(width=width, layers=layers, **heads, ffn_width=network)
    return Request(size, contexts=lengths, repeats=repeats, only=tuple(only))


def report(request: Request, out: Path | None, console: Console) -> int:
    """Measure, print, write; 0 done, 1 the logits differ, 3 somebody who was asked for is not available.

    Raises ConfigError for what cannot be measured.
    """
    if out and (out.is_dir() or not out.parent.is_dir()):
        raise ConfigError(f"out: must be a file in a folder that exists, got {out}")
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("bench", total=steps(request))
        result = measure(request, lambda text: progress.update(task, advance=1, description=escape(text)))
    show(result, console)
    if out:
        out.write_text(json.dumps(as_json(result), indent=1) + "\n", encoding="utf-8")
    return 1 if not result.agree else 3 if result.not_available else 0


def show(result: Result, console: Console) -> None:
    """Tables of times, ratios, memory and targets."""
    console.print(
        f"{result.request.size}, float32, one thread, CPU time, {result.request.repeats} rounds", highlight=False
    )
    for job, text in JOBS.items():
        console.print(_times(result, job, f"{job}: {text}, ms (by the best peer)"))
    console.print(_memory(result))
    table = Table("target", "at most", "found", "reached", box=None, pad_edge=False, header_style="")
    for t in targets(result):
        found = "-" if t.found is None else f"{t.found:.2f}"
        table.add_row(t.text, f"{t.most:.2f}", found, "-" if t.held is None else "yes" if t.held else "no")
    console.print(table)
    for name, reason in result.not_available.items():
        console.print(f"not-available  {name}: {escape(reason)}", highlight=False)
    if not result.agree:
        console.print("the logits differ: the times are not of one model", highlight=False)


def _times(result: Result, job: str, title: str) -> Table:
    contexts = sorted(result.request.contexts)
    grows = ["growth"] if job == "decode" and len(contexts) > 1 else []
    table = Table(title, *map(str, contexts), *grows, box=None, pad_edge=False, header_style="")
    for name in result.seconds:
        cells = []
        for context in contexts:
            seconds, ratio = result.time(name, job, context), best(result, name, job, context)
            # a peer by the best of the others would read like a rank
            beside = "" if ratio is None or name in PEERS else f" ({ratio:.2f})"
            cells.append("-" if seconds is None else f"{1000 * seconds:.1f}{beside}")
        grown = growth(result, name, contexts[0], contexts[-1])
        table.add_row(name, *cells, *(["-" if grown is None else f"{grown:.2f}"] if grows else []))
    if grows:
        size = result.request.size
        read = [size.step_bytes(context) / 2**20 for context in contexts]
        table.add_row("MiB read", *(f"{n:.1f}" for n in read), f"{read[-1] / read[0]:.2f}")
    return table


def _memory(result: Result) -> Table:
    """Whole processes, framework and all; the most so far, so that a row never falls from left to right."""
    contexts = [str(context) for context in sorted(result.request.contexts)]
    table = Table("peak of the process, MiB", "loaded", *contexts, box=None, pad_edge=False, header_style="")
    for name, peaks in result.peak.items():
        row = [peaks.get(when) for when in ("loaded", *contexts)]
        table.add_row(name, *("-" if n is None else f"{n / 2**20:.0f}" for n in row))
    return table


def as_json(result: Result) -> dict[str, Any]:
    """Everything that was measured and what follows from it, for a file."""
    size = result.request.size
    return {
        "kind": "bench",
        "request": asdict(result.request),
        "not_available": result.not_available,
        "seconds": result.seconds,
        "bytes_read": {context: size.step_bytes(context) for context in sorted(result.request.contexts)},
        "cache_nbytes": result.cache_nbytes,
        "peak": result.peak,
        "logits_differ_by": result.difference,
        "targets": [{**asdict(t), "reached": t.held} for t in targets(result)],
    }
