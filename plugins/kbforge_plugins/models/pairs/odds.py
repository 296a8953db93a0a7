"""The log odds that two rows are of one entity, by trees, for all candidate pairs at once.

Log odds are clipped, kept as whole numbers of a small unit, and held by row as what is added to the
fixed log odds of rows that are no candidates. A row that is met later is placed against the same
file, so that its log odds do not depend on what else was met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge.models.trees import Trees
from kbforge_plugins.models.pairs.candidates import near_ones
from kbforge_plugins.models.pairs.description import File, Rows
from kbforge_plugins.models.pairs.records import Statement, statement_of

MODEL = "pairs.safetensors"
UNITS = 1 << 16
"""Units of log odds, in one nat."""
MOST = 6.0
"""Log odds are clipped to this, either side of 0, nats."""
APART = round(-5.0 * UNITS)
"""Log odds of two rows that are no candidates, in units."""

Row: TypeAlias = int
"""A row of the file, or, from its length on, of those met later."""


def asked(file: File) -> IntArray:
    """The pairs of a file that the model is asked about, shape [pairs, 2].

    The candidates, and each row with itself where several fragments state the same.
    """
    own = np.flatnonzero(file.counts > 1)
    return np.concatenate([file.pairs, np.stack([own, own], axis=1)])


class Odds:
    """The log odds of pairs in one file.

    Args:
        file: the frozen one.
        trees: their sum is the log odds of a row of `description.FEATURES`.

    """

    def __init__(self, file: File, trees: Trees) -> None:
        self.file, self._trees = file, trees
        self._row_of = dict(file.row_of)
        self._met: list[Rows] = []
        self._near: list[dict[Row, int]] = [{} for _ in file.counts]
        pairs = asked(file)
        i, j = pairs.T
        for x, y, above in zip(
            i.tolist(), j.tolist(), self._above(file.rows, i, file.rows, j), strict=True
        ):
            self._near[x][y] = self._near[y][x] = above
        alone = np.flatnonzero(file.counts == 1)
        self._own(file.rows, alone, alone)

    def encode(self, fragment: Fragment) -> Row:
        """The row of what a fragment states; one not met before is placed against the file."""
        said = statement_of(fragment)
        row = self._row_of.get(said)
        return self._place(said) if row is None else row

    def near(self, row: Row) -> Mapping[Row, int]:
        """By candidate of a row, itself among them: their log odds less `APART`, in units."""
        return self._near[row]

    def rows_of(self, row: Row) -> tuple[Rows, int]:
        """Where a row is described, and its place there."""
        known = len(self.file.counts)
        return (self.file.rows, row) if row < known else (self._met[row - known], 0)

    def _own(self, rows: Rows, places: IntArray, numbers: Sequence[Row] | IntArray) -> None:
        """What a second fragment that states the same would be worth."""
        above = self._above(rows, places, rows, places)
        for row, units in zip(list(numbers), above, strict=True):
            self._near[int(row)][int(row)] = units

    def _above(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> list[int]:
        log_odds = self._trees.predict(self.file.describe(a, i, b, j))
        # two fragments that state nothing are as probably one as not
        log_odds[(a.table.stated[i] == 0) & (b.table.stated[j] == 0)] = 0.0
        units = np.rint(np.clip(log_odds, -MOST, MOST) * UNITS).astype(np.int64)
        return [int(value) for value in units - APART]

    def _place(self, said: Statement) -> Row:
        row = len(self._row_of)
        rows, pairs = self.file.placed([said])
        near: dict[Row, int] = {}
        i, j = pairs.T
        near.update(zip(j.tolist(), self._above(rows, i, self.file.rows, j), strict=True))
        known = len(self.file.counts)
        met = near_ones(rows.table, [other.table for other in self._met])
        zero = np.zeros(1, dtype=np.int64)
        for place in met:
            near[known + place] = self._above(rows, zero, self._met[place], zero)[0]
        own = self._above(rows, zero, rows, zero)[0]
        # nothing above changes what is known, so that a failure leaves no trace
        for other, units in near.items():
            self._near[other][row] = units
        near[row] = own
        self._near.append(near)
        self._met.append(rows)
        self._row_of[said] = row
        return row
