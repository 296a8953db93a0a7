"""The log odds that two rows are one entity, by trees, for all candidate pairs at once.

Log odds are clipped, in whole numbers of a small unit, and stored by row as the difference from the
fixed log odds of rows that are no candidates. A later row is compared with the same file, so that
its log odds do not depend on other later rows.

*Index.* A fragment's keys are its own, one for each pair of it with a row that may be the same
entity, and its names. A fragment that the file does not have takes the own keys of such rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kbforge.contracts import CandidateIndex, FloatArray, Fragment, IntArray
from kbforge.models.trees import Trees
from kbforge_plugins.likelihoods.pairs.bags import Bags
from kbforge_plugins.likelihoods.pairs.file import File, Rows
from kbforge_plugins.likelihoods.pairs.keeping import PartReader, PartWriter, spread, starts_of
from kbforge_plugins.likelihoods.pairs.table import Statement, statement_of

_NEAR_COSINE = 0.25
_FEW = 64


class LaterRows:
    """The rows met so far, numbered in the order in which they came."""

    def __init__(self) -> None:
        self._joined: Rows | None = None
        self._single: list[Rows] = []
        self._ways = (_TokenPostings(), _TokenPostings())
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def near(self, row: Rows) -> IntArray:
        """Which of them are near to another row, by letters or by words, ascending."""
        table = row.table
        near = np.zeros(self._n, dtype=bool)
        for way, bags in zip(self._ways, (table.trigrams, table.soup), strict=True):
            near |= way.cosines(bags, self._n) >= _NEAR_COSINE
        return np.flatnonzero(near)

    def add(self, row: Rows) -> None:
        """Take in one more."""
        for way, bags in zip(self._ways, (row.table.trigrams, row.table.soup), strict=True):
            way.add(bags, self._n)
        self._n += 1
        self._single.append(row)
        joined = self._n - len(self._single)
        # joined seldom enough that each is copied a few times only
        if len(self._single) > max(_FEW, joined // 8):
            self._joined = Rows.joined(self._parts(self._single))
            self._single = []

    def place(self, number: int) -> tuple[Rows, int]:
        """Where one of them is described, and its place there."""
        joined = self._n - len(self._single)
        if self._joined is not None and number < joined:
            return self._joined, number
        return self._single[number - joined], 0

    def take(self, numbers: IntArray) -> list[Rows]:
        """Some of them, by ascending number, in parts."""
        joined = self._n - len(self._single)
        singles = [self._single[at] for at in (numbers[numbers >= joined] - joined).tolist()]
        known = numbers[numbers < joined]
        if self._joined is None or not len(known):
            return singles
        return [self._joined.take(known), *singles]

    def _parts(self, singles: list[Rows]) -> list[Rows]:
        return singles if self._joined is None else [self._joined, *singles]


class _TokenPostings:
    """By token, the rows that have it, and how much of a unit row it is."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[array[int], array[float]]] = {}

    def add(self, bags: Bags, number: int) -> None:
        """Take in the one row of these bags."""
        for column, weight in _tokens(bags):
            rows, weights = self._rows.setdefault(column, (array("q"), array("d")))
            rows.append(number)
            weights.append(weight)

    def cosines(self, bags: Bags, n: int) -> FloatArray:
        """Of the one row of these bags with all rows taken in, shape [n]."""
        rows, products = [np.zeros(0, np.int64)], [np.zeros(0)]
        for column, weight in _tokens(bags):
            if column in self._rows:
                some, weights = self._rows[column]
                rows.append(np.frombuffer(some, np.int64))
                products.append(np.frombuffer(weights, np.float64) * weight)
        # each sum is taken in the order of the columns, so that it is that of the two rows alone
        sums = np.bincount(np.concatenate(rows), np.concatenate(products), minlength=n)
        return sums.astype(np.float64, copy=False)


def _tokens(bags: Bags) -> Iterator[tuple[int, float]]:
    columns, weights = bags.backwards()
    return zip(columns.tolist(), weights.tolist(), strict=True)


MODEL = "pairs.safetensors"
UNITS = 1 << 16
"""Units of log odds, in one nat."""
MOST = 6.0
"""Log odds are clipped to this, either side of 0, nats."""
APART = round(-5.0 * UNITS)
"""Log odds of two rows that are no candidates, in units."""

_BLOCK = 1 << 14
_MOST_READY = 1 << 14

Row: TypeAlias = int
"""A row of the file, or, from its length on, of those met later."""


def asked(counts: IntArray, pairs: IntArray) -> IntArray:
    """The pairs of a file that the model is asked about, shape [pairs, 2].

    The candidates, and each row with itself where several fragments state the same.

    Args:
        counts: fragments of each row.
        pairs: the candidates.

    """
    own = np.flatnonzero(counts > 1)
    return np.concatenate([pairs, np.stack([own, own], axis=1)])


