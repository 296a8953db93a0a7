"""Answers of all interfaces, and their descriptions in the OpenAPI document.

An answer is a struct, or a dataclass of the domain; the document is generated from it, so the two
cannot differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, TypeAlias, get_args

import msgspec
import orjson
from msgspec import Struct

from kbforge.contracts import Fragment
from kbforge.contracts.entity import Natural, Probability


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """An object in an answer: its JSON has all fields, in this order."""


class Record(Answer, frozen=True, omit_defaults=True):
    """A fragment as it was added, without its label: values by attribute, or a vector, or both."""

    id: str
    properties: Mapping[str, Sequence[str]]
    vector: Sequence[float] | None = None
    source: str | None = None
    metadata: Mapping[str, Any] | None = None


class EntityReference(Answer, frozen=True):
    """A summary of an entity."""

    id: str
    name: str
    size: Natural
    confidence: Probability | None


Facts: TypeAlias = dict[str, Any]
"""Part of a page or of an external protocol; the document does not describe it."""


def record_of(fragment: Fragment) -> Record:
    """A fragment without its label, which is only for evaluation."""
    return Record(
        fragment.id, fragment.properties, fragment.vector, fragment.source, fragment.metadata
    )


def plain(answer: Any) -> Facts:
    """An answer as a JSON object."""
    found: Facts = orjson.loads(as_json(answer))
    return found


def as_json(answer: Any) -> bytes:
    """An answer as JSON; numbers that JSON cannot represent are null."""
    return orjson.dumps(msgspec.to_builtins(answer))


def schema_of(answer: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The document's description of a type of answers; `components` collects the objects in it."""
    if isinstance(answer, UnionType):
        return {"anyOf": [schema_of(one, components) for one in get_args(answer)]}
    place = "#/components/schemas/{name}"
    said = orjson.dumps(msgspec.json.schema_components([answer], ref_template=place))
    found: dict[str, Any]
    (found,), more = orjson.loads(said.replace(b"_EntityReference_", b""))  # which all refer by
    for name, one in more.items():
        components[name] = one | {"description": inspect.cleandoc(one.get("description", ""))}
    return found
