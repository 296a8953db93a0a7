"""The edit distance of abbreviations: "George W. Bush" is gwb, and so is "GWB"."""

from __future__ import annotations

from kbforge_lab.features.texts import TextFeature
from kbforge_plugins.likelihoods.attributes.kinds import words_of

_LONGEST = 4
"""Letters of a single word that is taken for an abbreviation already."""


class Initials(TextFeature):
    """How many of the words' first letters have to be changed; a short single word is its own."""

    def part(self, text: str) -> str:
        words = words_of(text)
        if len(words) == 1 and len(words[0]) <= _LONGEST:
            return words[0]
        return "".join(word[0] for word in words)
