"""The verbs that look at a knowledge base: show and explain."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbforge import registry
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted, percent, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.table import Table

    from kbforge.contracts import Entity, Explanation, ModelSpec
    from kbforge.jobs.explain import Explainer, Place
    from kbforge.kb.paths import Path
    from kbforge.kb.similarity import SimilarFragment


show_app = typer.Typer(add_completion=False)

_OF_ENTITIES = ("entity_id", "fragment_id", "top", "ambiguous", "at", "fragments")
_OF_PAIRS = ("first", "second", "tree", "linkage", "confidence_map")
_UNUSED = {
    "": _OF_PAIRS[1:],
    "--similarity": _OF_ENTITIES,
    "--path": (*_OF_ENTITIES[:-1], *_OF_PAIRS[2:]),
    "--predicates": (*_OF_ENTITIES, *_OF_PAIRS),
}


@show_app.command()
def show(
    context: typer.Context,
    kb: options.KnowledgeBase,
    first: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Show this entity, by id, fragment or name. With --similarity: id of a fragment; "
            "with --path: an entity.",
        ),
    ] = None,
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Another; without it, --similarity lists all that may be the same entity.",
        ),
    ] = None,
    entity_id: Annotated[
        str | None, option("--id", "Show this entity or, in a store, the entities that it became.")
    ] = None,
    fragment_id: Annotated[
        str | None, option("--fragment", "Show the entity that holds this fragment.")
    ] = None,
    top: Annotated[int, option("--top", "Number of entities to show.", min=1)] = 3,
    ambiguous: Annotated[
        bool, option("--ambiguous", "Show the entities with the lowest confidence.")
    ] = False,
    at: options.At = None,
    fragments: Annotated[
        str | None, option("--fragments", "Read sources from the fragments that were clustered.")
    ] = None,
    similarity: Annotated[
        bool, option("--similarity", "Show how probable it is that fragments are the same.")
    ] = False,
    path: Annotated[
        bool, option("--path", "Show how two entities are connected, and who states each step.")
    ] = False,
    predicates: Annotated[
        bool,
        option("--predicates", "List attributes that connect the same entities as another."),
    ] = False,
    tree: Annotated[
        str | None,
        option("--tree", "With --similarity: draw these fragments as a tree, .png or .svg."),
    ] = None,
    linkage: Annotated[
        Literal["single", "complete", "average"],
        option(
            "--linkage",
            "With --tree: distance of two branches: single (nearest pair), complete "
            "(farthest pair) or average (all pairs).",
            metavar="LINKAGE",
        ),
    ] = "average",
    confidence_map: Annotated[
        str | None,
        option(
            "--confidence-map",
            "With --similarity: calibrate probabilities with this file, which kbforge calibrate "
            "--confidence wrote.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show entities, their values, sources and alternatives.

    Without --id or --fragment it shows the entities with the most fragments. "right" is how
    probable a value in question is, → the entity that a value names. Values with times (kbforge
    cluster --time) say when they were stated, and what contradicted them. --at shows those that
    held then.

    --similarity reports how probable it is that two fragments are the same entity. With one id it
    lists every fragment that may be the same entity. The probability is exact if kbforge cluster
    kept all groupings (--set alternatives=all). Otherwise it is a range, because groupings that
    were not kept may add to it.

    --path shows the shortest paths along the values that name entities, the most probable first: ↓
    is a value of the entity above, ↑ of the one below. --predicates lists attributes that connect
    almost the same pairs of entities as another one, in the form of a policy: with --policy,
    kbforge export joins those whose lines you keep.

    Examples:

        kbforge show kb.jsonl --fragments fragments.jsonl

        kbforge show kb.jsonl --ambiguous --top 10

        kbforge show kb.jsonl "Ada Lovelace"

        kbforge show kb.jsonl --fragment row-17 --json

        kbforge show kb.jsonl --fragment row-17 --at 2019

        kbforge show kb.jsonl --similarity row-17 row-20

        kbforge show kb.jsonl --similarity row-17 --tree row-17.svg

        kbforge show kb.jsonl --path "Ada Lovelace" row-20
    """
    modes = {"--similarity": similarity, "--path": path, "--predicates": predicates}
    _require_used(context, [mode for mode, given in modes.items() if given])
    if kb == fragments == "-":
        raise UsageError("only one of KB and --fragments can be standard input")
    if path:
        if first is None or second is None:
            raise UsageError("--path: expected two entities, by id, fragment or name")
        _show_path(kb, first, second, fragments, as_json)
    elif predicates:
        _show_predicates(kb, as_json)
    elif not similarity:
        if first is not None:
            if entity_id is not None or fragment_id is not None:
                raise UsageError("an entity by its name, --id and --fragment cannot be combined")
            entity_id = _called(kb, first)
        _show_entities(context, entity_id)
    elif first is None:
        raise UsageError("--similarity: expected the id of a fragment, or of two")
    else:
        _show_similar(context, first, second)


