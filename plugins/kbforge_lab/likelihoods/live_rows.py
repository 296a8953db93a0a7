"""Live clusters of counts in Python, which fragments can leave.

L(C + x) - L(C) = L({x}) + sum over the rows that C and x share of a gain, so only
clusters that share a row with x differ from the base value L({x}). The table keeps an inverted
index, from rows to the clusters that have them, in one of two forms:

    sparse row   postings (cell, count, gain of one more) in a pool shared by all sparse rows
    dense row    one count a cell, and for each multiplicity asked for one gain a cell, so that a
                 query adds a whole array (single-character histories are in most names)

A *cell* is one cluster's place in the index. A cell is written once and never reused: a released
slot forgets its cell, and a slot that is used again gets a new one. When enough cells are dead the
index is rebuilt from the living.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import UNREAD, Fragment, unread_marginal
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.numerics import capacity_for, grown
from kbforge_lab.likelihoods.live import EditableClusters
from kbforge_lm.likelihoods.counts import DirichletRows, RowCounts, firsts, merged

_DENSE_SHARE = 8  # a row is dense if more than one cell in so many holds it
_KEPT_MULTIPLICITY = 3  # gains of dense rows are kept for x holding them up to so often


class LiveRows(EditableClusters):
    """The clusters of one run; slot s is at index s + 1 of the slot map, and cell 0 is empty.

    A row is dense if more than `dense_least` cells hold it, and more than one in so many; the table
    is rebuilt at `spare_cells` beyond 1.5 times the living.
    """

    def __init__(
        self, rows: DirichletRows, dense_least: int = 128, spare_cells: int = 1024
    ) -> None:
        self.rows, self._dense_least, self._spare_cells = rows, dense_least, spare_cells
        self._cell_of = np.zeros(0, dtype=np.int64)
        self._out = np.zeros(0)
        self._store = _CellStore(rows.counts_type)
        self._sparse = _SparseRows(rows)
        self._dense = _DenseRows(rows, 0)
        self._n_cells = 1
        self._cells_limit = 0
        self._rebuild(0)

    def encode(self, fragment: Fragment) -> RowCounts:
        return self.rows.encode(fragment)

    def log_predictive_new(self, x: RowCounts) -> float:
        return x.log_marginal

    def log_predictive(self, x: RowCounts, slots: int) -> FloatArray:
        self._fit_slots(slots)
        by_cell = self._sparse.gains(x, self._dense.number_of, self._n_cells)
        self._dense.add_gains(x, by_cell)
        by_cell += x.log_marginal
        if x.unread:
            by_cell += UNREAD
        elif self._store.any_unread:
            by_cell[self._store.lengths[: self._n_cells] == 0] += UNREAD
        # "clip" lets NumPy write straight into `out`; cells are never out of range
        return by_cell.take(self._cell_of[1 : slots + 1], out=self._out[:slots], mode="clip")

    def log_predictive_of(self, x: RowCounts, slots: IntArray) -> FloatArray:
        shared = self._shared_gains(x.rows, x.counts, slots)
        return shared + x.log_marginal + self._unread_gains(x.unread, slots)

    def extend(self, x: RowCounts, parents: IntArray, children: IntArray) -> None:
        k = len(children)
        if not k:
            return
        self._reserve(k)
        self._fit_slots(int(children.max()) + 1)
        owners, rows, counts = self._store.read(self._cell_of.take(parents + 1))
        owners = np.concatenate([owners, np.arange(k).repeat(len(x.rows))])
        rows = np.concatenate([rows, *[x.rows] * k])
        counts = np.concatenate([counts, *[x.counts] * k])
        unread = self._store.unread.take(self._cell_of.take(parents + 1)) + x.unread
        self._write(children, unread, *merged(owners, rows, counts, self.rows.size))

    def gather(self, xs: Sequence[RowCounts], slot: int) -> None:
        """C := all of xs; their counts are summed at once."""
        self._reserve(1)
        self._fit_slots(slot + 1)
        rows = np.concatenate([x.rows for x in xs])
        counts = np.concatenate([x.counts for x in xs])
        owners = np.zeros(len(rows), dtype=np.int64)
        unread = np.array([sum(x.unread for x in xs)])
        self._write(np.array([slot]), unread, *merged(owners, rows, counts, self.rows.size))

    def _reserve(self, cells: int) -> None:
        """Make room for new cells; a rebuild renumbers the old ones."""
        if self._n_cells + cells > self._cells_limit:
            self._rebuild(cells)

    def _write(
        self, slots: IntArray, unread: IntArray, owners: IntArray, rows: IntArray, counts: IntArray
    ) -> None:
        """Give slots new cells with these entries, sorted by owner (position in `slots`)."""
        k = len(slots)
        self._store.append(unread, np.bincount(owners, minlength=k), rows, counts)
        self._index(owners + self._n_cells, rows, counts)
        self._cell_of[slots + 1] = np.arange(self._n_cells, self._n_cells + k)
        self._n_cells += k

    def release(self, slots: IntArray) -> None:
        self._cell_of[slots + 1] = 0

    def log_predictive_held(self, x: RowCounts, slot: int) -> float:
        rows, counts = self._held(slot)
        at = rows.searchsorted(x.rows)
        before = counts.take(at) - x.counts
        unread, left = self._unread(slot), len(rows) - int((before == 0).sum())
        gain = unread_marginal(unread, len(rows) > 0)
        gain -= unread_marginal(unread - x.unread, left > 0)
        return float(x.log_marginal + _gains(self.rows, x.rows, before, x.counts).sum() + gain)

    def add(self, x: RowCounts, slot: int) -> None:
        """C := C + x: the slot gets a new cell. Counts are integers, so nothing drifts."""
        slots = np.array([slot])
        self.extend(x, slots, slots)

    def remove(self, x: RowCounts, slot: int) -> None:
        self._reserve(1)
        rows, counts = self._held(slot)
        counts[rows.searchsorted(x.rows)] -= x.counts
        left = counts.nonzero()[0]
        owners = np.zeros(len(left), dtype=np.int64)
        unread = np.array([self._unread(slot) - x.unread])
        self._write(np.array([slot]), unread, owners, rows.take(left), counts.take(left))

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        self._fit_slots(int(slots.max(initial=-1)) + 1)
        rows, counts = self._held(slot)
        unread = self._unread(slot) > 0 and not len(rows)
        return self._shared_gains(rows, counts, slots) + self._unread_gains(unread, slots)

    def _shared_gains(self, rows: IntArray, counts: IntArray, slots: IntArray) -> FloatArray:
        """Gains of the rows that each cluster shares with these counts, shape [slots]."""
        own = np.zeros(self.rows.size, dtype=np.int64)
        own[rows] = counts
        owners, theirs, held = self._store.read(self._cell_of.take(slots + 1))
        more = own.take(theirs)
        shared = more.nonzero()[0]
        gains = _gains(self.rows, theirs.take(shared), held.take(shared), more.take(shared))
        summed: Any = np.bincount(owners.take(shared), gains, minlength=len(slots))
        ratio: FloatArray = summed
        return ratio

    def _unread_gains(self, unread: bool, slots: IntArray) -> FloatArray | float:
        """The correction of each gain if one side has no readable content; `unread` is the
        fragment's."""
        if unread:
            return UNREAD
        if not self._store.any_unread:
            return 0.0
        return np.where(self._store.lengths.take(self._cell_of.take(slots + 1)), 0.0, UNREAD)

    def merge(self, slot: int, into: int) -> None:
        self._reserve(1)
        unread = np.array([self._unread(slot) + self._unread(into)])
        _, rows, counts = self._store.read(self._cell_of.take([into + 1, slot + 1]))
        owners = np.zeros(len(rows), dtype=np.int64)
        self._write(np.array([into]), unread, *merged(owners, rows, counts, self.rows.size))
        self._cell_of[slot + 1] = 0

    def _held(self, slot: int) -> tuple[IntArray, IntArray]:
        """The rows of a slot's cluster, ascending, and their counts."""
        _, rows, counts = self._store.read(self._cell_of[slot + 1 : slot + 2])
        return rows, counts

    def _unread(self, slot: int) -> int:
        """The number of fragments in a slot's cluster without readable content."""
        return int(self._store.unread[self._cell_of[slot + 1]])

    def _fit_slots(self, slots: int) -> None:
        if slots + 1 > len(self._cell_of):
            capacity = capacity_for(slots + 1, len(self._cell_of))
            self._cell_of = grown(self._cell_of, capacity)
            self._out = np.empty(capacity)

    def _index(self, cells: IntArray, rows: IntArray, counts: IntArray) -> None:
        """Enter counts of new cells; rows that have become common turn dense first."""
        self._dense.fit_rows(self.rows.size)
        self._sparse.fit_rows(self.rows.size)
        numbers = self._dense.number_of.take(rows)
        sparse = (numbers < 0).nonzero()[0]
        grouped = _by_row(rows.take(sparse), sparse)
        threshold = max(self._dense_least, (self._n_cells + len(cells)) // _DENSE_SHARE)
        common = self._sparse.lengths.take(grouped.rows) + grouped.sizes > threshold
        if common.any():
            for row in grouped.rows[common].tolist():
                self._dense.add_row(row, *self._sparse.remove_row(row))
            numbers = self._dense.number_of.take(rows)
            sparse = (numbers < 0).nonzero()[0]
            grouped = _by_row(rows.take(sparse), sparse)
        dense = (numbers >= 0).nonzero()[0]
        self._dense.enter(numbers.take(dense), cells.take(dense), counts.take(dense))
        self._sparse.enter(grouped, cells, counts)

    def _rebuild(self, more: int) -> None:
        """Keep only living cells, renumbered from 1, with room for at least `more` new ones."""
        slots = self._cell_of.nonzero()[0]
        owners, rows, counts = self._store.read(self._cell_of.take(slots))
        unread = self._store.unread.take(self._cell_of.take(slots))
        n = len(slots)
        self._cells_limit = max(n + n // 2 + self._spare_cells, n + 1 + more)
        self._cell_of[slots] = np.arange(1, n + 1)
        self._n_cells = n + 1

        self._store = _CellStore(self.rows.counts_type)
        self._store.append(unread, np.bincount(owners, minlength=n), rows, counts)
        totals = np.bincount(rows, minlength=self.rows.size)
        common = (totals > max(self._dense_least, n // _DENSE_SHARE)).nonzero()[0]
        self._dense = _DenseRows(self.rows, self._cells_limit)
        self._dense.fit_rows(self.rows.size)
        empty = np.zeros(0, dtype=np.int64)
        for row in common.tolist():
            self._dense.add_row(row, empty, empty)
        self._sparse = _SparseRows(self.rows)
        self._index(owners + 1, rows, counts)


def _gains(of: DirichletRows, rows: IntArray, counts: IntArray, more: IntArray | int) -> FloatArray:
    """F(counts + more) - F(counts) - F(more): what a shared row adds to a predictive."""
    extra = np.asarray(more)
    joined = of.factors(rows, counts + extra)
    joined -= of.factors(rows, counts)
    joined -= of.factors(rows, extra)
    return joined


class _RowGroups(NamedTuple):
    """Entries grouped by row, and the groups' rows, first positions and sizes."""

    entries: IntArray
    rows: IntArray
    first: IntArray
    sizes: IntArray


def _by_row(rows: IntArray, entries: IntArray) -> _RowGroups:
    if not len(rows):
        return _RowGroups(entries, rows, rows, rows)
    order = rows.argsort()
    rows = rows.take(order)
    first = firsts(rows)
    sizes = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=sizes[:-1])
    sizes[-1] = len(rows) - first[-1]
    return _RowGroups(entries.take(order), rows.take(first), first, sizes)


class _CellStore:
    """What each cell holds, cell after cell: the source of children and of rebuilds.

    Attributes:
        lengths: of each cell, its rows.
        unread: of each cell, its fragments of which nothing is read.
        any_unread: whether any cell has one.

    """

    def __init__(self, counts_type: type[np.signedinteger]) -> None:
        self._rows: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._counts = np.zeros(0, dtype=counts_type)
        self._end = 0
        self._starts = np.zeros(1, dtype=np.int64)
        self.lengths = np.zeros(1, dtype=np.int64)
        self.unread = np.zeros(1, dtype=np.int64)
        self.any_unread = False
        self._cells = 1  # cell 0 holds nothing

    def append(self, unread: IntArray, lengths: IntArray, rows: IntArray, counts: IntArray) -> None:
        """Add cells of these lengths, whose entries follow each other."""
        end = self._end + len(rows)
        if end > len(self._rows):
            capacity = capacity_for(end, len(self._rows))
            self._rows, self._counts = grown(self._rows, capacity), grown(self._counts, capacity)
        self._rows[self._end : end] = rows
        self._counts[self._end : end] = counts
        cells = self._cells + len(lengths)
        if cells > len(self._starts):
            capacity = capacity_for(cells, len(self._starts))
            self._starts, self.lengths, self.unread = (
                grown(column, capacity) for column in (self._starts, self.lengths, self.unread)
            )
        new = slice(self._cells, cells)
        self._starts[new] = self._end + lengths.cumsum() - lengths
        self.lengths[new], self.unread[new] = lengths, unread
        self.any_unread |= bool(unread.any())
        self._end, self._cells = end, cells

    def read(self, cells: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """(position in `cells`, row, count) of every entry of these cells."""
        lengths = self.lengths.take(cells)
        entries = ranges(self._starts.take(cells), lengths)
        owners = np.arange(len(cells)).repeat(lengths)
        rows = self._rows.take(entries).astype(np.int64)
        return owners, rows, self._counts.take(entries).astype(np.int64)


class _SparseRows:
    """Postings of rows that few cells hold: row r owns pool[start[r] : start[r] + length[r]]."""

    def __init__(self, rows: DirichletRows) -> None:
        self._rows = rows
        self._cells = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(0, dtype=rows.counts_type)
        self._gains = np.zeros(0)  # of one more, which is what most queries ask for
        self._end = 0
        self._starts = np.zeros(0, dtype=np.int64)
        self._capacities = np.zeros(0, dtype=np.int64)
        self.lengths = np.zeros(0, dtype=np.int64)

    def fit_rows(self, n_rows: int) -> None:
        if n_rows > len(self.lengths):
            capacity = capacity_for(n_rows, len(self.lengths))
            self._starts = grown(self._starts, capacity)
            self._capacities = grown(self._capacities, capacity)
            self.lengths = grown(self.lengths, capacity)

    def gains(self, x: RowCounts, dense: IntArray, n_cells: int) -> FloatArray:
        """The sum of the sparse rows' gains for each cell, a new array of shape [n_cells]."""
        cells, gains = [], []
        known = len(self.lengths)
        for row, multiplicity in x.pairs:
            if row >= known or dense[row] >= 0:
                continue
            begin = self._starts[row]
            end = begin + self.lengths[row]
            if begin == end:
                continue
            cells.append(self._cells[begin:end])
            if multiplicity == 1:
                gains.append(self._gains[begin:end])
            else:
                held = self._counts[begin:end].astype(np.int64)
                gains.append(_gains(self._rows, np.array([row]), held, multiplicity))
        if not cells:
            return np.zeros(n_cells)
        total: Any = np.bincount(np.concatenate(cells), np.concatenate(gains), minlength=n_cells)
        summed: FloatArray = total
        return summed

    def enter(self, grouped: _RowGroups, cells: IntArray, counts: IntArray) -> None:
        """Append the grouped entries to their rows' postings."""
        if not len(grouped.rows):
            return
        lengths = self.lengths.take(grouped.rows)
        needed = lengths + grouped.sizes
        full = needed > self._capacities.take(grouped.rows)
        if full.any():
            self._move(grouped.rows[full], 2 * needed[full])
        rows = grouped.rows.repeat(grouped.sizes)
        begin = self._starts.take(grouped.rows) + lengths - grouped.first
        at = np.arange(len(rows)) + begin.repeat(grouped.sizes)
        counts = counts.take(grouped.entries)
        self._cells[at] = cells.take(grouped.entries)
        self._counts[at] = counts
        self._gains[at] = _gains(self._rows, rows, counts, 1)
        self.lengths[grouped.rows] = needed

    def _move(self, rows: IntArray, capacities: IntArray) -> None:
        """Give rows larger places at the end of the pool; the old ones are lost until a rebuild."""
        begin, self._end = self._end, self._end + int(capacities.sum())
        if self._end > len(self._cells):
            size = capacity_for(self._end, len(self._cells))
            self._cells, self._counts = grown(self._cells, size), grown(self._counts, size)
            self._gains = grown(self._gains, size)
        lengths = self.lengths.take(rows)
        source = ranges(self._starts.take(rows), lengths)
        starts = begin + capacities.cumsum() - capacities
        target = ranges(starts, lengths)
        for column in (self._cells, self._counts, self._gains):
            column[target] = column.take(source)
        self._starts[rows], self._capacities[rows] = starts, capacities

    def remove_row(self, row: int) -> tuple[IntArray, IntArray]:
        """Take out a row; returns its cells and counts."""
        begin = int(self._starts[row])
        end = begin + int(self.lengths[row])
        self.lengths[row] = 0
        return self._cells[begin:end].copy(), self._counts[begin:end].astype(np.int64)


class _DenseRows:
    """Rows that many cells hold: counts [number, cell], and gains by (number, multiplicity)."""

    def __init__(self, rows: DirichletRows, cells_limit: int) -> None:
        self._rows = rows
        self.number_of = np.full(0, -1, dtype=np.int64)
        self._counts = np.zeros((0, cells_limit), dtype=rows.counts_type)
        self._row_of: list[int] = []
        # gains of (number, multiplicity): one line each, filled for the first `_filled` cells
        self._gains = np.zeros((0, cells_limit))
        self._line_of: dict[tuple[int, int], int] = {}
        self._line_rows = np.zeros((0, 1), dtype=np.int64)
        self._line_numbers = np.zeros(0, dtype=np.int64)
        self._line_multiplicities = np.zeros((0, 1), dtype=np.int64)
        self._filled = 0

    def fit_rows(self, n_rows: int) -> None:
        known = len(self.number_of)
        if n_rows > known:
            self.number_of = grown(self.number_of, capacity_for(n_rows, known))
            self.number_of[known:] = -1

    def add_row(self, row: int, cells: IntArray, counts: IntArray) -> None:
        """Make a row dense, with the counts it has in these cells."""
        number = len(self._row_of)
        if number >= len(self._counts):
            self._counts = grown(self._counts, capacity_for(number + 1, 0))
        self._row_of.append(row)
        self.number_of[row] = number
        self._counts[number, cells] = counts

    def enter(self, numbers: IntArray, cells: IntArray, counts: IntArray) -> None:
        if len(numbers):
            self._counts[numbers, cells] = counts

    def add_gains(self, x: RowCounts, by_cell: FloatArray) -> None:
        """Add the dense rows' gains to each cell, shape [n_cells], in place."""
        n_cells, known = len(by_cell), len(self.number_of)
        lines = []
        for row, multiplicity in x.pairs:
            number = int(self.number_of[row]) if row < known else -1
            if number < 0:
                continue
            if multiplicity <= _KEPT_MULTIPLICITY:
                line = self._line_of.get((number, multiplicity))
                lines.append(self._new_line(number, multiplicity) if line is None else line)
            else:
                held = self._counts[number, :n_cells].astype(np.int64)
                by_cell += _gains(self._rows, np.array([row]), held, multiplicity)
        if lines:
            self._fill(n_cells)
            for line in lines:
                by_cell += self._gains[line, :n_cells]

    def _new_line(self, number: int, multiplicity: int) -> int:
        line = len(self._line_of)
        if line >= len(self._gains):
            self._gains = grown(self._gains, capacity_for(line + 1, 0))
        self._line_of[number, multiplicity] = line
        lines = np.array(list(self._line_of), dtype=np.int64)
        self._line_numbers = lines[:, 0]
        self._line_rows = np.array(self._row_of, dtype=np.int64)[lines[:, :1]]
        self._line_multiplicities = lines[:, 1:]
        held = self._counts[number, : self._filled].astype(np.int64)
        self._gains[line, : self._filled] = _gains(
            self._rows, self._line_rows[line], held, multiplicity
        )
        return line

    def _fill(self, n_cells: int) -> None:
        """Extend all lines to cell n_cells - 1. Cells are written once, so earlier entries stay."""
        if self._filled < n_cells:
            new = slice(self._filled, n_cells)
            held = self._counts[self._line_numbers, new].astype(np.int64)
            self._gains[: len(self._line_of), new] = _gains(
                self._rows, self._line_rows, held, self._line_multiplicities
            )
            self._filled = n_cells


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """starts[0], starts[0]+1, ... (lengths[0] of them), starts[1], ...: one flat index."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    flat: IntArray = np.arange(total) + (starts - ends + lengths).repeat(lengths)
    return flat
