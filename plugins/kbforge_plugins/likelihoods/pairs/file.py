"""A file as the pair model describes it: candidate pairs, and the features of a pair.

All that features read is frozen when the file is read: later rows change nothing in it.

*Candidates* are the nearest rows by letters and by words, and rows with equal forms of a name.
Nearness is the cosine of rows of weights, found by sparse products. Columns that many rows have
are left out, rarest first until the allowed work is spent.

*Features* describe two rows' names, their attributes, and the pair's rank among others. The worth
of an attribute is learned without labels (Fellegi and Sunter 1969): by how near two values are, the
log ratio of its frequency among pairs that are each other's nearest, which are mostly one entity,
and among random pairs. For equal values the rarity of the value takes the place of chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist
from scipy import sparse

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge_plugins.indexes.hashed import at_numbers, spread
from kbforge_plugins.likelihoods.pairs.bags import (
    Bags,
    Part,
    PartReader,
    cosine,
    overlap,
    shared_counts,
)
from kbforge_plugins.likelihoods.pairs.known import KNOWN_FEATURES, known_features
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
SOUP_FEATURES = (
    *("all words cosine", "all words covered least", "all words covered most"),
    *("all words shared mass", "all words unmatched least", "all words unmatched most"),
)
WAYS = ("letters", "words", "consonants")
"""In which a row is near to others."""
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
    *SOUP_FEATURES,
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
    """How much of the lighter and heavier is covered, what is shared, and what is unmatched."""
    covered = np.divide(shared, mass, out=np.zeros_like(mass), where=mass > 0)
    return [*_ordered(*covered), shared, *_ordered(only_a, only_b)]


def _ordered(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lesser and the larger."""
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
"""The power of a ratio of magnitudes: a twentieth less is near .8, the bound of `_BINS`."""


class Worth:
    """What agreement and conflict in one attribute are worth in one file.

    `log_ratio` is in nats, by bin of nearness; `functional` says how much more often the trusted
    agree than chance does, from 0 to 1.
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
        """What it is worth, from trusted pairs, which are mostly one entity, and random pairs."""
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

    def kept(self) -> Part:
        """What `taken` reads."""
        return {
            "values": self._values,
            "counts": self._count.astype(np.int64),
            "told": np.append(self.log_ratio, self.functional),
        }

    @classmethod
    def taken(cls, kept: PartReader) -> Worth:
        """Read what `kept` gives."""
        values = kept.array("values", np.int64, -1)
        counts = kept.array("counts", np.int64, len(values), low=1)
        told = kept.array("told", np.float64, len(_BINS) + 2)
        return cls(values, counts, told[:-1], float(told[-1]))

    def compare(
        self, x: Column, i: IntArray, y: Column, j: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Nearness, rarity where equal, evidence and functional conflict, each [pairs]."""
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
    """How near values are, from 0 to 1, which only equal values reach, shape [pairs]."""
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
    """How near magnitudes are; where one of them has no number, what is given."""
    least, most = _ordered(x, y)
    ratio = np.divide(least, most, out=np.ones_like(most), where=(least >= 0) & (most > 0))
    return np.where(least < 0, otherwise, ratio**_SHARPNESS)


def agreement_features(
    a: RecordTable, i: IntArray, b: RecordTable, j: IntArray, worths: Mapping[str, Worth]
) -> list[FloatArray]:
    """`AGREEMENT_FEATURES` of rows i of one table and j of another."""
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


