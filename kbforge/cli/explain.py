"""`kbforge explain`: explains why a fragment is in its entity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge.cli import console, options
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from rich.table import Table

    from kbforge.contracts import Entity, Problem
    from kbforge.jobs.explain import Explainer, Reason

app = typer.Typer(add_completion=False)

_MOST_VALUES = 3


@app.command()
def explain(
    context: typer.Context,
    kb: options.KnowledgeBase,
    fragment_id: Annotated[
        str | None, typer.Option("--fragment", help="Id of the fragment to explain.")
    ] = None,
    rivals: Annotated[
        int,
        typer.Option("--rivals", min=0, help="Number of other entities to compare with."),
    ] = 1,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Explain every fragment, and write the knowledge base here."
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            "--likelihood",
            help="Name of a likelihood, or a model folder.",
            show_default="the knowledge base's",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            help="Concentration of the clustering.",
            show_default="the knowledge base's",
        ),
    ] = None,
    calibration: options.Calibration = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Explain why a fragment is in its entity.

    The numbers say what each attribute contributes, in nats: the log odds of joining the entity's
    other fragments against staying alone. They add up to the total; above 0, joining is more
    probable. The prior is the log of the number of the others, less log alpha. The likelihoods
    pairs and names give scores, not probabilities, so their numbers are parts of a score.

    Without --likelihood, the explanation uses what the knowledge base was made with: likelihood,
    options and alpha. A store keeps what the likelihood learned; from a file of entities it learns
    again.

    Examples:

        kbforge explain kb.jsonl --fragment row-17

        kbforge explain kb.jsonl --fragment row-17 --likelihood model/

        kbforge explain kb.jsonl --fragment row-17 --rivals 3 --json

        kbforge explain kb.jsonl -o explained.jsonl
    """
    from kbforge.files.io import require_apart, require_writable
    from kbforge.jobs.explain import Explainer

    if (fragment_id is None) == (output is None):
        raise UsageError("give --fragment for one explanation or --output for all of them")
    if output is not None:
        if as_json:
            raise UsageError("--json goes with --fragment; --output writes JSON lines")
        require_apart(output, [kb, calibration, *options.files_of(settings, likelihood)])
        require_writable(output)
    choices = options.choices_of(context)
    with console.working("reading and learning"):
        explainer = Explainer(kb, choices)
    for sentence in explainer.prepared.notes:
        console.note(f"note: {sentence}")
    if output is not None:
        _write(explainer, output)
        return
    assert fragment_id is not None
    with console.progress(total=explainer.fragments, description="comparing") as bar:
        reasons = explainer.reasons(fragment_id, rivals, bar.update)
    if as_json:
        console.print_json(
            {"fragment": fragment_id, "entities": [_to_json(reason) for reason in reasons]}
        )
    else:
        _print(fragment_id, reasons, explainer.prepared.problem)


def _write(explainer: Explainer, output: str) -> None:
    from kbforge import registry
    from kbforge.kb.view import EntitiesView

    with console.progress(total=explainer.fragments, description="explaining") as bar:
        view = EntitiesView(lambda: explainer.explained(bar.update))
        registry.create("exporters", "jsonl").export(view, output)
    console.note(f"wrote {'standard output' if output == '-' else output}")


def _to_json(reason: Reason) -> dict[str, Any]:
    return {
        "entity": reason.entity.id,
        "name": reason.entity.name,
        "own": reason.own,
        "others": reason.others,
        "explanation": None if reason.explanation is None else reason.explanation.to_json(),
    }


def _print(fragment_id: str, reasons: list[Reason], problem: Problem) -> None:
    from rich.text import Text

    screen = console.stdout()
    own = reasons[0].entity
    for reason in reasons:
        entity = f"{quoted(reason.entity.name)} ({quoted(reason.entity.id)})"
        if reason.explanation is None:
            screen.print(Text(f"{quoted(fragment_id)} is alone in {entity}"))
        else:
            relation = "is in" if reason.own else "could be in"
            others = f"{reason.others:,} other fragment{'s' * (reason.others != 1)}"
            screen.print(Text(f"{quoted(fragment_id)} {relation} {entity}, {others}"))
            screen.print(_table(fragment_id, own, reason, problem))
        screen.print()


def _table(fragment_id: str, own: Entity, reason: Reason, problem: Problem) -> Table:
    from rich.table import Table
    from rich.text import Text

    explanation = reason.explanation
    assert explanation is not None
    table = Table(box=None, padding=(0, 2, 0, 2))
    for title in ("attribute", "this fragment", "the others"):
        table.add_column(title)
    table.add_column("nats" if problem.likelihood.probability else "score", justify="right")
    for attribute, nats in sorted(explanation.attributes.items(), key=lambda item: -item[1]):
        mine = [v.value for v in own.properties[attribute] if fragment_id in v.fragments]
        theirs = [
            (value.value, sum(fragment != fragment_id for fragment in value.fragments))
            for value in reason.entity.properties.get(attribute, ())
        ]
        shown = [f"{quoted(value, 40)} ({n})" for value, n in theirs if n]
        more = ", …" if len(shown) > _MOST_VALUES else ""
        table.add_row(
            Text(quoted(attribute, 40)),
            Text(", ".join(quoted(value, 40) for value in mine)),
            Text(", ".join(shown[:_MOST_VALUES]) + more),
            f"{nats:+.2f}",
        )
    prior = f"log {reason.others} - log {problem.alpha:.4g}"
    table.add_row("prior", "", prior, f"{explanation.prior:+.2f}")
    table.add_row(Text("total", style="bold"), "", "", f"{explanation.total:+.2f}")
    return table
