"""`kbforge cluster`: fragments in, a knowledge base out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.choices import choices_of
from kbforge.cli.following import stoppable
from kbforge.cli.into import take_in
from kbforge.cli.saving import save
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from kbforge.jobs.cluster import KnowledgeBase

app = typer.Typer(add_completion=False)

_FEW = 20  # so few fragments may well be one entity


@app.command()
def cluster(
    context: typer.Context,
    fragments: Annotated[str, typer.Argument(help="JSON lines file of fragments; - for stdin.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Knowledge base to write; - for stdout.")
    ] = "kb.jsonl",
    clusterer: options.Clusterer = "split-smc",
    likelihood: options.Likelihood = None,
    surrogate: options.Surrogate = None,
    index: options.Index = None,
    exact: options.Exact = False,
    particles: options.Particles = None,
    max_evals: options.MaxEvals = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration: larger makes more entities.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="File written by kbforge calibrate; gives alpha.")
    ] = None,
    confidence_map: options.ConfidenceMap = None,
    defaults: options.Defaults = None,
    answers: options.Answers = None,
    estimate: Annotated[
        Literal["map", "binder", "vi", "single", "complete", "average"],
        typer.Option(
            help="Which grouping to take: the most probable one; the one nearest to all of them by "
            "pairs (binder) or by variation of information (vi); or a cut of the tree of the "
            "probabilities of pairs, by its linkage."
        ),
    ] = "map",
    entities: Annotated[
        int | None,
        typer.Option(
            min=1, help="Cut the tree of --estimate into so many entities.", show_default="best cut"
        ),
    ] = None,
    alternatives: Annotated[
        Literal["few", "all"],
        typer.Option(
            help="Which other groupings an entity keeps: the three most probable above 1 %, or all."
        ),
    ] = "few",
    link: options.Link = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="STORE", help="Store to make or add to; not written to -o."),
    ] = None,
    on_duplicate: Annotated[
        Literal["error", "replace"],
        typer.Option(
            "--on-duplicate", help="With --into: what to do with an id whose content has changed."
        ),
    ] = "error",
    temperature: options.Temperature = 1.0,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", help="Cluster on workers: ray or a plugin's; same result."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="With --executor: of the cluster.",
            show_default="this machine",
        ),
    ] = None,
    workers: options.Workers = None,
    scorers: Annotated[
        int | None,
        typer.Option(
            "--scorers",
            min=1,
            help="With --executor: cluster here, and have a network's sets scored by so many "
            "workers.",
        ),
    ] = None,
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

        kbforge cluster fragments.jsonl --estimate vi --alternatives all -o kb.jsonl

        kbforge load csv people.csv -o - | kbforge cluster - -o - | kbforge show -

        kbforge cluster new.jsonl --into kb.sqlite

        kbforge cluster fragments.jsonl --executor ray --workers 4
    """
    from kbforge.files.apart import require_apart
    from kbforge.files.fragments import held, read_fragments
    from kbforge.files.io import require_writable
    from kbforge.jobs.cluster import cluster as run
    from kbforge.jobs.cluster import make_workers, partial_name, require_executor
    from kbforge.kb.export import require_json_lines
    from kbforge.kernel.library import use_workers

    if json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    choices = choices_of(context)
    require_executor(executor, address, choices, scorers)
    if executor is not None and into is not None:
        raise UsageError(
            "--executor and --into exclude each other: a store takes in fragments by itself"
        )
    if workers is not None and executor is None:
        use_workers(workers)
    if into is not None:
        _require_no_output(context)
        files = [fragments, calibration, confidence_map, answers]
        take_in(into, fragments, choices, on_duplicate, limit, json, files)
        return
    inputs = [fragments, calibration, confidence_map, answers]
    require_json_lines(
        output,
        "a knowledge base is",
        f"kbforge cluster {quoted(fragments, 400)} -o kb.jsonl, and then kbforge export kb.jsonl "
        f"-o {quoted(output, 400)}",
        f"kbforge cluster {quoted(fragments, 400)} --into {quoted(output, 400)} makes a store",
    )
    require_apart(output, [*inputs, *options.files_of(settings, likelihood, surrogate)])
    require_apart(partial_name(output), inputs)
    require_writable(output)
    crew = None if executor is None else make_workers(executor, choices, address, workers, scorers)
    begin = time.perf_counter()
    everything = held(read_fragments(fragments, limit=limit))
    reading = time.perf_counter() - begin
    with stoppable() as told:
        kb = run(everything, choices, told.on_step, crew, told.on_stage)
    for sentence in (*kb.notes, *_doubts(kb)):
        console.note(f"note: {sentence}")
    target = kb.target(output)
    # from here on the result is there, and nothing may lose it
    begin = time.perf_counter()
    with interrupts.deferred():
        save(kb.write_as, target)
    writing = time.perf_counter() - begin
    kb = replace(kb, times=replace(kb.times, reading=reading, writing=writing))
    if json:
        console.print_json(kb.summary())
    else:
        _print_summary(kb, target)
    if not kb.complete:
        console.note(
            f"{interrupts.sentence()}: {_place(target)} holds {_share(kb, len(everything))}"
        )
        raise typer.Exit(interrupts.exit_code())


