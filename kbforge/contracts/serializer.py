"""Serializers: write a set of fragments as text that a model reads.

Laws, tested for every member by `kbforge.testing.SerializerContract`:

1. Equal sets serialize equally, whatever the order of fragments, attributes and values.
2. `parse(serialize(x))` is x: its fragments, sorted, with sorted attributes and distinct values.
3. Text is UTF-8 on one line.

Two ship. Both write one JSON object per fragment, with nothing between them. `canonical-json` maps
each attribute to the list of its distinct values; `flat-json` repeats the attribute for each value,
which is shorter for records whose attributes have one value each:

    {"born":["1952"],"name":["Ada L.","Ada Lovelace"]}{"name":["A. Lovelace"]}
    {"born":"1952","name":"Ada L.","name":"Ada Lovelace"}{"name":"A. Lovelace"}

Attributes, values and fragments are sorted by code point (fragments by their own text). Identical
fragments are repeated: a cluster is a multiset. JSON escapes only what it must (quotation mark,
backslash, control characters below U+0020), so the text is one line of UTF-8. The text omits
vectors, but `content_key` includes them.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from kbforge.contracts.fragment import Fragment
from kbforge.errors import quoted


class Serializer(ABC):
    """Text from a set of fragments, and back."""

    @abstractmethod
    def serialize(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""

    @abstractmethod
    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """The properties of each fragment, in canonical order.

        Raises:
            ValueError: the text is not canonical.

        """


def content_key(fragment: Fragment) -> bytes:
    """Bytes that are equal exactly when two fragments' properties and vectors are.

    The order and repetition of values do not count, nor does the sign of a zero.
    """
    text = _object(sorted_properties(fragment.properties)).encode()
    if fragment.vector is None:
        return text
    # JSON text holds no NUL byte, so the first one ends it
    numbers = (number + 0.0 for number in fragment.vector)
    return text + b"\0" + struct.pack(f"<{len(fragment.vector)}d", *numbers)


class CanonicalJson(Serializer):
    """The records one by one, each with a list of values for every attribute."""

    def serialize(self, fragments: Sequence[Fragment]) -> str:
        return _serialized(fragments, _object)

    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        return _parsed(text, _lists, _object)


def _object(properties: SortedProperties) -> str:
    return orjson.dumps(dict(properties)).decode()


def _lists(pairs: Pairs) -> Properties:
    properties: Properties = {}
    for key, values in pairs:
        if not isinstance(values, list):
            raise ValueError("expected lists of values")
        properties[key] = values
    return properties


Pairs: TypeAlias = list[tuple[str, object]]
"""The content of a JSON object, in order, with repetitions."""
Properties: TypeAlias = dict[str, list[str]]
SortedProperties: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: pairs)


def sorted_properties(properties: Mapping[str, Iterable[str]]) -> SortedProperties:
    """Attributes sorted, their values sorted and distinct."""
    # Python compares strings by code point, which is also the order of their UTF-8 bytes
    return tuple((key, tuple(sorted(set(properties[key])))) for key in sorted(properties))


def _serialized(fragments: Sequence[Fragment], written: Callable[[SortedProperties], str]) -> str:
    return "".join(sorted(written(sorted_properties(f.properties)) for f in fragments))


def _parsed(
    text: str,
    properties_of: Callable[[Pairs], Properties],
    written: Callable[[SortedProperties], str],
) -> list[Mapping[str, tuple[str, ...]]]:
    """The properties of each object of a text; a ValueError names what is not canonical, and where.

    `properties_of` makes properties from an object's pairs; `written` returns their canonical text.
    """
    properties: list[Mapping[str, tuple[str, ...]]] = []
    texts: list[str] = []
    at = 0
    while at < len(text):
        try:
            pairs, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a JSON object at character {at}: {error}") from error
        if text[at] != "{":
            raise ValueError(f"expected a JSON object at character {at}")
        try:
            one = sorted_properties(_checked(properties_of(pairs)))
            texts.append(written(one))
        except ValueError as error:
            raise ValueError(f"the object at character {at}: {error}") from error
        # one comparison rules out spaces, needless escapes, disorder and repetition
        if text[at:end] != texts[-1]:
            raise _departure(text[at:end], texts[-1], at)
        properties.append(dict(one))
        at = end
    if texts != sorted(texts):
        raise ValueError("the fragments are not in canonical order")
    return properties


def _checked(properties: Properties) -> Properties:
    for key, values in properties.items():
        if not values or not all(isinstance(text, str) and text for text in (key, *values)):
            raise ValueError("expected attributes with values, all of them non-empty strings")
        try:
            "".join((key, *values)).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a lone surrogate") from error
    return properties


def _departure(got: str, expected: str, at: int) -> ValueError:
    same = 0
    while got[same : same + 1] == expected[same : same + 1]:  # they differ somewhere
        same += 1
    return ValueError(
        f"not in canonical form at character {at + same}: "
        f"expected {quoted(expected[same:], 40) or 'nothing'}, "
        f"got {quoted(got[same:], 40) or 'nothing'}"
    )


class FlatJson(Serializer):
    """The records one by one, each with a pair for every value of an attribute."""

    def serialize(self, fragments: Sequence[Fragment]) -> str:
        return _serialized(fragments, _record)

    def parse(self, text: str) -> Sequence[Mapping[str, tuple[str, ...]]]:
        return _parsed(text, _collected, _record)


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
