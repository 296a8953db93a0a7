"""The features of a file's candidate pairs.

The inputs of features are frozen when the file is read: later rows change nothing in them.

*Features* describe two rows' names, their attributes, and the pair's rank among others. The weight
of an attribute is learned without labels (Fellegi and Sunter 1969): for each degree of nearness of
two values, it is the log ratio of its frequency among mutually nearest pairs, which are mostly one
entity, to that among random pairs. For equal values the rarity of the value replaces chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist
from scipy import sparse

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.numerics import at_numbers, spread
from kbforge_plugins.likelihoods.pairs.bags import (
    Part,
    PartReader,
    cosine,
    overlap,
    shared_counts,
)
from kbforge_plugins.likelihoods.pairs.known import KNOWN_FEATURES, known_features
from kbforge_plugins.likelihoods.pairs.near import (
    EQUAL_FORMS,
    NEAREST,
    WAYS,
    EqualForms,
    OtherScripts,
    attributes_compared,
    comparable,
    compared,
    narrowed,
    nearest,
    turned,
    unit_row,
)
from kbforge_plugins.likelihoods.pairs.table import (
    Column,
    NameForms,
    RecordTable,
    Statement,
    StatementReader,
    statement_of,
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
STANDING_FEATURES = tuple(
    f"{way} {what}"
    for way in WAYS
    for what in (*("rank least", "rank most", "gap least", "gap most", "near least", "near most"),)
)
SCRIPT_FEATURES = ("scripts differ", "consonants cosine")
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
    *KNOWN_FEATURES,
    *CODE_FEATURES,
    *ALL_TEXT_FEATURES,
    *AGREEMENT_FEATURES,
    *STANDING_FEATURES,
    *SCRIPT_FEATURES,
    *RARITY_FEATURES,
    *FILE_FEATURES,
)
_EQUAL = NAME_FEATURES.index("name equal")
_COSINE = NAME_FEATURES.index("name trigrams cosine")


def name_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`NAME_`, `DIGIT_` and `KNOWN_FEATURES` of the nearest two names of rows i and j."""
    pair, x, y = _named(a, i, b, j)
    both = x * len(b.names) + y
    _, first, whole = np.unique(both, return_index=True, return_inverse=True)
    x, y = x[first], y[first]
    features = np.stack(_features(a.names, x, b.names, y))
    whole = whole.ravel()
    if len(pair) > len(i):
        score = np.nan_to_num(features[_EQUAL]) * 2 + features[_COSINE]
        # among equally near names, the choice does not depend on which row is first
        numbers = np.stack([a.names.numbers["name"][x], b.names.numbers["name"][y]])
        low, high = numbers.min(axis=0)[whole], numbers.max(axis=0)[whole]
        order = np.lexsort((high, low, -score[whole], pair))
        best = order[np.concatenate([[True], np.diff(pair[order]) > 0])]
        whole = whole[best]
    return list(features[:, whole])


