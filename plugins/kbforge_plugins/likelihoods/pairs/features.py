"""Features of a pair of rows: their names, their attributes, and how the pair ranks among others.

*Attributes.* An attribute's worth is learned from the file without labels, after Fellegi and Sunter
(1969): by how near two values are (equal, close, alike, different), the log ratio of its frequency
among pairs that are each other's nearest, which are mostly one entity, and among pairs drawn at
random. For equal values the rarity of the value takes the place of chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.likelihoods.pairs.bags import Overlap, compared, cosine
from kbforge_plugins.likelihoods.pairs.keeping import PartReader, PartWriter, spread
from kbforge_plugins.likelihoods.pairs.table import Column, NameForms, RecordTable

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
_Texts: TypeAlias = tuple[list[str], list[str]]
DIGIT_FEATURES = ("digits shared", "digits unmatched least", "digits unmatched most")


def name_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`NAME_FEATURES` and `DIGIT_FEATURES` of rows i of one table and j of another.

    Of rows with several names, the two names that are nearest are described.
    """
    pair, x, y = _named(a, i, b, j)
    both = x * len(b.names) + y
    _, first, whole = np.unique(both, return_index=True, return_inverse=True)
    x, y = x[first], y[first]
    features = np.stack(_features(a.names, x, b.names, y))
    whole = whole.ravel()
    if len(pair) > len(i):
        score = np.nan_to_num(features[_EQUAL]) * 2 + features[_COSINE]
        # of equally near ones the same whichever way round the rows are given
        numbers = np.stack([a.names.numbers["name"][x], b.names.numbers["name"][y]])
        low, high = numbers.min(axis=0)[whole], numbers.max(axis=0)[whole]
        order = np.lexsort((high, low, -score[whole], pair))
        best = order[np.concatenate([[True], np.diff(pair[order]) > 0])]
        whole = whole[best]
    return list(features[:, whole])


def _named(
    a: RecordTable, i: IntArray, b: RecordTable, j: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Every name of each i with every name of its j: places of the pair and of the names."""
    of_a, pair_a = spread(a.called, i)
    x, y = a.which[of_a], b.which[b.called[j]]
    many = b.called[j + 1] - b.called[j]
    if len(pair_a) == len(i) == many.sum():
        return pair_a, x, y
    # each name of the one with all of the other's
    of_b, place = spread(b.called, j[pair_a])
    return pair_a[place], x[place], b.which[of_b]


def _features(a: NameForms, i: IntArray, b: NameForms, j: IntArray) -> list[FloatArray]:
    words = compared(a.bags["words"], i, b.bags["words"], j)
    mass = np.stack([a.bags["words"].mass[i], b.bags["words"].mass[j]])
    digits = compared(a.bags["digits"], i, b.bags["digits"], j)
    texts = [(one.text.many(at), one.sorted.many(at)) for one, at in ((a, i), (b, j))]
    return [
        *(_equal(a, i, b, j, form) for form in ("name", "sorted", "compact", "bare")),
        cosine(a.bags["trigrams"], i, b.bags["trigrams"], j),
        words.cosine,
        cosine(a.bags["sounds"], i, b.bags["sounds"], j),
        *_similarities(a, i, b, j, *texts),
        *masses(mass, words),
        *_initials(a, i, b, j),
        *_sizes(a, i, b, j, texts[0][0], texts[1][0]),
        digits.shared,
        *ordered(*digits.unmatched),
    ]


def masses(mass: FloatArray, common: Overlap) -> list[FloatArray]:
    """How much of the lighter and heavier is covered, what is shared, and what is unmatched.

    Args:
        mass: of both, shape [2, pairs].
        common: what they have in common.

    """
    covered = np.divide(common.shared, mass, out=np.zeros_like(mass), where=mass > 0)
    return [*ordered(*covered), common.shared, *ordered(*common.unmatched)]


def ordered(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lesser and the larger."""
    return np.minimum(x, y), np.maximum(x, y)


def _equal(a: NameForms, i: IntArray, b: NameForms, j: IntArray, form: str) -> FloatArray:
    x, y = a.numbers[form][i], b.numbers[form][j]
    return np.where((x == 0) | (y == 0), np.nan, x == y).astype(np.float64)


def _similarities(
    a: NameForms, i: IntArray, b: NameForms, j: IntArray, one: _Texts, other: _Texts
) -> list[FloatArray]:
    (text_a, sorted_a), (text_b, sorted_b) = one, other
    # a measure that has a direction is given both names of each pair in an order of their own
    turned = (a.numbers["name"][i] > b.numbers["name"][j]).tolist()
    pairs = [(y, x) if t else (x, y) for x, y, t in zip(text_a, text_b, turned, strict=True)]
    return [
        _compared(fuzz.ratio, text_a, text_b) / 100,
        _compared(JaroWinkler.similarity, [x for x, _ in pairs], [y for _, y in pairs]),
        _compared(fuzz.ratio, sorted_a, sorted_b) / 100,
        _compared(fuzz.ratio, a.bare.many(i), b.bare.many(j)) / 100,
        _compared(fuzz.token_set_ratio, sorted_a, sorted_b) / 100,
    ]


def _compared(scorer: Any, x: Sequence[str], y: Sequence[str]) -> FloatArray:
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
    a: NameForms,
    i: IntArray,
    b: NameForms,
    j: IntArray,
    text_a: Sequence[str],
    text_b: Sequence[str],
) -> list[FloatArray]:
    contained = [
        float(bool(x) and bool(y) and (x in y or y in x))
        for x, y in zip(text_a, text_b, strict=True)
    ]
    letters = ordered(*(n.text.lengths(at).astype(np.float64) for n, at in ((a, i), (b, j))))
    count = ordered(*(n.count[at].astype(np.float64) for n, at in ((a, i), (b, j))))
    return [np.array(contained), *letters, *count, count[1] - count[0]]