def _require_no_output(context: typer.Context) -> None:
    """Refuse a file of entities beside a store.

    Raises:
        UsageError: it was named.

    """
    source = context.get_parameter_source("output")
    if source is not None and source.name == "COMMANDLINE":
        raise UsageError(
            "--into and -o exclude each other: kbforge export STORE -o FILE writes what a store has"
        )


def _share(kb: KnowledgeBase, total: int) -> str:
    """What an interrupted run has got to, in words."""
    count = kb.posterior.n_fragments
    if count < total:
        return f"the first {count:,} of {total:,} fragments"
    return f"all {total:,} fragments, grouped as well as was found by then"


def _doubts(kb: KnowledgeBase) -> Iterator[str]:
    """What of a result looks wrong without labels: that nearly everything became one entity."""
    total = kb.posterior.n_fragments
    found = chain.from_iterable(kb.posterior.estimates())
    largest = max(map(len, found), default=0)
    if total > _FEW and 2 * largest > total:
        yield (
            f"one entity holds {largest:,} of {total:,} fragments; if that is wrong, try a larger "
            f"--alpha than {kb.alpha:.4g}, or another --likelihood"
        )


def _place(target: str) -> str:
    return "standard output" if target == "-" else quoted(target, 400)


def _print_summary(kb: KnowledgeBase, target: str) -> None:
    from rich.table import Table

    from kbforge.contracts import Ending

    figures = kb.summary()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("fragments", f"{figures['fragments']:,}")
    table.add_row("entities", f"{figures['entities']:,}")
    table.add_row("subproblems", f"{figures['subproblems']:,}")
    table.add_row("effective particles", f"10^{figures['log10_effective_particles']:.1f}")
    if kb.probability:
        table.add_row("log posterior (nats)", f"{figures['log_posterior']:,.2f}")
    else:
        table.add_row("score", f"{figures['score']:,.2f}")
    if figures["ended"] != Ending.DONE:
        table.add_row("ended by", figures["ended"])
    table.add_row("model evaluations", f"{figures['model_evaluations']:,}")
    if figures["evaluations_in_vain"]:
        table.add_row("and ahead in vain", f"{figures['evaluations_in_vain']:,}")
    table.add_row("alpha", f"{figures['alpha']:,.6g}")
    console.stderr().print(table)
    parts = ("reading", "preparing", "clustering", "writing")
    spent = ", ".join(f"{part} {figures[f'seconds_{part}']:,.2f}" for part in parts)
    console.note(f"{figures['seconds']:,.2f} seconds: {spent}")
    console.note(f"wrote {_place(target)}")