def _require_used(context: typer.Context, modes: list[str]) -> None:
    """Refuse what the mode that is given does not use."""
    if len(modes) > 1:
        raise UsageError(f"{modes[0]} and {modes[1]} cannot be combined")
    mode = modes[0] if modes else ""
    if (named := options.first_given(context, _UNUSED[mode])) is None:
        return
    raise UsageError(
        f"{named} and {mode} cannot be combined"
        if mode
        else "two ids require --similarity or --path; one shows an entity"
        if named == "SECOND"
        else f"{named} requires --similarity"
    )


def _called(kb: str, text: str) -> str:
    """The id of the entity with this id, fragment or name."""
    from kbforge.jobs.views import entities_of
    from kbforge.kb.edges import edge_table

    if kb == "-":
        raise UsageError("an entity by its name needs a file or a store, not standard input")
    with edge_table(entities_of(kb), (text,)) as table:
        return table.called(text)


def _show_path(kb: str, one: str, other: str, fragments: str | None, as_json: bool) -> None:
    from msgspec import to_builtins

    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.views import entities_of
    from kbforge.kb.edges import edge_table
    from kbforge.kb.paths import LONGEST, entities_on, shortest_paths
    from kbforge.kb.read import sources_of
    from kbforge.kb.show import called

    with edge_table(entities_of(kb), (one, other)) as table:
        ends = table.called(one), table.called(other)
        if ends[0] == ends[1]:
            raise UsageError(f'"{quoted(one)}" and "{quoted(other)}" are the same entity')
        found = shortest_paths(table, *ends)
        names = {one: table.name_of(one) or "" for one in entities_on(found, *ends)}
    stating = (f for path in found for step in path.steps for edge in step for f in edge.fragments)
    sources = {} if fragments is None else sources_of(stating, read_fragments(fragments))
    if as_json:
        told = {"from": ends[0], "to": ends[1], "paths": found, "names": names, "sources": sources}
        console.print_json(to_builtins(told))
    elif found:
        _print_paths(found, names, sources)
    else:
        start, goal = (called(entity, names) for entity in ends)
        console.note(f"no path of at most {LONGEST} steps connects {start} with {goal}")


def _print_paths(paths: list[Path], names: dict[str, str], sources: dict[str, str]) -> None:
    """Print the entities of each path, and between them what one (↓) or the other (↑) states."""
    from kbforge.kb.show import called, stated_by

    for path in paths:
        steps = counted(len(path.steps), "step")
        lines = [f"{steps}, probability {percent(path.probability)}"]
        for entity, step in zip(path.entities, (*path.steps, ()), strict=True):
            lines.append(f"  {called(entity, names)}")
            for edge in step:
                said = f"{'↓' if edge.head == entity else '↑'} {quoted(edge.relation)}"
                stating = stated_by(edge.fragments, sources)
                lines.append(f"    {said}, {percent(edge.probability)}, stated by {stating}")
        console.stdout().print("\n".join((*lines, "")), markup=False, soft_wrap=True)


def _show_predicates(kb: str, as_json: bool) -> None:
    import orjson

    from kbforge.jobs.views import entities_of
    from kbforge.kb.edges import edge_table

    with edge_table(entities_of(kb)) as table:
        found = table.same_relations()
    if as_json:
        console.print_json({"same_relations": [one._asdict() for one in found]})
    elif found:
        lines = [
            f"{orjson.dumps(name).decode()} = {orjson.dumps(into).decode()}"
            f"  # {both:,} pairs have both, {own:,} the first, {other:,} the second"
            for name, into, both, own, other in found
        ]
        lines = ['default = "all"', "[relations]", *lines]
        console.stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    else:
        console.note("no two attributes connect the same pairs of entities")


