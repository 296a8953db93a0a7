"""The edit distance of last words, such as surnames."""

from __future__ import annotations

from kbforge_lab.features.texts import TextFeature
from kbforge_plugins.likelihoods.attributes.kinds import words_of


class LastWord(TextFeature):
    """How many characters of the last word have to be changed, by the length of the longer one."""

    def part(self, text: str) -> str:
        return next(reversed(words_of(text)), "")
