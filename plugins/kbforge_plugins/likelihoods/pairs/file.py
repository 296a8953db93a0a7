"""The features of a file's candidate pairs.

The inputs of features are frozen when the file is read: later rows change nothing in them.

*Features* describe two rows' names, their attributes, and the pair's rank among others. They
include the log odds of the likelihood `attributes`, which is fitted to the file (`fitted`), what
differences of attributes say (`differences`), and facts of the file. The weight of an attribute is
learned without labels (Fellegi and Sunter 1969): for each degree of nearness of two values, it is
the log ratio of its frequency among mutually nearest pairs, which are mostly one entity, to that
among random pairs. For equal values the rarity of the value replaces chance.

*Lexical knowledge* about names: nicknames and legal forms, from `known.json`, which names its
sources; abbreviations, acronyms, numbers. The kernel reads a folded name once into sets of its
words and parts, and compares words of pairs of names; parts, legal forms and numbers are compared
only if both names have them (`known.cpp`).

The *parts* of "institute of physics, university of oslo" are its heads, before a separator, and its
tails, after one. Separators are a comma, a bracket, a colon, a dash between spaces, and small words
such as "of". A part is compared by its *core*: its letters, without small words and without legal
forms at either end. A word that only one of two names has is *unexplained*, unless a word of the
other is similar, abbreviates it or is abbreviated by it, or is its nickname, or the other's words
make it up as an acronym.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, Likelihood
from kbforge.files.columns import FragmentColumns, Taken
from kbforge.fit.description import Renaming
from kbforge.kernel.binding import address, kernel_library, workers
from kbforge.models.trees import Trees
from kbforge.numerics import at_numbers, starts_of
from kbforge_plugins.likelihoods.pairs.bags import Part, PartReader, Strings
from kbforge_plugins.likelihoods.pairs.differences import DIFFERENCE_FEATURES, Differences
from kbforge_plugins.likelihoods.pairs.fitted import NO_ODDS, FittedOdds, best_odds
from kbforge_plugins.likelihoods.pairs.near import (
    EQUAL_FORMS,
    NEAREST,
    WAYS,
    EqualForms,
    NearIndex,
    OtherScripts,
    attributes_compared,
    comparable,
    compared,
)
from kbforge_plugins.likelihoods.pairs.table import (
    SMALL,
    Column,
    RecordTable,
    Statement,
    StatementReader,
    statements_of,
    table_of,
)

NAME_FEATURES = (
    *("name equal", "name words equal", "name compact equal", "name sounds equal"),
    *("name trigrams cosine", "name words cosine", "name sounds cosine"),
    *("name ratio", "name jaro-winkler", "name sorted ratio", "name sounds ratio"),
    *("name set ratio", "name covered least", "name covered most", "name shared mass"),
    *("name unmatched least", "name unmatched most"),
    *("name first equal", "name last equal", "name initials met", "name initials unmet"),
    *("name acronym", "name contained", "name letters least", "name letters most"),
    *("name count least", "name count most", "name count difference"),
)
KNOWN_FEATURES = (
    *("name nicknames agree", "name short forms"),
    *("name words unexplained least", "name words unexplained most"),
    *("name core equal", "name legal forms agree", "name acronym of part"),
    *("name is head", "name is tail", "name part shared", "name numbers agree"),
)
DIGIT_FEATURES = ("digits shared", "digits unmatched least", "digits unmatched most")
AGREEMENT_FEATURES = (
    *("both stated", "one stated", "equal values", "different values"),
    *("evidence", "evidence for", "evidence against", "evidence for most", "evidence against most"),
    *("rarity of equal", "rarity of equal most"),
    *("nearness mean", "nearness least", "nearness most", "functional conflict"),
)
CODE_FEATURES = (
    *("codes stated", "codes shared", "codes unmatched least", "codes unmatched most"),
    *("codes contained", "units equal", "units conflict"),
    *("figures shared", "figures unmatched least", "figures unmatched most"),
)
ALL_TEXT_FEATURES = (
    *("all words cosine", "all words covered least", "all words covered most"),
    *("all words shared mass", "all words unmatched least", "all words unmatched most"),
)
_STANDING = ("rank least", "rank most", "gap least", "gap most", "near least", "near most")
STANDING_FEATURES = tuple(f"{way} {what}" for way in WAYS for what in _STANDING)
ODDS_OF_ALL_FEATURES = (
    *("odds", "odds for", "odds against", "odds over alpha", "odds best", "odds worst"),
    *("odds attributes for", "odds attributes against"),
)
_ODDS_STANDING = tuple(f"odds {what}" for what in _STANDING)
ODDS_STANDING_FEATURES = ("odds over alpha", *_ODDS_STANDING)
ODDS_FEATURES = (*ODDS_OF_ALL_FEATURES, "odds of names", *_ODDS_STANDING)
"""Of the likelihood that is fitted to the file (`fitted`)."""
SCRIPT_FEATURES = ("scripts differ", "consonants cosine")
RARITY_FEATURES = (
    *("fragments with name least", "fragments with name most"),
    *("rows with name least", "rows with name most"),
    *("name rarity least", "name rarity most", "times seen least", "times seen most"),
    *("attributes least", "attributes most"),
)
FILE_FEATURES = (
    *("file log rows", "file distinct names", "file attributes", "file name words"),
    *("file log fragments", "file fragments a row", "file name letters"),
    *(
        f"file {way} {what}"
        for way in WAYS
        for what in ("mean", "lower quartile", "upper quartile")
    ),
    *("file equal names a row", "file equal names contradict"),
    *("file functional most", "file functional mean", "file entropy of values"),
    *("file log alpha", "file log alpha over fragments", "file odds mean", "file odds over alpha"),
)
FEATURES = (
    *NAME_FEATURES,
    *DIGIT_FEATURES,
    *KNOWN_FEATURES,
    *CODE_FEATURES,
    *ALL_TEXT_FEATURES,
    *AGREEMENT_FEATURES,
    *STANDING_FEATURES,
    *SCRIPT_FEATURES,
    *RARITY_FEATURES,
    *DIFFERENCE_FEATURES,
    *ODDS_FEATURES,
    *FILE_FEATURES,
)
_BINS = 4
"""Bins of nearness: below .5, below .8, below 1, and equal."""
_SMOOTHING = 2.0


_SILENT = sorted({word for word in SMALL if len(word) > 1} | {"das", "die", "il", "las", "los"})
"""Words that are no part of a core."""


@lru_cache(maxsize=1)
def known_tables() -> int:
    """Address of the kernel's tables, which live as long as the process."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    told = json.loads(text)
    long: dict[str, set[str]] = {}
    for name, nicknames in told["nicknames"].items():
        for one in (name, *nicknames):
            long.setdefault(one, {one}).add(name)
    place = {name: at for at, name in enumerate(long)}
    starts = starts_of(list(map(len, long.values())))
    numbers = np.array([place[name] for name in chain.from_iterable(long.values())], np.int32)
    texts = [Strings.of(some) for some in (told["legal forms"], _SILENT, list(long))]
    handle: int = kernel_library().kb_known_new(
        *chain.from_iterable((len(some), *some.addresses) for some in texts),
        *(address(starts), address(numbers)),
    )
    return handle


