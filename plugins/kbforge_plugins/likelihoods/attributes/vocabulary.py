"""Encodes values as numbers with base probabilities, and fragments as records of these.

    base(v) = (n_v - d) / (N + 1) + (d D + 1) / (N + 1) * spelling(v)         v seen
    base(v) = (1 - d) / (N + 1)                                               otherwise

of N observations of D different values, n_v of them v, with an absolute discount d (Ney, Essen
and Kneser 1994) that reserves probability for unseen values; `spelling` draws letters by their
share of the vocabulary until an end sign. An unseen value counts as if it had been seen once: from
its spelling alone, two unrelated records that agree on a new town would certainly be one entity.
Titles may be counted less than once: then d n_v is subtracted from them.

The facts about a value are computed on first use and do not depend on earlier uses. *Kept
vocabularies* are arrays in which a value or a feature is found by its digest. Reading them computes
nothing per value, so a million records are read about as fast as a thousand.

*Titles.* A variant of a text v keeps each word with probability r, a word with a digit with another
probability, and fills in the rest from an existing text that has the kept words. With S the words
that u and v share,

    G(u | v) = base(u) * product over S of r * product over v without S of (1 - r) / mass(S)

    mass(S) = base probability of all texts other than v that have every word of S

The mass is that of the words together, because a brand and its product line are not separate
evidence. Summed over u the component is at most 1. Texts differ in how much is kept, so there are
four such components (`RETENTIONS`).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from math import fsum
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LearnedState
from kbforge.models.bundle import KeptReader
from kbforge.texts import LARGEST, Places, digests_of
from kbforge.texts.kinds import (
    Kind,
    feature_names,
    features_of,
    has_digit,
    read_as,
    stated,
)

_LAST_LETTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class VocabularyTotals:
    """The counts behind base probabilities."""

    letters: Mapping[str, int]  # how often each occurs in the values, each value once
    values: int  # how many there are
    observed: float  # sum of their counts
    discounted: float  # sum of what is taken off these


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyTables:
    """Values and their features by digest."""

    values: Places
    number: NDArray[np.int32]  # of each value, shape [values]
    base: FloatArray  # by number, shape [values]
    features: Places
    mass: FloatArray  # shape [features]
    starts: IntArray  # of titles, of the holders of each feature, shape [features + 1]
    holders: NDArray[np.int32]  # the values that have a word, by feature, each ascending

    @classmethod
    def of(
        cls,
        values: Sequence[str],
        base: Sequence[float],
        features: Mapping[tuple[int, str], float],
        holders: Mapping[tuple[int, str], AbstractSet[int]] | None,
    ) -> VocabularyTables:
        """The tables: values and their bases by number, masses, and the titles with each word."""
        digests = digests_of(values)
        order = np.argsort(digests, kind="stable")
        of_features = digests_of(_feature_text(*feature) for feature in features)
        ranked = np.argsort(of_features, kind="stable")
        starts, flat = np.zeros(0, np.int64), np.zeros(0, np.int32)
        if holders is not None:
            names = list(features)
            lists = [sorted(holders.get(names[i], ())) for i in ranked.tolist()]
            starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
            flat = np.fromiter((u for part in lists for u in part), np.int32, int(starts[-1]))
        return cls(
            Places(digests[order]),
            order.astype(np.int32),
            np.array(base, np.float64),
            Places(of_features[ranked]),
            np.fromiter(features.values(), np.float64, len(features))[ranked],
            starts,
            flat,
        )

    def holding(self, feature: int) -> list[int]:
        """The numbers of the titles that have the word at this place."""
        numbers: list[int] = self.holders[self.starts[feature] : self.starts[feature + 1]].tolist()
        return numbers


_NO_TABLES = VocabularyTables.of((), (), {}, None)


def _feature_text(name: int, key: str) -> str:
    """The text whose digest stands for a feature."""
    return f"{name}\0{key}"


def _read_kept(
    kept: LearnedState, titles: bool, whose: str
) -> tuple[VocabularyTotals, VocabularyTables]:
    """The totals and tables saved for a vocabulary of this name; a ModelError if damaged."""
    read = KeptReader(kept, whose)
    fields = read.only("observed", "discounted")
    letters = read.array("letters", np.int32, least=0, most=_LAST_LETTER, ascending=True)
    letter_counts = read.array("letter_counts", np.int64, len(letters), least=1, most=2**53)
    values = read.array("values", np.int64, least=0, most=LARGEST, ascending=True)
    n = len(values)
    number = read.array("number", np.int32, n, least=0, most=n - 1)
    if n and np.bincount(number, minlength=n).max() > 1:
        raise read.wrong("number", "each number once", "one of them twice")
    base = read.array("base", np.float64, n, least=np.finfo(np.float64).tiny, most=1.0)
    features = read.array("features", np.int64, least=0, most=LARGEST, ascending=True)
    mass = read.array("mass", np.float64, len(features), least=0.0, most=max(n, 1))
    starts = read.array(
        "starts", np.int64, len(features) + 1 if titles else 0, least=0, ascending=True
    )
    if titles and starts[0]:
        raise read.wrong("starts", "0 as the first one", str(starts[0]))
    total = int(starts[-1]) if titles else 0
    holders = read.array("holders", np.int32, total, least=0, most=n - 1)
    return (
        VocabularyTotals(
            dict(zip(map(chr, letters.tolist()), letter_counts.tolist(), strict=True)),
            n,
            fields.within("observed", 0.0, 2.0**53),
            fields.within("discounted", 0.0, 2.0**53),
        ),
        VocabularyTables(Places(values), number, base, Places(features), mass, starts, holders),
    )


RETENTIONS = (
    ("nearly all words", 0.92, 0.95),
    ("most words", 0.8, 0.9),
    ("many words", 0.65, 0.85),
    ("some words", 0.5, 0.5),
)
"""Name, probability of a word to be kept, and of one with a digit."""
_MOST_SETS = 1 << 20  # cached masses


class Titles:
    """The texts of one attribute by their words; `holding` returns those of words outside
    `holders`.

    `base` and `digits`, the words that have a digit, belong to the vocabulary and may grow.
    """

    def __init__(
        self,
        base: list[float],
        digits: set[int],
        holding: Callable[[int], Iterable[int]],
        holders: Mapping[int, set[int]] | None = None,
    ) -> None:
        self._base, self._digits, self._holding = base, digits, holding
        self.holders = dict(holders or {})
        self._mass: dict[frozenset[int], float] = {}
        self._kept: dict[tuple[int, int, int, int], tuple[float, ...]] = {}

    def count(self, words: Sequence[frozenset[int]]) -> None:
        """Add the words of each text, by its number."""
        for number, of_text in enumerate(words):
            for word in of_text:
                self.holders.setdefault(word, set()).add(number)

    def kept(self, common: frozenset[int], words: frozenset[int]) -> tuple[float, ...]:
        """For each component, the probability that exactly these of a text's words are kept."""
        digits = self._digits
        common_digits, all_digits = len(common & digits), len(words & digits)
        plain = len(common) - common_digits
        counts = (plain, len(words) - all_digits - plain, common_digits, all_digits - common_digits)
        found = self._kept.get(counts)
        if found is None:
            a, b, c, d = counts
            found = self._kept[counts] = tuple(
                r**a * (1 - r) ** b * of_digits**c * (1 - of_digits) ** d
                for _, r, of_digits in RETENTIONS
            )
        return found

    def mass(self, common: frozenset[int]) -> float:
        """The base probability of all counted texts that have these words, at least one."""
        found = self._mass.get(common)
        if found is None:
            holders = sorted(map(self._texts_with, common), key=len)
            base = self._base
            found = fsum(base[number] for number in holders[0].intersection(*holders[1:]))
            if len(self._mass) >= _MOST_SETS:
                self._mass.clear()
            self._mass[common] = found
        return found

    def _texts_with(self, word: int) -> set[int]:
        found = self.holders.get(word)
        if found is None:
            found = self.holders[word] = set(self._holding(word))
        return found


