"""Index by the pair model: fragments of which it thinks that they may be one entity.

A fragment's keys are its own, one for each pair of it with a row that it is not unlikely to be one
entity with, and its names. A fragment that the file does not have takes the own keys of such rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, Fragment, IntArray
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.odds import APART, UNITS, Links, Odds, Row
from kbforge_plugins.models.pairs.strings import starts_of

_LEAST = round(-4.5 * UNITS)
_BEST = 16
_SHIFT = 32
_NAMES = ("name", "bare")


class Nearby(CandidateIndex):
    """Keys by pairs of the file that may be one entity.

    Args:
        odds: of pairs.
        leading: by link of the file, whether it is a key; None finds out.

    """

    def __init__(self, odds: Odds, leading: NDArray[np.bool_] | None = None) -> None:
        self.follow(odds, leading)

    def follow(self, odds: Odds, leading: NDArray[np.bool_] | None = None) -> None:
        """Lead to the pairs of another file: an index may be held before its likelihood is fitted.

        Args:
            odds: of that file's pairs.
            leading: as of the constructor.

        """
        self._odds = odds
        self._known = len(odds.file.counts)
        self._leading = _leading(odds.links) if leading is None else leading

    def keep(self, into: Writing) -> None:
        """Write what `leading_of` reads; the odds are kept by themselves."""
        into.array("leading", np.packbits(self._leading))

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """See `kbforge.contracts.index`."""
        row = self._odds.encode(fragment)
        rows, place = self._odds.rows_of(row)
        table = rows.table
        first = table.which[table.called[place]]
        keys = {-1 - abs(int(table.names.numbers[form][first])) for form in _NAMES}
        if row < self._known:
            numbers, others = self._odds.links.of(row)
            led = others[self._leading[numbers]].tolist()
            pairs = [(min(row, other) + 1) << _SHIFT | max(row, other) for other in led]
            return [row, *sorted(pairs), *sorted(keys)]
        return [*self._best(row), *sorted(keys)]

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; at once where the file has all of the fragments."""
        odds = self._odds
        rows = np.fromiter(map(odds.encode, fragments), dtype=np.int64, count=len(fragments))
        if rows.max(initial=-1) >= self._known:
            return super().keys_of(fragments)
        places = np.arange(len(rows))
        numbers, of_link, others = odds.links.of_many(rows)
        led = np.flatnonzero(self._leading[numbers])
        of_link, one, other = of_link[led], rows[of_link[led]], others[led]
        pairs = (np.minimum(one, other) + 1) << _SHIFT | np.maximum(one, other)
        table = odds.file.rows.table
        first = table.first(rows)
        names = np.stack([-1 - np.abs(table.names.numbers[form][first]) for form in _NAMES])
        lower, upper = names.min(axis=0), names.max(axis=0)
        differ = np.flatnonzero(lower < upper)
        parts = (places, rows), (of_link, pairs), (places, lower), (differ, upper[differ])
        place, key = (np.concatenate(some) for some in zip(*parts, strict=True))
        kind = np.repeat(np.arange(len(parts)), [len(some) for some, _ in parts])
        order = np.lexsort((key, kind, place))
        return starts_of(np.bincount(place, minlength=len(rows))), key[order]

    def _best(self, row: Row) -> list[Row]:
        """The likeliest rows of the file, a bounded number, ascending."""
        near = [
            (above, -other)
            for other, above in self._odds.near(row).items()
            if other < self._known and above + APART >= _LEAST
        ]
        return sorted(-other for _, other in sorted(near)[-_BEST:])


def leading_of(kept: Reading, links: Links) -> NDArray[np.bool_]:
    """What `Nearby.keep` has written.

    Raises:
        ModelError: it is damaged.

    """
    bits = kept.array("leading", np.uint8, (len(links) + 7) // 8)
    return np.unpackbits(bits, count=len(links)).astype(np.bool_)


def _leading(links: Links) -> NDArray[np.bool_]:
    """By link, whether the one row is among the likeliest rows of the other, which are bounded."""
    likely = np.flatnonzero(links.above + APART >= _LEAST)
    first, second, above = links.first[likely], links.second[likely], links.above[likely]
    row, other = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((other, -np.tile(above, 2).astype(np.int64), row))
    row = row[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row, side="left")
    out = np.zeros(len(links), dtype=np.bool_)
    out[np.tile(likely, 2)[order[rank < _BEST]]] = True
    return out
