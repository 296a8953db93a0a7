"""Prints entities: panels on a terminal, plain lines elsewhere.

Everything that comes from data passes through `quoted`, which leaves no control character, and is
printed as `Text`, in which rich sees no markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kbforge.contracts import Alternative, Entity, Value
from kbforge.errors import counted, listed, percent, quoted
from kbforge.kb.edges import Surroundings
from kbforge.kb.times import when

MOST_WIDTH = 120
_MOST_VALUES = 6
_MOST_FRAGMENTS = 4
_MOST_NUMBERS = 8
_LIKELY = 0.1  # of the runner-up of an entity that a value names
_VALUE_CHARACTERS = 120
_UNBOUNDED = 100_000  # columns: plain lines are for pipes, which do not wrap


def show(
    entities: Sequence[Entity],
    sources: Mapping[str, str],
    console: Console,
    names: Mapping[str, str] | None = None,
    around: Surroundings | None = None,
) -> None:
    """Print the entities: on a terminal as panels of at most `MOST_WIDTH` columns.

    `sources` (fragment id -> source) are shown after the ids; `names` are those of the entities
    whose fragments other groupings add, `around` are those that values name.
    """
    for entity in entities:
        body = _body(entity, sources, names or {}, around or Surroundings())
        if console.is_terminal:
            panel = Panel(
                body,
                title=Text(quoted(entity.name), style="bold"),
                title_align="left",
                subtitle=Text(quoted(entity.id), style="dim"),
                subtitle_align="right",
                padding=(0, 1),
            )
            console.print(panel, width=min(console.width, MOST_WIDTH))
            continue
        plain = Console(width=_UNBOUNDED, color_system=None, highlight=False)
        with plain.capture() as captured:
            plain.print(body)
        # rich fills columns with spaces up to the right edge
        body_lines = [f"  {line}".rstrip() for line in captured.get().splitlines()]
        lines = [f"{quoted(entity.name)} ({quoted(entity.id)})", *body_lines, ""]
        console.print("\n".join(lines), markup=False, soft_wrap=True)


def _body(
    entity: Entity, sources: Mapping[str, str], names: Mapping[str, str], around: Surroundings
) -> RenderableType:
    parts: list[RenderableType] = [_summary(entity)]
    if stated := around.stated.get(entity.id):
        told = [f"{relation} by {count:,}" for relation, count in stated.most_common()]
        parts.append(Text(f"stated as {listed(told, _MOST_VALUES)}"))
    has_values = entity.properties or entity.vector is not None
    values = _values(entity, sources, around.names) if has_values else Text("no values")
    parts += [Text(), values]
    if entity.alternatives:
        heading = Text("other groupings, as reported", style="bold")
        parts += [Text(), heading, _alternatives(entity, names)]
    return Group(*parts)


def _summary(entity: Entity) -> Text:
    unrivalled = " (no other grouping kept)" if entity.probability == 1 else ""
    plain = entity.reported is None
    reported = " as reported" if plain else f", reported as {percent(entity.probability)}"
    sure = entity.confidence
    colour = "green" if sure >= 0.9 else "yellow" if sure >= 0.5 else "red"
    return Text.assemble(
        (counted(len(entity.fragments), "fragment"), "bold"),
        ", ",
        (f"confidence {percent(sure)}", colour),
        f"{reported}{unrivalled}, subproblem {entity.subproblem}",
    )


def _values(entity: Entity, sources: Mapping[str, str], names: Mapping[str, str]) -> Table:
    table = _table()
    table.add_column("attribute", style="cyan", overflow="fold", max_width=24)
    table.add_column("value", overflow="fold")
    every = chain.from_iterable(entity.properties.values())
    in_question = any(value.confidence is not None for value in every)
    if in_question:
        table.add_column("right", justify="right", no_wrap=True)
    table.add_column("count", justify="right")
    table.add_column("stated by", style="dim", overflow="fold")
    for attribute, values in entity.properties.items():
        heading = quoted(attribute)
        for value in values[:_MOST_VALUES]:
            text, *stated = _value(value, values, sources, names)
            sure = "" if value.confidence is None else percent(value.confidence)
            table.add_row(Text(heading), text, *[Text(sure)] * in_question, *stated)
            heading = ""
        if len(values) > _MOST_VALUES:
            more = counted(len(values) - _MOST_VALUES, "more value")
            table.add_row("", Text(more, style="dim"), "", "")
    if entity.vector is not None:
        numbers = [f"{number:.6g}" for number in entity.vector]
        mean = Text(listed(numbers, _MOST_NUMBERS))
        table.add_row("mean vector", mean, *[""] * in_question, str(len(entity.fragments)), "")
    return table


def _value(
    value: Value,
    values: Sequence[Value],
    sources: Mapping[str, str],
    names: Mapping[str, str],
) -> tuple[Text, Text, Text]:
    likely = [one for at, one in enumerate(value.meanings) if not at or one.probability >= _LIKELY]
    meant = [
        # the id alone, if the value is the entity's name
        f"{called(one.entity, names if names.get(one.entity) != value.value else {})} "
        f"{percent(one.probability)}"
        for one in likely
    ]
    times = quoted(when(value, values), _VALUE_CHARACTERS)
    said = (f" → {' or '.join(meant)}" if meant else "") + (f" ({times})" if times else "")
    return (
        Text.assemble(quoted(value.value, _VALUE_CHARACTERS), (said, "dim")),
        Text(f"{value.count:,}"),
        Text(stated_by(value.fragments, sources)),
    )


def called(entity: str, names: Mapping[str, str]) -> str:
    """An entity by name and id: `Ada Lovelace (e-1)`."""
    name = names.get(entity)
    return (
        quoted(entity) if name is None else f"{quoted(name, _NAME_CHARACTERS)} ({quoted(entity)})"
    )


def stated_by(fragments: Sequence[str], sources: Mapping[str, str]) -> str:
    """The first fragments that state something, with their sources."""
    told = [
        f"{fragment} ({sources[fragment]})" if fragment in sources else fragment
        for fragment in fragments[:_MOST_FRAGMENTS]
    ]
    return listed([*told, *fragments[_MOST_FRAGMENTS:]], _MOST_FRAGMENTS)


def _alternatives(entity: Entity, names: Mapping[str, str]) -> RenderableType:
    table = _table(show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for alternative in entity.alternatives:
        told = grouping(alternative, entity, names=names)
        table.add_row(Text(percent(alternative.probability)), Text(told))
    return Padding(table, (0, 0, 0, 2))


def _table(show_header: bool = True) -> Table:
    return Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=show_header
    )


_NAME_CHARACTERS = 40


def grouping(
    alternative: Alternative,
    entity: Entity,
    most: int = 2,
    names: Mapping[str, str] | None = None,
) -> str:
    """An alternative in words: the entity joins other fragments, or splits.

    At most `most` fragments of a part are listed; the largest part comes last and, if long, only
    with its size, because the fragments that leave matter. `names` is by fragment id, as in `Ada
    Lovelace (f1, f2)`.
    """
    mine = frozenset(entity.fragments)
    parts: list[str] = []
    for group in sorted(alternative.groups, key=lambda group: len(mine.intersection(group))):
        inside = [fragment for fragment in group if fragment in mine]
        outside = [fragment for fragment in group if fragment not in mine]
        if len(inside) == len(mine):
            return f"joined with {_named(outside, most, names or {})}"
        last = len(parts) == len(alternative.groups) - 1
        other = last and len(inside) > most
        own = f"the other {len(inside):,}" if other else _named(inside, most, names or {})
        joined = f"{own} joined with {_named(outside, most, names or {})}"
        parts.append(joined if outside else own)
    return f"{len(parts)} entities: {' | '.join(parts)}"


def outsiders(entities: Iterable[Entity]) -> frozenset[str]:
    """The fragments of other entities in the alternatives of these."""
    return frozenset(
        fragment
        for entity in entities
        for alternative in entity.alternatives
        for fragment in set().union(*alternative.groups).difference(entity.fragments)
    )


def _named(fragments: Sequence[str], most: int, names: Mapping[str, str]) -> str:
    """The fragments, grouped by entity under its name."""
    by_name: dict[str | None, list[str]] = {}
    for fragment in fragments:
        by_name.setdefault(names.get(fragment), []).append(fragment)
    shown = [
        listed(held, most)
        if name is None
        else f"{quoted(name, _NAME_CHARACTERS)} ({listed(held, most)})"
        for name, held in by_name.items()
    ]
    return ", ".join(shown)
