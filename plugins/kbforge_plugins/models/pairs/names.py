"""Features of two names."""

from __future__ import annotations

from typing import Any

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import cosine, shared_mass, unmatched
from kbforge_plugins.models.pairs.records import Names, Table, Texts

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


def name_features(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    """`NAME_FEATURES` and `DIGIT_FEATURES` of rows i of one table and j of another.

    Of rows with several names, the two names that are nearest are described.
    """
    pair, x, y = _named(a, i, b, j)
    both = x * len(b.names.count) + y
    _, first, whole = np.unique(both, return_index=True, return_inverse=True)
    x, y = x[first], y[first]
    columns = [f(a.names, x, b.names, y) for f in _PARTS]
    features = np.stack([column for part in columns for column in part])
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
    many_a, many_b = a.called[i], b.called[j]
    times = many_a * many_b
    pair = np.repeat(np.arange(len(i)), times)
    if len(pair) == len(i):
        return pair, a.first[i], b.first[j]
    step = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
    start_a, start_b = (np.cumsum(t.called) - t.called for t in (a, b))
    x = a.which[start_a[i][pair] + step // many_b[pair]]
    y = b.which[start_b[j][pair] + step % many_b[pair]]
    return pair, x, y


def _equal(a: Names, i: IntArray, b: Names, j: IntArray, form: str) -> FloatArray:
    x, y = a.numbers[form][i], b.numbers[form][j]
    return np.where((x == 0) | (y == 0), np.nan, x == y).astype(np.float64)


def _equalities(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
    return [_equal(a, i, b, j, form) for form in ("name", "sorted", "compact", "bare")]


def _similarities(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
    return [
        cosine(a.trigrams, i, b.trigrams, j),
        cosine(a.words, i, b.words, j),
        cosine(a.sounds, i, b.sounds, j),
        _compared(fuzz.ratio, a.text[i], b.text[j]) / 100,
        _compared(JaroWinkler.similarity, *_in_order(a, i, b, j)),
        _compared(fuzz.ratio, a.sorted[i], b.sorted[j]) / 100,
        _compared(fuzz.ratio, a.bare[i], b.bare[j]) / 100,
        _compared(fuzz.token_set_ratio, a.sorted[i], b.sorted[j]) / 100,
    ]


def _in_order(a: Names, i: IntArray, b: Names, j: IntArray) -> tuple[Texts, Texts]:
    """Both names of each pair in an order of their own, for a measure that has a direction."""
    x, y = a.text[i], b.text[j]
    turned = a.numbers["name"][i] > b.numbers["name"][j]
    return np.where(turned, y, x), np.where(turned, x, y)


def _compared(scorer: Any, x: Texts, y: Texts) -> FloatArray:
    if not len(x):
        return np.zeros(0)
    found = cpdist(x.tolist(), y.tolist(), scorer=scorer, workers=1)
    return np.asarray(found, dtype=np.float64)


def _masses(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
    shared = shared_mass(a.words, i, b.words, j)
    mass = np.stack([a.words.mass[i], b.words.mass[j]])
    covered = np.divide(shared, mass, out=np.zeros_like(mass), where=mass > 0)
    left = np.stack(unmatched(a.words, i, b.words, j))
    return [covered.min(axis=0), covered.max(axis=0), shared, left.min(axis=0), left.max(axis=0)]


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


def _sizes(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
    letters = np.stack([_lengths(a.text[i]), _lengths(b.text[j])])
    count = np.stack([a.count[i], b.count[j]]).astype(np.float64)
    contained = [
        float(bool(x) and bool(y) and (x in y or y in x))
        for x, y in zip(a.text[i].tolist(), b.text[j].tolist(), strict=True)
    ]
    return [
        np.array(contained),
        letters.min(axis=0),
        letters.max(axis=0),
        count.min(axis=0),
        count.max(axis=0),
        count.max(axis=0) - count.min(axis=0),
    ]


def _lengths(texts: Texts) -> FloatArray:
    return np.array([len(text) for text in texts.tolist()], dtype=np.float64)


def _digits(a: Names, i: IntArray, b: Names, j: IntArray) -> list[FloatArray]:
    shared = shared_mass(a.digits, i, b.digits, j)
    left = np.stack(unmatched(a.digits, i, b.digits, j))
    return [shared, left.min(axis=0), left.max(axis=0)]


_PARTS = (_equalities, _similarities, _masses, _initials, _sizes, _digits)
_EQUAL = NAME_FEATURES.index("name equal")
_COSINE = NAME_FEATURES.index("name trigrams cosine")
