"""What the JSON serializers share: one object after another, each with one spelling.

A serializer says what the pairs of an object mean and how properties are written; equal sets then
have equal text because everything is sorted, by code point, before it is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from kbforge.errors import quoted

Pairs: TypeAlias = list[tuple[str, object]]
"""What a JSON object says, in its order, repetition included."""
Properties: TypeAlias = dict[str, list[str]]
SortedProperties: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: pairs)


def sorted_properties(properties: Mapping[str, Iterable[str]]) -> SortedProperties:
    """Attributes sorted, their values sorted and distinct."""
    # Python compares strings by code point, which is also the order of their UTF-8 bytes
    return tuple((key, tuple(sorted(set(properties[key])))) for key in sorted(properties))


def parse_objects(
    text: str,
    properties_of: Callable[[Pairs], Properties],
    written: Callable[[SortedProperties], str],
) -> list[Mapping[str, tuple[str, ...]]]:
    """The properties of each object of a text.

    Args:
        text: what to parse.
        properties_of: properties from the pairs of an object; their values are checked here.
        written: the one text of properties.

    Raises:
        ValueError: the text is not canonical, with what is wrong and at which character.

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
