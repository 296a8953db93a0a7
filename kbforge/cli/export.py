"""`kbforge export`: a knowledge base in another format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError
from kbforge.words import listed

if TYPE_CHECKING:
    from kbforge.contracts import View

app = typer.Typer(add_completion=False)


@app.command()
def export(
    kb: Annotated[
        str, typer.Argument(help="Entities, JSON lines, or a store; - is standard input.")
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File to write, or folder for several; - is standard output."
        ),
    ] = "-",
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="An exporter; kbforge plugins list shows them.",
            show_default="by the ending of -o, else jsonl",
        ),
    ] = None,
    fragments: Annotated[
        str | None,
        typer.Option(
            "--fragments", help="The fragments that were clustered; adds sources and metadata."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="Golden records: a TOML file, or most-stated, latest, longest or all.",
            show_default="all values",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Pairs more probable than this; the same as --set exporter.threshold=.",
            show_default="0.5",
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
    """Write a knowledge base in the format that the ending of -o, or --format, names.

    Examples:

        kbforge export kb.jsonl -o kb.csv

        kbforge export kb.sqlite -o kb.xlsx

        kbforge export kb.jsonl --format csv --set exporter.separator=";" -o kb.csv.gz

        kbforge export kb.jsonl --format wide --policy most-stated -o golden.csv

        kbforge export kb.jsonl --policy policy.toml --fragments fragments.jsonl -o golden.jsonl

        kbforge export kb.jsonl --format members -o members.csv

        kbforge export kb.jsonl --format pairs --threshold 0.9 -o pairs.csv

        kbforge export kb.jsonl --format nquads --fragments fragments.jsonl -o kb.nq

        kbforge export kb.jsonl --format neo4j --fragments fragments.jsonl -o graph

    Formats, and their options for --set:

    - jsonl: what every verb reads.

    - csv: one row a value; separator (|), guard_formulas (true).

    - wide: one row an entity and one column an attribute; separator (|), guard_formulas.

    - members: one row a fragment, with its entity and confidence; guard_formulas.

    - pairs: one row a pair of fragments above a probability; threshold (0.5), guard_formulas.

    - parquet: one row an entity, with nested columns.

    - ftm: FollowTheMoney statements; schema (LegalEntity), properties (such as born=birthDate),
      dataset.

    - kblam: facts with questions and answers, as KBLaM is trained on; separator.

    - neo4j: a folder for neo4j-admin database import.

    - nquads, jsonld: linked data; base (urn:kbforge:), and of jsonld type (Thing).
    """
    from kbforge import registry
    from kbforge.cli.options import files_of
    from kbforge.files.apart import require_apart
    from kbforge.jobs.living.views import view_of
    from kbforge.kb import export as kb_export
    from kbforge.kb.golden import GoldenView, read_policy
    from kbforge.registry.options import parse_settings

    if as_json and output == "-":
        raise UsageError("--json and the entities cannot both go to standard output; give -o FILE")
    require_apart(output, [kb, fragments, policy, *files_of(settings)])
    options: dict[str, object] = {**parse_settings(settings or [], ["exporter"])["exporter"]}
    if threshold is not None:
        options["threshold"] = threshold
    format_name = format_name or kb_export.exporter_for(output)
    exporter = registry.create("exporters", format_name, options)
    rules = None if policy is None else read_policy(policy)
    view: View = view_of(kb, fragments)
    chosen = None if rules is None else GoldenView(view, rules)
    count = kb_export.export(chosen or view, exporter, output)
    if chosen is not None and chosen.unused:
        nowhere = listed(sorted(chosen.unused), 3)
        console.note(f"note: --policy has a rule for {nowhere}, which no entity has")
    if as_json:
        console.print_json({"entities": count, "format": format_name, "output": output})
    elif output != "-":
        console.note(f"wrote {count:,} {'entity' if count == 1 else 'entities'} to {output}")