class Worth:
    """The weight of agreement and conflict in one attribute of a file.

    `log_ratio` is in nats, by bin of nearness; `functional` measures, from 0 to 1, how much more
    often trusted pairs agree than by chance.
    """

    def __init__(
        self, values: IntArray, counts: IntArray, log_ratio: FloatArray, functional: float
    ) -> None:
        self._values, self._count = values, counts.astype(np.float64)
        self._total = float(self._count.sum())
        self.log_ratio, self.functional = log_ratio, functional

    @classmethod
    def fitted(cls, column: Column, counts: IntArray, trusted: RowPairs, chance: RowPairs) -> Worth:
        """Learn the weight from trusted pairs, which are mostly one entity, and random pairs."""
        stating = np.bincount(column.which, weights=counts, minlength=len(column.numbers))
        order = np.argsort(column.numbers)
        order = order[column.numbers[order] != 0]
        m, u = (_frequencies(column, pairs) for pairs in (trusted, chance))
        return cls(
            column.numbers[order],
            stating[order].astype(np.int64),
            np.log(m / u),
            float(np.clip((m[3] - u[3]) / (1 - u[3] + 1e-9), 0.0, 1.0)),
        )

    def dump(self) -> Part:
        return {
            "values": self._values,
            "counts": self._count.astype(np.int64),
            "told": np.append(self.log_ratio, self.functional),
        }

    @classmethod
    def load(cls, kept: PartReader) -> Worth:
        values = kept.array("values", np.int64, -1)
        counts = kept.array("counts", np.int64, len(values), low=1)
        told = kept.array("told", np.float64, _BINS + 1)
        return cls(values, counts, told[:-1], float(told[-1]))

    def rarity(self, column: Column) -> FloatArray:
        """-log of the share of the statements with each value of a column; a new one counts
        once."""
        count = at_numbers(self._values, self._count, column.numbers, 1.0)
        rarity: FloatArray = np.log((self._total + 1) / count)
        return rarity


