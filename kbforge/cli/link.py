"""`kbforge link`: finds records of the same entity in several tables."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.cluster import require_against, write_clustered
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted, listed, quoted
from kbforge.registry import name_of, named_after

app = typer.Typer(add_completion=False)


@app.command(epilog=options.names_listed(options.OF_A_RUN))
def link(
    context: typer.Context,
    tables: Annotated[
        list[str],
        typer.Argument(
            help="Two or more tables (one with --against): .csv, .tsv, .xlsx, .parquet, or "
            "fragments as .jsonl.",
            metavar="TABLE...",
        ),
    ],
    output: Annotated[
        str, option("--output", "-o", "Knowledge base to write; - for standard output.")
    ] = "NAME.kb.jsonl",
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
    id_column: Annotated[
        list[str] | None,
        option(
            "--id",
            "Column of ids; repeat it if the tables name it differently.",
            show_default="a column called id, if safe",
        ),
    ] = None,
    label: Annotated[str | None, option("--label", "Column of the gold entity.")] = None,
    column_map: Annotated[
        list[str] | None,
        option(
            "--map",
            "Rename a column to match other tables; COLUMN= leaves it out. May be repeated.",
            metavar="COLUMN=ATTRIBUTE",
        ),
    ] = None,
    against: options.Against = None,
    all_known: Annotated[
        bool,
        option(
            "--all-known", "With --against: also write the known entities that no record joined."
        ),
    ] = False,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    seed: options.Seed = 0,
    settings: options.RunSettings = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Find the records that tables have in common, one to one.

    Each table lists an entity at most once, so a record has at most one partner in another table. A
    table is named after its file, without the extension. If tables share ids, the table's name is
    put before every id (table:id). For one file, kbforge cluster --link source does the same.

    With --against, any number of records of a single table may belong to a known entity. NAME joins
    the names of the tables: abt-buy.kb.jsonl for abt.csv and buy.csv.

    Examples:

        kbforge link abt.csv buy.csv --links links.csv

        kbforge link abt.csv buy.csv --id id --map title=name -o kb.jsonl

        kbforge link a.csv b.xlsx c.parquet --links links.jsonl --json

        kbforge link a.csv b.csv --label key --fragments both.jsonl

        kbforge link mentions.csv --against authority.csv --id id --links links.csv
    """
    from kbforge.files.io import require_apart, require_distinct, require_writable
    from kbforge.fit.choices import SOURCE
    from kbforge.jobs.cluster import partial_name
    from kbforge.jobs.link import columns_of, joined, read_against, read_tables
    from kbforge.kb.view import require_json_lines

    if not options.is_given(context, "output"):
        output = named_after(output, tables)
    if as_json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    require_against(against, tables[0])
    if all_known and against is None:
        raise UsageError("--all-known needs an authority: expected --against AUTHORITY, got none")
    choices = options.choices_of(context)
    if against is None:
        choices = replace(choices, link=SOURCE)
    require_json_lines(
        output, "a knowledge base is", f"kbforge export kb.jsonl -o {quoted(output, 400)} converts"
    )
    outputs = {"knowledge base": output, "links": links, "fragments": fragments}
    require_distinct(outputs.items())
    inputs = [*tables, *options.files_of(settings, likelihood), against]
    for path in filter(None, (*outputs.values(), partial_name(output))):
        require_apart(path, inputs)
        require_writable(path)
    begin = time.perf_counter()
    columns = columns_of(id_column or (), label, column_map or ())
    of_sources = options.source_options(context)
    authority = None
    if against is not None:
        everything, authority = read_against(tables, against, columns, of_sources, console.remark)
        sizes = [f"{name_of(tables[0])} ({len(everything):,})"]
        sizes.append(f"{counted(len(authority), 'known entity', 'known entities')}")
    else:
        found = read_tables(tables, columns, of_sources, console.remark)
        everything = joined(found)
        sizes = [f"{name} ({len(of):,})" for name, of in found.items()]
    reading = time.perf_counter() - begin
    console.note(f"linking {listed(sizes, 8)}")
    write_clustered(
        everything,
        reading,
        choices,
        output,
        as_json,
        links,
        fragments,
        authority,
        all_known,
    )