_EQUAL = NAME_FEATURES.index("name equal")
_COSINE = NAME_FEATURES.index("name trigrams cosine")


AGREEMENT_FEATURES = (
    *("both stated", "one stated", "equal values", "different values"),
    *("evidence", "evidence for", "evidence against", "evidence for most", "evidence against most"),
    *("rarity of equal", "rarity of equal most"),
    *("nearness mean", "nearness least", "nearness most", "functional conflict"),
)
SOUP_FEATURES = (
    *("all words cosine", "all words covered least", "all words covered most"),
    *("all words shared mass", "all words unmatched least", "all words unmatched most"),
)
_BINS = np.array([0.5, 0.8, 1.0])
_MOST_EVIDENCE = 12.0
_SMOOTHING = 2.0


class Worth:
    """What agreement and conflict in one attribute are worth in one file.

    Args:
        values: numbers of the values of the file, ascending.
        counts: fragments that state each.
        log_ratio: by bin of nearness, in nats.
        functional: how much more often the trusted agree than chance does, from 0 to 1.

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
        """What it is worth in a file.

        Args:
            column: of the table of the file.
            counts: fragments of each row.
            trusted: pairs of rows that are mostly one entity.
            chance: pairs of rows drawn at random.

        """
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

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("values", self._values)
        into.array("counts", self._count.astype(np.int64))
        into.array("told", np.append(self.log_ratio, self.functional))

    @classmethod
    def taken(cls, kept: PartReader) -> Worth:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        values = kept.array("values", np.int64, -1)
        counts = kept.array("counts", np.int64, len(values), low=1)
        told = kept.array("told", np.float64, len(_BINS) + 2)
        return cls(values, counts, told[:-1], float(told[-1]))

    def rarity(self, values: IntArray) -> FloatArray:
        """-log of the share of the statements that a value has, nats; a new one counts once."""
        at = np.searchsorted(self._values, values).clip(max=max(len(self._values) - 1, 0))
        known = self._values[at] == values
        count = np.where(known, self._count[at], 1.0)
        return np.log((self._total + 1) / count)

    def told(
        self, x: Column, i: IntArray, y: Column, j: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Nearness, rarity where equal, evidence and functional conflict, each [pairs]."""
        near = nearness(x, i, y, j)
        equal = near >= 1.0
        rarity = np.where(equal, self.rarity(x.value(i)), 0.0)
        evidence = self.log_ratio[np.searchsorted(_BINS, near, side="right")]
        # an agreement tells at most how rare the value is
        most = np.minimum(rarity, np.maximum(evidence, 0.0) + 2.0)
        evidence = np.where(equal, most, evidence).clip(-_MOST_EVIDENCE, _MOST_EVIDENCE)
        return near, rarity, evidence, self.functional * (1.0 - near)

    def evidence(self, x: Column, i: int, y: Column, j: int) -> float:
        """The evidence of one pair, in nats."""
        return float(self.told(x, np.array([i]), y, np.array([j]))[2][0])


def _frequencies(column: Column, i: IntArray, j: IntArray) -> FloatArray:
    both = (column.value(i) != 0) & (column.value(j) != 0)
    near = nearness(column, i[both], column, j[both])
    seen = np.bincount(np.searchsorted(_BINS, near, side="right"), minlength=4)[:4]
    prior = np.array([0.25, 0.25, 0.25, 0.25])
    frequencies = (seen + _SMOOTHING * prior) / (seen.sum() + _SMOOTHING)
    return np.asarray(frequencies, dtype=np.float64)


