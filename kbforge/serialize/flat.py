"""Flat JSON: like canonical JSON, but each value stands by itself and its attribute is repeated.

    {"born":"1952","name":"Ada L.","name":"Ada Lovelace"}{"name":"A. Lovelace"}

Records whose attributes have one value each are shorter this way. Order and escapes are those of
canonical JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kbforge.contracts import Fragment
from kbforge.serialize.canonical import (
    Pairs,
    Properties,
    SortedProperties,
    parse_objects,
    sorted_properties,
)


class FlatJson:
    """One record after another, each with one pair for every value of an attribute."""

    def serialize(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set; "" for no fragments."""
        return "".join(sorted(_record(sorted_properties(f.properties)) for f in fragments))

    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """The properties of each fragment, in canonical order.

        Raises:
            ValueError: the text is not canonical, with what is wrong and at which character.

        """
        return parse_objects(text, _collected, _record)


def _record(properties: SortedProperties) -> str:
    pairs = (
        f"{orjson.dumps(attribute).decode()}:{orjson.dumps(value).decode()}"
        for attribute, values in properties
        for value in values
    )
    return "{" + ",".join(pairs) + "}"


def _collected(pairs: Pairs) -> Properties:
    properties: dict[str, list[Any]] = {}
    for attribute, value in pairs:
        properties.setdefault(attribute, []).append(value)
    return properties
