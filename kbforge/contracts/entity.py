"""Entity, a record of the knowledge base; View, which reads it; Exporter, which writes it.

Each entity is one JSON object per line, with every value traced to its fragments:

    {"id": str, "name": str, "properties": {attribute: [
        {"value", "fragments", "count", "confidence"?, "entity"?, "probability"?, "runner_up"?,
         "first"?, "last"?, "until"?, "held"?}]},
     "fragments": [str, ...], "confidence": float, "reported": float?,
     "subproblem": int, "alternatives": [...]?,
     "explanations": {fragment: {"prior" or attribute: nats}}?,
     "made": {"kbforge", "likelihood", "alpha", "seed", "model"?, "choices"?, "options"?,
              "size_exponent"?}?}

Only the first line has `made`, which describes how all entities were made.

Exporters, reports and pages read through a view, never from a file. Laws of a view:

1. Every clustered fragment is in exactly one entity.
2. The fragments of an entity come in the entity's order, one for each of its ids.
3. Memory is bounded by one entity.

Exporters have one signature:

    export(view, target) -> None

Laws, tested for every member by `kbforge.testing.ExporterContract`:

1. Every entity is written once, in the order of the view. The view is read once.
2. Same view, same bytes.
3. Values are data: whatever they contain is escaped for the format.
4. Memory is bounded by one entity, however many there are.
5. The target appears only when it is complete. A failure leaves an old target unchanged.

`kbforge.files.io.open_output` returns a stream that keeps law 5 and supports standard output;
`kbforge.files.io.open_folder` does it for a format of several files.

Most formats write while they read. One whose first byte needs the last entity (a header of all
attributes) keeps law 4 by letting the entities wait in a temporary file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias

import orjson
from msgspec import Meta, Struct, to_builtins

from kbforge.contracts.clusterer import Decision
from kbforge.contracts.fragment import Fragment
from kbforge.errors import counted, listed, percent, quoted

_MOST_SHOWN = 4  # values of an attribute, and fragments that state one
_MOST_ROWS = 40

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a non-empty string")]
Ids: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1, description="a non-empty list")]
Natural: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Probability: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="a probability from 0 to 1")]
Scalar: TypeAlias = Annotated[str | int | float | bool, Meta(description="a string or a number")]


class Meaning(Struct, frozen=True, forbid_unknown_fields=True):
    """An entity that a value may name, and the probability that it does."""

    entity: Text
    probability: Probability


class Span(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A span in which a value held: the times with which it was stated, by their beginnings, and
    until when, None if nothing says so."""

    stated: Ids
    until: Text | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """One distinct value of an attribute and the fragments that state it.

    `count` is the number of statements; a fragment that repeats a value states it once.

    `confidence` is the probability that the value is right (`kbforge.kb.facts`), None where it is
    not in question. `meanings` are the entities that the value may name, the most probable one
    first, at most two (`kbforge.kb.relations`); it is empty for a value that names none. `first`
    and `last` are the times of the first and the last statement, None for fragments without a time;
    `until` is the time from which the value no longer holds, if any. `held` are its spans, empty if
    there is one of at most two times (`kbforge.kb.times`). `by` is the person who settled the
    attribute on this value, None if nobody did (`kbforge.kb.assertions`).
    """

    value: str
    fragments: tuple[str, ...]
    confidence: float | None = None
    meanings: tuple[Meaning, ...] = ()
    first: str | None = None
    last: str | None = None
    until: str | None = None
    held: tuple[Span, ...] = ()
    by: str | None = None

    @property
    def count(self) -> int:
        """The number of fragments that state the value."""
        return len(self.fragments)

    @property
    def entity(self) -> str | None:
        """The entity that the value most probably names, None if it names none."""
        return self.meanings[0].entity if self.meanings else None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this value."""
        out: dict[str, Any] = {
            "value": self.value,
            "fragments": list(self.fragments),
            "count": self.count,
        }
        if self.confidence is not None:
            out["confidence"] = self.confidence
        if self.meanings:
            out |= to_builtins(self.meanings[0])
        if self.meanings[1:]:
            out["runner_up"] = to_builtins(self.meanings[1])
        if self.first is not None:
            out |= {"first": self.first, "last": self.last}
        if self.until is not None:
            out["until"] = self.until
        if self.held:
            out["held"] = to_builtins(self.held)
        if self.by is not None:
            out["by"] = self.by
        return out


class Alternative(Struct, frozen=True, forbid_unknown_fields=True):
    """A competing grouping of an entity's fragments; its JSON object has the same fields.

    `probability` is the posterior probability that these are the groups; `groups` are fragment ids
    and may reach beyond the entity.
    """

    probability: Probability
    groups: Annotated[tuple[Ids, ...], Meta(min_length=1, description="a non-empty list")]

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this alternative."""
        return {"probability": self.probability, "groups": [list(group) for group in self.groups]}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The evidence for a fragment's being in a cluster rather than alone, in nats.

    `prior` is e log |C| - log alpha of the cluster C without the fragment; `attributes` has the
    contribution of each attribute. They add up to `total`, the log odds of joining against staying
    alone.
    """

    prior: float
    attributes: Mapping[str, float]
    total: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.prior + sum(self.attributes.values()))

    def _repr_html_(self) -> str:
        """The contribution of each attribute, for notebooks."""
        rows = [(name, f"{nats:+.2f}") for name, nats in self.attributes.items()]
        rows += [("prior", f"{self.prior:+.2f}"), ("total", f"{self.total:+.2f}")]
        return table_html(("", "nats"), rows)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this explanation."""
        return {"prior": self.prior, "attributes": dict(self.attributes), "total": self.total}


