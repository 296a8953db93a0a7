"""Features of two names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import Compared, compared, cosine
from kbforge_plugins.models.pairs.records import Names, Table
from kbforge_plugins.models.pairs.strings import spread

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


def name_features(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
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


def _named(a: Table, i: IntArray, b: Table, j: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Every name of each i with every name of its j: places of the pair and of the names."""
    of_a, pair_a = spread(a.called, i)
    x, y = a.which[of_a], b.which[b.called[j]]
    many = b.called[j + 1] - b.called[j]
    if len(pair_a) == len(i) == many.sum():
        return pair_a, x, y
    # each name of the one with all of the other's
    of_b, place = spread(b.called, j[pair_a])
    return pair_a[place], x[place], b.which[of_b]


def _features(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
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


def masses(mass: FloatArray, common: Compared) -> list[FloatArray]:
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


def _equal(a: Names, i: IntArray, b: Names, j: IntArray, form: str) -> FloatArray:
    x, y = a.numbers[form][i], b.numbers[form][j]
    return np.where((x == 0) | (y == 0), np.nan, x == y).astype(np.float64)


def _similarities(
    a: Names, i: IntArray, b: Names, j: IntArray, one: _Texts, other: _Texts
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


def _initials(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
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
    a: Names, i: IntArray, b: Names, j: IntArray, text_a: Sequence[str], text_b: Sequence[str]
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
