"""The verb resolve: a graph of a language model, resolved and written back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted

app = typer.Typer(add_completion=False)


@app.callback()
def resolve() -> None:
    """Join and part the entities of a graph, and write it back."""


@app.command("graph")
def graph_command(
    context: typer.Context,
    graph: Annotated[str, typer.Argument(metavar="FOLDER", help="The graph: a folder, or a file.")],
    output: Annotated[
        str, option("--output", "-o", "Folder to write.", metavar="OUT")
    ] = "NAME-resolved",
    source: Annotated[
        Literal["graphrag", "lightrag", "property-graph", "triples"] | None,
        option(
            "--source", "Format, if the folder has files of several.", show_default="by the files"
        ),
    ] = None,
    into: Annotated[
        str,
        option("--into", "Store that remembers the entities and decisions.", metavar="STORE"),
    ] = "OUT.sqlite",
    at_least: Annotated[
        float | None,
        option(
            "--at-least",
            "Least probability of a change; the store remembers it.",
            min=0.0,
            max=1.0,
            show_default="as before, at first 0",
        ),
    ] = None,
    undo: Annotated[
        list[str] | None,
        option(
            "--undo",
            "Undo the merge or the parting of this name or id, for good; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    seed: options.Seed = 0,
    gpu: options.Gpu = False,
    settings: options.RunSettings = None,
    as_json: options.Json = False,
) -> None:
    """Join and part the entities of a graph, and write it back.

    FOLDER is the output of GraphRAG, the storage of LightRAG or nano-graphrag, or an export of
    Graphiti or Cognee; or a file of triples. It is not changed. OUT has the same files: a merged
    entity keeps the record of one of its names, and relations between the same two entities are
    one. The report begins with the least sure change.

    The store remembers what was merged. --undo parts a name from the others with which it was
    merged, or joins what one name covered, and writes the graph again.

    Examples:

        kbforge resolve graph output

        kbforge resolve graph output -o resolved --at-least .9

        kbforge resolve graph output -o resolved --undo "MR. SCROOGE"

        kbforge resolve graph rag_storage --into kb.sqlite --json
    """
    from pathlib import Path

    from kbforge.files.io import require_apart
    from kbforge.jobs.report import status_of
    from kbforge.jobs.update import add_fragments
    from kbforge_graphs.resolve import graph as job

    name = Path(graph).name.partition(".")[0] or "graph"
    output = output if options.is_given(context, "output") else f"{name}-resolved"
    into = into if options.is_given(context, "into") else f"{output.rstrip('/')}.sqlite"
    for place in (output, into):
        require_apart(place, [graph], whole=True)
        if Path(graph).resolve() in Path(place).resolve().parents:
            raise UsageError(f"{quoted(place, 400)} is in the graph's folder; name another place")
    choices = options.choices_of(context)
    with console.working("reading the graph"):
        found = job.Graph(graph, source)
    console.notes(found.shape.taken)
    with console.stoppable() as check, console.following(check) as (on_step, on_stage):
        taken = add_fragments(into, found.fragments, choices, "replace", graph, on_step, on_stage)
    console.notes(taken.notes)
    if not taken.complete:
        console.note(
            f"{interrupts.sentence()}: {quoted(into, 400)} holds what was added by then; the same "
            "command continues"
        )
        raise typer.Exit(interrupts.exit_code())
    if status_of(into).refit_is_worth_it:
        console.remark(
            "the graph differs from what the store learned from; "
            f"kbforge refit {quoted(into, 400)} learns from it, and --into NEW begins anew"
        )
    least = job.least_change(into, at_least)
    with console.working("undoing"):
        done = job.undo(found, into, undo or (), least)
    if done or undo:
        console.note(f"{done or 'nothing is left to undo'} in {quoted(into, 400)}")
    with console.working("writing the graph"):
        report = job.write(found, found.plan(into, least), output, into)
    console.notes(found.shape.notes)
    if as_json:
        console.print_json(report)
    else:
        _print(report)


def _print(told: Mapping[str, Any]) -> None:
    """The tables of joined and parted names, and the counts."""
    out = console.stdout()
    for kind in ("joined", "parted"):
        rows = [
            (f"{row['probability']:.2f}", quoted(row[kind]["name"]), quoted(row["into"]["name"]))
            for row in told[kind]
        ]
        if rows:
            out.print(console.table_of(("probability", kind, "into"), rows))
            out.print()
    counts = ((kind, f"{n:,} -> {told['after'][kind]:,}") for kind, n in told["before"].items())
    console.stderr().print(console.figures_of(counts))
    console.note(f"wrote {quoted(told['output'], 400)}; {quoted(told['store'], 400)} remembers")
