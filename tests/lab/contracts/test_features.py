"""Our features keep the laws of their contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from kbforge.contracts import Fragment
from kbforge.testing import examples
from kbforge_lab.testing import FeatureContract


class TestEdit(FeatureContract):
    name = "edit"


class TestFirstWord(FeatureContract):
    name = "first-word"


class TestLastWord(FeatureContract):
    name = "last-word"


class TestInitials(FeatureContract):
    name = "initials"


class TestSubsequence(FeatureContract):
    name = "subsequence"


class TestRareWords(FeatureContract):
    name = "rare-words"


class TestRareWordsOfTheWholeRecord(FeatureContract):
    name = "rare-words"
    options: ClassVar = {"attribute": "*"}


class TestYears(FeatureContract):
    name = "years"
    options: ClassVar = {"attribute": "born"}

    def fragments(self) -> Sequence[Fragment]:
        items = examples.fragments()
        return [
            replace(item, properties={**item.properties, "born": (f"in {1900 + i}",)})
            for i, item in enumerate(items)
        ]
