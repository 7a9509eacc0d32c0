"""The command line. Exit status: 0 conforms, 1 does not, 2 cannot be used as asked, 3 incomplete or not available."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gaugeblock.spec.errors import GaugeblockError, NotAvailable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Conformance of Transformer components to a written specification.",
)

FORMS = "NAME[@variant], module:attribute[@variant] or path/file.py:attribute[@variant]"
Backends = Annotated[list[str], typer.Argument(metavar="BACKEND...", help=FORMS)]
Only = Annotated[list[str] | None, typer.Option(metavar="WORD", help="Component, clause or check (repeatable).")]
DType = Annotated[list[str] | None, typer.Option(metavar="NAME", help="dtype to check in (repeatable).")]
Jobs = Annotated[int | None, typer.Option("-j", metavar="N", min=1, help="Processes at once (default: one a core).")]


@app.command()
def check(
    backends: Backends,
    only: Only = None,
    dtype: DType = None,
    profile: Annotated[str, typer.Option(help="quick, default or thorough.")] = "default",
    seed: Annotated[int | None, typer.Option(help="Draw these examples instead of the usual ones.")] = None,
    jobs: Jobs = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Longest time for one check (default 300, thorough 1800).")
    ] = None,
    case: Annotated[str, typer.Option(metavar="TEXT", help="Run this one case, as a failure prints it.")] = "",
    known: Annotated[str, typer.Option(metavar="FILE.toml", help="Known failures, each with its reason.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="RUN.jsonl", help="Write the record there.")] = None,
    format: Annotated[str, typer.Option(help="terminal, markdown or json.")] = "terminal",
) -> None:
    """Check backends against the specification."""
    from gaugeblock.conformance.session import Request, report

    request = Request(backends, only or [], dtype or [], profile, seed, jobs, timeout, case, known, out)
    raise typer.Exit(report(request, format, _console()))


@app.command("list")
def list_(
    sections: Annotated[
        bool, typer.Option("--sections", help="The source document's sections and their clauses.")
    ] = False,
    clauses: Annotated[bool, typer.Option("--clauses", help="Every clause with its sentence.")] = False,
    backends: Annotated[bool, typer.Option("--backends", help="The installed backends.")] = False,
    features: Annotated[bool, typer.Option("--features", help="What a backend may declare unsupported.")] = False,
) -> None:
    """List components, or what an option names."""
    from gaugeblock.conformance import listing

    shown = {"sections": sections, "clauses": clauses, "backends": backends, "features": features}
    for name, wanted in shown.items():
        if wanted:
            typer.echo("\n".join(getattr(listing, name)()))
    if not any(shown.values()):
        typer.echo("\n".join(listing.components()))


@app.command()
def explain(clause: str) -> None:
    """Print a clause: sentence, formula, why, who deviates."""
    from gaugeblock.conformance import listing

    typer.echo("\n".join(listing.explain(clause)))


@app.command()
def cite(clause: str) -> None:
    """Print the line with which to cite a clause."""
    from gaugeblock.conformance import listing

    typer.echo(listing.cite(clause))


@app.command()
def propose(backend: Annotated[str, typer.Argument(metavar="BACKEND", help=FORMS)], dtype: DType = None) -> None:
    """Print the level, conventions and unsupported features that a backend shows, as lines to paste."""
    from gaugeblock.conformance.propose import propose as proposal

    typer.echo("\n".join(proposal(backend, dtype or [])))


@app.command()
def mutants(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Mutant, component, clause or number of the catalogue (repeatable)."),
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Leave a mutant alone once it is killed.")] = False,
    profile: Annotated[str, typer.Option(help="quick, default or thorough.")] = "default",
    seed: Annotated[int | None, typer.Option(help="Draw these examples instead of the usual ones.")] = None,
    jobs: Jobs = None,
    shown: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="Show this record; run nothing.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the record there, as JSON.")] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Keep what the file of --out says of other mutants that are still there.")
    ] = False,
    format: Annotated[str, typer.Option(help="terminal, markdown or json.")] = "terminal",
) -> None:
    """Run the known-bad implementations: which clause catches which."""
    from gaugeblock.conformance.report.mutants import Request, report

    raise typer.Exit(report(Request(only or [], first, profile, seed, jobs, shown, out, update), format, _console()))


@app.command()
def mutate(
    modules: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Modules of the NumPy backend.")],
    sample: Annotated[int | None, typer.Option(metavar="N", min=1, help="Draw so many of each (default: all).")] = None,
    seed: Annotated[int, typer.Option(help="Draw others.")] = 0,
    profile: Annotated[str, typer.Option(help="quick, default or thorough.")] = "default",
    jobs: Jobs = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest time for one check.")] = 60.0,
    out: Annotated[Path | None, typer.Option(metavar="FILE.jsonl", help="Write every mutant there.")] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Renew the counts of these modules there.")
    ] = None,
) -> None:
    """Change the NumPy backend in one place at a time, and show the changes that no check notices."""
    from gaugeblock.conformance.report.generic import Request, report

    raise typer.Exit(report(Request(modules, sample, seed, profile, jobs, timeout, out, record), _console()))


@app.command()
def hunt(
    backends: Annotated[
        list[str],
        typer.Argument(metavar="BACKEND...", help=f"{FORMS}; or unusual: all correct but unusual ways of the suite"),
    ],
    only: Only = None,
    dtype: DType = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="How many seeds, one after the other.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="The first of them (default: drawn).")] = None,
    jobs: Jobs = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Take what was tried into this record.")
    ] = None,
) -> None:
    """Run the thorough profile with seed after seed: rare faults, and false alarms of the suite itself."""
    from gaugeblock.conformance.hunt import Hunt
    from gaugeblock.conformance.report.hunt import Request, report

    chosen = Hunt(tuple(backends), tuple(only or ()), tuple(dtype or ()))
    raise typer.Exit(report(Request(chosen, seeds, seed, jobs, record), _console()))


@app.command()
def bench(
    contexts: Annotated[str, typer.Option(metavar="N,N,...", help="Lengths of the prompt.")] = "128,512,2048",
    repeats: Annotated[int, typer.Option(metavar="N", help="Rounds, of which the median is taken.")] = 5,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A backend or a peer (repeatable).")] = None,
    width: Annotated[int, typer.Option(metavar="M")] = 512,
    layers: Annotated[int, typer.Option(metavar="L")] = 8,
    small: Annotated[bool, typer.Option("--small", help="A tiny model and short prompts, to try it out.")] = False,
    suite: Annotated[bool, typer.Option("--suite", help="Measure the suite's own checks instead.")] = False,
    profile: Annotated[str, typer.Option(help="With --suite: quick, default or thorough.")] = "quick",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write what was measured there, as JSON.")] = None,
) -> None:
    """Measure prefill and decoding of the backends, beside transformers where it is installed."""
    if suite:
        from gaugeblock.conformance import speed

        raise typer.Exit(speed.report(only or ["numpy"], profile, out, _console()))
    from gaugeblock.bench.report import report, request

    asked = request(contexts, repeats, only or [], width=width, layers=layers, small=small)
    raise typer.Exit(report(asked, out, _console()))


def _console() -> Console:
    """Standard output; a file or a pipe is as wide as the tables want to be."""
    return Console(soft_wrap=True, emoji=False, width=None if sys.stdout.isatty() else 200)


def main() -> None:
    """Run the command line; a refusal is one message on stderr, never a traceback."""
    try:
        status = app(standalone_mode=True, prog_name="gaugeblock")
    except NotAvailable as missing:
        print(f"gaugeblock: not-available: {missing}", file=sys.stderr)
        status = 3
    except GaugeblockError as refusal:
        print(f"gaugeblock: {refusal}", file=sys.stderr)
        status = 2
    sys.exit(status)


if __name__ == "__main__":
    main()
