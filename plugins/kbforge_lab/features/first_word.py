"""The edit distance of first words, such as first names."""

from __future__ import annotations

from kbforge_lab.features.texts import TextFeature
from kbforge_plugins.likelihoods.attributes.kinds import words_of


class FirstWord(TextFeature):
    """How many characters of the first word have to be changed, by the length of the longer one."""

    def part(self, text: str) -> str:
        return next(iter(words_of(text)), "")