class OddsLinks:
    """The candidate pairs of a file, and their log odds.

    Args:
        sizes: by row, its candidates that come after it, shape [rows].
        second: these, ascending, one row after the other.
        above: their log odds less `APART`, in units.
        own: by row, those of two fragments that state it.

    """

    def __init__(
        self,
        sizes: IntArray,
        second: NDArray[np.int32],
        above: NDArray[np.int32],
        own: NDArray[np.int32],
    ) -> None:
        self._starts = starts_of(sizes)
        self.second, self.above, self.own = second, above, own
        # the same the other way round: by row, where the pairs are whose second one it is
        n = len(own)
        there = sparse.csr_array(
            (np.arange(len(second), dtype=np.int32), second, self._starts), shape=(n, n)
        ).tocsc()
        self._back_starts = there.indptr.astype(np.int64)
        self._back, self._back_first = there.data, there.indices.astype(np.int32)

    @classmethod
    def fitted(cls, pairs: IntArray, above: IntArray, own: IntArray) -> OddsLinks:
        """Links of pairs i < j, ascending, shape [pairs, 2]."""
        sizes = np.bincount(pairs[:, 0], minlength=len(own)).astype(np.int64)
        return cls(sizes, *(some.astype(np.int32) for some in (pairs[:, 1], above, own)))

    def __len__(self) -> int:
        return len(self.second)

    @property
    def arrays(self) -> tuple[NDArray[np.integer[Any]], ...]:
        """Where a row's links begin, their second rows and log odds; where those begin whose
        second row it is, their numbers and first rows; and what two of a row have.
        """
        back = self._back_starts, self._back, self._back_first
        return self._starts, self.second, self.above, *back, self.own

    @property
    def first(self) -> IntArray:
        """By link, the row that comes first."""
        return np.repeat(np.arange(len(self.own)), np.diff(self._starts))

    def of(self, row: Row) -> tuple[IntArray, IntArray]:
        """The links of a row: their numbers, and the other rows."""
        here = np.arange(self._starts[row], self._starts[row + 1])
        back = slice(self._back_starts[row], self._back_starts[row + 1])
        return (
            np.concatenate([self._back[back], here]),
            np.concatenate([self._back_first[back], self.second[here]]),
        )

    def of_many(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The links of several rows: their numbers, whose they are by place, and the others."""
        here, of_here = spread(self._starts, rows)
        there, of_there = spread(self._back_starts, rows)
        return (
            np.concatenate([self._back[there], here]),
            np.concatenate([of_there, of_here]),
            np.concatenate([self._back_first[there], self.second[here]]),
        )

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("sizes", np.diff(self._starts).astype(np.int32))
        into.array("second", self.second)
        into.array("above", self.above)
        into.array("own", self.own)

    @classmethod
    def taken(cls, kept: PartReader, rows: int) -> OddsLinks:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        sizes = kept.array("sizes", np.int32, rows, low=0).astype(np.int64)
        n, most = int(sizes.sum()), 2 * round(MOST * UNITS)
        second = kept.array("second", np.int32, n, low=0, high=rows - 1)
        above = kept.array("above", np.int32, n, low=-most, high=most)
        return cls(sizes, second, above, kept.array("own", np.int32, rows, low=-most, high=most))


class Odds:
    """The log odds of pairs in one file.

    Args:
        file: the frozen one.
        trees: their sum is the log odds of a row of `description.FEATURES`.
        links: the pairs of the file.

    """

    def __init__(self, file: File, trees: Trees, links: OddsLinks) -> None:
        self.file, self._trees, self.links = file, trees, links
        self._met = LaterRows()
        self._row_of: dict[Statement, Row] = {}
        self._looked_up: dict[Statement, Row] = {}  # of the file, lately
        self._near_met: list[dict[Row, int]] = []
        # by row of the file: those met later that are near it, and all, of some rows
        self._later: dict[Row, dict[Row, int]] = {}
        self._near: dict[Row, dict[Row, int]] = {}

    @classmethod
    def fitted(cls, fragments: Sequence[Fragment], trees: Trees) -> Odds:
        """The odds of a file's pairs."""
        file, pairs = File.fitted(fragments)
        own = np.arange(len(file.counts))
        above, alone = (_above(file, trees, file.rows, *at) for at in (pairs.T, (own, own)))
        return cls(file, trees, OddsLinks.fitted(pairs, above, alone))

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        self.file.keep(into)
        self.links.keep(into.part("links"))

    @classmethod
    def taken(cls, kept: PartReader, trees: Trees) -> Odds:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        file = File.taken(kept)
        return cls(file, trees, OddsLinks.taken(kept.part("links"), len(file.counts)))

    def encode(self, fragment: Fragment) -> Row:
        """The row of what a fragment states; one not met before is placed against the file."""
        row = self.row_of(fragment, place=True)
        assert row is not None
        return row

    def row_of(self, fragment: Fragment, place: bool) -> Row | None:
        """The row of what a fragment states.

        Args:
            fragment: to look up.
            place: whether one that the file does not have is placed against it; if not, it is
                None, whatever was met before.

        """
        said = statement_of(fragment)
        row = self._row_of.get(said) if place else None
        row = self._looked_up.get(said) if row is None else row
        if row is not None:
            return row
        row = self.file.statements.row(said)
        if row is None:
            return self._place(said) if place else None
        if len(self._looked_up) >= _MOST_READY:
            self._looked_up.clear()
        self._looked_up[said] = row
        return row

    @property
    def n_rows(self) -> int:
        """Of the file, and of those met later."""
        return len(self.file.counts) + len(self._met)

    def near(self, row: Row) -> Mapping[Row, int]:
        """By candidate of a row, itself among them: their log odds less `APART`, in units."""
        known = len(self.file.counts)
        near = self._near_met[row - known] if row >= known else self._near.get(row)
        if near is None:
            if len(self._near) >= _MOST_READY:
                self._near.clear()
            numbers, others = self.links.of(row)
            near = dict(zip(others.tolist(), self.links.above[numbers].tolist(), strict=True))
            near[row] = int(self.links.own[row])
            near.update(self._later.get(row, {}))
            self._near[row] = near
        return near

    def near_of(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The candidate pairs of some rows, as rows and what `near` says of them.

        Args:
            rows: distinct ones, ascending.

        Returns:
            The first row of each pair, ascending, the second, ascending within, and `near` of
            them. A pair of two of the rows is there both ways round.

        """
        links, known = self.links, len(self.file.counts)
        of_file = rows[rows < known]
        numbers, place, others = links.of_many(of_file)
        met = [(row, near) for row in rows.tolist() if (near := self._met_near(row))]
        later = np.array(
            [(row, other, units) for row, near in met for other, units in near.items()],
            dtype=np.int64,
        ).reshape(-1, 3)
        first = np.concatenate([of_file[place], of_file, later[:, 0]])
        second = np.concatenate([others, of_file, later[:, 1]])
        above = np.concatenate([links.above[numbers], links.own[of_file], later[:, 2]])
        order = np.lexsort((second, first))
        return first[order], second[order], above[order]

    def _met_near(self, row: Row) -> Mapping[Row, int]:
        """Of a row those near it that were met later; of one that was, all."""
        known = len(self.file.counts)
        return self._near_met[row - known] if row >= known else self._later.get(row, {})

    def rows_of(self, row: Row) -> tuple[Rows, int]:
        """Where a row is described, and its place there."""
        known = len(self.file.counts)
        return (self.file.rows, row) if row < known else self._met.place(row - known)

    def _place(self, said: Statement) -> Row:
        known = len(self.file.counts)
        row = known + len(self._met)
        rows, of_file = self.file.placed(said)
        met = self._met.near(rows)
        all_rows = Rows.joined([self.file.rows.take(of_file), *self._met.take(met), rows])
        others = [*of_file.tolist(), *(met + known).tolist(), row]
        near = dict(zip(others, self._above_all(rows, all_rows), strict=True))
        # nothing above changes what is known, so that a failure leaves no trace
        for other, units in near.items():
            if known <= other < row:
                self._near_met[other - known][row] = units
            elif other < known:
                self._later.setdefault(other, {})[row] = units
                if other in self._near:
                    self._near[other][row] = units
        self._near_met.append(near)
        self._met.add(rows)
        self._row_of[said] = row
        return row

    def _above_all(self, one: Rows, others: Rows) -> list[int]:
        """The log odds less `APART` of the first row of one with all of the others."""
        there = np.arange(len(others.seen))
        above = _above(self.file, self._trees, one, np.zeros_like(there), there, others)
        return list(above.tolist())


def _above(
    file: File, trees: Trees, a: Rows, i: IntArray, j: IntArray, b: Rows | None = None
) -> IntArray:
    """Log odds less `APART`, in units, of rows i of the one and j of the other, or the same."""
    b = a if b is None else b
    out = np.zeros(len(i), dtype=np.int64)
    for start in range(0, len(i), _BLOCK):
        x, y = i[start : start + _BLOCK], j[start : start + _BLOCK]
        log_odds = trees.predict(file.describe(a, x, b, y))
        # two fragments that state nothing are as probably one as not
        log_odds[(a.table.stated[x] == 0) & (b.table.stated[y] == 0)] = 0.0
        out[start : start + len(x)] = np.rint(np.clip(log_odds, -MOST, MOST) * UNITS)
    return out - APART


_LEAST = round(-4.5 * UNITS)
_BEST = 16
_SHIFT = 32
_NAMES = ("name", "bare")


class PairIndex(CandidateIndex):
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

    def keep(self, into: PartWriter) -> None:
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


def leading_of(kept: PartReader, links: OddsLinks) -> NDArray[np.bool_]:
    """What `PairIndex.keep` has written.

    Raises:
        ModelError: it is damaged.

    """
    bits = kept.array("leading", np.uint8, (len(links) + 7) // 8)
    return np.unpackbits(bits, count=len(links)).astype(np.bool_)


def _leading(links: OddsLinks) -> NDArray[np.bool_]:
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
