"""A file as the pair model describes it: candidate pairs, and the features of a pair.

Everything that features read is frozen when the file is read: later rows are compared with the
file and change nothing in it.

*Candidates* are the nearest rows by letters and by words, and rows with equal forms of a name.
Nearness is the cosine of rows of weights, found by sparse products. Columns that many rows have
are left out, rarest first until the allowed work is spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from scipy import sparse

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge_plugins.likelihoods.pairs.bags import Bags, cosine
from kbforge_plugins.likelihoods.pairs.features import (
    AGREEMENT_FEATURES,
    DIGIT_FEATURES,
    NAME_FEATURES,
    SOUP_FEATURES,
    STANDING_FEATURES,
    Standings,
    Worth,
    agreement_features,
    name_features,
    soup_features,
    standing_features,
)
from kbforge_plugins.likelihoods.pairs.keeping import PartReader, PartWriter
from kbforge_plugins.likelihoods.pairs.table import (
    RecordTable,
    Statement,
    StatementReader,
    statement_of,
)


class Statements:
    """The rows of statements.

    Args:
        digests: of the statements, by row, shape [rows, 2].

    """

    def __init__(self, digests: IntArray) -> None:
        self._digests = digests
        self._order = np.argsort(digests[:, 0], kind="stable")
        self._first = digests[self._order, 0]

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Statements:
        """These are the rows."""
        digests = [_digest(said) for said in statements]
        return cls(np.array(digests, dtype=np.int64).reshape(-1, 2))

    def __len__(self) -> int:
        return len(self._digests)

    def row(self, said: Statement) -> int | None:
        """The row of a statement; None if it has none."""
        first, second = _digest(said)
        at = int(np.searchsorted(self._first, first))
        while at < len(self._first) and self._first[at] == first:
            row = int(self._order[at])
            if self._digests[row, 1] == second:
                return row
            at += 1
        return None

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("statements", self._digests)

    @classmethod
    def taken(cls, kept: PartReader) -> Statements:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        return cls(kept.array("statements", np.int64, -1, 2))


def _digest(said: Statement) -> tuple[int, int]:
    text = "".join(f"{len(a)} {len(v)} {a}{v}" for a, v in said)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    return (
        int.from_bytes(digest[:8], "little", signed=True),
        int.from_bytes(digest[8:], "little", signed=True),
    )


class NameCounts:
    """How many fragments and rows of a file have a name.

    Args:
        numbers: of the names, ascending.
        counts: fragments, and rows, shape [2, names].

    """

    def __init__(self, numbers: IntArray, counts: IntArray) -> None:
        self._numbers, self._counts = numbers, counts

    @classmethod
    def fitted(cls, table: RecordTable, counts: IntArray) -> NameCounts:
        """Those of a table.

        Args:
            table: of the file.
            counts: fragments of each row.

        """
        numbers, which = np.unique(table.numbers("name"), return_inverse=True)
        fragments = np.bincount(which, weights=counts, minlength=len(numbers))
        rows = np.bincount(which, minlength=len(numbers))
        return cls(numbers, np.stack([fragments.astype(np.int64), rows]))

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, table: RecordTable) -> FloatArray:
        """Fragments and rows with the name of each row, shape [2, rows]."""
        wanted = table.numbers("name")
        if not len(self):
            return np.zeros((2, len(wanted)))
        at = np.searchsorted(self._numbers, wanted).clip(max=len(self) - 1)
        found = np.where(self._numbers[at] == wanted, self._counts[:, at], 0)
        return found.astype(np.float64)

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("numbers", self._numbers)
        into.array("counts", self._counts)

    @classmethod
    def taken(cls, kept: PartReader) -> NameCounts:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        numbers = kept.array("numbers", np.int64, -1)
        return cls(numbers, kept.array("counts", np.int64, 2, len(numbers), low=1))


NEAREST = 24
"""Rows that a row is compared with for being near in one way."""
FORMS = (
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
"""Forms of names that make two rows candidates where they are equal."""
_WORK_A_ROW = 20_000
_ROWS_AT_ONCE = 1024
_MOST_EQUAL = 50
_LEAST_COSINE = 0.08


def narrowed(bags: Bags) -> sparse.csr_array:
    """Unit rows without the columns that too many rows have for a product of all rows."""
    unit = bags.unit()
    shared = np.bincount(bags.columns, minlength=len(bags.weight)).astype(np.float64)
    order = np.argsort(shared, kind="stable")
    spent = np.cumsum(shared[order] ** 2)
    kept = np.zeros(len(shared), dtype=bool)
    kept[order[spent <= _WORK_A_ROW * max(len(bags), 50)]] = True
    if not kept[bags.columns].all():
        unit.data[~kept[bags.columns]] = 0.0
        unit.eliminate_zeros()
    return unit


def turned(rows: sparse.csr_array) -> sparse.csr_array:
    """By column, the rows that have it: what `nearest` looks among."""
    return sparse.csr_array(rows.T)


def nearest(
    rows: sparse.csr_array, among: sparse.csr_array, other: bool
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """For each row, those nearest to it and their cosines, the nearest first.

    Args:
        rows: shape [rows, columns].
        among: as `turned`, shape [columns, all].
        other: row k of `rows` is row k of `among`, and not near to itself.

    """
    for start in range(0, rows.shape[0], _ROWS_AT_ONCE):
        some = rows if rows.shape[0] <= _ROWS_AT_ONCE else rows[start : start + _ROWS_AT_ONCE]
        block = some @ among
        for k in range(block.shape[0]):
            part = slice(block.indptr[k], block.indptr[k + 1])
            found, value = block.indices[part], block.data[part]
            keep = value >= _LEAST_COSINE
            if other:
                keep &= found != start + k
            found, value = found[keep].astype(np.int64), value[keep]
            if len(found) > NEAREST:
                some = np.argpartition(-value, NEAREST - 1)
                least = value[some[NEAREST - 1]]
                some = np.flatnonzero(value >= least)
                found, value = found[some], value[some]
            order = np.lexsort((found, -value))[:NEAREST]
            yield start + k, found[order], value[order]


class EqualForms:
    """The names of a table by one form of theirs.

    Args:
        table: of all rows.
        form: of their names.

    """

    def __init__(self, table: RecordTable, form: str) -> None:
        keys = table.names.numbers[form][table.which]
        # names in the order of the table where several rows have one
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._rows = np.repeat(np.arange(len(table)), np.diff(table.called))[order]

    def equal_in(self, table: RecordTable, mine: str) -> Iterator[tuple[int, int]]:
        """Pairs of different rows of the table: this form of the one is a form of the other.

        Of a form that many rows share, each is compared with the next ones only.
        """
        rows = np.repeat(np.arange(len(table)), np.diff(table.called))
        wanted = table.names.numbers[mine][table.which]
        left = np.searchsorted(self._keys, wanted, side="left")
        right = np.searchsorted(self._keys, wanted, side="right")
        for at in np.flatnonzero((right > left) & (wanted != 0)).tolist():
            row, start, end = int(rows[at]), int(left[at]), int(right[at])
            if end - start > _MOST_EQUAL:  # go on from the row itself
                start += int(np.searchsorted(self._rows[start:end], row))
            for other in self._rows[start : min(end, start + _MOST_EQUAL)].tolist():
                if other != row:
                    yield row, other

    def equal_to(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        """Of forms of names: the place, and the first rows that have a form equal to it."""
        left = np.searchsorted(self._keys, numbers, side="left").tolist()
        right = np.searchsorted(self._keys, numbers, side="right").tolist()
        for place in np.flatnonzero(numbers).tolist():
            end = min(right[place], left[place] + _MOST_EQUAL)
            for row in self._rows[left[place] : end].tolist():
                yield place, row


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
_PAIRS_AT_ONCE = 1 << 15
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

    table: RecordTable
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
            RecordTable.joined([one.table for one in some]),
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
        reader: StatementReader,
        statements: Statements,
        counts: IntArray,
        rows: Rows,
        called: NameCounts,
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
        reader, table = StatementReader.fitted(said)
        called = NameCounts.fitted(table, counts)
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

    def keep(self, into: PartWriter) -> None:
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
    def taken(cls, kept: PartReader) -> File:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        reader = StatementReader.taken(kept.part("reader"))
        statements = Statements.taken(kept)
        counts = kept.array("fragments", np.int64, len(statements), low=1)
        table = RecordTable.taken(kept.part("table"), reader.weights, reader.columns)
        if len(table) != len(statements):
            raise kept.damaged("table", f"expected {len(statements):,} rows, got {len(table):,}")
        standings = Standings.taken(kept.part("standings"), len(table), NEAREST)
        called = NameCounts.taken(kept.part("called"))
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
            self._described(
                a, i[start : start + _PAIRS_AT_ONCE], b, j[start : start + _PAIRS_AT_ONCE]
            )
            for start in range(0, len(i), _PAIRS_AT_ONCE)
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


def _compared(table: RecordTable) -> tuple[Standings, IntArray]:
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
            for part in (slice(k, k + _PAIRS_AT_ONCE) for k in range(0, len(i), _PAIRS_AT_ONCE))
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