def soup_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`SOUP_FEATURES`: what the words of all values have in common, whatever their attributes."""
    cosines, *common = overlap(a.soup, i, b.soup, j)
    return [cosines, *_masses(np.stack([a.soup.mass[i], b.soup.mass[j]]), *common)]


_LEAST_CONTAINED = 5  # characters of a code that is looked for in another record


def code_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`CODE_FEATURES`: model numbers, sizes and other figures, wherever the records state them."""
    _, shared, only_a, only_b = overlap(a.codes["codes"], i, b.codes["codes"], j)
    sizes = [np.diff(table.codes["codes"].starts)[at] for table, at in ((a, i), (b, j))]
    contained = np.zeros(len(i))
    for one, x, only, other, y in ((a, i, only_a, b, j), (b, j, only_b, a, i)):
        at = np.flatnonzero(only > 0)
        mine, theirs = (table.coded.many(row[at]) for table, row in ((one, x), (other, y)))
        for pair, codes, others, text in zip(
            at.tolist(), mine, theirs, other.spelt.many(y[at]), strict=True
        ):
            unmatched = {*codes.split()} - {*others.split()}
            contained[pair] += sum(len(c) >= _LEAST_CONTAINED and c in text for c in unmatched)
    equal, measures = (
        shared_counts(a.codes[kind], i, b.codes[kind], j) for kind in ("units", "measures")
    )
    _, figures, *single = overlap(a.codes["figures"], i, b.codes["figures"], j)
    return [
        *((sizes[0] > 0).astype(np.float64) + (sizes[1] > 0), shared, *_ordered(only_a, only_b)),
        *(contained, equal, np.maximum(measures - equal, 0.0)),
        *(figures, *_ordered(*single)),
    ]


_CLOSE = 0.08
_SAME = 1e-9


