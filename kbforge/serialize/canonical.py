"""Canonical JSON: equal multisets of fragments give equal text, and the text parses back exactly.

The text of a set is its fragments' JSON objects, one after another with nothing between them:

    {"born":["1952"],"name":["Ada L.","Ada Lovelace"]}{"name":["A. Lovelace"]}

An object maps each attribute to the list of its distinct values. Attributes, values and fragments
are sorted by code point (fragments by their own text), so there is one text a set. Identical
fragments are serialized each: a cluster is a multiset. JSON escapes only what it must (quotation
mark, backslash, control characters below U+0020), so the text is one line of UTF-8, and a grammar
for it is short: one or more objects, attribute -> list of strings, strings between quotes.

Vectors are not text: they are left out of it, but they do count in `content_key`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence

import orjson

from kbforge.contracts import Canonical, Fragment

_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: pairs)


def canonical(fragments: Sequence[Fragment]) -> Canonical:
    """The set in canonical form: what `parse(serialize(fragments))` gives back."""
    forms = [_sorted_properties(fragment.properties) for fragment in fragments]
    return tuple(sorted(forms, key=_object))


def serialize(fragments: Sequence[Fragment]) -> str:
    """The canonical text of a set; "" for no fragments."""
    return "".join(sorted(_object(_sorted_properties(f.properties)) for f in fragments))


def parse(text: str) -> list[Mapping[str, tuple[str, ...]]]:
    """The properties of each fragment of a canonical text, in canonical order.

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
        one = _checked(pairs, text[at], at)
        texts.append(_object(one.items()))
        # comparing with the one canonical spelling rules out spaces, needless escapes, disorder
        # and repetition in a single test
        if text[at:end] != texts[-1]:
            raise ValueError(f"not in canonical form at character {at}")
        properties.append(one)
        at = end
    if texts != sorted(texts):
        raise ValueError("the fragments are not in canonical order")
    return properties


def content_key(fragment: Fragment) -> bytes:
    """Bytes that are equal exactly when two fragments' properties and vectors are.

    Order and repetition of values do not count, nor does the sign of a zero; id, label, source
    and metadata are not content.
    """
    text = _object(_sorted_properties(fragment.properties)).encode()
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


def _sorted_properties(
    properties: Mapping[str, Iterable[str]],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    # Python compares strings by code point, which is also the order of their UTF-8 bytes
    return tuple((key, tuple(sorted(set(properties[key])))) for key in sorted(properties))


def _object(properties: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    return orjson.dumps(dict(properties)).decode()


def _checked(pairs: object, first: str, at: int) -> dict[str, tuple[str, ...]]:
    """The pairs of one decoded object, their types and order verified."""
    if first != "{" or not isinstance(pairs, list):
        raise ValueError(f"expected a JSON object at character {at}")
    out: dict[str, tuple[str, ...]] = {}
    for key, values in pairs:
        if not isinstance(values, list) or not values:
            raise ValueError(f"expected a non-empty list of values in the object at character {at}")
        if not all(isinstance(value, str) and value for value in (key, *values)):
            raise ValueError(f"expected non-empty strings in the object at character {at}")
        if any("\ud800" <= c <= "\udfff" for value in (key, *values) for c in value):
            raise ValueError(f"a lone surrogate in the object at character {at}")
        out[key] = tuple(values)
    if list(out) != sorted(key for key, _ in pairs):
        raise ValueError(f"attributes repeated or out of order in the object at character {at}")
    if any(list(values) != sorted(set(values)) for values in out.values()):
        raise ValueError(f"values repeated or out of order in the object at character {at}")
    return out
