"""Index by the pair model: fragments of which it thinks that they may be one entity.

A fragment's keys are its own, one for each pair of it with a row that it is not unlikely to be one
entity with, and its names. A fragment that the file does not have takes the own keys of such rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts import CandidateIndex, Fragment
from kbforge_plugins.models.pairs.odds import APART, UNITS, Odds, Row

_LEAST = round(-4.5 * UNITS)
_BEST = 16
_SHIFT = 32
_NAMES = ("name", "bare")


class Nearby(CandidateIndex):
    """Keys by pairs of the file that may be one entity.

    Args:
        odds: of pairs.

    """

    def __init__(self, odds: Odds) -> None:
        self.take(odds)

    def take(self, odds: Odds) -> None:
        """Lead to the pairs of another file: an index may be held before its likelihood is fitted.

        Args:
            odds: of that file's pairs.

        """
        self._odds = odds
        self._known = len(odds.file.counts)
        self._of_row: list[set[int]] = [set() for _ in range(self._known)]
        for row in range(self._known):
            for other in self._best(row):
                key = (min(row, other) + 1) << _SHIFT | max(row, other)
                self._of_row[row].add(key)
                self._of_row[other].add(key)

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """See `kbforge.contracts.index`."""
        row = self._odds.encode(fragment)
        rows, place = self._odds.rows_of(row)
        names = rows.table.names
        first = rows.table.first[place]
        keys = {-1 - abs(int(names.numbers[form][first])) for form in _NAMES}
        if row < self._known:
            return [row, *sorted(self._of_row[row]), *sorted(keys)]
        return [*self._best(row), *sorted(keys)]

    def _best(self, row: Row) -> list[Row]:
        """The likeliest rows of the file, a bounded number, ascending."""
        near = [
            (above, -other)
            for other, above in self._odds.near(row).items()
            if other != row and other < self._known and above + APART >= _LEAST
        ]
        return sorted(-other for _, other in sorted(near)[-_BEST:])
