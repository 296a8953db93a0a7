"""`kbforge link`: finds the records of tables that are one entity."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.cluster import write_clustered
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted
from kbforge.words import listed

if TYPE_CHECKING:
    from kbforge.jobs.cluster import KnowledgeBase

app = typer.Typer(add_completion=False)


@app.command()
def link(
    context: typer.Context,
    tables: Annotated[
        list[str],
        typer.Argument(
            help="Two tables or more: .csv, .tsv, .xlsx, .parquet, or fragments as .jsonl.",
            metavar="TABLE...",
        ),
    ],
    output: Annotated[
        str, option("--output", "-o", "Knowledge base to write; - for standard output.")
    ] = "kb.jsonl",
    links: Annotated[
        str | None,
        option(
            "--links",
            "Also write the links, as CSV or as .jsonl: each record's partner and runner-up, with "
            "probabilities.",
            metavar="FILE",
        ),
    ] = None,
    fragments: Annotated[
        str | None,
        option(
            "--fragments",
            "Also write the records as fragments, for evaluate and export.",
            metavar="FILE",
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        option(
            "--id",
            "Column of ids; repeat it if tables call it differently.",
            show_default="row number",
        ),
    ] = None,
    label: Annotated[str | None, option("--label", "Column of the gold entity.")] = None,
    column_map: Annotated[
        list[str] | None,
        option(
            "--map",
            "Rename a column, so that tables share it; COLUMN= leaves it out. May be repeated.",
            metavar="COLUMN=ATTRIBUTE",
        ),
    ] = None,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    settings: options.Settings = None,
    as_json: Annotated[bool, option("--json", "Print the summary as one JSON object.")] = False,
    clusterer: options.Clusterer = "split-smc",
    particles: options.Particles = None,
    index: options.Index = None,
    exact: options.Exact = False,
    seed: options.Seed = 0,
) -> None:
    """Find the records that tables have in common, one to one.

    Each table has an entity at most once, so a record has at most one partner in another table.
    Tables are called by their files' names without endings. If tables share ids, every id gets the
    table's name in front (table:id). It is what kbforge cluster --link source does of one file.

    Examples:

        kbforge link abt.csv buy.csv --links links.csv

        kbforge link abt.csv buy.csv --id id --map title=name -o kb.jsonl

        kbforge link a.csv b.xlsx c.parquet --links links.jsonl --json

        kbforge link a.csv b.csv --label key --fragments both.jsonl
    """
    from kbforge.files.fragments import write_fragments
    from kbforge.files.io import require_apart, require_distinct, require_writable
    from kbforge.jobs.cluster import partial_name
    from kbforge.jobs.link import columns_of, joined, one_to_one, read_tables
    from kbforge.kb.links import links_of, write_links
    from kbforge.kb.view import require_json_lines
    from kbforge.registry.options import parse_settings

    if as_json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    given = settings or ()
    of_source = [setting for setting in given if setting.startswith("source.")]
    context.params["settings"] = [setting for setting in given if setting not in of_source]
    choices = one_to_one(options.choices_of(context))
    require_json_lines(
        output, "a knowledge base is", f"kbforge export kb.jsonl -o {quoted(output, 400)} converts"
    )
    outputs = {"knowledge base": output, "links": links, "fragments": fragments}
    require_distinct(outputs.items())
    inputs = [*tables, *options.files_of(settings, likelihood)]
    for path in filter(None, (*outputs.values(), partial_name(output))):
        require_apart(path, inputs)
        require_writable(path)
    begin = time.perf_counter()
    columns = columns_of(ids or (), label, column_map or ())
    found = read_tables(tables, columns, parse_settings(of_source, ["source"])["source"])
    everything = joined(found)
    reading = time.perf_counter() - begin
    console.note(f"linking {listed([f'{name} ({len(of):,})' for name, of in found.items()], 8)}")

    def write_beside(kb: KnowledgeBase) -> None:
        if links is not None:
            write_links(links_of(kb.fragments, kb.posterior), links)
        if fragments is not None:
            write_fragments(kb.fragments, fragments)

    write_clustered(everything, reading, choices, output, as_json, also=write_beside)
