"""Canonical JSON: equal multisets of fragments give equal text, and the text parses back exactly.

The text of a set is its fragments' JSON objects, one after another with nothing between them:

    {"born":["1952"],"name":["Ada L.","Ada Lovelace"]}{"name":["A. Lovelace"]}

An object maps each attribute to the list of its distinct values. Attributes, values and fragments
are sorted by code point (fragments by their own text), so there is one text a set. Identical
fragments are serialized each: a cluster is a multiset. JSON escapes only what it must: quotation
mark, backslash, and control characters below U+0020. So the text is one line of UTF-8. A grammar
for it is short: one or more objects, attribute -> list of strings, strings between quotes.

Vectors are not text: they are left out of it, but they do count in `content_key`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import orjson

from kbforge.contracts import Canonical, Fragment
from kbforge.serialize.objects import (
    Pairs,
    Properties,
    SortedProperties,
    parse_objects,
    sorted_properties,
)


def canonical(fragments: Sequence[Fragment]) -> Canonical:
    """The set in canonical form: what `parse(serialize(fragments))` gives back."""
    forms = [sorted_properties(fragment.properties) for fragment in fragments]
    return tuple(sorted(forms, key=_object))


def serialize(fragments: Sequence[Fragment]) -> str:
    """The canonical text of a set; "" for no fragments."""
    return "".join(sorted(_object(sorted_properties(f.properties)) for f in fragments))


def parse(text: str) -> list[Mapping[str, tuple[str, ...]]]:
    """The properties of each fragment of a canonical text, in canonical order.

    Raises:
        ValueError: the text is not canonical, with what is wrong and at which character.

    """
    return parse_objects(text, _lists, _object)


def content_key(fragment: Fragment) -> bytes:
    """Bytes that are equal exactly when two fragments' properties and vectors are.

    Order and repetition of values do not count, nor does the sign of a zero; id, label, source
    and metadata are not content.
    """
    text = _object(sorted_properties(fragment.properties)).encode()
    if fragment.vector is None:
        return text
    # JSON text holds no NUL byte, so the first one ends it
    numbers = (number + 0.0 for number in fragment.vector)
    return text + b"\0" + struct.pack(f"<{len(fragment.vector)}d", *numbers)


class CanonicalJson:
    """The serializer `canonical-json`; see the functions of this module."""

    def serialize(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""
        return serialize(fragments)

    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """The properties of each fragment, in canonical order.

        Raises:
            ValueError: the text is not canonical.

        """
        return parse(text)


def _object(properties: SortedProperties) -> str:
    return orjson.dumps(dict(properties)).decode()


def _lists(pairs: Pairs) -> Properties:
    properties: Properties = {}
    for key, values in pairs:
        if not isinstance(values, list):
            raise ValueError("expected lists of values")
        properties[key] = values
    return properties
