"""Agreement in words, of which the rare ones count most.

Words weigh log(1 + n / n_w), n being the fragments that say something and n_w those that say w; a
word that none of them said weighs as if one had. The distance is Jaccard's, of the weights:

    1 - (weight of the words that both have) / (weight of the words that either has)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from kbforge.contracts import FloatArray, Fragment
from kbforge_lab.features.texts import TextFeature
from kbforge_plugins.likelihoods.attributes.kinds import words_of


class RareWords(TextFeature):
    """The share of the words that only one of two values has, the rare ones weighing most."""

    def __init__(self, attribute: str = "name") -> None:
        """Take the options.

        Args:
            attribute: what to read; `*` reads the values of all attributes.

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
        """See `kbforge_lab.contracts.feature`."""
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
