"""`kbforge cluster`: fragments in, a knowledge base out."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge.cli import console, options
from kbforge.cli.following import following
from kbforge.errors import EXIT_INTERRUPTED, UsageError

if TYPE_CHECKING:
    from kbforge.contracts import OnStep, Progress
    from kbforge.jobs.cluster import Clustering

app = typer.Typer(add_completion=False)

_FEW = 20  # so few fragments may well be one entity


@app.command()
def cluster(
    fragments: Annotated[str, typer.Argument(help="JSON lines file of fragments; - for stdin.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Knowledge base to write; - for stdout.")
    ] = "kb.jsonl",
    clusterer: options.Clusterer = "split-smc",
    likelihood: options.Likelihood = None,
    surrogate: options.Surrogate = None,
    index: options.Index = None,
    particles: options.Particles = None,
    max_evals: options.MaxEvals = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration: larger makes more entities.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="File written by kbforge calibrate; gives alpha.")
    ] = None,
    confidence_map: options.ConfidenceMap = None,
    temperature: options.Temperature = 1.0,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    gpu: options.Gpu = False,
    device: options.Device = None,
    settings: options.Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Group fragments into entities, one after another, and write the knowledge base.

    Examples:

        kbforge cluster fragments.jsonl -o kb.jsonl

        kbforge cluster fragments.jsonl --likelihood model/ --calibration calibration.toml --json

        kbforge cluster points.jsonl --likelihood gaussian --set likelihood.a=2 --alpha 20

        kbforge load csv people.csv -o - | kbforge cluster - -o - | kbforge show -
    """
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_writable
    from kbforge.jobs.cluster import Choices
    from kbforge.jobs.cluster import cluster as run
    from kbforge.registry.options import parse_settings

    if json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    choices = Choices(
        clusterer=clusterer,
        likelihood=likelihood,
        surrogate=surrogate,
        index=index,
        particles=particles,
        max_evals=max_evals,
        alpha=alpha,
        calibration=calibration,
        confidence_map=confidence_map,
        temperature=temperature,
        seed=seed,
        device=options.device_of(gpu, device),
        options=parse_settings(settings or [], ("likelihood", "surrogate", "index", "clusterer")),
    )
    require_writable(output)
    held = list(read_fragments(fragments, limit=limit))
    with _progress() as on_step:
        done = run(held, choices, on_step)
    complete = done.posterior.complete
    # an interrupted run never passes for a finished one
    target = output if complete or output == "-" else _partial(output)
    for sentence in (*done.notes, *_doubts(done)):
        console.note(f"note: {sentence}")
    _write(held, done, target)
    if json:
        console.print_json(done.summary())
    else:
        _print_summary(done, target)
    if not complete:
        console.note(f"interrupted: {_place(target)} holds {_share(done, len(held))}")
        raise typer.Exit(EXIT_INTERRUPTED)


@contextlib.contextmanager
def _progress() -> Iterator[OnStep]:
    """A progress bar that a step can update; Ctrl-C ends the run after the current step.

    Before the first step, while a likelihood learns, there is nothing to keep: it ends at once.
    """
    from kbforge.contracts import Interrupted

    stopped = stepping = False

    def stop(*_: Any) -> None:
        nonlocal stopped
        if stopped or not stepping:  # a second Ctrl-C does not wait for the step
            raise KeyboardInterrupt
        stopped = True

    previous = signal.signal(signal.SIGINT, stop)
    try:
        with following() as show:

            def on_step(progress: Progress) -> None:
                nonlocal stepping
                if stopped:
                    raise Interrupted
                stepping = True
                show(progress)

            yield on_step
    finally:
        signal.signal(signal.SIGINT, previous)


def _share(done: Clustering, total: int) -> str:
    """What an interrupted run has got to, in words."""
    count = done.posterior.n_fragments
    if count < total:
        return f"the first {count:,} of {total:,} fragments"
    return f"all {total:,} fragments, grouped as well as was found by then"


def _doubts(done: Clustering) -> Iterator[str]:
    """What of a result looks wrong without labels: that nearly everything became one entity."""
    total = done.posterior.n_fragments
    largest = max(map(len, done.posterior.clusters()), default=0)
    if total > _FEW and 2 * largest > total:
        yield (
            f"one entity holds {largest:,} of {total:,} fragments; if that is wrong, try a larger "
            f"--alpha than {done.alpha:.4g}, or another --likelihood"
        )


def _place(target: str) -> str:
    return "standard output" if target == "-" else target


def _partial(output: str) -> str:
    """OUTPUT.partial; the name still says whether it is compressed."""
    plain = output.removesuffix(".gz")
    return f"{plain}.partial{output[len(plain) :]}"


def _write(fragments: list[Any], done: Clustering, target: str) -> None:
    from kbforge import registry
    from kbforge.files.io import open_output
    from kbforge.kb.entities import assemble

    held = fragments[: done.posterior.n_fragments]
    calibrate = None if done.confidence is None else done.confidence.entities.one
    entities = assemble(held, done.posterior, calibrate=calibrate)
    with open_output(target) as out:
        registry.create("exporters", "jsonl").export(entities, out)


def _print_summary(done: Clustering, target: str) -> None:
    from rich.table import Table

    from kbforge.contracts import Ending

    figures = done.summary()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("fragments", f"{figures['fragments']:,}")
    table.add_row("entities", f"{figures['entities']:,}")
    table.add_row("subproblems", f"{figures['subproblems']:,}")
    table.add_row("effective particles", f"10^{figures['log10_effective_particles']:.1f}")
    table.add_row("log posterior (nats)", f"{figures['log_posterior']:,.2f}")
    if figures["ended"] != Ending.DONE:
        table.add_row("ended by", figures["ended"])
    table.add_row("model evaluations", f"{figures['model_evaluations']:,}")
    table.add_row("alpha", f"{figures['alpha']:,.6g}")
    table.add_row("seconds", f"{figures['seconds']:,.2f}")
    rate = figures["fragments_per_second"]
    if rate >= 0.95:
        table.add_row("fragments/s", f"{rate:,.0f}")
    else:
        table.add_row("seconds a fragment", f"{1 / rate:,.1f}" if rate else "-")
    screen = console.stderr()
    screen.print(table)
    screen.print(f"wrote {_place(target)}", markup=False)
