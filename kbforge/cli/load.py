"""`kbforge load`: reads fragments from any source."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kbforge import registry
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted
from kbforge.registry.options import parse_settings

app = typer.Typer(add_completion=False)

_SHOW_EVERY = 256  # fragments between two updates of the progress bar


@app.command()
def load(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="[SOURCE] FILE",
            help="Files, folders of a graph, or a database; - for standard input. Name the source "
            "first if the extensions do not imply it.",
        ),
    ],
    output: Annotated[
        str, option("--output", "-o", "File of fragments, JSON lines; - is standard output.")
    ] = "-",
    id_column: Annotated[
        str | None, option("--id", "Column of ids.", show_default="file name and row number")
    ] = None,
    name: Annotated[str | None, option("--name", "Column that becomes the attribute name.")] = None,
    label: Annotated[str | None, option("--label", "Column of the gold entity.")] = None,
    column_map: Annotated[
        list[str] | None,
        option(
            "--map",
            "Rename a column; COLUMN= leaves it out. May be repeated.",
            metavar="COLUMN=ATTRIBUTE",
        ),
    ] = None,
    separator: Annotated[
        str | None, option("--separator", "Text that separates several values within a cell.")
    ] = None,
    delimiter: Annotated[
        str | None,
        option(
            "--delimiter",
            "Character between the columns of a csv file, or tab.",
            show_default="detected",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        option(
            "--encoding",
            "Encoding of a text file: utf-8, cp1252, latin-1, utf-16, ...",
            show_default="detected",
        ),
    ] = None,
    sheet: Annotated[
        str | None, option("--sheet", "Sheet of a spreadsheet.", show_default="the first")
    ] = None,
    vector: Annotated[
        str | None, option("--vector", "Columns of numbers, separated by commas: x,y.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set", "Set an option of the source; may be repeated.", metavar="source.OPTION=VALUE"
        ),
    ] = None,
    limit: Annotated[
        int | None, option("--limit", "Write at most this many fragments.", min=0)
    ] = None,
    on_error: Annotated[
        Literal["stop", "quarantine"],
        option("--on-error", "Stop at a bad record, or set it aside and continue."),
    ] = "stop",
    quarantine: Annotated[
        str | None,
        option("--quarantine", "File for bad records.", show_default="OUTPUT.quarantine.jsonl"),
    ] = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Read fragments from files of any known format.

    The file extensions choose the source: .csv, .tsv, .xlsx, .jsonl, .json, .parquet, .spacy, .nt
    and those of plugins, even before .gz, .bz2 or .zst. A first argument that names a source is the
    source, even if a file has that name. The delimiter and encoding of a csv file are detected, and
    a note names them.

    Examples:

        kbforge load people.csv --id id -o people.jsonl

        kbforge load people.xlsx --sheet Members --id number -o people.jsonl

        kbforge load people.csv --delimiter ';' --encoding cp1252 -o f.jsonl

        kbforge load csv people.txt --map surname=name --separator '|'

        kbforge load csv points.csv --vector x,y --label label -o points.jsonl

        kbforge load a.csv b.csv --set source.prefix=true -o both.jsonl

        kbforge load hf owner/dataset --set source.split=test -o f.jsonl

        kbforge load graphrag output -o mentions.jsonl

        kbforge load postgresql://host/crm --query 'SELECT id, name FROM people' -o f.jsonl

        zcat dump.gz | kbforge load jsonl - --on-error quarantine -o f.jsonl

    Each row of a table is one fragment: csv, xlsx, parquet, jsonl, sql (PostgreSQL, DuckDB and
    SQLite), hf (data sets of the Hugging Face hub). So is each entity in a text unit of a graph:
    graphrag, lightrag, property-graph, triples; and each entity in a text or document: spacy,
    gliner, rebel, tweetnerd, wikidata.

    kbforge plugins list --kind sources lists the installed sources; kbforge plugins show source csv
    explains one and its options for --set.
    """
    from kbforge.jobs.load import default_quarantine, source_and_files
    from kbforge.jobs.load import load as run
    from kbforge.kb.view import require_json_lines

    columns = {
        "id": id_column,
        "label": label,
        "name": name,
        "map": column_map,
        "separator": separator,
        "vector": vector,
        "delimiter": delimiter,
        "encoding": encoding,
        "sheet": sheet,
    }
    chosen: dict[str, object] = {key: value for key, value in columns.items() if value is not None}
    chosen |= parse_settings(settings or (), ["source"])["source"]
    source, inputs = source_and_files(given)
    reader = registry.create("sources", source, chosen)
    require_json_lines(output, "fragments are", "name a file that ends in .jsonl")
    aside = None
    if on_error == "quarantine" or quarantine is not None:
        aside = quarantine or default_quarantine(output)
    if as_json and output == "-":
        raise UsageError("--json prints its summary on standard output; name a file with -o")
    with console.progress(total=limit, description=f"load {source}") as bar:

        def show(fragments: int) -> None:
            if fragments % _SHOW_EVERY == 0:
                bar.update(fragments)

        also_read = options.files_of(settings)
        report = run(reader, inputs, output, aside, limit, show, also_read)
    if as_json:
        console.print_json(report)
    else:
        console.note(f"{counted(report['fragments'], 'fragment')} in {report['seconds']:.2f} s")
        for rule, count in report["counts"].items():
            console.note(f"  {rule}: {count:,}")
        if report["set_aside"]:
            console.note(f"{counted(report['set_aside'], 'bad record')} set aside in {aside}")
    for sentence in reader.taken:
        console.note(sentence)
