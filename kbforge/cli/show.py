"""`kbforge show`: entities with the provenance of every value."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def show(
    kb: Annotated[str, typer.Argument(help="Entities, JSON lines, or a store; - is stdin.")],
    entity_id: Annotated[
        str | None, typer.Option("--id", help="Show this entity, or in a store what became of it.")
    ] = None,
    fragment_id: Annotated[
        str | None, typer.Option("--fragment", help="Show the entity that holds this fragment.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many entities to show.")] = 3,
    ambiguous: Annotated[
        bool, typer.Option("--ambiguous", help="Show those with the lowest confidence.")
    ] = False,
    fragments: Annotated[
        str | None,
        typer.Option("--fragments", help="The fragments that were clustered; adds sources."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show entities: their values, who states them, and what else the data allow.

    Without --id or --fragment it shows those with the most fragments.

    Examples:

        kbforge show kb.jsonl --fragments fragments.jsonl

        kbforge show kb.jsonl --ambiguous --top 10

        kbforge show kb.jsonl --fragment row-17 --json
    """
    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.living.views import Choosing
    from kbforge.kb import select
    from kbforge.kb.show import show as print_entities
    from kbforge.kb.words import outsiders

    if entity_id is not None and fragment_id is not None:
        raise UsageError("--id and --fragment exclude each other")
    if kb == fragments == "-":
        raise UsageError("only one of KB and --fragments can be standard input")
    choosing = Choosing(kb)
    if entity_id is not None:
        chosen = choosing.with_id(entity_id)
    elif fragment_id is not None:
        chosen = [choosing.with_fragment(fragment_id)]
    else:
        chosen = choosing.top(top, ambiguous)
    sources = {} if fragments is None else select.sources_of(chosen, read_fragments(fragments))
    if as_json:
        made = choosing.made
        told = {} if made is None else {"made": made.to_json()}
        shown = [replace(entity, made=None).to_json() for entity in chosen]
        console.print_json({**told, "entities": shown, "sources": sources})
    elif chosen:
        names = choosing.names_of(outsiders(chosen))
        print_entities(chosen, sources, console.stdout(), names)
    else:
        console.note("the knowledge base is empty")
