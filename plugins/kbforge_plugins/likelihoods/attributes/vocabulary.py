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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LearnedState
from kbforge.kernel.binding import address, kernel_library
from kbforge.models.bundle import KeptReader
from kbforge.numerics import spread, starts_of
from kbforge.texts import LARGEST, Places, digests_of
from kbforge.texts.features import characters_of, features_of_each, numbered
from kbforge.texts.kinds import (
    Kind,
    feature_names,
    features_of,
    has_digit,
    read_as,
    stated,
)

_LAST_LETTER = 0x10FFFF
_AT_ONCE = 1 << 16  # values whose letters are read at once
_NO_STARTS, _NO_NUMBERS = np.zeros(0, np.int64), np.zeros(0, np.int32)


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
    features: Places
    starts: IntArray  # of titles, of the holders of each feature, shape [features + 1]
    holders: NDArray[np.int32]  # the values that have a word, by feature, each ascending


RETENTIONS = (
    ("nearly all words", 0.92, 0.95),
    ("most words", 0.8, 0.9),
    ("many words", 0.65, 0.85),
    ("some words", 0.5, 0.5),
)
"""Name, probability of a word to be kept, and of one with a digit."""

_NUMERIC: tuple[Kind, ...] = ("date", "month first", "number", "phone")
_DIGITS = "0123456789"
_DISCOUNT = 0.6
LEAST_COUNT = 0.02
"""For a value that is one of many variants of an entity."""
_UNSEEN_LETTERS = 1000.0  # so many letters outside the vocabulary share the probability of one


class FeatureRows(NamedTuple):
    """The features of several values, end to end."""

    starts: IntArray  # where those of each value begin, shape [values + 1]
    names: NDArray[np.int32 | np.int8]  # index of each one's name
    features: NDArray[np.int32]  # its number


