"""An attribute's values as numbers, each with its base probability.

    base(v) = (n_v - d) / (N + 1) + (d D + 1) / (N + 1) * spelling(v)         v seen
    base(v) =                       (d D + 1) / (N + 1) * spelling(v)         otherwise

of N observations of D different values, n_v of them v, with an absolute discount d (Ney, Essen
and Kneser 1994) that leaves room for values never seen, spelled letter by letter: `spelling` draws
letters by their share of the vocabulary until an end sign. It is a distribution over all strings
of the vocabulary's letters and a thousand others. Titles may be counted less than once: d n_v is
taken off those. (Values as long as a page have at least 1e-300,
which keeps logs finite.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from kbforge_plugins.models.attributes.kinds import Kind, feature_names, features_of, has_digit
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
        counts: as given, by ascending value.
        values: by number: those counted, ascending, then others as they were met.
        base: base probability by number.
        features: by number, the value's features as (index of the feature's name, its number).
        numeric: whether slips of the pen concern digits.
        letters: what a slip of the pen may write: all letters of the values, or all digits.
        alphabet: number of these, at least 2.
        mass: base probability of all counted values that have a feature, by its number.
        words: of titles, by number, the features that are words.
        titles: of titles, the values counted by their words.

    """

    def __init__(self, kind: Kind, counts: Mapping[str, float]) -> None:
        self.kind = kind
        self.counts = dict(sorted(counts.items()))
        self.values: list[str] = []
        self.base: list[float] = []
        self.features: list[tuple[tuple[int, int], ...]] = []
        self.words: list[frozenset[int]] = []
        self._number: dict[str, int] = {}
        self._feature_number: dict[tuple[int, str], int] = {}
        self._names = {name: index for index, name in enumerate(feature_names(kind))}
        self._n = sum(self.counts.values())
        letters = Counter(letter for value in self.counts for letter in value)
        ends = max(len(self.counts), 1)
        total = sum(letters.values()) + ends + 1
        self._log_letter = {letter: math.log(n / total) for letter, n in letters.items()}
        self._log_end = math.log(ends / total)
        self._log_other = -math.log(total * _UNSEEN_LETTERS)
        self.numeric = kind in _NUMERIC
        digits = {*_DIGITS, *(letter for letter in letters if letter.isdigit())}
        self.letters = frozenset(digits if self.numeric else letters)
        self.alphabet = max(len(self.letters), 2)
        discounts = (min(n, 1.0) * _DISCOUNT for n in self.counts.values())
        self._unseen = (math.fsum(discounts) + 1) / (self._n + 1)
        for value in self.counts:
            self.number(value)
        self.mass = self._feature_masses()
        self.titles = self._by_words() if kind == "title" else None

    def __len__(self) -> int:
        return len(self.values)

    def number(self, value: str) -> int:
        """The number of a normalised value; one never seen gets the next."""
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = len(self.values)
            self.values.append(value)
            self.base.append(self._base(value))
            self.features.append(self._numbered(value))
            if self.kind == "title":
                word = self._names["word"]
                self.words.append(frozenset(f for name, f in self.features[-1] if name == word))
        return number

    def counted(self, number: int) -> bool:
        """Whether a value is one of those counted, or only has a number."""
        return number < len(self.counts)

    def shared_mass(self, feature: int) -> float:
        """The base probability of all values of the vocabulary that have a feature."""
        return self.mass[feature] if feature < len(self.mass) else 0.0

    def _base(self, value: str) -> float:
        n = self.counts.get(value, 0)
        seen = (n - min(n, 1.0) * _DISCOUNT) / (self._n + 1)
        log_letter, other = self._log_letter, self._log_other
        spelling = sum(log_letter.get(letter, other) for letter in value) + self._log_end
        # the least positive number keeps logs finite for values as long as a page
        return max(seen + self._unseen * math.exp(max(spelling, -700.0)), 1e-300)

    def _numbered(self, value: str) -> tuple[tuple[int, int], ...]:
        out = []
        for name, keys in features_of(self.kind, value).items():
            index = self._names[name]
            for key in keys:
                feature = (index, key)
                number = self._feature_number.setdefault(feature, len(self._feature_number))
                out.append((index, number))
        return tuple(out)

    def _by_words(self) -> Titles:
        word = self._names["word"]
        digits = (n for (i, key), n in self._feature_number.items() if i == word and has_digit(key))
        return Titles(self.base[:], self.words[:], frozenset(digits))

    def _feature_masses(self) -> list[float]:
        mass = [0.0] * len(self._feature_number)
        for base, features in zip(self.base, self.features, strict=True):
            for _, feature in features:
                mass[feature] += base
        return mass