def _show_entities(context: typer.Context, entity_id: str | None) -> None:
    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.views import EntitySelector
    from kbforge.kb.read import sources_of
    from kbforge.kb.show import outsiders
    from kbforge.kb.show import show as print_entities
    from kbforge.kb.view import EntitiesView, selected

    given = context.params
    fragment_id, fragments = given["fragment_id"], given["fragments"]
    if entity_id is not None and fragment_id is not None:
        raise UsageError("--id and --fragment cannot be combined")
    choosing = EntitySelector(given["kb"])
    if entity_id is not None:
        chosen = choosing.with_id(entity_id)
    elif fragment_id is not None:
        chosen = [choosing.with_fragment(fragment_id)]
    else:
        chosen = choosing.top(given["top"], given["ambiguous"])
    if given["at"] is not None:
        view = selected(EntitiesView(partial(iter, chosen)), None, given["at"])
        chosen = list(view.entities())
        console.notes(view.notes)
    wanted = (fragment for entity in chosen for fragment in entity.fragments)
    sources = {} if fragments is None else sources_of(wanted, read_fragments(fragments))
    around = choosing.around(chosen)
    if given["as_json"]:
        made = choosing.made
        run = {} if made is None else {"made": made.to_json()}
        shown = [replace(entity, made=None).to_json() for entity in chosen]
        stated = {id: by for id, by in around.stated.items() if by}
        more = {"stated_as": stated} if stated else {}
        console.print_json({**run, "entities": shown, "sources": sources, **more})
    elif chosen:
        names = choosing.names_of(outsiders(chosen))
        print_entities(chosen, sources, console.stdout(), names, around)
    else:
        console.note("the knowledge base is empty")


def _show_similar(context: typer.Context, fragment: str, other: str | None) -> None:
    from kbforge.files.io import require_apart
    from kbforge.fit.confidence import mapped, read_confidence
    from kbforge.jobs.views import around
    from kbforge.kb.read import read_entities
    from kbforge.kb.similarity import similar
    from kbforge.pictures import require_format, require_matplotlib
    from kbforge.store.database import is_store

    kb: str = context.params["kb"]
    confidence_map, tree = context.params["confidence_map"], context.params["tree"]
    if tree is not None:
        require_matplotlib()
        require_format(tree)
        require_apart(tree, [kb, confidence_map])
    if kb == confidence_map == "-":
        raise UsageError("only one of KB and --confidence-map can be standard input")
    pairs = None if confidence_map is None else read_confidence(confidence_map).pairs

    def calibrate(probability: float, size: float) -> float:
        import numpy as np

        assert pairs is not None
        return float(mapped(pairs, np.array([probability]), np.array([size]))[0])

    entities = None
    if kb == "-":  # standard input can be read once
        entities = list(read_entities(kb))
    elif is_store(kb):
        entities = around(kb, [fragment] if other is None else [fragment, other])

    def read() -> Iterable[Entity]:
        return read_entities(kb) if entities is None else entities

    found = similar(read, fragment, other, None if pairs is None else calibrate)
    if tree is not None:
        _draw(read, fragment, tree, context.params["linkage"])
    if context.params["as_json"]:
        console.print_json({"fragment": fragment, "similar": [one.to_json() for one in found]})
    elif found:
        _print_similar(found)
    else:
        console.note(f"no grouping that was kept joins {quoted(fragment)} with another fragment")


def _draw(read: Callable[[], Iterable[Entity]], fragment: str, target: str, linkage: str) -> None:
    from kbforge.kb.similarity import block_of, leaf_names
    from kbforge.pictures import MOST_LEAVES, draw_tree, save

    block, together = block_of(read, fragment, MOST_LEAVES)
    entities = [entity.id for entity in block for _ in entity.fragments]
    save(draw_tree(leaf_names(block), entities, together, linkage), target)
    console.note(f"wrote {target}")


def _print_similar(found: list[SimilarFragment]) -> None:
    calibrated = ["calibrated"] if any(one.calibrated is not None for one in found) else []
    rows = []
    for one in found:
        # a range if groupings that were not kept may add to it
        low, high = percent(one.probability), percent(min(one.probability + one.rest, 1.0))
        cells = [low if low == high else f"{low} to {high}"]
        if calibrated:
            cells.append("" if one.calibrated is None else percent(one.calibrated))
        of = f"{quoted(one.entity.name)} ({quoted(one.entity.id)})"
        rows.append([*cells, quoted(one.fragment), of])
    figures = ["probability", *calibrated]
    console.stdout().print(console.table_of([*figures, "fragment", "entity"], rows, figures))


explain_app = typer.Typer(add_completion=False)

_MOST_VALUES = 3


