"""A file as pairs are described in it, and the row of features of a pair.

Everything that a row of features reads is frozen when the file is read: what is met later is
compared with the file, and changes nothing in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

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
    FORMS,
    NEAREST,
    EqualForms,
    narrowed,
    nearest,
    turned,
)
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.lookups import Called, Statements
from kbforge_plugins.models.pairs.names import DIGIT_FEATURES, NAME_FEATURES, name_features
from kbforge_plugins.models.pairs.reader import Reader
from kbforge_plugins.models.pairs.records import Statement, Table, statement_of
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

    def take(self, rows: IntArray) -> Rows:
        """Some of them."""
        return Rows(
            self.table.take(rows),
            self.standings.take(rows),
            self.named[:, rows],
            self.seen[rows],
        )

    @classmethod
    def joined(cls, some: Sequence[Rows]) -> Rows:
        """All of these, one after the other."""
        return cls(
            Table.joined([one.table for one in some]),
            Standings.joined([one.standings for one in some]),
            np.concatenate([one.named for one in some], axis=1),
            np.concatenate([one.seen for one in some]),
        )


class File:
    """The statements of a file, as they were read.

    Attributes:
        statements: their rows.
        counts: fragments of each row.
        rows: all of them.
        worths: what agreement in an attribute is worth.

    """

    def __init__(
        self,
        reader: Reader,
        statements: Statements,
        counts: IntArray,
        rows: Rows,
        called: Called,
        facts: FloatArray,
        worths: Mapping[str, Worth],
    ) -> None:
        self._reader, self._called, self._facts = reader, called, facts
        self.statements, self.counts, self.rows, self.worths = statements, counts, rows, worths
        self.n = int(counts.sum())

    @classmethod
    def fitted(cls, fragments: Sequence[Fragment]) -> tuple[File, IntArray]:
        """A file, and its candidate pairs of rows, i < j, ascending, shape [pairs, 2]."""
        counted = Counter(map(statement_of, fragments))
        said = sorted(counted)
        counts = np.array([counted[one] for one in said], dtype=np.int64)
        reader, table = Reader.fitted(said)
        called = Called.fitted(table, counts)
        standings, pairs = _compared(table)
        rows = Rows(table, standings, called.of(table), counts.astype(np.float64))
        facts = np.array(
            [
                np.log1p(len(table)),
                len(called) / max(len(table), 1),
                float(np.mean([len(one) for one in said])) if said else 0.0,
                float(table.names.count[table.which[table.called[:-1]]].mean()) if said else 0.0,
            ]
        )
        worths = _worths(rows, counts, pairs)
        return cls(reader, Statements.of(said), counts, rows, called, facts, worths), pairs

    @property
    def naming(self) -> tuple[str, ...]:
        """The attributes that say what a fragment is called."""
        return self._reader.naming

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        self._reader.keep(into.part("reader"))
        self.statements.keep(into)
        into.array("fragments", self.counts)
        self.rows.table.keep(into.part("table"))
        self.rows.standings.keep(into.part("standings"))
        self._called.keep(into.part("called"))
        into.array("facts", self._facts)
        for at, worth in enumerate(self.worths.values()):
            worth.keep(into.part(f"worths/{at}"))

    @classmethod
    def taken(cls, kept: Reading) -> File:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        reader = Reader.taken(kept.part("reader"))
        statements = Statements.taken(kept)
        counts = kept.array("fragments", np.int64, len(statements), low=1)
        table = Table.taken(kept.part("table"), reader.weights, reader.columns)
        if len(table) != len(statements):
            raise kept.damaged("table", f"expected {len(statements):,} rows, got {len(table):,}")
        standings = Standings.taken(kept.part("standings"), len(table), NEAREST)
        called = Called.taken(kept.part("called"))
        rows = Rows(table, standings, called.of(table), counts.astype(np.float64))
        facts = kept.array("facts", np.float64, len(FILE_FEATURES))
        worths = {
            name: Worth.taken(kept.part(f"worths/{at}")) for at, name in enumerate(reader.columns)
        }
        return cls(reader, statements, counts, rows, called, facts, worths)

    @cached_property
    def _narrow(self) -> tuple[sparse.csr_array, ...]:
        table = self.rows.table
        return tuple(turned(narrowed(bags)) for bags in (table.trigrams, table.soup))

    @cached_property
    def _forms(self) -> dict[str, EqualForms]:
        forms = sorted({form for both in FORMS for form in both})
        return {form: EqualForms(self.rows.table, form) for form in forms}

    def placed(self, said: Statement) -> tuple[Rows, IntArray]:
        """The row of a statement that the file does not have, and the rows of the file near it."""
        table = self._reader.table([said])
        tops, near = [], set[int]()
        for bags, narrow in zip((table.trigrams, table.soup), self._narrow, strict=True):
            top = np.full((1, NEAREST), -1.0)
            columns, weights = bags.backwards()
            row = sparse.csr_array((weights, columns, bags.starts), shape=(1, len(bags.weight)))
            for _, found, value in nearest(row, narrow, other=False):
                top[0, : len(found)] = value
                near.update(found.tolist())
            tops.append(top)
        for forms in FORMS:
            for mine, theirs in {forms, forms[::-1]}:
                numbers = table.names.numbers[mine][table.which]
                near.update(row for _, row in self._forms[theirs].equal_to(numbers))
        rows = Rows(table, Standings(*tops), self._called.of(table), np.ones(1))
        return rows, np.array(sorted(near), dtype=np.int64)

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


def _compared(table: Table) -> tuple[Standings, IntArray]:
    """What each row is near to, and the candidate pairs."""
    n = len(table)
    keys: list[IntArray] = [np.zeros(0, np.int64)]
    tops = []
    for bags in (table.trigrams, table.soup):
        narrow = narrowed(bags)
        top = np.full((n, NEAREST), -1.0)
        others = np.full((n, NEAREST), -1, dtype=np.int64)
        for row, found, value in nearest(narrow, turned(narrow), other=True):
            top[row, : len(found)] = value
            others[row, : len(found)] = found
        one, place = np.nonzero(others >= 0)
        keys.append(_pairs_of(one, others[one, place], n))
        tops.append(top)
    for mine, theirs in FORMS:
        some = np.array(list(EqualForms(table, theirs).equal_in(table, mine)), dtype=np.int64)
        i, j = some.reshape(-1, 2).T
        keys.append(_pairs_of(i, j, n))
    flat = np.unique(np.concatenate(keys))
    return Standings(*tops), np.stack([flat // max(n, 1), flat % max(n, 1)], axis=1)


def _pairs_of(i: IntArray, j: IntArray, n: int) -> IntArray:
    """One number for each pair of n rows."""
    return np.minimum(i, j) * n + np.maximum(i, j)


def _worths(rows: Rows, counts: IntArray, pairs: IntArray) -> dict[str, Worth]:
    """What the attributes are worth in a file."""
    table = rows.table
    rng = np.random.default_rng(0)
    n = len(table)
    chance = rng.integers(n, size=(2, _CHANCE_PAIRS)) if n else np.zeros((2, 0), np.int64)
    i, j = pairs.T
    words = np.concatenate(
        [np.zeros(0)]
        + [
            cosine(table.soup, i[part], table.soup, j[part])
            for part in (slice(k, k + _BLOCK) for k in range(0, len(i), _BLOCK))
        ]
    )
    best = rows.standings.words[:, 0]
    mutual = (words > 0.2) & (words >= best[i] - 1e-9) & (words >= best[j] - 1e-9)
    trusted = np.flatnonzero(mutual)
    if len(trusted) > _MOST_TRUSTED:
        trusted = np.sort(rng.choice(trusted, _MOST_TRUSTED, replace=False))
    apart = chance[:, chance[0] != chance[1]]
    return {
        name: Worth.fitted(column, counts, (i[trusted], j[trusted]), (apart[0], apart[1]))
        for name, column in table.columns.items()
    }