class NumberedTexts:
    """Texts by number: the first ones as bytes, which take a quarter of the memory.

    Args:
        starts: where each of these begins, shape [texts + 1].
        content: these, in UTF-8.

    """

    def __init__(self, starts: NDArray[np.int64 | np.uint32], content: bytes) -> None:
        self._starts, self._content = starts, content
        self._others: dict[int, str] = {}
        self._n = len(starts) - 1

    @classmethod
    def of(cls, first: Sequence[str]) -> NumberedTexts:
        """These texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in first]
        starts = starts_of(list(map(len, encoded)))
        kind = np.uint32 if starts[-1] < 1 << 32 else np.int64
        return cls(starts.astype(kind), b"".join(encoded))

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, number: int) -> str:
        found = self._others.get(number)
        if found is not None:
            return found
        content = self._content[self._starts[number] : self._starts[number + 1]]
        return content.decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(self._n))

    def first(self) -> NumberedTexts:
        """The first ones alone."""
        return NumberedTexts(self._starts, self._content)

    def add(self, number: int, text: str) -> None:
        """A text that was not known, or the next one."""
        self._others[number] = text
        self._n = max(self._n, number + 1)


class Vocabulary:
    """The values of one attribute, by number: the counted ones, ascending, then others by first
    use.

    Features are numbered by their places in the tables, and others by first use. In a loaded
    vocabulary, "" stands for counted values that were not used yet.
    """

    values: NumberedTexts
    base: array[float]  # probability by number
    mass: array[float]  # by feature, base probability of all counted values that have it
    _counts: FloatArray  # of counted values, at least `LEAST_COUNT`; empty if loaded
    _spelling: FloatArray
    _rows: FeatureRows  # of counted values; empty if loaded

    def __init__(self, kind: Kind, counts: Mapping[str, float]) -> None:
        values = sorted(counts)
        self._counts = np.fromiter(map(counts.__getitem__, values), np.float64, len(values))
        self._begin(kind, _totals(_letters_of(values), self._counts), NumberedTexts.of(values))
        self._spelling = self._spelled(values)
        found = features_of_each(kind, values, self._beginnings)
        features, numbers = numbered(found.digests)
        self._rows = FeatureRows(found.starts, found.names.astype(np.int8), numbers)
        del found
        digests = digests_of(values)
        order = np.argsort(digests, kind="stable")
        titles = self._holders(len(features)) if kind == "title" else (_NO_STARTS, _NO_NUMBERS)
        places = Places(digests[order]), order.astype(np.int32), Places(features)
        self._weigh(VocabularyTables(*places, *titles))

    def recounted(self, counts: FloatArray) -> Self:
        """The same values with other counts, by number."""
        vocabulary, n = type(self).__new__(type(self)), self._n_counted
        assert len(counts) == n
        vocabulary._counts = counts
        vocabulary._begin(self.kind, _totals(self._totals.letters, counts), self.values.first())
        # letters are counted by value, so that spellings stay as probable
        vocabulary._spelling, vocabulary._rows = self._spelling, self._rows
        vocabulary._features = {u: of for u, of in self._features.items() if u < n}
        vocabulary._weigh(self._tables)
        return vocabulary

    def settle(self) -> None:
        """Free what only `recounted` needs."""
        self._spelling = np.zeros(0)

    @classmethod
    def load(cls, kind: Kind, kept: LearnedState, whose: str) -> Self:
        """The vocabulary saved in this state; a ModelError, which names it `whose`, if damaged."""
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
            "starts", np.int64, len(features) + 1 if kind == "title" else 0, least=0, ascending=True
        )
        if kind == "title" and starts[0]:
            raise read.wrong("starts", "0 as the first one", str(starts[0]))
        total = int(starts[-1]) if kind == "title" else 0
        holders = read.array("holders", np.int32, total, least=0, most=n - 1)
        totals = VocabularyTotals(
            dict(zip(map(chr, letters.tolist()), letter_counts.tolist(), strict=True)),
            n,
            fields.within("observed", 0.0, 2.0**53),
            fields.within("discounted", 0.0, 2.0**53),
        )
        vocabulary = cls.__new__(cls)
        vocabulary._counts = vocabulary._spelling = np.zeros(0)
        vocabulary._rows = FeatureRows(starts_of([]), _NO_NUMBERS, _NO_NUMBERS)
        vocabulary._begin(kind, totals, NumberedTexts(np.zeros(n + 1, np.uint32), b""))
        tables = VocabularyTables(Places(values), number, Places(features), starts, holders)
        vocabulary._use(tables, base, mass)
        return vocabulary

    def dump(self) -> LearnedState:
        """The learned state of the counted values."""
        totals, tables = self._totals, self._tables
        letters = sorted(totals.letters.items())
        return LearnedState(
            {"observed": totals.observed, "discounted": totals.discounted},
            {
                "letters": np.array([ord(letter) for letter, _ in letters], np.int32),
                "letter_counts": np.array([n for _, n in letters], np.int64),
                "values": tables.values.digests,
                "number": tables.number,
                "base": np.array(self.base[: totals.values]),
                "features": tables.features.digests,
                "mass": np.array(self.mass[: len(tables.features)]),
                "starts": tables.starts,
                "holders": tables.holders,
            },
        )

    def _begin(self, kind: Kind, totals: VocabularyTotals, values: NumberedTexts) -> None:
        self.kind, self._totals, self.values = kind, totals, values
        self._number: dict[str, int] = {}  # of values that are not counted
        self._feature_number: dict[int, int] = {}  # of features that no counted value has
        self._features: dict[int, tuple[tuple[int, int], ...]] = {}
        self._beginnings = [f"{index}\0" for index in range(len(feature_names(kind)))]
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

    def _weigh(self, tables: VocabularyTables) -> None:
        """Compute base probabilities and masses from the counts."""
        counts, rows = self._counts, self._rows
        seen = (counts - np.minimum(counts, 1.0) * _DISCOUNT) / (self._totals.observed + 1)
        base = seen + self._unseen * self._spelling
        weights = base.repeat(np.diff(rows.starts))
        mass = np.bincount(rows.features, weights, len(tables.features)).astype(np.float64)
        self._use(tables, base, mass)

    def _use(self, tables: VocabularyTables, base: FloatArray, mass: FloatArray) -> None:
        self._tables = tables
        self.base, self.mass = array("d"), array("d")
        self.base.frombytes(base.view(np.uint8).data)
        self.mass.frombytes(mass.view(np.uint8).data)

    def _holders(self, features: int) -> tuple[IntArray, NDArray[np.int32]]:
        """For each feature of counted titles that is a word, the titles that have it."""
        starts, names, numbers = self._rows
        is_word = names == feature_names(self.kind).index("word")
        owners = np.arange(len(starts) - 1, dtype=np.int32).repeat(np.diff(starts))[is_word]
        words = numbers[is_word]
        order = np.argsort(words, kind="stable")
        return starts_of(np.bincount(words, minlength=features)), owners[order]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> dict[str, float]:
        """The counts of the counted values; empty in a loaded vocabulary."""
        return dict(zip(self.values, self._counts.tolist(), strict=False))

    @property
    def counted_counts(self) -> FloatArray:
        """The counts of the counted values by number; empty in a loaded vocabulary."""
        return self._counts

    def number(self, value: str) -> int:
        """The number of a normalised value; a new value gets the next number."""
        return int(self.numbers((value,))[0])

    def numbers(self, values: Sequence[str]) -> IntArray:
        """The numbers of normalised values; new values get the next ones."""
        tables = self._tables
        places = tables.values.of_digests(digests_of(values))
        out = places
        if self._n_counted:
            out = np.where(places >= 0, tables.number[places], -1)
        for k in np.flatnonzero(places < 0).tolist():
            value = values[k]
            number = self._number.setdefault(value, len(self.values))
            if number == len(self.values):
                self.values.add(number, value)
                self.base.append((1 - _DISCOUNT) / (self._totals.observed + 1))
            out[k] = number
        if not len(self._counts):
            for number, value in zip(out.tolist(), values, strict=True):
                self.values.add(number, value)
        return np.asarray(out, dtype=np.int64)

    def counted(self, number: int) -> bool:
        """Whether a value was counted, not merely numbered."""
        return number < self._n_counted

    def rows(self, numbers: Sequence[int]) -> FeatureRows:
        """The features of values by number."""
        of, rows = np.array(numbers, np.int64), self._rows
        known = of < len(rows.starts) - 1
        if known.all():
            places, _ = spread(rows.starts, of)
            sizes = np.diff(rows.starts)[of]
            names = rows.names[places].astype(np.int32)
            return FeatureRows(starts_of(sizes), names, rows.features[places])
        others = np.flatnonzero(~known)
        found = features_of_each(
            self.kind, [self.values[numbers[k]] for k in others.tolist()], self._beginnings
        )
        numbered = self._features_numbered(found.digests)
        if len(others) == len(of):
            return FeatureRows(found.starts, found.names, numbered)
        held = self.rows(of[known].tolist())
        order = np.argsort(np.concatenate([np.flatnonzero(known), others]))
        sizes = np.concatenate([np.diff(held.starts), np.diff(found.starts)])
        places, _ = spread(starts_of(sizes), order)
        return FeatureRows(
            starts_of(sizes[order]),
            np.concatenate([held.names, found.names])[places],
            np.concatenate([held.features, numbered])[places],
        )

    def remember(self, numbers: Sequence[int]) -> None:
        """Find the features of values at once, for `features`."""
        new = [number for number in dict.fromkeys(numbers) if number not in self._features]
        starts, *rows = self.rows(new)
        pairs = list(zip(*(row.tolist() for row in rows), strict=True))
        for number, (begin, end) in zip(new, pairwise(starts.tolist()), strict=True):
            self._features[number] = tuple(pairs[begin:end])

    def features(self, number: int) -> tuple[tuple[int, int], ...]:
        """The features of a value: the index of each one's name, and its number."""
        if number not in self._features:
            self.remember((number,))
        return self._features[number]

    def word_rows(self, numbers: Sequence[int]) -> FeatureRows:
        """The words of titles, with whether each has a digit in place of its name."""
        starts, names, features = self.rows(numbers)
        is_word = names == feature_names(self.kind).index("word")
        each = (features_of(self.kind, self.values[number]) for number in numbers)
        words = chain.from_iterable(keys.get("word", ()) for keys in each)
        digits = np.fromiter(map(has_digit, words), np.int32, is_word.sum())
        return FeatureRows(starts_of(is_word)[starts], digits, features[is_word])

    def by_word(self) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
        """Of counted titles: where the holders of each word begin, the holders, and base
        probabilities."""
        tables = self._tables
        return tables.starts, tables.holders, np.array(self.base[: self._n_counted])

    def _spelled(self, values: Sequence[str]) -> FloatArray:
        """How probable the letters of each value are."""
        out = np.empty(len(values))
        letters = sorted(self._log_letter)
        logs = np.array([self._log_letter[letter] for letter in letters])
        points = np.array(list(map(ord, letters)), np.uint32)
        for begin in range(0, len(values), _AT_ONCE):
            starts, characters = characters_of(values[begin : begin + _AT_ONCE])
            kernel_library().kb_spelled(
                *(len(starts) - 1, address(starts), address(characters)),
                *(len(letters), address(points), address(logs)),
                *(self._log_other, self._log_end, -700.0, address(out[begin:])),
            )
        return out

    def _features_numbered(self, digests: IntArray) -> NDArray[np.int32]:
        out = self._tables.features.of_digests(digests)
        for k in np.flatnonzero(out < 0).tolist():
            number = self._feature_number.setdefault(int(digests[k]), len(self.mass))
            if number == len(self.mass):
                self.mass.append(0.0)
            out[k] = number
        return out.astype(np.int32)


