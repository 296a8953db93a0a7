"""The laws of `kbforge.contracts.serializer`, as tests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from kbforge.contracts import Fragment
from kbforge.testing import examples
from kbforge.testing.contract import Contract


class SerializerContract(Contract):
    """Equal sets give equal text, and the text gives the set back."""

    kind: ClassVar[str] = "serializers"

    def sets(self) -> list[list[Fragment]]:
        """Sets of fragments: none, one, repeated ones, and hostile text."""
        people = examples.fragments()
        hostile = [
            Fragment(f"h{i}", {value: (value, "plain"), "name": (value,)})
            for i, value in enumerate(examples.HOSTILE_VALUES)
        ]
        return [[], people[:1], people, [people[0], people[0], people[1]], hostile]

    def test_order_and_repetition_of_values_do_not_count(self) -> None:
        rng, serializer = random.Random(11), self.make()
        for items in self.sets():
            assert serializer.serialize(_shuffled(items, rng)) == serializer.serialize(items)

    def test_repetition_of_fragments_counts(self) -> None:
        one = self.sets()[1]
        assert self.make().serialize(one * 2) != self.make().serialize(one)

    def test_different_sets_give_different_text(self) -> None:
        texts = [self.make().serialize(items) for items in self.sets()]
        assert len(set(texts)) == len(texts)

    def test_parsing_gives_the_set_back(self) -> None:
        serializer = self.make()
        for items in self.sets():
            found = serializer.parse(serializer.serialize(items))
            assert Counter(map(_form, found)) == Counter(_form(f.properties) for f in items)

    def test_one_line_of_unicode(self) -> None:
        for items in self.sets():
            text = self.make().serialize(items)
            assert text.encode().decode() == text
            assert "\n" not in text
            assert "\r" not in text

    def test_other_text_is_refused(self) -> None:
        serializer = self.make()
        text = serializer.serialize(self.sets()[2])
        for wrong in (text[:-1], text + " ", " " + text, text + "x", text[len(text) // 2 :]):
            with pytest.raises(ValueError):
                serializer.parse(wrong)


def _form(properties: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((key, tuple(sorted(set(properties[key])))) for key in sorted(properties))


def _shuffled(items: list[Fragment], rng: random.Random) -> list[Fragment]:
    out = []
    for item in rng.sample(items, len(items)):
        keys = rng.sample(sorted(item.properties), len(item.properties))
        properties = {}
        for key in keys:
            values = [*item.properties[key], item.properties[key][0]]
            properties[key] = tuple(rng.sample(values, len(values)))
        out.append(replace(item, properties=properties))
    return out
