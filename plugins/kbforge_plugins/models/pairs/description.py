"""A file as pairs are described in it, and the row of features of a pair.

Everything that a row of features reads is frozen when the file is read: what is met later is
compared with the file, and changes nothing in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge_plugins.models.pairs.agreements import (
    AGREEMENT_FEATURES,
    SOUP_FEATURES,
    Worth,
    agreement_features,
    soup_features,
)
from kbforge_plugins.models.pairs.bags import cosine
from kbforge_plugins.models.pairs.candidates import (
    NEAREST,
    equal_between,
    equal_in,
    narrowed,
    nearest,
)
from kbforge_plugins.models.pairs.names import DIGIT_FEATURES, NAME_FEATURES, name_features
from kbforge_plugins.models.pairs.records import Reader, Statement, Table, statement_of
from kbforge_plugins.models.pairs.standing import (
    STANDING_FEATURES,
    Standings,
    standing_features,
)

RARITY_FEATURES = (
    *("fragments with name least", "fragments with name most"),
    *("rows with name least", "rows with name most"),
    *("name rarity least", "name rarity most", "times seen least", "times seen most"),
    *("attributes least", "attributes most"),
)
FILE_FEATURES = ("file log rows", "file distinct names", "file attributes", "file name words")
FEATURES = (
    *NAME_FEATURES,
    *DIGIT_FEATURES,
    *SOUP_FEATURES,
    *AGREEMENT_FEATURES,
    *STANDING_FEATURES,
    *RARITY_FEATURES,
    *FILE_FEATURES,
)
_EQUAL_FORMS = (
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
_BLOCK = 1 << 15
_CHANCE_PAIRS = 4000
_MOST_TRUSTED = 20_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows with all that pairs of them are described by.

    Attributes:
        table: of the rows.
        standings: what they are near to in the file.
        named: fragments of the file that have the row's name, and rows, shape [2, rows].
        seen: fragments of the file that state the same, at least 1.

    """

    table: Table
    standings: Standings
    named: FloatArray
    seen: FloatArray