class Provenance(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a knowledge base was made; its JSON object has the same fields, without empty ones.

    `kbforge` is the version, `alpha` the concentration, `size_exponent` the exponent of the prior's
    factor (|C| - 1)!, `likelihood` a name or the
    path of a bundle. `model` is the SHA-256 of the bundle's manifest or of the default model, None
    if the likelihood read none. `choices` are the other options that differ from the default, and
    `options` those of plugins, by kind, as texts.
    """

    kbforge: Annotated[str, Meta(description="a string")]
    likelihood: Annotated[str, Meta(description="a string")]
    alpha: Annotated[float, Meta(gt=0, description="a number above 0")]
    seed: Natural
    model: Annotated[str | None, Meta(description="a string")] = None
    choices: Mapping[str, Scalar] = {}
    options: Mapping[str, Mapping[str, Scalar]] = {}
    size_exponent: Annotated[float, Meta(ge=0, description="a number from 0")] = 1.0

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        out: dict[str, Any] = to_builtins(self)
        return out


@dataclass(frozen=True, slots=True, repr=False)
class Entity:
    """One entity.

    `name` is for readers (`kbforge.kb.entities.described`), `id` for references.
    `confidence` is how often entities like this one are exactly right, by a confidence map.
    `reported` is the map's input: the posterior probability of exactly this cluster among its
    subproblem's particles. Without a map, `reported` is None and `confidence` is that probability.
    Particles are truncated, so 1.0 means "no kept particle disagrees". The probabilities of
    alternatives are as reported. `explanations`, if requested, say why fragments are here. `made`,
    in the first entity, describes how the knowledge base was made; comparisons of entities ignore
    it.
    """

    id: str
    name: str
    properties: Mapping[str, tuple[Value, ...]]
    fragments: tuple[str, ...]
    confidence: float
    subproblem: int
    alternatives: tuple[Alternative, ...] = ()
    vector: tuple[float, ...] | None = None
    reported: float | None = None
    explanations: Mapping[str, Explanation] | None = None
    made: Provenance | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        held = counted(len(self.fragments), "fragment")
        return (
            f'Entity({quoted(self.id)}, "{quoted(self.name)}", {held}, {percent(self.confidence)})'
        )

    def _repr_html_(self) -> str:
        """Its values and the fragments that state them, for notebooks."""
        rows = [
            (attribute, value.value, value.count, listed(value.fragments, _MOST_SHOWN))
            for attribute, values in self.properties.items()
            for value in values[:_MOST_SHOWN]
        ]
        if self.vector is not None:
            numbers = [f"{number:.6g}" for number in self.vector[: _MOST_SHOWN + 1]]
            rows.append(("mean vector", listed(numbers, _MOST_SHOWN), len(self.fragments), ""))
        below = "" if len(rows) <= _MOST_ROWS else f"and {len(rows) - _MOST_ROWS:,} more"
        columns = ("attribute", "value", "count", "stated by")
        return table_html(columns, rows[:_MOST_ROWS], repr(self), below)

    @property
    def probability(self) -> float:
        """The reported posterior probability, whether or not `confidence` is calibrated."""
        return self.confidence if self.reported is None else self.reported

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this entity."""
        out: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "properties": {k: [v.to_json() for v in vs] for k, vs in self.properties.items()},
            "fragments": list(self.fragments),
            "confidence": self.confidence,
        }
        if self.reported is not None:
            out["reported"] = self.reported
        out["subproblem"] = self.subproblem
        if self.vector is not None:
            out["vector"] = list(self.vector)
        if self.alternatives:
            out["alternatives"] = [alternative.to_json() for alternative in self.alternatives]
        if self.explanations is not None:
            out["explanations"] = {
                fragment: explanation.to_json()
                for fragment, explanation in self.explanations.items()
            }
        if self.made is not None:
            out["made"] = self.made.to_json()
        return out

    def to_line(self) -> bytes:
        """The line of this entity in a knowledge base."""
        return orjson.dumps(self.to_json(), option=orjson.OPT_APPEND_NEWLINE)