_NUMERIC: tuple[Kind, ...] = ("date", "month first", "number", "phone")
_DIGITS = "0123456789"
_DISCOUNT = 0.6
LEAST_COUNT = 0.02
"""For a value that is one of many variants of an entity."""
_UNSEEN_LETTERS = 1000.0  # so many letters outside the vocabulary share the probability of one


class Vocabulary:
    """The values of one attribute, by number: the counted ones, ascending, then others by first
    use.

    In a loaded vocabulary, "" stands for counted values that were not used yet.
    """

    counts: dict[str, float]  # at least `LEAST_COUNT`; empty if taken up
    values: list[str]
    base: list[float]  # probability by number
    features: list[tuple[tuple[int, int], ...]]  # of each value: (index of its name, its number)
    words: list[frozenset[int]]  # of titles, the features that are words
    mass: list[float]  # by feature, base probability of all counted values that have it
    titles: Titles | None  # the counted values by their words
    _names: dict[str, int]
    _number: dict[str, int]
    _spelling: array[float]
    _flat: tuple[NDArray[np.int32], NDArray[np.int32]]
    _pairs: list[tuple[int, int]]

    def __init__(self, kind: Kind, counts: Mapping[str, float]) -> None:
        self.counts = dict(sorted(counts.items()))
        letters = Counter(chain.from_iterable(self.counts))
        self._begin(kind, _totals(letters, self.counts), _NO_TABLES)
        self.values = list(self.counts)
        self._number = {value: number for number, value in enumerate(self.values)}
        self.features = list(map(self._numbered, self.values))
        if kind == "title":
            self.words = list(map(self._words_among, self.features))
        self._spelling = array("d", map(self._spelled, self.values))
        self.base = list(map(self._counted_base, self.counts.values(), self._spelling))
        sizes = np.fromiter(map(len, self.features), np.int32, len(self.features))
        numbers = (number for of_value in self.features for _, number in of_value)
        self._flat = np.fromiter(numbers, np.int32, int(sizes.sum())), sizes
        self.mass = self._masses()
        if kind == "title":
            word = self._names["word"]
            for (index, key), feature in self._feature_number.items():
                if index == word and has_digit(key):
                    self._digits.add(feature)
            self.titles = Titles(self.base, self._digits, self._holding)
            self.titles.count(self.words)

    def recounted(self, counts: Mapping[str, float]) -> Self:
        """The same values with other counts."""
        vocabulary, n = type(self).__new__(type(self)), self._n_counted
        assert len(counts) == n
        vocabulary.counts = {value: counts[value] for value in self.counts}
        vocabulary._begin(self.kind, _totals(self._totals.letters, vocabulary.counts), _NO_TABLES)
        vocabulary.values, vocabulary.features = self.values[:n], self.features[:n]
        vocabulary.words = self.words[:n]
        vocabulary._number = {value: number for number, value in enumerate(vocabulary.values)}
        vocabulary._feature_number = self._counted_features()
        vocabulary._place = [-1] * len(vocabulary._feature_number)
        vocabulary._pairs = self._pairs[: len(vocabulary._feature_number)]
        # letters are counted by value, so that spellings stay as probable
        vocabulary._spelling = self._spelling
        counted = vocabulary.counts.values()
        vocabulary.base = list(map(vocabulary._counted_base, counted, self._spelling))
        vocabulary._flat = self._flat
        vocabulary.mass = vocabulary._masses()
        if self.titles is not None:
            vocabulary._digits = {*self._digits}
            vocabulary.titles = Titles(
                vocabulary.base, vocabulary._digits, vocabulary._holding, self.titles.holders
            )
        return vocabulary

    @classmethod
    def load(cls, kind: Kind, kept: LearnedState, whose: str) -> Self:
        """The vocabulary saved in this state; a ModelError, which names it `whose`, if damaged."""
        vocabulary = cls.__new__(cls)
        vocabulary.counts = {}
        totals, tables = _read_kept(kept, kind == "title", whose)
        vocabulary._begin(kind, totals, tables)
        n = totals.values
        vocabulary.values, vocabulary.features = [""] * n, [()] * n
        vocabulary.base = tables.base.tolist()
        if kind == "title":
            vocabulary.words = [frozenset()] * n
            vocabulary.titles = Titles(vocabulary.base, vocabulary._digits, vocabulary._holding)
        return vocabulary

    def dump(self) -> LearnedState:
        """The learned state of the counted values."""
        totals, tables = self._totals, self._tables
        if tables is _NO_TABLES:
            n = self._n_counted
            number = self._counted_features()
            mass = {feature: self.mass[i] for feature, i in number.items()}
            holders = None
            if self.titles is not None:
                by_word = self.titles.holders
                holders = {f: by_word[i] for f, i in number.items() if i in by_word}
            tables = VocabularyTables.of(self.values[:n], self.base[:n], mass, holders)
        letters = sorted(totals.letters.items())
        return LearnedState(
            {"observed": totals.observed, "discounted": totals.discounted},
            {
                "letters": np.array([ord(letter) for letter, _ in letters], np.int32),
                "letter_counts": np.array([n for _, n in letters], np.int64),
                "values": tables.values.digests,
                "number": tables.number,
                "base": tables.base,
                "features": tables.features.digests,
                "mass": tables.mass,
                "starts": tables.starts,
                "holders": tables.holders,
            },
        )

    def _begin(self, kind: Kind, totals: VocabularyTotals, tables: VocabularyTables) -> None:
        self.kind, self._totals, self._tables = kind, totals, tables
        self.values = []
        self.base = []
        self.features = []
        self.words = []
        self.mass = []
        self.titles = None
        self._number = {}
        self._spelling, self._flat = array("d"), (np.zeros(0, np.int32), np.zeros(0, np.int32))
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
        """The number of a normalised value; a new value gets the next number."""
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = self._add(value)
        return number

    def counted(self, number: int) -> bool:
        """Whether a value was counted, not merely numbered."""
        return number < self._n_counted

    def _add(self, value: str) -> int:
        """Compute the facts about a value on its first use; returns its number."""
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
        place = self._tables.features.of(_feature_text(index, key))
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
        """The numbers of the features of counted values; others have no mass."""
        return {feature: i for feature, i in self._feature_number.items() if self.mass[i]}

    def _holding(self, feature: int) -> list[int]:
        """In a loaded vocabulary, the counted titles that have a word."""
        place = self._place[feature]
        return self._tables.holding(place) if place >= 0 else []

    def _masses(self) -> list[float]:
        """For each feature, the sum of base probabilities over the counted values that have it."""
        numbers, sizes = self._flat
        weights = np.repeat(np.array(self.base, np.float64), sizes)
        summed = np.bincount(numbers, weights, len(self._feature_number))
        masses: list[float] = summed.astype(np.float64).tolist()
        return masses