def nearness(a: Column, i: IntArray, b: Column, j: IntArray) -> FloatArray:
    """How near values are, from 0 to 1, which equal ones alone have, shape [pairs]."""
    if not len(i):
        return np.zeros(0)
    pairs = a.which[i] * len(b.numbers) + b.which[j]
    different, whole = np.unique(pairs, return_inverse=True)
    i, j = different // len(b.numbers), different % len(b.numbers)
    letters = cpdist(a.text.many(i), b.text.many(j), scorer=fuzz.ratio, workers=1)
    near = np.maximum(np.asarray(letters, dtype=np.float64) / 100, cosine(a.bags, i, b.bags, j))
    near = np.where(a.numbers[i] == b.numbers[j], 1.0, np.minimum(near, 0.99))
    return near[whole]


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
        if len(at):
            _add(sums, at, *worth.told(x, i[at], y, j[at]))
    both = sums["both stated"]
    none = both == 0
    sums["nearness mean"] = np.divide(sums["nearness mean"], both, out=np.zeros(n), where=~none)
    for name in ("nearness mean", "nearness least", "nearness most"):
        sums[name][none] = np.nan
    return list(sums.values())


def _add(
    sums: dict[str, FloatArray],
    at: NDArray[np.int64],
    near: FloatArray,
    rarity: FloatArray,
    evidence: FloatArray,
    conflict: FloatArray,
) -> None:
    sums["both stated"][at] += 1
    sums["equal values"][at] += near >= 1.0
    sums["different values"][at] += near < _BINS[0]
    sums["evidence"][at] += evidence
    sums["evidence for"][at] += evidence.clip(min=0)
    sums["evidence against"][at] += evidence.clip(max=0)
    sums["evidence for most"][at] = np.maximum(sums["evidence for most"][at], evidence)
    sums["evidence against most"][at] = np.minimum(sums["evidence against most"][at], evidence)
    sums["rarity of equal"][at] += rarity
    sums["rarity of equal most"][at] = np.maximum(sums["rarity of equal most"][at], rarity)
    sums["nearness mean"][at] += near
    sums["nearness least"][at] = np.minimum(sums["nearness least"][at], near)
    sums["nearness most"][at] = np.maximum(sums["nearness most"][at], near)
    sums["functional conflict"][at] += conflict


def soup_features(a: RecordTable, i: IntArray, b: RecordTable, j: IntArray) -> list[FloatArray]:
    """`SOUP_FEATURES`: what the words of all values have in common, wherever they stand."""
    common = compared(a.soup, i, b.soup, j)
    return [common.cosine, *masses(np.stack([a.soup.mass[i], b.soup.mass[j]]), common)]


STANDING_FEATURES = tuple(
    f"{way} {what}"
    for way in ("letters", "words")
    for what in (*("rank least", "rank most", "gap least", "gap most", "near least", "near most"),)
)
_CLOSE = 0.08
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Standings:
    """By row and way of being near, the cosines of the nearest rows, descending, -1 where none."""

    letters: FloatArray
    words: FloatArray

    def take(self, rows: IntArray) -> Standings:
        return Standings(self.letters[rows], self.words[rows])

    @classmethod
    def joined(cls, some: Sequence[Standings]) -> Standings:
        """The rows of all, one after the other."""
        return cls(
            np.concatenate([one.letters for one in some]),
            np.concatenate([one.words for one in some]),
        )

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("letters", self.letters)
        into.array("words", self.words)

    @classmethod
    def taken(cls, kept: PartReader, rows: int, nearest: int) -> Standings:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        ways = (kept.array(name, np.float64, rows, nearest) for name in ("letters", "words"))
        return cls(*ways)


def standing_features(
    a: Standings, b: Standings, letters: FloatArray, words: FloatArray
) -> list[FloatArray]:
    """`STANDING_FEATURES`.

    Args:
        a: of the one row of each pair.
        b: of the other.
        letters: the cosine of each pair's names' trigrams.
        words: the cosine of each pair's words.

    """
    out = []
    for one, other, value in ((a.letters, b.letters, letters), (a.words, b.words, words)):
        parts = [_standing(nearest, value) for nearest in (one, other)]
        for x, y in zip(*parts, strict=True):
            out += [np.minimum(x, y), np.maximum(x, y)]
    return out


def _standing(nearest: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Better ones, the gap to the best of the others, and how many are about as near."""
    better = (nearest > value[:, None] + _SAME).sum(axis=1).astype(np.float64)
    best = nearest.max(axis=1, initial=-1.0)
    second = nearest[:, 1] if nearest.shape[1] > 1 else np.full(len(nearest), -1.0)
    others = np.where(value >= best - _SAME, second, best)
    gap = value - np.maximum(others, 0.0)
    near = (np.abs(nearest - value[:, None]) <= _CLOSE).sum(axis=1).astype(np.float64)
    return better, gap, near
