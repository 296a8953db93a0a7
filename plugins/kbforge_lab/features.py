"""Features: how far apart two fragments are in one respect, from 0 to 1.

A feature reads something of every fragment, and compares what it read. Supervised clustering learns
from labelled fragments which features matter; it makes vectors of their distances. Laws:

1. A reading depends on the fragment's properties alone, and on what the feature was fitted to; None
   says that the fragment has nothing to compare.
2. Distances are from 0 to 1, 0 between equal readings, and the same whichever way round.
3. The distance of two readings does not depend on which others are asked for beside them.
4. Deterministic: the same fit and the same readings give the same bits.

A feature need not be a metric, but one that nearly keeps the triangle inequality is embedded
better.

Source: Daumé and Marcu (2005), section 7.3.2, which compares first, last and full names, years and
conference names, and section 7.3.3, which compares initials and the longest common subsequence.

Words weigh log(1 + n / n_w) for `RareWords`, n being the fragments that say something and n_w those
that say w; a word that none of them said weighs as if one had. The distance is Jaccard's, of the
weights: 1 - (weight of the words that both have) / (weight of the words that either has).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import LCSseq, Levenshtein
from rapidfuzz.process import cdist
from scipy.sparse import csr_array

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import UsageError
from kbforge.texts.kinds import normalised, words_of

ALL = "*"
"""In place of an attribute: the values of all of them."""


class Feature(ABC):
    """One respect in which the texts differ that an attribute's values make together."""

    def __init__(self, attribute: str = "name") -> None:
        """Take what all of them take.

        Args:
            attribute: attribute to read; `*` reads the values of all attributes.

        Raises:
            UsageError: no attribute is named.

        """
        if not attribute:
            raise UsageError(f"attribute: expected a name, or {ALL} for all")
        self.attribute = attribute

    def fit(self, fragments: Sequence[Fragment]) -> None:
        """Look at all fragments, of which those to be compared are some, if that helps."""
        return

    def reading(self, fragment: Fragment) -> str | None:
        """What `part` makes of the values as they are compared, in order, spaces between them."""
        read = fragment.properties
        names = sorted(read) if self.attribute == ALL else [self.attribute]
        values = (normalised(value) for name in names for value in read.get(name, ()))
        return self.part(" ".join(value for value in values if value)) or None

    @abstractmethod
    def part(self, text: str) -> str:
        """What is compared of a text, which may be empty; "" if there is nothing."""

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """Edit distances: changed, added and left out characters, by the longer one's length."""
        scorer = Levenshtein.normalized_distance
        return np.asarray(cdist(one, other, scorer=scorer, dtype=np.float64))


class Edit(Feature):
    """Edit distance of two values, divided by the length of the longer one."""

    def part(self, text: str) -> str:
        return text


class FirstWord(Feature):
    """Edit distance of the first words, divided by the length of the longer one."""

    def part(self, text: str) -> str:
        return next(iter(words_of(text)), "")


class LastWord(Feature):
    """Edit distance of the last words, divided by the length of the longer one."""

    def part(self, text: str) -> str:
        return next(reversed(words_of(text)), "")


_LONGEST = 4
"""Letters of a single word that is taken for an abbreviation already."""


class Initials(Feature):
    """Edit distance of the words' initials, as a share; a short single word is its own initials."""

    def part(self, text: str) -> str:
        words = words_of(text)
        if len(words) == 1 and len(words[0]) <= _LONGEST:
            return words[0]
        return "".join(word[0] for word in words)


class Subsequence(Feature):
    """The share of the longer value that is not in the longest common subsequence."""

    def part(self, text: str) -> str:
        return text

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        scorer = LCSseq.normalized_distance
        return np.asarray(cdist(one, other, scorer=scorer, dtype=np.float64))


_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)", re.ASCII)


class Years(Feature):
    """Difference of the first years in two values, divided by a span; at most 1."""

    def __init__(self, attribute: str = "date", span: float = 10.0) -> None:
        """Take the options.

        Args:
            attribute: attribute to read; `*` reads the values of all attributes.
            span: difference in years that counts as 1; above 0.

        Raises:
            UsageError: the span is none.

        """
        super().__init__(attribute)
        if not 0 < span < np.inf:
            raise UsageError(f"feature years: span must be a number above 0, got {span}")
        self._span = span

    def part(self, text: str) -> str:
        found = _YEAR.search(text)
        return found[0] if found else ""

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        rows, columns = np.array(one, dtype=np.float64), np.array(other, dtype=np.float64)
        return np.minimum(np.abs(rows[:, None] - columns) / self._span, 1.0)


class RareWords(Feature):
    """The share of words that only one of two values has; rare words count most."""

    def __init__(self, attribute: str = "name") -> None:
        """Take the options.

        Args:
            attribute: attribute to read; `*` reads the values of all attributes.

        """
        super().__init__(attribute)
        self._said: Counter[str] = Counter()
        self._fragments = 0

    def fit(self, fragments: Sequence[Fragment]) -> None:
        """Count in how many fragments each word is."""
        read = [reading for reading in map(self.reading, fragments) if reading is not None]
        self._fragments = len(read)
        self._said = Counter(word for reading in read for word in reading.split(" "))

    def part(self, text: str) -> str:
        return " ".join(sorted({*words_of(text)}))

    def distances(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        words = {word for reading in (*one, *other) for word in reading.split(" ")}
        number = {word: i for i, word in enumerate(sorted(words))}
        weights = np.array([self._weight(word) for word in number])
        rows, columns = _table(one, number), _table(other, number)
        shared = np.asarray(((rows * weights) @ columns.T).toarray(), dtype=np.float64)
        either = (rows @ weights)[:, None] + columns @ weights - shared
        return np.asarray(np.clip(1 - shared / either, 0.0, 1.0))

    def _weight(self, word: str) -> float:
        """In 2^-20 parts, whose sums are exact in any order."""
        weight = np.log1p(max(self._fragments, 1) / max(self._said[word], 1))
        return float(np.round(weight * 2**20) / 2**20)


def _table(readings: Sequence[str], number: dict[str, int]) -> csr_array:
    """Which words each reading has, shape [readings, words]."""
    held = [[number[word] for word in reading.split(" ")] for reading in readings]
    starts = np.cumsum([0, *map(len, held)])
    columns = np.array([word for words in held for word in words], dtype=np.int64)
    shape = (len(readings), len(number))
    return csr_array((np.ones(len(columns)), columns, starts), shape)


FEATURES: Mapping[str, type[Feature]] = {
    "edit": Edit,
    "first-word": FirstWord,
    "initials": Initials,
    "last-word": LastWord,
    "rare-words": RareWords,
    "subsequence": Subsequence,
    "years": Years,
}