def _totals(letters: Mapping[str, int], counts: Mapping[str, float]) -> VocabularyTotals:
    discounts = (min(n, 1.0) * _DISCOUNT for n in counts.values())
    return VocabularyTotals(letters, len(counts), float(sum(counts.values())), math.fsum(discounts))


Record: TypeAlias = tuple[tuple[int, int], ...]
"""A fragment as (index of an attribute, number of its value), in order of the index."""


class Encoder:
    """Encodes fragments as records; the index of an attribute is its place in the vocabularies."""

    def __init__(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        self._vocabularies = vocabularies
        self.attributes = tuple(vocabularies)
        self._number: list[dict[tuple[str, ...], int | None]] = [{} for _ in vocabularies]

    def encode(self, fragment: Fragment) -> Record:
        """The record of a fragment, without attributes that have only blank values."""
        out = []
        for index, attribute in enumerate(self.attributes):
            raw = fragment.properties.get(attribute)
            number = None if raw is None else self.number(index, raw)
            if number is not None:
                out.append((index, number))
        return tuple(out)

    def number(self, index: int, raw: tuple[str, ...]) -> int | None:
        """The number of an attribute's values; None if they are blank."""
        numbers = self._number[index]
        if raw not in numbers:
            vocabulary = self._vocabularies[self.attributes[index]]
            value = read_as(vocabulary.kind, stated(raw))
            numbers[raw] = vocabulary.number(value) if value else None
        return numbers[raw]