def _named(
    a: RecordTable, i: IntArray, b: RecordTable, j: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Every name of each i with every name of its j: the pair, and the places of both names."""
    of_a, pair_a = spread(a.called, i)
    x, y = a.which[of_a], b.which[b.called[j]]
    many = b.called[j + 1] - b.called[j]
    if len(pair_a) == len(i) == many.sum():
        return pair_a, x, y
    # each name of the one with all of the other's
    of_b, place = spread(b.called, j[pair_a])
    return pair_a[place], x[place], b.which[of_b]


def _features(a: NameForms, i: IntArray, b: NameForms, j: IntArray) -> list[FloatArray]:
    words = overlap(a.bags["words"], i, b.bags["words"], j)
    mass = np.stack([a.bags["words"].mass[i], b.bags["words"].mass[j]])
    _, *digits = overlap(a.bags["digits"], i, b.bags["digits"], j)
    texts = a.text.many(i), b.text.many(j)
    return [
        *(_equal(a, i, b, j, form) for form in ("name", "sorted", "compact", "bare")),
        cosine(a.bags["trigrams"], i, b.bags["trigrams"], j),
        words[0],
        cosine(a.bags["sounds"], i, b.bags["sounds"], j),
        *_similarities(a, i, b, j, *texts),
        *_masses(mass, *words[1:]),
        *_initials(a, i, b, j),
        *_sizes(a, i, b, j, *texts),
        digits[0],
        *_ordered(*digits[1:]),
        *known_features(*texts),
    ]


def _masses(
    mass: FloatArray, shared: FloatArray, only_a: FloatArray, only_b: FloatArray
) -> list[FloatArray]:
    """How much of the lighter and the heavier is covered, what is shared, and what is unmatched."""
    covered = np.divide(shared, mass, out=np.zeros_like(mass), where=mass > 0)
    return [*_ordered(*covered), shared, *_ordered(only_a, only_b)]


def _ordered(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The smaller and the larger."""
    return np.minimum(x, y), np.maximum(x, y)


def _equal(a: NameForms, i: IntArray, b: NameForms, j: IntArray, form: str) -> FloatArray:
    x, y = a.numbers[form][i], b.numbers[form][j]
    return np.where((x == 0) | (y == 0), np.nan, x == y).astype(np.float64)


def _similarities(
    a: NameForms, i: IntArray, b: NameForms, j: IntArray, text_a: list[str], text_b: list[str]
) -> list[FloatArray]:
    sorted_a, sorted_b = a.sorted.many(i), b.sorted.many(j)
    # a measure that has a direction gets the two names in an order of their own
    turned = (a.numbers["name"][i] > b.numbers["name"][j]).tolist()
    pairs = [(y, x) if t else (x, y) for x, y, t in zip(text_a, text_b, turned, strict=True)]
    return [
        _scores(fuzz.ratio, text_a, text_b) / 100,
        _scores(JaroWinkler.similarity, [x for x, _ in pairs], [y for _, y in pairs]),
        _scores(fuzz.ratio, sorted_a, sorted_b) / 100,
        _scores(fuzz.ratio, a.bare.many(i), b.bare.many(j)) / 100,
        _scores(fuzz.token_set_ratio, sorted_a, sorted_b) / 100,
    ]


def _scores(scorer: Any, x: Sequence[str], y: Sequence[str]) -> FloatArray:
    if not x:
        return np.zeros(0)
    return np.asarray(cpdist(x, y, scorer=scorer, workers=1), dtype=np.float64)


def _initials(a: NameForms, i: IntArray, b: NameForms, j: IntArray) -> list[FloatArray]:
    out = [_equal(a, i, b, j, "first"), _equal(a, i, b, j, "last")]
    met, unmet = np.zeros(len(i)), np.zeros(len(i))
    for one, x, other, y in ((a, i, b, j), (b, j, a, i)):
        single = one.letters["single"][x]
        full = other.letters["first"][y]
        met += np.bitwise_count((single & full).view(np.uint64))
        unmet += np.bitwise_count((single & ~full & ~other.letters["single"][y]).view(np.uint64))
    out += [met, unmet]
    acronym = np.zeros(len(i), dtype=bool)
    for one, x, other, y in ((a, i, b, j), (b, j, a, i)):
        written = other.numbers["compact"][y]
        for form in ("acronym", "short acronym"):
            made = one.numbers[form][x]
            acronym |= (made != 0) & (made == written)
    out.append(acronym.astype(np.float64))
    return out


def _sizes(
    a: NameForms, i: IntArray, b: NameForms, j: IntArray, text_a: list[str], text_b: list[str]
) -> list[FloatArray]:
    contained = [
        float(bool(x) and bool(y) and (x in y or y in x))
        for x, y in zip(text_a, text_b, strict=True)
    ]
    letters = _ordered(*(n.text.lengths(at).astype(np.float64) for n, at in ((a, i), (b, j))))
    count = _ordered(*(n.count[at].astype(np.float64) for n, at in ((a, i), (b, j))))
    return [np.array(contained), *letters, *count, count[1] - count[0]]


_BINS = np.array([0.5, 0.8, 1.0])
_MOST_EVIDENCE = 12.0
_SMOOTHING = 2.0
_SHARPNESS = 4
"""Exponent of a ratio of magnitudes: a difference of a twentieth gives about .8, the bound of
`_BINS`."""


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
    def fitted(
        cls,
        column: Column,
        counts: IntArray,
        trusted: tuple[IntArray, IntArray],
        chance: tuple[IntArray, IntArray],
    ) -> Worth:
        """Learn the weight from trusted pairs, which are mostly one entity, and random pairs."""
        stating = np.bincount(column.which, weights=counts, minlength=len(column.numbers))
        order = np.argsort(column.numbers)
        order = order[column.numbers[order] != 0]
        m, u = (_frequencies(column, i, j) for i, j in (trusted, chance))
        return cls(
            column.numbers[order],
            stating[order].astype(np.int64),
            np.log(m / u),
            float(np.clip((m[3] - u[3]) / (1 - u[3] + 1e-9), 0.0, 1.0)),
        )

    def dump(self) -> Part:
        """The form that `load` reads."""
        return {
            "values": self._values,
            "counts": self._count.astype(np.int64),
            "told": np.append(self.log_ratio, self.functional),
        }

    @classmethod
    def load(cls, kept: PartReader) -> Worth:
        """Load the form of `dump`."""
        values = kept.array("values", np.int64, -1)
        counts = kept.array("counts", np.int64, len(values), low=1)
        told = kept.array("told", np.float64, len(_BINS) + 2)
        return cls(values, counts, told[:-1], float(told[-1]))

    def compare(
        self, x: Column, i: IntArray, y: Column, j: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Nearness, rarity if equal, evidence and functional conflict, each [pairs]."""
        near = _nearness(x, i, y, j)
        equal = near >= 1.0
        # -log of the share of the statements with the value; a new value counts once
        count = at_numbers(self._values, self._count, x.value(i), 1.0)
        rarity = np.where(equal, np.log((self._total + 1) / count), 0.0)
        evidence = self.log_ratio[np.searchsorted(_BINS, near, side="right")]
        # an agreement tells at most how rare the value is
        most = np.minimum(rarity, np.maximum(evidence, 0.0) + 2.0)
        evidence = np.where(equal, most, evidence).clip(-_MOST_EVIDENCE, _MOST_EVIDENCE)
        return near, rarity, evidence, self.functional * (1.0 - near)


def _frequencies(column: Column, i: IntArray, j: IntArray) -> FloatArray:
    both = (column.value(i) != 0) & (column.value(j) != 0)
    near = _nearness(column, i[both], column, j[both])
    seen = np.bincount(np.searchsorted(_BINS, near, side="right"), minlength=4)[:4]
    frequencies = (seen + _SMOOTHING * np.full(4, 0.25)) / (seen.sum() + _SMOOTHING)
    return np.asarray(frequencies, dtype=np.float64)


def _nearness(a: Column, i: IntArray, b: Column, j: IntArray) -> FloatArray:
    """The nearness of values, from 0 to 1, which only equal values reach, shape [pairs]."""
    if not len(i):
        return np.zeros(0)
    pairs = a.which[i] * len(b.numbers) + b.which[j]
    different, whole = np.unique(pairs, return_inverse=True)
    i, j = different // len(b.numbers), different % len(b.numbers)
    letters = _scores(fuzz.ratio, a.text.many(i), b.text.many(j)) / 100
    near = np.maximum(letters, cosine(a.bags, i, b.bags, j))
    if len(a.amounts) and len(b.amounts):
        near = _by_ratio(a.amounts[i], b.amounts[j], near)
    near = np.where(a.numbers[i] == b.numbers[j], 1.0, np.minimum(near, 0.99))
    return near[whole]


def _by_ratio(x: FloatArray, y: FloatArray, otherwise: FloatArray) -> FloatArray:
    """The nearness of magnitudes; if one has no number, the given nearness."""
    least, most = _ordered(x, y)
    ratio = np.divide(least, most, out=np.ones_like(most), where=(least >= 0) & (most > 0))
    return np.where(least < 0, otherwise, ratio**_SHARPNESS)


def agreement_features(
    a: RecordTable, i: IntArray, b: RecordTable, j: IntArray, worths: Mapping[str, Worth]
) -> list[FloatArray]:
    """`AGREEMENT_FEATURES` of rows i of the first table and j of the second."""
    n = len(i)
    sums = {name: np.zeros(n) for name in AGREEMENT_FEATURES}
    sums["nearness least"] += 2.0
    for name, worth in worths.items():
        x, y = a.columns[name], b.columns[name]
        in_i, in_j = x.value(i) != 0, y.value(j) != 0
        sums["one stated"] += in_i != in_j
        at = np.flatnonzero(in_i & in_j)
        if not len(at):
            continue
        near, rarity, evidence, conflict = worth.compare(x, i[at], y, j[at])
        for key, more in (
            ("both stated", 1.0),
            ("equal values", near >= 1.0),
            ("different values", near < _BINS[0]),
            ("evidence", evidence),
            ("evidence for", evidence.clip(min=0)),
            ("evidence against", evidence.clip(max=0)),
            ("rarity of equal", rarity),
            ("nearness mean", near),
            ("functional conflict", conflict),
        ):
            sums[key][at] += more
        for key, pick, value in (
            ("evidence for most", np.maximum, evidence),
            ("evidence against most", np.minimum, evidence),
            ("rarity of equal most", np.maximum, rarity),
            ("nearness least", np.minimum, near),
            ("nearness most", np.maximum, near),
        ):
            sums[key][at] = pick(sums[key][at], value)
    both = sums["both stated"]
    none = both == 0
    sums["nearness mean"] = np.divide(sums["nearness mean"], both, out=np.zeros(n), where=~none)
    for key in ("nearness mean", "nearness least", "nearness most"):
        sums[key][none] = np.nan
    return list(sums.values())


def all_text_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`ALL_TEXT_FEATURES`: the words shared by all values."""
    cosines, *common = overlap(a.all_text, i, b.all_text, j)
    return [cosines, *_masses(np.stack([a.all_text.mass[i], b.all_text.mass[j]]), *common)]


_LEAST_CONTAINED = 5  # characters of a code that is looked for in another record


def code_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`CODE_FEATURES`: model numbers, sizes and other figures, from any attribute."""
    _, shared, only_a, only_b = overlap(a.codes["codes"], i, b.codes["codes"], j)
    sizes = [np.diff(table.codes["codes"].starts)[at] for table, at in ((a, i), (b, j))]
    contained = np.zeros(len(i))
    for one, x, only, other, y in ((a, i, only_a, b, j), (b, j, only_b, a, i)):
        at = np.flatnonzero(only > 0)
        rows = x[at].tolist()
        codes = {
            row: [code for code in one.coded[row].split() if len(code) >= _LEAST_CONTAINED]
            for row in {*rows}
        }
        for pair, row, text in zip(at.tolist(), rows, other.spelt.many(y[at]), strict=True):
            if found := [code for code in codes[row] if code in text]:
                theirs = other.coded[int(y[pair])].split()
                contained[pair] += sum(code not in theirs for code in found)
    equal, measures = (
        shared_counts(a.codes[kind], i, b.codes[kind], j) for kind in ("units", "measures")
    )
    _, figures, *single = overlap(a.codes["figures"], i, b.codes["figures"], j)
    return [
        *((sizes[0] > 0).astype(np.float64) + (sizes[1] > 0), shared, *_ordered(only_a, only_b)),
        *(contained, equal, np.maximum(measures - equal, 0.0)),
        *(figures, *_ordered(*single)),
    ]


def _by_letters(
    a: RecordTable, i: IntArray, b: RecordTable, j: IntArray, nearest_names: FloatArray
) -> FloatArray:
    """The cosine of all names of rows, given that of their nearest names."""
    several = np.flatnonzero((np.diff(a.called)[i] > 1) | (np.diff(b.called)[j] > 1))
    out = nearest_names.copy()
    out[several] = cosine(a.trigrams, i[several], b.trigrams, j[several])
    return out


def _by_consonants(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> FloatArray:
    """The cosine of the consonants of all names of rows; each two names are compared once."""
    # a row of several names stands for itself
    one, other = (
        np.where(np.diff(table.called)[rows] > 1, len(table.names) + rows, first)
        for table, rows in ((a, i), (b, j))
        for first in (table.which[table.called[rows]],)
    )
    width = len(b.names) + len(b)
    _, first, whole = np.unique(one * width + other, return_index=True, return_inverse=True)
    return cosine(a.consonants, i[first], b.consonants, j[first])[whole]


_CLOSE = 0.08
_SAME = 1e-9


def _standing(tops: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The number of nearer rows, the gap to the best other row, and the number of about equally
    near rows."""
    better = (tops > value[:, None] + _SAME).sum(axis=1).astype(np.float64)
    best = tops.max(axis=1, initial=-1.0)
    second = tops[:, 1] if tops.shape[1] > 1 else np.full(len(tops), -1.0)
    others = np.where(value >= best - _SAME, second, best)
    gap = value - np.maximum(others, 0.0)
    near = (np.abs(tops - value[:, None]) <= _CLOSE).sum(axis=1).astype(np.float64)
    return better, gap, near


_PAIRS_AT_ONCE = 1 << 15
_CHANCE_PAIRS = 4000
_MOST_TRUSTED = 20_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows with all inputs for describing pairs of them."""

    table: RecordTable
    letters: FloatArray  # the greatest cosines with rows of the file, -1 for none, [rows, nearest]
    words: FloatArray  # the same by words
    named: FloatArray  # fragments of the file that have the row's name, and rows, shape [2, rows]
    seen: FloatArray  # fragments of the file that state the same, at least 1

    @classmethod
    def joined(cls, some: Sequence[Rows]) -> Rows:
        """All rows of several collections, in order."""
        return cls(
            RecordTable.joined([one.table for one in some]),
            np.concatenate([one.letters for one in some]),
            np.concatenate([one.words for one in some]),
            np.concatenate([one.named for one in some], axis=1),
            np.concatenate([one.seen for one in some]),
        )


class File:
    """The statements of a file: their digests, shape [rows, 2], and fragments by row.

    `names` are the numbers of the first names, ascending, and how many fragments and rows have
    each, shape [2, names]; `facts` are the `FILE_FEATURES`.
    """

    def __init__(
        self,
        reader: StatementReader,
        digests: IntArray,
        counts: IntArray,
        rows: Rows,
        names: tuple[IntArray, IntArray],
        facts: FloatArray,
        worths: Mapping[str, Worth],
    ) -> None:
        self._reader, self._digests, self._names, self._facts = reader, digests, names, facts
        self.counts, self.rows, self.worths = counts, rows, worths
        self._n = int(counts.sum())
        self._order = np.argsort(digests[:, 0], kind="stable")
        self._first = digests[self._order, 0]

    @classmethod
    def fitted(
        cls, fragments: Sequence[Fragment], link: str | None = None
    ) -> tuple[File, IntArray]:
        """A file, and its candidate pairs of rows, i < j, ascending, shape [pairs, 2].

        If fragments that share a value of `link` are different entities, each row belongs to a
        table, and rows of one table are not compared.
        """
        counted = Counter(statement_of(fragment, link) for fragment in fragments)
        said = sorted(counted)
        counts = np.array([counted[one] for one in said], dtype=np.int64)
        reader, table = StatementReader.fitted(said, counts)
        numbers, which = np.unique(table.numbers("name"), return_inverse=True)
        of_name = [np.bincount(which, some, len(numbers)) for some in (counts, None)]
        names = numbers, np.stack(of_name).astype(np.int64)
        tops, pairs = compared(table)
        bits = attributes_compared(table, reader.naming)
        pairs = pairs[(bits[pairs[:, 0]] & bits[pairs[:, 1]]) != 0]
        named = at_numbers(*names, table.numbers("name"), 0.0)
        rows = Rows(table, *tops, named, counts.astype(np.float64))
        facts = np.array(
            [
                np.log1p(len(table)),
                len(numbers) / max(len(table), 1),
                float(np.mean([len(one) for one in said])) if said else 0.0,
                float(table.names.count[table.which[table.called[:-1]]].mean()) if said else 0.0,
            ]
        )
        digests = np.array([_digest(one) for one in said], dtype=np.int64).reshape(-1, 2)
        worths = _worths(rows, counts, pairs)
        return cls(reader, digests, counts, rows, names, facts, worths), pairs

    @property
    def naming(self) -> tuple[str, ...]:
        """The attributes that name a fragment."""
        return self._reader.naming

    def dump(self) -> Part:
        """The form that `load` reads."""
        rows, (numbers, counts) = self.rows, self._names
        return {
            "reader": self._reader.dump(),
            "statements": self._digests,
            "fragments": self.counts,
            "table": rows.table.dump(),
            "standings": {way: getattr(rows, way) for way in WAYS},
            "called": {"numbers": numbers, "counts": counts},
            "facts": self._facts,
            "worths": {str(at): worth.dump() for at, worth in enumerate(self.worths.values())},
        }

    @classmethod
    def load(cls, kept: PartReader) -> File:
        """Load the form of `dump`."""
        reader = StatementReader.load(kept.part("reader"))
        digests = kept.array("statements", np.int64, -1, 2)
        n = len(digests)
        counts = kept.array("fragments", np.int64, n, low=1)
        table = RecordTable.load(kept.part("table"), reader.weights, reader.columns)
        if len(table) != n:
            raise kept.damaged("table", f"{n:,} rows", f"{len(table):,}")
        letters, words = (kept.part("standings").array(way, np.float64, n, NEAREST) for way in WAYS)
        numbers = kept.part("called").array("numbers", np.int64, -1)
        names = numbers, kept.part("called").array("counts", np.int64, 2, len(numbers), low=1)
        named = at_numbers(*names, table.numbers("name"), 0.0)
        rows = Rows(table, letters, words, named, counts.astype(np.float64))
        facts = kept.array("facts", np.float64, len(FILE_FEATURES))
        worths = {
            name: Worth.load(kept.part(f"worths/{at}")) for at, name in enumerate(reader.columns)
        }
        return cls(reader, digests, counts, rows, names, facts, worths)

    def row(self, said: Statement) -> int | None:
        """The row of a statement; None if it is not in the file."""
        first, second = _digest(said)
        at = int(np.searchsorted(self._first, first))
        while at < len(self._first) and self._first[at] == first:
            row = int(self._order[at])
            if self._digests[row, 1] == second:
                return row
            at += 1
        return None

    @cached_property
    def _by_column(self) -> tuple[sparse.csr_array, ...]:
        table = self.rows.table
        return tuple(turned(narrowed(bags)) for bags in (table.trigrams, table.all_text))

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
        table = self._reader.table([said])
        tops, near = [], set[int]()
        tables = table.linked, self.rows.table.linked
        for bags, by_column in zip((table.trigrams, table.all_text), self._by_column, strict=True):
            top = np.full((1, NEAREST), -1.0)
            for _, found, value in nearest(unit_row(bags), by_column, tables, other=False):
                top[0, : len(found)] = value
                near.update(found.tolist())
            tops.append(top)
        row, script = unit_row(table.consonants), int(table.script[0])
        for _, found in self._other_scripts.nearest_to(row, table.linked, script):
            near.update(found.tolist())
        for forms in EQUAL_FORMS:
            for mine, theirs in {forms, forms[::-1]}:
                numbers = table.names.numbers[mine][table.which]
                near.update(row for _, row in self._forms[theirs].equal_to(numbers))
        named = at_numbers(*self._names, table.numbers("name"), 0.0)
        found = np.array(sorted(near), dtype=np.int64)
        found = found[comparable(table.linked, self.rows.table.linked[found])]
        found = found[(self.compared[found] & attributes_compared(table, self.naming)) != 0]
        letters, words = tops
        return Rows(table, letters, words, named, np.ones(1)), found

    def describe(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        """`FEATURES` of rows i of the first and j of the second, shape [pairs, features]."""
        if 0 < len(i) <= _PAIRS_AT_ONCE:
            return self._describe_block(a, i, b, j)
        parts = (slice(k, k + _PAIRS_AT_ONCE) for k in range(0, len(i), _PAIRS_AT_ONCE))
        blocks = [self._describe_block(a, i[part], b, j[part]) for part in parts]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(FEATURES)))

    def _describe_block(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        names = name_features(a.table, i, b.table, j)
        all_text = all_text_features(a.table, i, b.table, j)
        agreement = agreement_features(a.table, i, b.table, j, self.worths)
        letters = _by_letters(a.table, i, b.table, j, names[_COSINE])
        codes = code_features(a.table, i, b.table, j)
        consonants = _by_consonants(a.table, i, b.table, j)
        features = [*names, *codes, *all_text, *agreement]
        for tops, value in (
            ((a.letters[i], b.letters[j]), letters),
            ((a.words[i], b.words[j]), all_text[0]),
        ):
            parts = [_standing(one, value) for one in tops]
            features += [one for two in zip(*parts, strict=True) for one in _ordered(*two)]
        features += [(a.table.script[i] != b.table.script[j]).astype(np.float64), consonants]
        for x, y in (
            *((np.log1p(a.named[which, i]), np.log1p(b.named[which, j])) for which in (0, 1)),
            (self._rarity(a, i), self._rarity(b, j)),
            (np.log(a.seen[i]), np.log(b.seen[j])),
            (a.table.stated[i].astype(np.float64), b.table.stated[j].astype(np.float64)),
        ):
            features += _ordered(x, y)
        return np.stack([*features, *(np.full(len(i), fact) for fact in self._facts)], axis=1)

    def _rarity(self, rows: Rows, at: IntArray) -> FloatArray:
        rarity: FloatArray = np.log((self._n + 1) / np.maximum(rows.named[0, at], 1.0))
        return rarity


def _digest(said: Statement) -> tuple[int, int]:
    text = "".join(f"{len(a)} {len(v)} {a}{v}" for a, v in said)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    return (
        int.from_bytes(digest[:8], "little", signed=True),
        int.from_bytes(digest[8:], "little", signed=True),
    )


def _worths(rows: Rows, counts: IntArray, pairs: IntArray) -> dict[str, Worth]:
    """The weights of the attributes in a file."""
    table = rows.table
    rng = np.random.default_rng(0)
    n = len(table)
    chance = rng.integers(n, size=(2, _CHANCE_PAIRS)) if n else np.zeros((2, 0), np.int64)
    i, j = pairs.T
    words = np.zeros(len(i))
    for start in range(0, len(i), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        words[part] = cosine(table.all_text, i[part], table.all_text, j[part])
    best = rows.words[:, 0]
    mutual = (words > 0.2) & (words >= best[i] - _SAME) & (words >= best[j] - _SAME)
    trusted = np.flatnonzero(mutual)
    if len(trusted) > _MOST_TRUSTED:
        trusted = np.sort(rng.choice(trusted, _MOST_TRUSTED, replace=False))
    apart = chance[:, (chance[0] != chance[1]) & comparable(*table.linked[chance])]
    return {
        name: Worth.fitted(column, counts, (i[trusted], j[trusted]), (apart[0], apart[1]))
        for name, column in table.columns.items()
    }