def _frequencies(column: Column, pairs: RowPairs) -> FloatArray:
    """The smoothed frequencies of the bins of nearness, among pairs of rows that both state it."""
    seen = np.zeros(_BINS, np.int64)
    told = np.array((*column.addresses, 0))
    kernel_library().kb_column_bins(address(told), len(pairs), address(pairs), address(seen))
    frequencies = (seen + _SMOOTHING / _BINS) / (seen.sum() + _SMOOTHING)
    return np.asarray(frequencies, dtype=np.float64)


_CHANCE_PAIRS = 4000
_MOST_TRUSTED = 20_000
_LEAST_TRUSTED = 0.2
"""Cosine of the words of all values."""
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows with all inputs for describing pairs of them."""

    table: RecordTable
    letters: FloatArray  # the greatest cosines with rows of the file, -1 for none, [rows, nearest]
    words: FloatArray  # the same by words
    best_odds: FloatArray  # the greatest odds with candidates, `NO_ODDS` for none, as `letters`
    slots: IntArray  # of the rows' clusters in the table of the fitted likelihood, shape [rows]
    measures: FloatArray  # see `differences`, shape [rows, attributes]
    numbers: FloatArray  # see `_rows`, shape [5, rows]
    rarities: Mapping[str, FloatArray]  # by column, of its different values, nats

    @classmethod
    def joined(cls, some: Sequence[Rows]) -> Rows:
        """All rows of several collections, in order."""
        return cls(
            RecordTable.joined([one.table for one in some]),
            np.concatenate([one.letters for one in some]),
            np.concatenate([one.words for one in some]),
            np.concatenate([one.best_odds for one in some]),
            np.concatenate([one.slots for one in some]),
            np.concatenate([one.measures for one in some]),
            np.concatenate([one.numbers for one in some], axis=1),
            {
                name: np.concatenate([one.rarities[name] for one in some])
                for name in some[0].rarities
            },
        )

    @cached_property
    def handle(self) -> int:
        """Address of the rows in the kernel, where they live as long as this object."""
        kernel, table = kernel_library(), self.table
        columns = np.array(
            [
                (*column.addresses, address(self.rarities[name]))
                for name, column in table.columns.items()
            ],
            dtype=np.int64,
        )
        sizes = len(table), len(table.names), len(table.columns)
        arrays = map(
            address,
            (
                *(self.letters, self.words, self.best_odds, self.numbers),
                *(self.slots, self.measures),
                columns,
            ),
        )
        told = np.array((*sizes, *table.addresses, *arrays))
        handle: int = kernel.kb_rows_new(address(told), known_tables())
        weakref.finalize(self, kernel.kb_rows_free, handle)
        return handle


_PAIRS_AT_ONCE = 1 << 17
RowPairs: TypeAlias = NDArray[np.int32]
"""Pairs of rows, shape [pairs, 2]."""


def row_pairs(i: ArrayLike, j: ArrayLike) -> RowPairs:
    """Pairs of rows i and j."""
    return np.stack([np.asarray(i), np.asarray(j)], axis=1).astype(np.int32)


@dataclass(eq=False)
class File:
    """The statements of a file: their digests, shape [rows, 2], and fragments by row.

    `names` are the numbers of the first names, ascending, and how many fragments and rows have
    each, shape [2, names]; `facts` are the `FILE_FEATURES`; `learned` is None if the likelihood
    reads nothing.
    """

    reader: StatementReader
    digests: IntArray
    counts: IntArray
    rows: Rows
    names: tuple[IntArray, IntArray]
    facts: FloatArray
    worths: Mapping[str, Worth]
    differences: Differences
    learned: FittedOdds | None

    def __post_init__(self) -> None:
        learned, reader, facts, digests = self.learned, self.reader, self.facts, self.digests
        worths = [(worth.log_ratio, worth.functional) for worth in self.worths.values()]
        told = np.array([ratio for ratio, _ in worths]), np.array([one for _, one in worths])
        read = () if learned is None else learned.attributes
        naming = np.array([name in reader.naming for name in read], np.uint8)
        self._told = *told, facts, naming
        handle, log_alpha = (0, 0.0) if learned is None else (learned.handle, learned.log_alpha)
        self._worths = np.array(
            (
                *(*map(address, self._told[:3]), len(facts), address(self.differences.told)),
                *(handle, address(naming), 0),
            )
        )
        self._worths[-1:].view(np.float64)[0] = log_alpha
        self._order = np.argsort(digests[:, 0], kind="stable")
        self._first = digests[self._order, 0]
        self._read: tuple[weakref.ref[FragmentColumns], NDArray[np.int32]] | None = None
        self.renaming: Renaming | None = None  # by which all fragments are read

    @classmethod
    def fitted(
        cls,
        fragments: Sequence[Fragment],
        link: str | None = None,
        known: Likelihood | None = None,
    ) -> tuple[File, RowPairs]:
        """A file, and its candidate pairs of rows, i < j, ascending, shape [pairs, 2].

        `known` is as in `FittedOdds.fitted`.

        If fragments that share a value of `link` are different entities, each row belongs to a
        table, and rows of one table are not compared.
        """
        said, of = statements_of(fragments, link)
        counts = np.bincount(of, minlength=len(said))
        reader, table = StatementReader.fitted(said, counts)
        numbers, which = np.unique(table.numbers("name"), return_inverse=True)
        of_name = [np.bincount(which, some, len(numbers)) for some in (counts, None)]
        names = numbers, np.stack(of_name).astype(np.int64)
        (letters, words), pairs = compared(table, reader.naming)
        fitted = FittedOdds.fitted(fragments, link, known)
        slots, best = np.zeros(len(said), np.int64), letters
        if fitted is not None:
            taken, first = Taken.of(fragments), np.unique(of, return_index=True)[1]
            slots = fitted.add_file(Taken(taken.fragments, taken.places[first]))
            best = best_odds(len(said), pairs, fitted.totals(pairs))
        digests = np.array([_digest(one) for one in said], dtype=np.int64).reshape(-1, 2)
        worths = _worths(table, words, counts, pairs)
        differences, tops = Differences.fitted(table), (letters, words, best)
        held = slots, differences.read(table)
        rows = _rows(table, tops, held, names, counts, worths, int(counts.sum()))
        facts = np.zeros(len(FILE_FEATURES))
        file = cls(reader, digests, counts, rows, names, facts, worths, differences, fitted)
        facts[:] = _facts(file, said, pairs)
        if isinstance(fragments, FragmentColumns):
            file._read = weakref.ref(fragments), of
        return file, pairs

    def rows_of(self, fragments: Sequence[Fragment]) -> IntArray | None:
        """The rows of fragments of the columns that the file was fitted to; None of others."""
        taken = Taken.of(fragments)
        if self._read is None or self._read[0]() is not taken.fragments:
            return None
        return self._read[1][taken.places].astype(np.int64)

    @property
    def naming(self) -> tuple[str, ...]:
        """The attributes that name a fragment."""
        return self.reader.naming

    def dump(self) -> Part:
        rows, (numbers, counts) = self.rows, self.names
        return {
            "reader": self.reader.dump(),
            "statements": self.digests,
            "fragments": self.counts,
            "table": rows.table.dump(),
            "standings": {way: getattr(rows, way) for way in (*WAYS, "best_odds")},
            "differences": self.differences.dump(),
            **({} if self.learned is None else {"fitted": self.learned.dump()}),
            "called": {"numbers": numbers, "counts": counts},
            "facts": self.facts,
            "worths": {str(at): worth.dump() for at, worth in enumerate(self.worths.values())},
        }

    @classmethod
    def load(cls, kept: PartReader) -> File:
        reader = StatementReader.load(kept.part("reader"))
        digests = kept.array("statements", np.int64, -1, 2)
        n = len(digests)
        counts = kept.array("fragments", np.int64, n, low=1)
        table = RecordTable.load(kept.part("table"), reader.weights, reader.columns)
        if len(table) != n:
            raise kept.damaged("table", f"{n:,} rows", f"{len(table):,}")
        tops = tuple(
            kept.part("standings").array(way, np.float64, n, NEAREST)
            for way in (*WAYS, "best_odds")
        )
        numbers = kept.part("called").array("numbers", np.int64, -1)
        names = numbers, kept.part("called").array("counts", np.int64, 2, len(numbers), low=1)
        facts = kept.array("facts", np.float64, len(FILE_FEATURES))
        worths = {
            name: Worth.load(kept.part(f"worths/{at}")) for at, name in enumerate(reader.columns)
        }
        fitted = FittedOdds.load(kept.part("fitted"), n) if kept.has("fitted") else None
        differences = Differences.load(kept.part("differences"), table.columns)
        held = np.arange(n), differences.read(table)
        rows = _rows(table, tops, held, names, counts, worths, int(counts.sum()))
        return cls(reader, digests, counts, rows, names, facts, worths, differences, fitted)

    def row(self, said: Statement) -> int | None:
        """The row of a statement; None if it is not in the file."""
        first, second = _digest(said)
        at = int(np.searchsorted(self._first, first))
        while at < len(self._first) and self._first[at] == first:
            row = int(self._order[at])
            if self.digests[row, 1] == second:
                return row
            at += 1
        return None

    @cached_property
    def _near(self) -> tuple[NearIndex, NearIndex]:
        table = self.rows.table
        return NearIndex(table.trigrams, table.linked), NearIndex(table.all_text, table.linked)

    @cached_property
    def compared(self) -> IntArray:
        """The `attributes_compared` of the rows."""
        return attributes_compared(self.rows.table, self.naming)

    @cached_property
    def _other_scripts(self) -> OtherScripts:
        return OtherScripts(self.rows.table)

    @cached_property
    def _forms(self) -> dict[str, EqualForms]:
        forms = sorted({form for both in EQUAL_FORMS for form in both})
        return {form: EqualForms(self.rows.table, form) for form in forms}

    def placed(self, said: Statement) -> tuple[Rows, IntArray]:
        """The row of a statement outside the file, and the rows of the file near it."""
        table = self.reader.table([said])
        ways = zip((table.trigrams, table.all_text), self._near, strict=True)
        letters, words = (index.nearest(bags, table.linked) for bags, index in ways)
        found = letters[0], words[0], self._other_scripts.nearest_to(table)
        near = {*np.concatenate(found, axis=1).ravel().tolist()} - {-1}
        for forms in EQUAL_FORMS:
            for mine, theirs in {forms, forms[::-1]}:
                numbers = table.names.numbers(mine)[table.which]
                near.update(row for _, row in self._forms[theirs].equal_to(numbers))
        placed = np.array(sorted(near), dtype=np.int64)
        placed = placed[comparable(table.linked, self.rows.table.linked[placed])]
        placed = placed[(self.compared[placed] & attributes_compared(table, self.naming)) != 0]
        slots, best = np.zeros(1, np.int64), letters[1]
        if self.learned is not None:
            slots = self.learned.add(_fragment_of(said))
            odds = self.learned.totals(row_pairs(np.repeat(slots, len(placed)), placed))
            best = best_odds(1, np.zeros_like(row_pairs(placed, placed)), odds)
        once, n, tops = np.ones(1, np.int64), int(self.counts.sum()), (letters[1], words[1], best)
        held = slots, self.differences.read(table)
        return _rows(table, tops, held, self.names, once, self.worths, n), placed

    def describe(self, a: Rows, i: ArrayLike, b: Rows, j: ArrayLike) -> FloatArray:
        """`FEATURES` of rows i of the first and j of the second, shape [pairs, features]."""
        pairs = row_pairs(i, j)
        out = np.empty((len(pairs), len(FEATURES)))
        rows = a.handle, b.handle, address(self._worths)
        asked = len(pairs), address(pairs), len(FEATURES), workers(), address(out)
        kernel_library().kb_rows_describe(*rows, *asked)
        return out

    def log_odds(self, trees: Trees, a: Rows, b: Rows, pairs: RowPairs, apart: float) -> FloatArray:
        """The sums of trees over `FEATURES` of pairs of rows, shape [pairs, 2]: [pairs].

        Two rows that state nothing share no attribute: they are `apart`. Only the features of some
        pairs are held at a time.
        """
        out = np.empty(len(pairs))
        rows = a.handle, b.handle, address(self._worths), trees.handle
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            some, here = pairs[start : start + _PAIRS_AT_ONCE], out[start : start + _PAIRS_AT_ONCE]
            asked = len(some), address(some), apart, workers(), address(here)
            kernel_library().kb_rows_odds(*rows, *asked)
        return out

    def evidence(self, a: Rows, b: Rows, pairs: RowPairs) -> FloatArray:
        """What the nearness of each attribute's values says of pairs of rows, nats, shape
        [attributes, pairs]; 0 if one lacks it."""
        out = np.zeros((len(self.worths), len(pairs)))
        rows = a.handle, b.handle, address(self._worths)
        kernel_library().kb_rows_evidence(*rows, len(pairs), address(pairs), address(out))
        return out


def _rows(
    table: RecordTable,
    tops: Sequence[FloatArray],
    held: tuple[IntArray, FloatArray],
    names: tuple[IntArray, IntArray],
    counts: IntArray,
    worths: Mapping[str, Worth],
    n: int,
) -> Rows:
    """Rows of a file of n fragments, or outside it.

    Args:
        table: the rows.
        tops: their greatest cosines by letters and by words, and greatest odds with candidates.
        held: of their clusters in the table of the fitted likelihood, and their measures.
        names: the numbers of the file's first names, and the fragments and rows that have each.
        counts: how many fragments state each row.
        worths: of the file's attributes.
        n: the number of the file's fragments.

    """
    named = at_numbers(*names, table.numbers("name"), 0.0)
    numbers = [
        *np.log1p(named),
        np.log((n + 1) / np.maximum(named[0], 1.0)),
        np.log(counts.astype(np.float64)),
        table.stated.astype(np.float64),
    ]
    rarities = {name: worth.rarity(table.columns[name]) for name, worth in worths.items()}
    letters, words, best = tops
    return Rows(table, letters, words, best, *held, np.stack(numbers), rarities)


_MOST_EQUAL_NAMES = 20_000


def _facts(file: File, said: Sequence[Statement], pairs: RowPairs) -> FloatArray:
    """`FILE_FEATURES` of a file, whose candidate pairs are given; 0 of an empty one."""
    rows, n = file.rows, int(file.counts.sum())
    if not n:
        return np.zeros(len(FILE_FEATURES))
    table, fitted = rows.table, file.learned
    numbers = table.numbers("name")
    equal = pairs[(numbers[pairs[:, 0]] == numbers[pairs[:, 1]]) & (numbers[pairs[:, 0]] != 0)]
    each = -(-len(equal) // _MOST_EQUAL_NAMES) or 1
    evidence = file.evidence(rows, rows, np.ascontiguousarray(equal[::each]))
    disputed = evidence.any(axis=0)
    contradict = (float((evidence.sum(axis=0)[disputed] < 0).sum()) + 1) / (disputed.sum() + 3)
    first = table.which[table.called[:-1]]
    functional = [worth.functional for worth in file.worths.values()] or [0.0]
    log_alpha = 0.0 if fitted is None else fitted.log_alpha
    odds = np.clip(rows.best_odds[:, 0], NO_ODDS, _MOST_ODDS) if fitted is not None else np.zeros(1)
    nearest = (np.maximum(tops[:, 0], 0.0) for tops in (rows.letters, rows.words))
    return np.array(
        [
            *(np.log1p(len(table)), len(file.names[0]) / len(table)),
            float(np.mean([len(one) for one in said])),
            float(table.names.count[first].mean()),
            *(np.log(n), n / len(table), float(np.diff(table.names.text.starts)[first].mean())),
            *(x for top in nearest for x in (top.mean(), *np.quantile(top, (0.25, 0.75)))),
            *(len(equal) / len(table), contradict),
            *(max(functional), float(np.mean(functional)), _entropy_of_values(file)),
            *(log_alpha, log_alpha - np.log(n)),
            *(float(odds.mean()), float((odds > log_alpha).mean())),
        ]
    )


_MOST_ODDS = 60.0


def _entropy_of_values(file: File) -> float:
    """The entropy of an attribute's values, 1 where all differ; the mean over attributes."""
    found = []
    for column in file.rows.table.columns.values():
        counts = np.bincount(column.which, file.counts, len(column.numbers))
        counts = counts[(column.numbers != 0) & (counts > 0)]
        if len(counts):
            share = counts / counts.sum()
            found.append(float(-(share * np.log(share)).sum() / np.log(max(counts.sum(), 2.0))))
    return float(np.mean(found)) if found else 0.0


