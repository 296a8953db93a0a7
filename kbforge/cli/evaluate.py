"""`kbforge evaluate`: a knowledge base against gold labels."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    kb: Annotated[str, typer.Argument(help="Entities, JSON lines, or a store; - is stdin.")],
    gold: Annotated[str, typer.Argument(help="Labelled fragments, JSON lines; - likewise.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Evaluate the fragments that both files have.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a knowledge base against the labels of its fragments.

    Fragments are matched by id. Those without a label are left out and counted.

    Examples:

        kbforge evaluate kb.jsonl gold.jsonl

        kbforge cluster fragments.jsonl -o - | kbforge evaluate - fragments.jsonl --json
    """
    from kbforge.evaluation.judge import judge
    from kbforge.evaluation.render_scores import render
    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.living.views import entities_of

    if kb == gold == "-":
        raise UsageError("only one of KB and GOLD can be standard input")
    judgement = judge(entities_of(kb), read_fragments(gold), partial=partial)
    if as_json:
        console.print_json(judgement.to_json())
    else:
        console.stdout().print(render(judgement))
