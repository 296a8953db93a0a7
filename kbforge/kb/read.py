"""Reads a knowledge base strictly, and selects entities from it.

It checks the laws of `Entity`: types, counts that match provenance, provenance within the entity,
and every fragment (and every id) in one entity only. Selection takes one pass and bounded memory.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from kbforge.contracts import Alternative, Entity, Explanation, Fragment, Provenance, Value
from kbforge.contracts.entity import Ids, Meaning, Natural, Probability, Span, Text
from kbforge.errors import BadRecord, NotFoundError, UsageError, option, quoted
from kbforge.files.fragments import DigestSet, mistaken, read_json_lines, stop
from kbforge.files.records import convert
from kbforge.kb.times import EXPECTED, read_time

_TOLERANCE = 1e-6
_Number: TypeAlias = Annotated[float, Meta(description="a finite number")]


class _Value(Struct, forbid_unknown_fields=True):
    value: Text
    fragments: Ids
    count: Any
    confidence: Probability | None = None
    entity: Text | None = None
    probability: Probability | None = None
    runner_up: Annotated[Meaning, Meta(description="an entity and its probability")] | None = None
    first: Text | None = None
    last: Text | None = None
    until: Text | None = None
    held: tuple[Annotated[Span, Meta(description="objects of stated and until")], ...] = ()
    by: Text | None = None


class _Explanation(Struct, forbid_unknown_fields=True):
    prior: _Number
    attributes: Annotated[dict[str, _Number], Meta(description="an object of numbers")]
    total: _Number


class _Entity(Struct, forbid_unknown_fields=True):
    """A line of the file; `Entity` has the laws that types cannot express."""

    id: Text
    name: Text
    properties: Annotated[
        dict[
            str,
            Annotated[
                list[Annotated[_Value, Meta(description="objects of value, fragments and count")]],
                Meta(min_length=1, description="a non-empty list"),
            ],
        ],
        Meta(description="an object of lists of values"),
    ]
    fragments: Ids
    confidence: Probability
    subproblem: Natural
    reported: Probability | UnsetType = UNSET
    alternatives: Annotated[
        tuple[Annotated[Alternative, Meta(description="objects of probability and groups")], ...],
        Meta(description="a list"),
    ] = ()
    vector: (
        Annotated[
            tuple[Annotated[float, Meta(description="finite numbers")], ...],
            Meta(min_length=1, description="a non-empty list"),
        ]
        | UnsetType
    ) = UNSET
    explanations: Annotated[dict[str, _Explanation], Meta(description="an object")] | UnsetType = (
        UNSET
    )
    made: Provenance | UnsetType = UNSET


def read_entities(path: str) -> Iterator[Entity]:
    """The entities of a JSON lines file, one at a time; plain or compressed, "-" is standard input.

    BadRecord: a line is not an entity, or repeats an entity's id or a fragment of an earlier
    entity.
    """
    ids, fragments = DigestSet(), DigestSet()
    first = True
    for where, line, record in read_json_lines(path, stop, "entities"):
        try:
            entity = entity_from_json(record, where)
        except BadRecord as error:
            raise (mistaken(error, path, line, "entities") if first else error) from None
        first = False
        if not ids.add(entity.id.encode()):
            raise BadRecord(where, "a unique id", f"{quoted(entity.id)} again", "id")
        for fragment in entity.fragments:
            if not fragments.add(fragment.encode()):
                got = f"{quoted(fragment)}, which is also in another entity"
                raise BadRecord(where, "every fragment in one entity only", got, "fragments")
        yield entity


def entity_from_json(record: object, where: str) -> Entity:
    """Check one parsed JSON value and make an entity of it; the inverse of `Entity.to_json`."""
    expected = (
        "an entity, as kbforge cluster writes" if isinstance(record, dict) else "a JSON object"
    )
    read = convert(record, _Entity, where, expected=expected)
    ids = frozenset(read.fragments)
    _require_distinct(read.fragments, where, "fragments")
    for alternative in read.alternatives:
        for group in alternative.groups:
            _require_distinct(group, where, "alternatives.groups")
    explanations = None
    if read.explanations is not UNSET:
        explanations = _explanations(read.explanations, ids, where)
    return Entity(
        id=read.id,
        name=read.name,
        properties={
            attribute: tuple(_value(one, attribute, ids, where) for one in values)
            for attribute, values in read.properties.items()
        },
        fragments=read.fragments,
        confidence=read.confidence,
        subproblem=read.subproblem,
        alternatives=read.alternatives,
        vector=None if read.vector is UNSET else read.vector,
        reported=None if read.reported is UNSET else read.reported,
        explanations=explanations,
        made=None if read.made is UNSET else read.made,
    )


def made_from_json(record: object, where: str) -> Provenance:
    """Check one parsed JSON value; the inverse of `Provenance.to_json`."""
    return convert(record, Provenance, where, "made")


def _value(read: _Value, attribute: str, fragments: frozenset[str], where: str) -> Value:
    field = f"properties.{quoted(attribute, 40)}"
    meanings, times = _meanings(read, where, field), (read.first, read.last, read.until)
    value = Value(read.value, read.fragments, read.confidence, meanings, *times, read.held, read.by)
    _require_times(value, where, field)
    if type(read.count) is not int or read.count != value.count:
        got = quoted(read.count, 40)
        raise BadRecord(where, f"count {value.count}, the number of fragments", got, field)
    _require_distinct(value.fragments, where, field)
    strangers = [fragment for fragment in value.fragments if fragment not in fragments]
    if strangers:
        raise BadRecord(where, "fragments of this entity", quoted(strangers[0]), field)
    return value


def _require_times(value: Value, where: str, field: str) -> None:
    """Refuse what is no time, and spans that first, last and until do not agree with."""
    stated = (text for span in value.held for text in (*span.stated, span.until))
    for text in (value.first, value.last, value.until, *stated):
        if text is not None and read_time(text) is None:
            raise BadRecord(where, EXPECTED, f'"{quoted(text, 40)}"', field)
    if (value.first is None) != (value.last is None):
        raise BadRecord(where, "both first and last, or neither", "one of them", field)
    if value.held:
        begin, end = value.held[0].stated, value.held[-1]
        if (begin[0], end.until) != (value.first, value.until) or value.last not in end.stated:
            raise BadRecord(where, "held as first, last and until have it", "others", field)


def _meanings(read: _Value, where: str, field: str) -> tuple[Meaning, ...]:
    if read.entity is None or read.probability is None:
        if read.entity is not None or read.probability is not None or read.runner_up is not None:
            raise BadRecord(where, "both entity and probability, or neither", "one of them", field)
        return ()
    best = Meaning(read.entity, read.probability)
    return (best,) if read.runner_up is None else (best, read.runner_up)


def _explanations(
    read: dict[str, _Explanation], fragments: frozenset[str], where: str
) -> dict[str, Explanation]:
    field = "explanations"
    out = {}
    for fragment, item in read.items():
        if fragment not in fragments:
            raise BadRecord(where, "fragments of this entity", quoted(fragment), field)
        explanation = Explanation(item.prior, item.attributes)
        if not math.isclose(explanation.total, item.total, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            got = quoted(item.total, 40)
            raise BadRecord(where, f"a total of {explanation.total:.6g}", got, field)
        out[fragment] = explanation
    return out


def _require_distinct(ids: Sequence[str], where: str, field: str) -> None:
    if len(set(ids)) < len(ids):
        raise BadRecord(where, "distinct fragment ids", "one twice", field)


def made_by(entities: Iterable[Entity]) -> list[Provenance]:
    """How entities were made; several records if files were joined."""
    found: list[Provenance] = []
    for entity in entities:
        if entity.made is not None and entity.made not in found:
            found.append(entity.made)
    return found


def largest(entities: Iterable[Entity], top: int) -> list[Entity]:
    """The entities with the most fragments; ties keep their order."""
    return heapq.nlargest(top, entities, key=lambda entity: len(entity.fragments))


def least_sure(entities: Iterable[Entity], top: int) -> list[Entity]:
    """The entities with the lowest confidence, then probability; larger ones first in ties."""

    def doubt(entity: Entity) -> tuple[float, float, int]:
        return (entity.confidence, entity.probability, -len(entity.fragments))

    return heapq.nsmallest(top, entities, key=doubt)


def with_ids(entities: Iterable[Entity], ids: Collection[str]) -> list[Entity]:
    """The entities with these ids, in the order of the knowledge base; a missing one is an
    error."""
    found = [entity for entity in entities if entity.id in ids]
    for missing in sorted({*ids} - {entity.id for entity in found}):
        raise NotFoundError(
            f'the knowledge base has no entity "{quoted(missing)}"; --fragment finds an entity by '
            f"one of its fragments"
        )
    return found


def names_of(fragments: Collection[str], entities: Iterable[Entity]) -> dict[str, str]:
    """Fragment id -> name of its entity."""
    if not fragments:
        return {}
    wanted = frozenset(fragments)
    return {
        fragment: entity.name
        for entity in entities
        for fragment in entity.fragments
        if fragment in wanted
    }


def with_fragment(entities: Iterable[Entity], fragment_id: str) -> Entity:
    """The entity that holds that fragment; UsageError if there is none."""
    for entity in entities:
        if fragment_id in entity.fragments:
            return entity
    raise NotFoundError(f'the knowledge base has no fragment "{quoted(fragment_id)}"')


def sources_of(ids: Iterable[str], fragments: Iterable[Fragment]) -> dict[str, str]:
    """Fragment id -> source and row, for those of these fragments that have one."""
    wanted, sources = set(ids), {}
    for fragment in fragments:
        if fragment.id in wanted:
            wanted.remove(fragment.id)
            if fragment.place is not None:
                sources[fragment.id] = fragment.place
            if not wanted:
                return sources
    if wanted:
        raise UsageError(
            f'{option("fragments")} lacks the fragment "{quoted(min(wanted))}" of the knowledge '
            "base; give the file that was clustered"
        )
    return sources
