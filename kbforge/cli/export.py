"""The verbs that write a knowledge base for others: export and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge import registry
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted, listed, quoted
from kbforge.registry.options import parse_settings

if TYPE_CHECKING:
    from kbforge.contracts import View


export_app = typer.Typer(add_completion=False)


@export_app.command()
def export(
    kb: options.KnowledgeBase,
    output: Annotated[
        str,
        option(
            "--output",
            "-o",
            "--to",
            "File to write, or a folder for several; - is standard output; or a database, such as "
            "postgresql://host/db, with --table.",
        ),
    ] = "-",
    format_name: Annotated[
        str | None,
        option(
            "--format",
            "Format, such as jsonl or wide (see below).",
            show_default="by the extension of -o, else jsonl",
        ),
    ] = None,
    fragments: Annotated[
        str | None,
        option("--fragments", "Read sources and metadata from the fragments that were clustered."),
    ] = None,
    policy: Annotated[
        str | None,
        option(
            "--policy",
            "Golden records: a TOML file, or fused, most-stated, latest, longest or all.",
            show_default="all values",
        ),
    ] = None,
    at: options.At = None,
    table: Annotated[
        str | None, option("--table", "Name of the table in the database.", metavar="NAME")
    ] = None,
    replace: Annotated[
        bool, option("--replace", "Replace a table of another format in the database.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            "Set an option of the format; may be repeated.",
            metavar="exporter.OPTION=VALUE",
        ),
    ] = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a knowledge base in another format.

    The extension of -o chooses the format, unless --format names it.

    Examples:

        kbforge export kb.jsonl -o kb.csv

        kbforge export kb.sqlite -o kb.xlsx

        kbforge export kb.jsonl --set exporter.separator=";" -o kb.csv.gz

        kbforge export kb.jsonl --format wide --policy fused -o golden.csv

        kbforge export kb.jsonl --policy policy.toml -o golden.jsonl

        kbforge export kb.jsonl --format wide --at 2019 --policy latest -o staff-2019.csv

        kbforge export kb.sqlite --policy fused --to postgresql://host/crm --table golden

        kbforge export kb.jsonl --format pairs --set exporter.threshold=0.9

        kbforge export kb.jsonl --fragments fragments.jsonl -o kb.nq

        kbforge export kb.jsonl --format neo4j -o graph

        kbforge export kb.jsonl -o kb.graphml

    Entities: jsonl, which every verb reads, csv (a row per value), wide and xlsx (a row per
    entity), parquet, ftm and kblam. Values that contradict each other: contradictions. Fragments:
    members (a row each) and pairs. Relations between
    entities: relations. Linked data and graphs: nquads, jsonld, neo4j, graphml, triples.

    kbforge plugins list --kind exporters lists the installed formats; kbforge plugins show exporter
    csv explains one and its options for --set.
    """
    from kbforge.files.io import called, require_apart
    from kbforge.jobs.views import view_of
    from kbforge.kb import view as views

    if as_json and output == "-":
        raise UsageError("--json and the entities cannot both go to standard output; give -o FILE")
    require_apart(output, [kb, fragments, policy, *options.files_of(settings)])
    chosen: dict[str, object] = {**parse_settings(settings or [], ["exporter"])["exporter"]}
    chosen |= {"table": table} if table is not None else {}
    chosen |= {"replace": True} if replace else {}
    format_name = format_name or views.exporter_for(output)
    exporter = registry.create("exporters", format_name, chosen)
    view: View = view_of(kb, fragments)
    if policy is not None or at is not None:
        view = golden = views.selected(view, policy, at)
    count = views.export(view, exporter, output)
    if policy is not None and golden.unused:
        nowhere = listed(sorted(golden.unused), 3)
        console.note(f"note: --policy has a rule for {nowhere}, which no entity has")
    if at is not None:
        console.notes(golden.notes)
    if as_json:
        rows = {} if exporter.n_rows is None else {"rows": exporter.n_rows}
        output = called(output)
        console.print_json({"entities": count, **rows, "format": format_name, "output": output})
    elif output != "-":
        of = "" if exporter.n_rows is None else f"{counted(exporter.n_rows, 'row')} of "
        console.note(f"wrote {of}{counted(count, 'entity', 'entities')} to {quoted(output, 400)}")
    for sentence in exporter.notes:
        console.note(sentence)


report_app = typer.Typer(add_completion=False)


@report_app.command()
def report(
    kb: options.KnowledgeBase,
    output: Annotated[
        str, option("--output", "-o", "HTML file; - is standard output.")
    ] = "report.html",
    fragments: Annotated[
        str | None,
        option(
            "--fragments",
            "Read labels from the fragments that were clustered, to mark the right entities.",
        ),
    ] = None,
    labels: Annotated[bool, option("--labels", "Read the labels of a store's fragments.")] = False,
    title: Annotated[
        str | None, option("--title", "Title of the page.", show_default="the file's name")
    ] = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Write a knowledge base as one HTML page.

    The page loads nothing from elsewhere, so you can mail it, and it prints well. It shows the
    sizes and confidences of the entities; the most important uncertain ones, with their
    alternatives and the evidence about the worst-fitting fragment; attributes with conflicting
    values; and a table of entities to sort and search. For a store it also shows what was chosen
    and why, what the last run changed, decisions, runs with their times, drift, and the answers of
    reviews.

    Examples:

        kbforge report kb.sqlite -o report.html

        kbforge report kb.sqlite --labels --title "People of 1900"

        kbforge report kb.jsonl --fragments fragments.jsonl
    """
    from kbforge.files.io import open_output, require_apart, require_writable
    from kbforge.jobs.report import report as run

    if as_json and output == "-":
        raise UsageError("--json and the page cannot both go to standard output; give -o FILE")
    require_apart(output, [kb, fragments])
    if output != "-":
        require_writable(output)
    with console.working("reading"):
        made = run(kb, fragments, labels, title)
    with open_output(output) as out:
        out.write(made.html.encode())
    if as_json:
        console.print_json({**made.summary(), "output": output})
    elif output != "-":
        console.note(f"wrote {quoted(output, 400)}")