def _standing(nearest: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How many rows are nearer, the gap to the best other row, and how many are about as near."""
    better = (nearest > value[:, None] + _SAME).sum(axis=1).astype(np.float64)
    best = nearest.max(axis=1, initial=-1.0)
    second = nearest[:, 1] if nearest.shape[1] > 1 else np.full(len(nearest), -1.0)
    others = np.where(value >= best - _SAME, second, best)
    gap = value - np.maximum(others, 0.0)
    near = (np.abs(nearest - value[:, None]) <= _CLOSE).sum(axis=1).astype(np.float64)
    return better, gap, near


_NEAREST = 24  # rows that a row is compared with, by letters and by words
_NEAREST_ACROSS = 8  # rows in other scripts that it is compared with, by consonants
_LEAST_ACROSS = 0.15
_EQUAL_FORMS = (  # two rows with these forms of names equal are candidates
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
_WORK_A_ROW = 20_000
_ROWS_AT_ONCE = 1024
_MOST_EQUAL = 50
_LEAST_COSINE = 0.08


def _narrowed(bags: Bags) -> sparse.csr_array:
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


def _turned(rows: sparse.csr_array) -> sparse.csr_array:
    """By column, the rows that have it, as `_nearest` reads them."""
    return sparse.csr_array(rows.T)


def _nearest(
    rows: sparse.csr_array, among: sparse.csr_array, tables: tuple[IntArray, IntArray], other: bool
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """For each row, those nearest to it and their cosines, the nearest first.

    `among` is by column, shape [columns, all]; if `other`, row k of `rows` is its row k, left out.
    `tables` are those of the rows and of all; rows of one linked table are not compared.
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
            if tables[0][start + k]:
                keep &= tables[1][found] != tables[0][start + k]
            found, value = found[keep].astype(np.int64), value[keep]
            if len(found) > _NEAREST:
                some = np.argpartition(-value, _NEAREST - 1)
                least = value[some[_NEAREST - 1]]
                some = np.flatnonzero(value >= least)
                found, value = found[some], value[some]
            order = np.lexsort((found, -value))[:_NEAREST]
            yield start + k, found[order], value[order]


class _OtherScripts:
    """By script, the rows of a table in other scripts, by the consonants of their names."""

    def __init__(self, table: RecordTable) -> None:
        self._script, self._linked = table.script, table.linked
        self._unit = _narrowed(table.consonants)
        self._scripts = np.unique(self._script).tolist()
        self._others: dict[int, tuple[IntArray, sparse.csr_array]] = {}  # cache

    def nearest(self) -> Iterator[tuple[int, IntArray, FloatArray]]:
        """For each row of the table, those nearest to it and their cosines, the nearest first."""
        for script in self._scripts if len(self._scripts) > 1 else ():
            mine = np.flatnonzero(self._script == script)
            linked = self._linked[mine]
            for row, found, value in self.nearest_to(self._unit[mine], linked, script):
                yield int(mine[row]), found, value

    def nearest_to(
        self, rows: sparse.csr_array, linked: IntArray, script: int
    ) -> Iterator[tuple[int, IntArray, FloatArray]]:
        """The same for unit rows of these tables, all in one script."""
        if script not in self._others:
            others = np.flatnonzero(self._script != script)
            self._others[script] = others, _turned(self._unit[others])
        others, by_column = self._others[script]
        tables = linked, self._linked[others]
        for row, found, value in _nearest(rows, by_column, tables, other=False):
            yield row, others[found], value


class _EqualForms:
    """An index of the names of a table by one of their forms."""

    def __init__(self, table: RecordTable, form: str) -> None:
        keys = table.names.numbers[form][table.which]
        # equal names keep the order of the table
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._rows = np.repeat(np.arange(len(table)), np.diff(table.called))[order]

    def equal_in(self, table: RecordTable, mine: str) -> Iterator[tuple[int, int]]:
        """Pairs of rows where this form of the one is the indexed form of the other.

        Where many rows share a form, each is compared with the next ones only.
        """
        rows = np.repeat(np.arange(len(table)), np.diff(table.called))
        wanted = table.names.numbers[mine][table.which]
        left = np.searchsorted(self._keys, wanted, side="left")
        right = np.searchsorted(self._keys, wanted, side="right")
        for at in np.flatnonzero((right > left) & (wanted != 0)).tolist():
            row, start, end = int(rows[at]), int(left[at]), int(right[at])
            if end - start > _MOST_EQUAL:  # start at the row itself
                start += int(np.searchsorted(self._rows[start:end], row))
            for other in self._rows[start : min(end, start + _MOST_EQUAL)].tolist():
                if other != row:
                    yield row, other

    def equal_to(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        """For each form in `numbers`, its place and the first rows with an equal form."""
        left = np.searchsorted(self._keys, numbers, side="left").tolist()
        right = np.searchsorted(self._keys, numbers, side="right").tolist()
        for place in np.flatnonzero(numbers).tolist():
            end = min(right[place], left[place] + _MOST_EQUAL)
            for row in self._rows[left[place] : end].tolist():
                yield place, row


_PAIRS_AT_ONCE = 1 << 15
_CHANCE_PAIRS = 4000
_MOST_TRUSTED = 20_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows with all that pairs of them are described by."""

    table: RecordTable
    letters: FloatArray  # the greatest cosines with rows of the file, -1 for none, [rows, nearest]
    words: FloatArray  # the same by words
    consonants: FloatArray  # the same by consonants with rows in other scripts
    named: FloatArray  # fragments of the file that have the row's name, and rows, shape [2, rows]
    seen: FloatArray  # fragments of the file that state the same, at least 1

    @classmethod
    def joined(cls, some: Sequence[Rows]) -> Rows:
        """All rows of several, in order."""
        return cls(
            RecordTable.joined([one.table for one in some]),
            np.concatenate([one.letters for one in some]),
            np.concatenate([one.words for one in some]),
            np.concatenate([one.consonants for one in some]),
            np.concatenate([one.named for one in some], axis=1),
            np.concatenate([one.seen for one in some]),
        )


_Tops: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""The cosines of the nearest rows in each of `WAYS`, -1 for none, each [rows, nearest]."""


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

        If fragments that share a value of `link` are different entities, rows are of tables, and
        those of one table are not compared.
        """
        counted = Counter(statement_of(fragment, link) for fragment in fragments)
        said = sorted(counted)
        counts = np.array([counted[one] for one in said], dtype=np.int64)
        reader, table = StatementReader.fitted(said)
        numbers, which = np.unique(table.numbers("name"), return_inverse=True)
        of_name = [np.bincount(which, some, len(numbers)) for some in (counts, None)]
        names = numbers, np.stack(of_name).astype(np.int64)
        tops, pairs = _compared(table)
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

    def kept(self) -> Part:
        """What `taken` reads."""
        rows, (numbers, counts) = self.rows, self._names
        return {
            "reader": self._reader.kept(),
            "statements": self._digests,
            "fragments": self.counts,
            "table": rows.table.kept(),
            "standings": {way: getattr(rows, way) for way in WAYS},
            "called": {"numbers": numbers, "counts": counts},
            "facts": self._facts,
            "worths": {str(at): worth.kept() for at, worth in enumerate(self.worths.values())},
        }

    @classmethod
    def taken(cls, kept: PartReader) -> File:
        """Read what `kept` gives."""
        reader = StatementReader.taken(kept.part("reader"))
        digests = kept.array("statements", np.int64, -1, 2)
        n = len(digests)
        counts = kept.array("fragments", np.int64, n, low=1)
        table = RecordTable.taken(kept.part("table"), reader.weights, reader.columns)
        if len(table) != n:
            raise kept.damaged("table", f"expected {n:,} rows, got {len(table):,}")
        letters, words, consonants = (
            kept.part("standings").array(way, np.float64, n, _NEAREST) for way in WAYS
        )
        numbers = kept.part("called").array("numbers", np.int64, -1)
        names = numbers, kept.part("called").array("counts", np.int64, 2, len(numbers), low=1)
        named = at_numbers(*names, table.numbers("name"), 0.0)
        rows = Rows(table, letters, words, consonants, named, counts.astype(np.float64))
        facts = kept.array("facts", np.float64, len(FILE_FEATURES))
        worths = {
            name: Worth.taken(kept.part(f"worths/{at}")) for at, name in enumerate(reader.columns)
        }
        return cls(reader, digests, counts, rows, names, facts, worths)

    def row(self, said: Statement) -> int | None:
        """The row of a statement; None if the file does not have it."""
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
        return tuple(_turned(_narrowed(bags)) for bags in (table.trigrams, table.soup))

    @cached_property
    def _other_scripts(self) -> _OtherScripts:
        return _OtherScripts(self.rows.table)

    @cached_property
    def _forms(self) -> dict[str, _EqualForms]:
        forms = sorted({form for both in _EQUAL_FORMS for form in both})
        return {form: _EqualForms(self.rows.table, form) for form in forms}

    def placed(self, said: Statement) -> tuple[Rows, IntArray]:
        """The row of a statement that the file does not have, and the rows of the file near it."""
        table = self._reader.table([said])
        tops, near = [], set[int]()
        tables = table.linked, self.rows.table.linked
        for bags, by_column in zip((table.trigrams, table.soup), self._by_column, strict=True):
            top = np.full((1, _NEAREST), -1.0)
            for _, found, value in _nearest(_unit_row(bags), by_column, tables, other=False):
                top[0, : len(found)] = value
                near.update(found.tolist())
            tops.append(top)
        top = np.full((1, _NEAREST), -1.0)
        row, script = _unit_row(table.consonants), int(table.script[0])
        for _, found, value in self._other_scripts.nearest_to(row, table.linked, script):
            top[0, : len(found)] = value
            near.update(found[value >= _LEAST_ACROSS][:_NEAREST_ACROSS].tolist())
        tops.append(top)
        for forms in _EQUAL_FORMS:
            for mine, theirs in {forms, forms[::-1]}:
                numbers = table.names.numbers[mine][table.which]
                near.update(row for _, row in self._forms[theirs].equal_to(numbers))
        named = at_numbers(*self._names, table.numbers("name"), 0.0)
        found = np.array(sorted(near), dtype=np.int64)
        found = found[comparable(table.linked, self.rows.table.linked[found])]
        letters, words, consonants = tops
        return Rows(table, letters, words, consonants, named, np.ones(1)), found

    def describe(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        """`FEATURES` of rows i of the one and j of the other, shape [pairs, features]."""
        parts = (slice(k, k + _PAIRS_AT_ONCE) for k in range(0, len(i), _PAIRS_AT_ONCE))
        blocks = [self._describe_block(a, i[part], b, j[part]) for part in parts]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(FEATURES)))

    def _describe_block(self, a: Rows, i: IntArray, b: Rows, j: IntArray) -> FloatArray:
        names = name_features(a.table, i, b.table, j)
        soup = soup_features(a.table, i, b.table, j)
        agreement = agreement_features(a.table, i, b.table, j, self.worths)
        letters = cosine(a.table.trigrams, i, b.table.trigrams, j)
        codes = code_features(a.table, i, b.table, j)
        consonants = cosine(a.table.consonants, i, b.table.consonants, j)
        features = [*names, *codes, *soup, *agreement]
        for nearest, value in (
            ((a.letters[i], b.letters[j]), letters),
            ((a.words[i], b.words[j]), soup[0]),
            ((a.consonants[i], b.consonants[j]), consonants),
        ):
            parts = [_standing(one, value) for one in nearest]
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


def _unit_row(bags: Bags) -> sparse.csr_array:
    """The one row of these bags, its columns backwards."""
    columns, weights = bags.backwards()
    return sparse.csr_array((weights, columns, bags.starts), shape=(1, len(bags.weight)))


def _compared(table: RecordTable) -> tuple[_Tops, IntArray]:
    """The cosines of the nearest rows in each of `WAYS`, and the candidate pairs."""
    n, tables = len(table), (table.linked, table.linked)
    keys: list[IntArray] = [np.zeros(0, np.int64)]
    tops = []
    for bags in (table.trigrams, table.soup):
        narrow = _narrowed(bags)
        top = np.full((n, _NEAREST), -1.0)
        others = np.full((n, _NEAREST), -1, dtype=np.int64)
        for row, found, value in _nearest(narrow, _turned(narrow), tables, other=True):
            top[row, : len(found)] = value
            others[row, : len(found)] = found
        one, place = np.nonzero(others >= 0)
        keys.append(_pair_numbers(one, others[one, place], n))
        tops.append(top)
    top = np.full((n, _NEAREST), -1.0)
    for row, found, value in _OtherScripts(table).nearest():
        top[row, : len(found)] = value
        near = found[value >= _LEAST_ACROSS][:_NEAREST_ACROSS]
        keys.append(_pair_numbers(np.full(len(near), row), near, n))
    tops.append(top)
    for mine, theirs in _EQUAL_FORMS:
        some = np.array(list(_EqualForms(table, theirs).equal_in(table, mine)), dtype=np.int64)
        i, j = some.reshape(-1, 2).T
        keys.append(_pair_numbers(i, j, n))
    flat = np.unique(np.concatenate(keys))
    pairs = np.stack([flat // max(n, 1), flat % max(n, 1)], axis=1)
    letters, words, consonants = tops
    return (letters, words, consonants), pairs[comparable(*table.linked[pairs].T)]


def comparable(one: IntArray, other: IntArray) -> NDArray[np.bool_]:
    """Whether rows of these linked tables may be one entity."""
    may: NDArray[np.bool_] = (one != other) | (one == 0)
    return may


def _pair_numbers(i: IntArray, j: IntArray, n: int) -> IntArray:
    """One number for each pair of n rows."""
    return np.minimum(i, j) * n + np.maximum(i, j)


def _worths(rows: Rows, counts: IntArray, pairs: IntArray) -> dict[str, Worth]:
    """What the attributes are worth in a file."""
    table = rows.table
    rng = np.random.default_rng(0)
    n = len(table)
    chance = rng.integers(n, size=(2, _CHANCE_PAIRS)) if n else np.zeros((2, 0), np.int64)
    i, j = pairs.T
    words = np.zeros(len(i))
    for start in range(0, len(i), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        words[part] = cosine(table.soup, i[part], table.soup, j[part])
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