def _fragment_of(said: Statement) -> Fragment:
    """A fragment that makes this statement."""
    said = said[1:] if table_of(said) else said
    return Fragment("", {attribute: tuple(value.split("\n")) for attribute, value in said})


def _digest(said: Statement) -> tuple[int, int]:
    text = "".join(f"{len(a)} {len(v)} {a}{v}" for a, v in said)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    first, second = np.frombuffer(digest, "<i8").tolist()
    return first, second


def _worths(
    table: RecordTable, nearest_by_words: FloatArray, counts: IntArray, pairs: RowPairs
) -> dict[str, Worth]:
    """The weights of the attributes in a file."""
    rng = np.random.default_rng(0)
    n = len(table)
    chance = rng.integers(n, size=(2, _CHANCE_PAIRS)) if n else np.zeros((2, 0), np.int64)
    best, bags = nearest_by_words[:, 0], np.array(table.all_text.addresses)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        some = pairs[start : start + _PAIRS_AT_ONCE]
        words = np.empty(len(some))
        kernel_library().kb_bags_cosines(address(bags), len(some), address(some), address(words))
        mutual = (words > _LEAST_TRUSTED) & (words >= best[some].max(axis=1) - _SAME)
        found.append(start + np.flatnonzero(mutual))
    trusted = np.concatenate(found)
    if len(trusted) > _MOST_TRUSTED:
        trusted = np.sort(rng.choice(trusted, _MOST_TRUSTED, replace=False))
    apart = chance[:, (chance[0] != chance[1]) & comparable(*table.linked[chance])]
    told = pairs[trusted], row_pairs(*apart)
    return {name: Worth.fitted(column, counts, *told) for name, column in table.columns.items()}