class File:
    """The statements of a file, their table and their candidate pairs.

    Args:
        fragments: of the file.

    Attributes:
        row_of: by statement, its row.
        counts: fragments of each row.
        rows: all of them.
        pairs: candidate pairs of rows, i < j, ascending, shape [pairs, 2].
        naming: the attributes that say what a fragment is called.
        worths: what agreement in an attribute is worth.

    """

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        counted = Counter(map(statement_of, fragments))
        statements = sorted(counted)
        self.row_of = {said: row for row, said in enumerate(statements)}
        self.counts = np.array([counted[said] for said in statements], dtype=np.int64)
        self.n = int(self.counts.sum())
        self._reader = Reader(statements)
        self.naming = self._reader.naming
        table = self._reader.table(statements)
        self._narrow = [narrowed(table.trigrams), narrowed(table.soup)]
        self._named = _named(table, self.counts)
        standings, pairs = self._compared(table)
        self.pairs = pairs
        self.rows = Rows(table, standings, self._named_of(table), self.counts.astype(np.float64))
        self._facts = np.array(
            [
                np.log1p(len(table)),
                len(self._named) / max(len(table), 1),
                float(np.mean([len(said) for said in statements])) if statements else 0.0,
                float(table.names.count[table.first].mean()) if len(table) else 0.0,
            ]
        )
        self.worths = self._fitted()

    def _compared(self, table: Table) -> tuple[Standings, IntArray]:
        """What each row is near to, and the candidate pairs."""
        n = len(table)
        keys: list[IntArray] = []
        tops = []
        for narrow in self._narrow:
            top = np.full((n, NEAREST), -1.0)
            for row, found, value in nearest(narrow, narrow, other=True):
                top[row, : len(found)] = value
                keys.append(np.minimum(found, row) * n + np.maximum(found, row))
            tops.append(top)
        for mine, theirs in _EQUAL_FORMS:
            some = [min(i, j) * n + max(i, j) for i, j in equal_in(table, mine, theirs)]
            keys.append(np.array(some, dtype=np.int64))
        flat = np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
        return Standings(*tops), np.stack([flat // max(n, 1), flat % max(n, 1)], axis=1)

    def _fitted(self) -> dict[str, Worth]:
        """What the attributes are worth in this file."""
        table = self.rows.table
        rng = np.random.default_rng(0)
        n = len(table)
        chance = rng.integers(n, size=(2, _CHANCE_PAIRS)) if n else np.zeros((2, 0), np.int64)
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        words = cosine(table.soup, i, table.soup, j)
        best = self.rows.standings.words[:, 0]
        mutual = (words > 0.2) & (words >= best[i] - 1e-9) & (words >= best[j] - 1e-9)
        trusted = np.flatnonzero(mutual)
        if len(trusted) > _MOST_TRUSTED:
            trusted = np.sort(rng.choice(trusted, _MOST_TRUSTED, replace=False))
        apart = chance[:, chance[0] != chance[1]]
        return {
            name: Worth(column, self.counts, (i[trusted], j[trusted]), (apart[0], apart[1]))
            for name, column in table.columns.items()
        }

    def _named_of(self, table: Table) -> FloatArray:
        found = [self._named.get(number, (0, 0)) for number in table.numbers("name").tolist()]
        return np.array(found, dtype=np.float64).reshape(-1, 2).T

    def placed(self, statements: Sequence[Statement]) -> tuple[Rows, IntArray]:
        """Rows of statements that the file does not have, and pairs of them with rows of the file.

        The pairs are (place among the statements, row of the file), shape [pairs, 2].
        """
        table = self._reader.table(statements)
        tops, keys = [], set[tuple[int, int]]()
        for bags, narrow in zip((table.trigrams, table.soup), self._narrow, strict=True):
            top = np.full((len(table), NEAREST), -1.0)
            for row, found, value in nearest(bags.unit, narrow, other=False):
                top[row, : len(found)] = value
                keys.update((row, other) for other in found.tolist())
            tops.append(top)
        for forms in _EQUAL_FORMS:
            for mine, theirs in {forms, forms[::-1]}:
                keys.update(equal_between(table, mine, self.rows.table, theirs))
        rows = Rows(table, Standings(*tops), self._named_of(table), np.ones(len(table)))
        return rows, np.array(sorted(keys), dtype=np.int64).reshape(-1, 2)

    def describe(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        """`FEATURES` of rows i of the one and j of the other, shape [pairs, features]."""
        blocks = [
            self._described(a, i[start : start + _BLOCK], b, j[start : start + _BLOCK])
            for start in range(0, len(i), _BLOCK)
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(FEATURES)))

    def _described(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        names = name_features(a.table, i, b.table, j)
        soup = soup_features(a.table, i, b.table, j)
        letters = cosine(a.table.trigrams, i, b.table.trigrams, j)
        columns = [
            *names,
            *soup,
            *agreement_features(a.table, i, b.table, j, self.worths),
            *standing_features(a.standings.take(i), b.standings.take(j), letters, soup[0]),
            *self._rarities(a, i, b, j),
            *(np.full(len(i), fact) for fact in self._facts),
        ]
        return np.stack(columns, axis=1)

    def _rarities(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> list[FloatArray]:
        out = []
        for which in (0, 1):
            x, y = np.log1p(a.named[which, i]), np.log1p(b.named[which, j])
            out += [np.minimum(x, y), np.maximum(x, y)]
        x, y = (
            np.log((self.n + 1) / np.maximum(rows.named[0, at], 1.0))
            for rows, at in ((a, i), (b, j))
        )
        out += [np.minimum(x, y), np.maximum(x, y)]
        x, y = np.log(a.seen[i]), np.log(b.seen[j])
        out += [np.minimum(x, y), np.maximum(x, y)]
        x, y = a.table.stated[i].astype(np.float64), b.table.stated[j].astype(np.float64)
        return [*out, np.minimum(x, y), np.maximum(x, y)]


def _named(table: Table, counts: IntArray) -> dict[int, tuple[int, int]]:
    """By number of a name: fragments, rows."""
    out: dict[int, tuple[int, int]] = {}
    for number, count in zip(table.numbers("name").tolist(), counts.tolist(), strict=True):
        fragments, rows = out.get(number, (0, 0))
        out[number] = (fragments + count, rows + 1)
    return out
