"""`kbforge load`: any source to canonical fragments."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge.cli import console
from kbforge.cli import options as options_of_verbs
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.jobs.load import LoadReport

app = typer.Typer(add_completion=False)

_SHOW_EVERY = 256  # fragments between two updates of the progress bar


class OnError(StrEnum):
    """What to do with a bad record."""

    stop = "stop"
    quarantine = "quarantine"


@app.command()
def load(
    given: Annotated[
        list[str],
        typer.Argument(
            metavar="[SOURCE] FILE...",
            help="Files, - for standard input; before them the source, if their endings do not "
            "say it: csv, xlsx, jsonl, parquet, rebel, tweetnerd, hf or a plugin's.",
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Fragments, JSON lines; - is standard output.")
    ] = "-",
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column of ids; else file name and row number.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the gold entity.")] = None,
    name: Annotated[str | None, typer.Option(help="Column that becomes `name`.")] = None,
    column_map: Annotated[
        list[str] | None,
        typer.Option("--map", help="`column=attribute`; `column=` leaves it out. Repeatable."),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(help="Splits the text within a cell into several values; see --delimiter."),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="What stands between the columns of a csv file: one character, or tab.",
            show_default="found out",
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Of a text file: utf-8, cp1252, latin-1, utf-16, ...", show_default="found out"
        ),
    ] = None,
    sheet: Annotated[
        str | None,
        typer.Option(help="The sheet of a spreadsheet to read.", show_default="the first"),
    ] = None,
    vector: Annotated[
        str | None, typer.Option(help="Columns of numbers, with commas between: x,y.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="`source.option=value`. Repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Write at most N fragments.")] = None,
    on_error: Annotated[
        OnError, typer.Option(help="Stop at a bad record, or set it aside and go on.")
    ] = OnError.stop,
    quarantine: Annotated[
        str | None,
        typer.Option(help="File for bad records (default: OUTPUT.quarantine.jsonl)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Read fragments from files of any known format.

    The source goes by the ending of the files: .csv, .tsv, .xlsx, .jsonl, .parquet and those of
    plugins; a first argument that is the name of a source names it, even if there is such a file.
    Delimiter and encoding of a csv file are found out, and a note says what was found. Files may
    be gzip or zstd. Examples:

        kbforge load people.csv --id id -o people.jsonl

        kbforge load people.xlsx --sheet Members --id number -o people.jsonl

        kbforge load people.csv --delimiter ';' --encoding cp1252 -o people.jsonl

        kbforge load csv people.txt --id id --map surname=name --separator '|' -o people.jsonl

        kbforge load csv points.csv --vector x,y --label label -o points.jsonl

        kbforge load parquet papers.parquet --name title --label paper_id -o papers.jsonl

        kbforge load rebel en_train.jsonl --set source.relations_file=relations_count.tsv -o f.jsonl

        kbforge load old.csv --set source.null=NA,n/a -o f.jsonl

        kbforge load csv a.csv b.csv --id id --set source.prefix=true -o both.jsonl

        kbforge load jsonl people.jsonl --id pid --map surname=name -o people.fragments.jsonl

        kbforge load tweetnerd Academic.public.tsv --set source.top=200 -o tweets.jsonl

        kbforge load hf owner/dataset --set source.split=test --name title -o f.jsonl

        zcat dump.jsonl.gz | kbforge load jsonl - --on-error quarantine -o f.jsonl

    Options of the sources, for --set (id, label, name, map, separator and vector, which csv, xlsx,
    jsonl, parquet and hf share, have options of their own below):

    - csv, xlsx, jsonl, parquet and hf: null (texts that mean a missing value, with commas
    between, none if empty; by default unknown, none, null, nan, n/a, undefined, ?, - and --),
    prefix (true puts the file's name before each id), serial_dates (columns where numbers such as
    45123 are a spreadsheet's dates).

    - csv: delimiter; csv and jsonl: encoding; xlsx: sheet.

    - rebel: min_text (100), relations and relations_file (predicates to keep), dedupe (true),
      members (files of a zip).

    - tweetnerd: tweets (file of hydrated tweets), top (the N largest entities' distinct names),
      unlinked (keep or drop mentions without an entity).

    - hf: split (train), config, revision.
    """
    from kbforge import registry
    from kbforge.jobs.load import default_quarantine, source_and_files
    from kbforge.jobs.load import load as run
    from kbforge.kb.export import require_json_lines
    from kbforge.registry.options import parse_settings

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
    options: dict[str, object] = {key: value for key, value in columns.items() if value is not None}
    options |= parse_settings(settings or (), ["source"])["source"]
    source, inputs = source_and_files(given)
    reader = registry.create("sources", source, options)
    require_json_lines(output, "fragments are", "name a file that ends in .jsonl")
    aside = None
    if on_error is OnError.quarantine or quarantine is not None:
        aside = quarantine or default_quarantine(output)
    if as_json and output == "-":
        raise UsageError("--json prints its summary on standard output; name a file with -o")
    with console.progress(total=limit, description=f"load {source}") as bar:

        def show(fragments: int) -> None:
            if fragments % _SHOW_EVERY == 0:
                bar.update(fragments)

        also_read = options_of_verbs.files_of(settings)
        report = run(reader, inputs, output, aside, limit, show, also_read)
    if as_json:
        console.print_json(_summary(report, output, aside))
    else:
        _print(report, aside)
    for sentence in reader.taken:
        console.note(sentence)


def _summary(report: LoadReport, output: str, aside: str | None) -> dict[str, Any]:
    return {
        "fragments": report.fragments,
        "set_aside": report.set_aside,
        "counts": report.counts,
        "seconds": round(report.seconds, 6),
        "output": output,
        "quarantine": aside,
    }


def _print(report: LoadReport, aside: str | None) -> None:
    from kbforge.words import counted

    console.note(f"{counted(report.fragments, 'fragment')} in {report.seconds:.2f} s")
    for rule, count in report.counts.items():
        console.note(f"  {count:,} {rule}")
    if report.set_aside:
        console.note(f"{counted(report.set_aside, 'bad record')} set aside in {aside}")