def _letters_of(values: Sequence[str]) -> dict[str, int]:
    """How often each letter occurs in the values."""
    counts = np.zeros(_LAST_LETTER + 1, np.int64)
    for begin in range(0, len(values), _AT_ONCE):
        _, characters = characters_of(values[begin : begin + _AT_ONCE])
        found = np.bincount(characters)
        counts[: len(found)] += found
    letters = np.flatnonzero(counts)
    return dict(zip(map(chr, letters.tolist()), counts[letters].tolist(), strict=True))


def _totals(letters: Mapping[str, int], counts: FloatArray) -> VocabularyTotals:
    discounts = math.fsum((np.minimum(counts, 1.0) * _DISCOUNT).tolist())
    return VocabularyTotals(letters, len(counts), float(sum(counts.tolist())), discounts)


Record: TypeAlias = tuple[tuple[int, int], ...]
"""A fragment as (index of an attribute, number of its value), in order of the index."""


class Encoder:
    """Encodes fragments as records; the index of an attribute is its place in the vocabularies."""

    def __init__(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        self._vocabularies = [*vocabularies.values()]
        self.attributes = tuple(vocabularies)

    def encode_all(self, fragments: Sequence[Fragment]) -> list[Record]:
        """The records of fragments, without attributes that have only blank values."""
        out: list[list[tuple[int, int]]] = [[] for _ in fragments]
        for index, attribute in enumerate(self.attributes):
            said = [fragment.properties.get(attribute) for fragment in fragments]
            different = list(dict.fromkeys(raw for raw in said if raw is not None))
            numbers = self.numbers(index, map(stated, different)).tolist()
            number_of = dict(zip(different, numbers, strict=True))
            for record, raw in zip(out, said, strict=True):
                if raw is not None and (number := number_of[raw]) >= 0:
                    record.append((index, number))
        return list(map(tuple, out))

    def numbers(self, index: int, said: Iterable[str]) -> IntArray:
        """The numbers of values (`stated`) of an attribute, -1 for blank ones."""
        vocabulary = self._vocabularies[index]
        values = [read_as(vocabulary.kind, value) for value in said]
        out = np.full(len(values), -1)
        there = np.fromiter(map(bool, values), np.bool_, len(values))
        out[there] = vocabulary.numbers(list(filter(None, values)))
        return out