class View(Protocol):
    """A readable knowledge base."""

    @property
    def knows_fragments(self) -> bool:
        """Whether the view returns the original fragments; otherwise it builds them from the
        entity's values.

        A fragment that is built has no source, metadata, vector or label, and each value once.
        """
        ...

    def entities(self) -> Iterator[Entity]:
        """The entities, one at a time; call it once, because standard input cannot be read
        again."""
        ...

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The entities as JSON lines, each time of how many; instead of `entities`."""
        for entity in self.entities():
            yield 1, entity.to_line()

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """The fragments of one of the entities, in its order.

        Raises a KBForgeError if one of them is missing from the file of fragments.
        """
        ...


class Exporter(ABC):
    """A writer of one format. The constructor's parameters are its options.

    Attributes:
        endings: extensions of files in this format, such as ".csv": `kbforge export -o out.csv`
            uses the exporter that declares the extension. Leave out an extension that an earlier
            format declares.
        notes: sentences for the user about the last export.
        n_rows: rows of the last export if it writes a table, otherwise None.

    """

    endings: ClassVar[tuple[str, ...]] = ()
    notes: Sequence[str] = ()
    n_rows: int | None = None

    @abstractmethod
    def export(self, view: View, target: str) -> None:
        """Write the view to a file or, for a format of several files, a folder; "-" is standard
        output.

        Raises:
            OutputError: the target cannot be written.
            UsageError: the target is "-", but the format has several files.

        """


@dataclass(frozen=True, slots=True)
class Run:
    """One command that wrote, or one batch of a server's additions."""

    number: Natural  # from 1
    verb: str  # such as "cluster" or "remove"
    about: str  # what it was given, for people to read
    finished: bool  # False while it goes on, or after it was killed
    added: Natural  # fragments
    removed: Natural  # fragments
    entities: Natural  # how many there were when it ended, or are now
    seconds: float  # wall time
    began: Annotated[float, Meta(description="Seconds since 1970, UTC.")]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision, in force or undone, and the runs that made and undid it.

    One that `asserts` a value binds the assertion, `second`, to the fragment `first`.
    """

    number: Natural  # from 1, in order
    same: bool | None  # None: somebody could not tell
    first: str
    second: str
    run: Natural
    undone: Natural | None
    asserts: bool = False

    @property
    def decision(self) -> Decision:
        """What was decided; its name is "decision NUMBER"."""
        return Decision(self.same, self.first, self.second, f"decision {self.number}")


class Kind(StrEnum):
    """What happened to an entity."""

    CREATED = "created"
    """It is new: its fragments were in no entity, or in one that still exists."""

    CHANGED = "changed"
    """It gained or lost fragments, or the content of some changed."""

    MERGED = "merged"
    """It no longer exists: another entity has most of its fragments."""

    SPLIT = "split"
    """It no longer exists: several entities have its fragments, none of them most."""

    REMOVED = "removed"
    """It no longer exists: none of its fragments are left."""


@dataclass(frozen=True, slots=True)
class Change:
    """How an entity changed.

    Erased fragments are not listed: an entity is gone if it has none before and after, and a
    changed one may list the same fragments before and after.

    Attributes:
        entity: its id.
        before: ids of its fragments then; none if it is new.
        after: ids of its fragments now; none if it no longer exists.
        others: ids of entities: the one that a merged entity joined; the parts of one that split;
            those that a created or changed entity took fragments from.
        relinked: ids of entities that did not change, but have values that name this one and mean
            another entity than before. Who keeps links asks for these again, for entities that
            changed, and for those with a link to one that lost fragments.

    """

    entity: str
    kind: Kind
    before: tuple[str, ...]
    after: tuple[str, ...]
    others: tuple[str, ...]
    relinked: tuple[str, ...] = ()


_CELL_CHARACTERS = 120
_MOST_COLUMNS = 20
_LEFT = ' style="text-align: left"'


def cell_html(cell: object) -> str:
    """A cell as HTML; nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return escape(quoted(str(cell), _CELL_CHARACTERS))


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    below: str = "",
) -> str:
    """A table of the first columns, with a bold line above it and a line below; all are texts."""
    head = "".join(f"<th{_LEFT}>{cell_html(column)}</th>" for column in columns[:_MOST_COLUMNS])
    if len(columns) > _MOST_COLUMNS:
        head += "<th>…</th>"
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{cell_html(c)}</td>' for c in row[:_MOST_COLUMNS])}</tr>"
        for row in rows
    )
    above = f"<p><b>{cell_html(title)}</b></p>" if title else ""
    under = f"<p><small>{cell_html(below)}</small></p>" if below else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{above}{table}{under}</div>"
