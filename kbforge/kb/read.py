"""Reading a knowledge base strictly, because another program may have written the file.

The laws checked are those of `Entity`: types, counts that match provenance, provenance within the
entity, and every fragment (and every id) in one entity only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kbforge.contracts import Alternative, Entity, Explanation, Value
from kbforge.errors import BadRecord, quoted
from kbforge.files.digests import DigestSet
from kbforge.files.fragments import mistaken, read_json_lines, stop
from kbforge.kb.made import made_from_json

_REQUIRED = ("id", "name", "properties", "fragments", "confidence", "subproblem")
_OPTIONAL = ("reported", "alternatives", "vector", "explanations", "made")
_TOLERANCE = 1e-6


def read_entities(path: str) -> Iterator[Entity]:
    """The entities of a JSON lines file, one at a time; plain, gzip or zstd, "-" is standard input.

    Raises:
        KBForgeError: the file cannot be opened.
        BadRecord: at the first line that is not an entity, or that repeats an entity's id or a
            fragment of an earlier entity.

    """
    ids, fragments = DigestSet(), DigestSet()
    first = True
    for where, line, record in read_json_lines(path, stop):
        try:
            entity = entity_from_json(record, where)
        except BadRecord as error:
            raise (mistaken(error, path, line, "entities") if first else error) from None
        first = False
        if not ids.add(entity.id.encode()):
            raise BadRecord(where, "a unique id", f"{quoted(entity.id)} again", "id")
        for fragment in entity.fragments:
            if not fragments.add(fragment.encode()):
                got = f"{quoted(fragment)}, which another entity has"
                raise BadRecord(where, "every fragment in one entity only", got, "fragments")
        yield entity


def entity_from_json(record: object, where: str) -> Entity:
    """Check one parsed JSON value and make an entity of it; the inverse of `Entity.to_json`.

    Args:
        record: what the JSON parser returned.
        where: `file:line`, for the error.

    Raises:
        BadRecord: at the first law that the record breaks.

    """
    if not isinstance(record, dict):
        raise BadRecord(where, "a JSON object", _kind(record))
    for key in _REQUIRED:
        if key not in record:
            raise BadRecord(where, "an entity, as kbforge cluster writes", "no such key", key)
    unknown = sorted(set(record) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        known = ", ".join((*_REQUIRED, *_OPTIONAL))
        raise BadRecord(where, f"only the keys {known}", quoted(unknown[0]))
    fragments = _ids(record["fragments"], where, "fragments")
    return Entity(
        id=_text(record["id"], where, "id"),
        name=_text(record["name"], where, "name"),
        properties=_properties(record["properties"], frozenset(fragments), where),
        fragments=fragments,
        confidence=_probability(record["confidence"], where, "confidence"),
        subproblem=_number(record["subproblem"], where, "subproblem"),
        alternatives=_alternatives(record.get("alternatives", []), where),
        vector=_vector(record["vector"], where) if "vector" in record else None,
        reported=(
            _probability(record["reported"], where, "reported") if "reported" in record else None
        ),
        explanations=(
            _explanations(record["explanations"], frozenset(fragments), where)
            if "explanations" in record
            else None
        ),
        made=made_from_json(record["made"], where) if "made" in record else None,
    )


def _properties(
    value: object, fragments: frozenset[str], where: str
) -> dict[str, tuple[Value, ...]]:
    if not isinstance(value, dict):
        raise BadRecord(where, "an object of lists of values", _kind(value), "properties")
    out = {}
    for attribute, values in value.items():
        field = f"properties.{quoted(attribute, 40)}"
        items = _items(values, where, field)
        out[attribute] = tuple(_value(item, fragments, where, field) for item in items)
    return out


def _value(item: object, fragments: frozenset[str], where: str, field: str) -> Value:
    if not isinstance(item, dict) or item.keys() != {"value", "fragments", "count"}:
        raise BadRecord(where, "objects of value, fragments and count", _kind(item), field)
    value = Value(_text(item["value"], where, field), _ids(item["fragments"], where, field))
    if type(item["count"]) is not int or item["count"] != value.count:
        got = quoted(item["count"], 40)
        raise BadRecord(where, f"count {value.count}, the number of fragments", got, field)
    strangers = [fragment for fragment in value.fragments if fragment not in fragments]
    if strangers:
        raise BadRecord(where, "fragments of this entity", quoted(strangers[0]), field)
    return value


def _alternatives(value: object, where: str) -> tuple[Alternative, ...]:
    field = "alternatives"
    if not isinstance(value, list):
        raise BadRecord(where, "a list", _kind(value), field)
    out = []
    for item in value:
        if not isinstance(item, dict) or item.keys() != {"probability", "groups"}:
            raise BadRecord(where, "objects of probability and groups", _kind(item), field)
        groups = _items(item["groups"], where, f"{field}.groups")
        out.append(
            Alternative(
                _probability(item["probability"], where, f"{field}.probability"),
                tuple(_ids(group, where, f"{field}.groups") for group in groups),
            )
        )
    return tuple(out)


def _explanations(value: object, fragments: frozenset[str], where: str) -> dict[str, Explanation]:
    field = "explanations"
    if not isinstance(value, dict):
        raise BadRecord(where, "an object", _kind(value), field)
    out = {}
    for fragment, item in value.items():
        if fragment not in fragments:
            raise BadRecord(where, "fragments of this entity", quoted(fragment), field)
        if not isinstance(item, dict) or item.keys() != {"prior", "attributes", "total"}:
            raise BadRecord(where, "objects of prior, attributes and total", _kind(item), field)
        attributes = item["attributes"]
        if not isinstance(attributes, dict):
            raise BadRecord(where, "an object of numbers", _kind(attributes), field)
        explanation = Explanation(
            _nats(item["prior"], where, field),
            {name: _nats(nats, where, field) for name, nats in attributes.items()},
        )
        total = _nats(item["total"], where, field)
        if not math.isclose(explanation.total, total, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            got = quoted(total, 40)
            raise BadRecord(where, f"a total of {explanation.total:.6g}", got, field)
        out[fragment] = explanation
    return out


def _nats(value: object, where: str, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadRecord(where, "a finite number", _kind(value), field)
    return float(value)


def _ids(value: object, where: str, field: str) -> tuple[str, ...]:
    ids = tuple(_text(item, where, field) for item in _items(value, where, field))
    if len(set(ids)) < len(ids):
        raise BadRecord(where, "distinct fragment ids", "one twice", field)
    return ids


def _items(value: object, where: str, field: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise BadRecord(where, "a non-empty list", "[]" if value == [] else _kind(value), field)
    return value


def _text(value: object, where: str, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadRecord(where, "a non-empty string", _kind(value), field)
    return value


def _probability(value: object, where: str, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadRecord(where, "a probability from 0 to 1", _kind(value), field)
    return float(value)


def _number(value: object, where: str, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRecord(where, "a whole number from 0", _kind(value), field)
    return value


def _vector(value: object, where: str) -> tuple[float, ...]:
    numbers = _items(value, where, "vector")
    for item in numbers:
        if isinstance(item, bool) or not isinstance(item, int | float) or not math.isfinite(item):
            raise BadRecord(where, "finite numbers", _kind(item), "vector")
    return tuple(float(item) for item in numbers)


def _kind(value: object) -> str:
    """What the error says it got: an object's keys, other values themselves, cut short."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return f"an object of {quoted(', '.join(map(str, value)), 60) or 'nothing'}"
    if isinstance(value, list):
        return "a list"
    return f'"{quoted(value, 40)}"' if isinstance(value, str) else quoted(value, 40).lower()
