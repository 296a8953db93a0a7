"""An attribute's values as numbers, each with its base probability.

    base(v) = (n_v - d) / (N + 1) + (d D + 1) / (N + 1) * spelling(v)         v seen
    base(v) = (1 - d) / (N + 1)                                               otherwise

of N observations of D different values, n_v of them v, with an absolute discount d (Ney, Essen
and Kneser 1994) that leaves room for values never seen, spelled letter by letter: `spelling` draws
letters by their share of the vocabulary until an end sign. It is a distribution over all strings
of the vocabulary's letters and a thousand others. What was never seen counts as if it had been seen
once: its spelling is far less probable than that, and two records of strangers that agree on a town
that came up since would be one for certain. Titles may be counted less than once: d n_v is
taken off those.

What is told of a value is worked out when it is first asked for, and is the same whoever was asked
for before. A vocabulary that was kept and taken up finds the rest in `attributes.tables`: which
values were counted, their base probabilities, the mass of each feature, the titles with each word.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.kept import Kept
from kbforge_plugins.models.attributes.kinds import Kind, feature_names, features_of, has_digit
from kbforge_plugins.models.attributes.tables import (
    NO_TABLES,
    Tables,
    Totals,
    feature_text,
    read_kept,
    tables_of,
    to_kept,
)
from kbforge_plugins.models.attributes.titles import Titles

_NUMERIC: tuple[Kind, ...] = ("date", "number")
_DIGITS = "0123456789"
_DISCOUNT = 0.6
LEAST_COUNT = 0.02
"""Of a value that many others of an entity vary."""
_UNSEEN_LETTERS = 1000.0
"""Letters outside the vocabulary share the probability of one, as if there were so many."""


class Vocabulary:
    """The values of one attribute.

    Args:
        kind: says which features values have.
        counts: value -> how often it occurs, at least `LEAST_COUNT`.

    Attributes:
        kind: as given.
        counts: as given, by ascending value; none of a vocabulary that was taken up.
        values: by number: those counted, ascending, then others as they were met. Of a vocabulary
            that was taken up "" stands for those that were not asked for yet.
        base: base probability by number.
        features: by number, the value's features as (index of the feature's name, its number).
        numeric: whether slips of the pen concern digits.
        letters: what a slip of the pen may write: all letters of the values, or all digits.
        alphabet: number of these, at least 2.
        mass: base probability of all counted values that have a feature, by its number.
        words: of titles, by number, the features that are words.
        titles: of titles, the values counted by their words.

    """

    counts: dict[str, float]
    values: list[str]
    base: list[float]
    features: list[tuple[tuple[int, int], ...]]
    words: list[frozenset[int]]
    mass: list[float]
    titles: Titles | None
    _names: dict[str, int]
    _number: dict[str, int]
    _spelling: array[float]
    _stated: _Stated
    _pairs: list[tuple[int, int]]

    def __init__(self, kind: Kind, counts: Mapping[str, float]) -> None:
        self.counts = dict(sorted(counts.items()))
        letters = Counter(chain.from_iterable(self.counts))
        self._begin(kind, _totals(letters, self.counts), NO_TABLES)
        self.values = list(self.counts)
        self._number = {value: number for number, value in enumerate(self.values)}
        self.features = list(map(self._numbered, self.values))
        if kind == "title":
            self.words = list(map(self._words_among, self.features))
        self._spelling = array("d", map(self._spelled, self.values))
        self.base = list(map(self._counted_base, self.counts.values(), self._spelling))
        self._stated = _Stated.of(self.features)
        self.mass = self._stated.masses(self.base, len(self._feature_number))
        if kind == "title":
            word = self._names["word"]
            for (index, key), feature in self._feature_number.items():
                if index == word and has_digit(key):
                    self._digits.add(feature)
            self.titles = Titles(self.base, self._digits, self._holding)
            self.titles.count(self.words)

    def recounted(self, counts: Mapping[str, float]) -> Self:
        """The same values, counted otherwise.

        Args:
            counts: of all values that are counted here, and no others.

        """
        vocabulary, n = type(self).__new__(type(self)), self._n_counted
        assert len(counts) == n
        vocabulary.counts = {value: counts[value] for value in self.counts}
        vocabulary._begin(self.kind, _totals(self._totals.letters, vocabulary.counts), NO_TABLES)
        vocabulary.values, vocabulary.features = self.values[:n], self.features[:n]
        vocabulary.words = self.words[:n]
        vocabulary._number = {value: number for number, value in enumerate(vocabulary.values)}
        vocabulary._feature_number = self._counted_features()
        vocabulary._place = [-1] * len(vocabulary._feature_number)
        vocabulary._pairs = self._pairs[: len(vocabulary._feature_number)]
        # letters are counted by value, so that spellings are as probable as before
        vocabulary._spelling = self._spelling
        counted = vocabulary.counts.values()
        vocabulary.base = list(map(vocabulary._counted_base, counted, self._spelling))
        vocabulary._stated = self._stated
        vocabulary.mass = self._stated.masses(vocabulary.base, len(vocabulary._feature_number))
        if self.titles is not None:
            vocabulary._digits = {*self._digits}
            vocabulary.titles = Titles(
                vocabulary.base, vocabulary._digits, vocabulary._holding, self.titles.holders
            )
        return vocabulary

    @classmethod
    def taken_up(cls, kind: Kind, kept: Kept, whose: str) -> Self:
        """One that says what the vocabulary does that kept this.

        Args:
            kind: of both.
            kept: as of `kept`.
            whose: vocabulary it is, for errors.

        Raises:
            ModelError: it is damaged, or not of a vocabulary.

        """
        vocabulary = cls.__new__(cls)
        vocabulary.counts = {}
        totals, tables = read_kept(kept, kind == "title", whose)
        vocabulary._begin(kind, totals, tables)
        n = totals.values
        vocabulary.values, vocabulary.features = [""] * n, [()] * n
        vocabulary.base = tables.base.tolist()
        if kind == "title":
            vocabulary.words = [frozenset()] * n
            vocabulary.titles = Titles(vocabulary.base, vocabulary._digits, vocabulary._holding)
        return vocabulary

    def kept(self) -> Kept:
        """What was learned of the values counted; nothing of those met since."""
        tables = self._tables
        if tables is NO_TABLES:
            n = self._n_counted
            number = self._counted_features()
            counted = {feature: self.mass[i] for feature, i in number.items()}
            holders = None
            if self.titles is not None:
                held = self.titles.holders
                holders = {f: held[number[f]] for f in counted if number[f] in held}
            tables = tables_of(self.values[:n], self.base[:n], counted, holders)
        return to_kept(self._totals, tables)

    def _begin(self, kind: Kind, totals: Totals, tables: Tables) -> None:
        self.kind, self._totals, self._tables = kind, totals, tables
        self.values = []
        self.base = []
        self.features = []
        self.words = []
        self.mass = []
        self.titles = None
        self._number = {}
        self._spelling, self._stated = array("d"), _Stated.of(())
        self._pairs = []
        self._feature_number: dict[tuple[int, str], int] = {}
        self._place: list[int] = []
        self._digits: set[int] = set()
        self._names = {name: index for index, name in enumerate(feature_names(kind))}
        self._n_counted, letters = totals.values, totals.letters
        ends = max(totals.values, 1)
        total = sum(letters.values()) + ends + 1
        self._log_letter = {letter: math.log(n / total) for letter, n in letters.items()}
        self._log_end = math.log(ends / total)
        self._log_other = -math.log(total * _UNSEEN_LETTERS)
        self.numeric = kind in _NUMERIC
        digits = {*_DIGITS, *(letter for letter in letters if letter.isdigit())}
        self.letters = frozenset(digits if self.numeric else letters)
        self.alphabet = max(len(self.letters), 2)
        self._unseen = (totals.discounted + 1) / (totals.observed + 1)

    def __len__(self) -> int:
        return len(self.values)

    def number(self, value: str) -> int:
        """The number of a normalised value; one never seen gets the next."""
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = self._met(value)
        return number

    def counted(self, number: int) -> bool:
        """Whether a value is one of those counted, or only has a number."""
        return number < self._n_counted

    def shared_mass(self, feature: int) -> float:
        """The base probability of all values of the vocabulary that have a feature."""
        return self.mass[feature]

    def _met(self, value: str) -> int:
        """What is told of a value is worked out; its number."""
        features = self._numbered(value)
        place = self._tables.values.of(value)
        if place >= 0:
            number = int(self._tables.number[place])
            self.values[number], self.features[number] = value, features
            if self.kind == "title":
                self.words[number] = self._words_among(features)
            return number
        self.values.append(value)
        self.base.append(self._base(value))
        self.features.append(features)
        if self.kind == "title":
            self.words.append(self._words_among(features))
        return len(self.values) - 1

    def _words_among(self, features: tuple[tuple[int, int], ...]) -> frozenset[int]:
        word = self._names["word"]
        return frozenset(feature for name, feature in features if name == word)

    def _base(self, value: str) -> float:
        n = self.counts.get(value, 0.0)
        if not n:
            return (1 - _DISCOUNT) / (self._totals.observed + 1)
        return self._counted_base(n, self._spelled(value))

    def _counted_base(self, n: float, spelled: float) -> float:
        seen = (n - min(n, 1.0) * _DISCOUNT) / (self._totals.observed + 1)
        return seen + self._unseen * spelled

    def _spelled(self, value: str) -> float:
        log_letter, other = self._log_letter, self._log_other
        spelling = sum(log_letter.get(letter, other) for letter in value) + self._log_end
        return math.exp(max(spelling, -700.0))

    def _numbered(self, value: str) -> tuple[tuple[int, int], ...]:
        out = []
        for name, keys in features_of(self.kind, value).items():
            index = self._names[name]
            for key in keys:
                number = self._feature_number.get((index, key))
                number = self._number_of_new(index, key) if number is None else number
                out.append(self._pairs[number])
        return tuple(out)

    def _number_of_new(self, index: int, key: str) -> int:
        number = self._feature_number[index, key] = len(self._feature_number)
        self._pairs.append((index, number))
        place = self._tables.features.of(feature_text(index, key))
        self._place.append(place)
        self.mass.append(float(self._tables.mass[place]) if place >= 0 else 0.0)
        if (
            place >= 0
            and self.titles is not None
            and index == self._names["word"]
            and has_digit(key)
        ):
            self._digits.add(number)
        return number

    def _counted_features(self) -> dict[tuple[int, str], int]:
        """The numbers of the features that a counted value has; others have no mass."""
        return {feature: i for feature, i in self._feature_number.items() if self.mass[i]}

    def _holding(self, feature: int) -> list[int]:
        """Of a vocabulary that was taken up, the titles counted that have a word."""
        place = self._place[feature]
        return self._tables.holding(place) if place >= 0 else []


@dataclass(frozen=True, slots=True, eq=False)
class _Stated:
    """The features of counted values, value after value.

    Attributes:
        features: their numbers.
        sizes: how many each value has, shape [values].

    """

    features: NDArray[np.int32]
    sizes: NDArray[np.int32]

    @classmethod
    def of(cls, features: Sequence[tuple[tuple[int, int], ...]]) -> _Stated:
        sizes = np.fromiter(map(len, features), np.int32, len(features))
        flat = (number for of_value in features for _, number in of_value)
        return cls(np.fromiter(flat, np.int32, int(sizes.sum())), sizes)

    def masses(self, base: Sequence[float], features: int) -> list[float]:
        """The sum of base probabilities over the values that have each feature."""
        weights = np.repeat(np.array(base, np.float64), self.sizes)
        summed = np.bincount(self.features, weights, features)
        masses: list[float] = summed.astype(np.float64).tolist()
        return masses


def _totals(letters: Mapping[str, int], counts: Mapping[str, float]) -> Totals:
    discounts = (min(n, 1.0) * _DISCOUNT for n in counts.values())
    return Totals(letters, len(counts), float(sum(counts.values())), math.fsum(discounts))
