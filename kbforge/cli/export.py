"""`kbforge export`: a knowledge base in another format."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def export(
    kb: Annotated[str, typer.Argument(help="Entities, JSON lines; - is standard input.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File to write, or folder for several; - is standard output."
        ),
    ] = "-",
    format_name: Annotated[
        str, typer.Option("--format", help="An exporter; kbforge plugins list shows them.")
    ] = "jsonl",
    fragments: Annotated[
        str | None,
        typer.Option(
            "--fragments", help="The fragments that were clustered; adds sources and metadata."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of the exporter, as exporter.option=value."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as one JSON object.")
    ] = False,
) -> None:
    """Write a knowledge base in the format of an exporter.

    Examples:

        kbforge export kb.jsonl --format csv -o kb.csv

        kbforge export kb.jsonl --format csv --set exporter.separator=";" -o kb.csv.gz

        kbforge export kb.jsonl --format wide --set exporter.values=all -o golden.csv

        kbforge export kb.jsonl --format members -o members.csv

    Formats, and their options for --set:

    - jsonl: what every verb reads.

    - csv: one row a value; separator (|), guard_formulas (true).

    - wide: golden records, one row an entity and one column an attribute; values (best or all),
      separator, guard_formulas.

    - members: one row a fragment, with its entity and confidence; guard_formulas.
    """
    from kbforge import registry
    from kbforge.cli.options import files_of
    from kbforge.files.apart import require_apart
    from kbforge.kb import export as kb_export
    from kbforge.kb.view import file_view
    from kbforge.registry.options import parse_settings

    if as_json and output == "-":
        raise UsageError("--json and the entities cannot both go to standard output; give -o FILE")
    require_apart(output, [kb, fragments, *files_of(settings)])
    options = parse_settings(settings or [], ["exporter"])["exporter"]
    exporter = registry.create("exporters", format_name, options)
    count = kb_export.export(file_view(kb, fragments), exporter, output)
    if as_json:
        console.print_json({"entities": count, "format": format_name, "output": output})
    elif output != "-":
        console.note(f"wrote {count:,} {'entity' if count == 1 else 'entities'} to {output}")
