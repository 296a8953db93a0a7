"""How many words of a long text another keeps: variants of titles and descriptions.

One who writes a text v anew keeps each word with probability r, a word with a digit with another,
and fills in what an existing text that has the words kept would have beside them. With S the words
that u and v have in common,

    G(u | v) = base(u) * product over S of r * product over v without S of (1 - r) / mass(S)

    mass(S) = base probability of all texts other than v that have every word of S

The mass is of the words together. Words that come in company, such as those of a brand and its
product line, are not evidence each for itself. Summed over u it is at most 1: u is drawn with S as
the words kept, and S is but one of the sets of kept words that u may have been drawn with.
How much is kept differs between texts, so there are four such components (`RETENTIONS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum

RETENTIONS = (
    ("nearly all words", 0.92, 0.95),
    ("most words", 0.8, 0.9),
    ("many words", 0.65, 0.85),
    ("some words", 0.5, 0.5),
)
"""Name, probability of a word to be kept, and of one with a digit."""
_MOST_SETS = 1 << 20
"""Remembered masses."""


class Titles:
    """The texts of one attribute by their words.

    Args:
        base: base probability of each text that was counted, by its number.
        digits: the words that have a digit, by number; there may be more later.
        holding: the texts with a word that is not among `holders`.
        holders: by word, the numbers of the texts that have it.

    Attributes:
        holders: as given, and what was found since.

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
        """These are the words of each text, by its number."""
        for number, held in enumerate(words):
            for word in held:
                self.holders.setdefault(word, set()).add(number)

    def kept(self, common: frozenset[int], words: frozenset[int]) -> tuple[float, ...]:
        """Probability, by component, that of a text's words these and no others are kept."""
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
        """The base probability of all texts counted that have these words, at least one."""
        found = self._mass.get(common)
        if found is None:
            holders = sorted(map(self._held, common), key=len)
            base = self._base
            found = fsum(base[number] for number in holders[0].intersection(*holders[1:]))
            if len(self._mass) >= _MOST_SETS:
                self._mass.clear()
            self._mass[common] = found
        return found

    def _held(self, word: int) -> set[int]:
        found = self.holders.get(word)
        if found is None:
            found = self.holders[word] = set(self._holding(word))
        return found