@explain_app.command(epilog=options.names_listed(["calibration"]))
def explain(
    context: typer.Context,
    kb: options.KnowledgeBase,
    fragment_id: Annotated[
        str | None, option("--fragment", "Id of the fragment to explain.")
    ] = None,
    rivals: Annotated[
        int, option("--rivals", "Number of other entities to compare with.", min=0)
    ] = 1,
    output: Annotated[
        str | None,
        option("--output", "-o", "Explain every fragment, and write the knowledge base here."),
    ] = None,
    likelihood: Annotated[
        str | None,
        option(
            "--likelihood",
            "Name of a likelihood, or a model folder.",
            show_default="the knowledge base's",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        option("--alpha", "Concentration of the clustering.", show_default="the knowledge base's"),
    ] = None,
    settings: options.RunSettings = None,
    as_json: options.Json = False,
) -> None:
    """Explain why a fragment is in its entity.

    The numbers show what each attribute contributes, in nats: the log odds of joining the entity's
    other fragments against staying alone. They add up to the total; above 0, joining is more
    probable. The prior is the log of the number of other fragments, minus log alpha. The
    likelihoods pairs and names give scores, not probabilities, so their numbers are parts of a
    score.

    Without --likelihood, the explanation uses the likelihood, options and alpha that the knowledge
    base was made with. A store keeps what the likelihood learned; for a file of entities the
    likelihood learns again.

    Examples:

        kbforge explain kb.jsonl --fragment row-17

        kbforge explain kb.jsonl --fragment row-17 --likelihood model/

        kbforge explain kb.jsonl --fragment row-17 --rivals 3 --json

        kbforge explain kb.jsonl -o explained.jsonl
    """
    from kbforge.files.io import require_apart, require_writable
    from kbforge.jobs.explain import Explainer, reasons_in_store
    from kbforge.store.database import is_store

    if (fragment_id is None) == (output is None):
        raise UsageError("give --fragment for one explanation or --output for all of them")
    if output is not None:
        if as_json:
            raise UsageError("--json requires --fragment; --output writes JSON lines")
        require_apart(output, [kb, *options.files_of(settings, likelihood)])
        require_writable(output)
    choices = options.choices_of(context, ["calibration"], ["likelihood"])
    given = (likelihood, alpha, settings or None)
    if fragment_id is not None and is_store(kb) and all(one is None for one in given):
        with console.working("reading and comparing"):
            reasons, prepared = reasons_in_store(kb, fragment_id, rivals)
        console.notes(prepared.notes)
    else:
        with console.working("reading and learning"):
            explainer = Explainer(kb, choices)
        prepared = explainer.prepared
        console.notes(prepared.notes)
        if output is not None:
            _write(explainer, output)
            return
        assert fragment_id is not None
        with console.progress(total=explainer.fragments, description="comparing") as bar:
            reasons = explainer.reasons(fragment_id, rivals, bar.update)
    if as_json:
        entities = [
            {
                "entity": one.entity.id,
                "name": one.entity.name,
                "own": one is reasons[0],
                "others": one.others,
                "explanation": None if one.explanation is None else one.explanation.to_json(),
            }
            for one in reasons
        ]
        console.print_json({"fragment": fragment_id, "entities": entities})
    else:
        assert fragment_id is not None
        _print_reasons(fragment_id, reasons, prepared.spec)


def _write(explainer: Explainer, output: str) -> None:
    from kbforge.kb.view import EntitiesView

    with console.progress(total=explainer.fragments, description="explaining") as bar:
        view = EntitiesView(lambda: explainer.explained(bar.update))
        registry.create("exporters", "jsonl").export(view, output)
    console.note(f"wrote {'standard output' if output == '-' else output}")


def _print_reasons(fragment_id: str, reasons: list[Place[Entity]], spec: ModelSpec) -> None:
    from rich.text import Text

    screen = console.stdout()
    own = reasons[0].entity
    for reason in reasons:
        entity = f"{quoted(reason.entity.name)} ({quoted(reason.entity.id)})"
        if reason.explanation is None:
            screen.print(Text(f"{quoted(fragment_id)} is alone in {entity}"))
        else:
            relation = "is in" if reason is reasons[0] else "could be in"
            others = counted(reason.others, "other fragment")
            screen.print(Text(f"{quoted(fragment_id)} {relation} {entity}, {others}"))
            screen.print(_table(fragment_id, own, reason, reason.explanation, spec))
        screen.print()


def _table(
    fragment_id: str, own: Entity, reason: Place[Entity], explanation: Explanation, spec: ModelSpec
) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 2))
    for title in ("attribute", "this fragment", "the others"):
        table.add_column(title)
    table.add_column("nats" if spec.likelihood.probability else "score", justify="right")
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
    power = "" if spec.exponent == 1 else f"{spec.exponent:g} "
    prior = f"{power}log {reason.others} - log {spec.alpha:.4g}"
    table.add_row("prior", "", prior, f"{explanation.prior:+.2f}")
    table.add_row(Text("total", style="bold"), "", "", f"{explanation.total:+.2f}")
    return table
