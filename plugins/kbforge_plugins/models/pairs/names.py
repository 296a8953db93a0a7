"""Features of two names."""

from __future__ import annotations

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import JaroWinkler
from rapidfuzz.process import cpdist

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import cosine, shared_mass, unmatched
from kbforge_plugins.models.pairs.records import Table

NAME_FEATURES = (
    *("name equal", "name words equal", "name compact equal", "name sounds equal"),
    *("name trigrams cosine", "name words cosine", "name sounds cosine"),
    *("name ratio", "name jaro-winkler", "name sorted ratio", "name sounds ratio"),
    *("name set ratio", "name covered least", "name covered most", "name shared mass"),
    *("name unmatched least", "name unmatched most"),
    *("name first equal", "name last equal", "name initials met", "name initials unmet"),
    *("name acronym", "name compact contained", "name letters least", "name letters most"),
    *("name count least", "name count most", "name count difference"),
)
DIGIT_FEATURES = ("digits shared", "digits unmatched least", "digits unmatched most")


def name_features(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    """`NAME_FEATURES` and `DIGIT_FEATURES` of rows i of one table and j of another."""
    pairs = np.stack([a.numbers["name"][i], b.numbers["name"][j]])
    _, first, whole = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    i, j = i[first], j[first]
    columns = [*_equalities(a, i, b, j), *_similarities(a, i, b, j), *_masses(a, i, b, j)]
    columns += [*_initials(a, i, b, j), *_sizes(a, i, b, j), *_digits(a, i, b, j)]
    return [column[whole.ravel()] for column in columns]


def _equal(a: Table, i: IntArray, b: Table, j: IntArray, form: str) -> FloatArray:
    x, y = a.numbers[form][i], b.numbers[form][j]
    return np.where((x == 0) | (y == 0), np.nan, x == y).astype(np.float64)


def _equalities(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    return [_equal(a, i, b, j, form) for form in ("name", "sorted", "compact", "bare")]


def _similarities(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    return [
        cosine(a.trigrams, i, b.trigrams, j),
        cosine(a.words, i, b.words, j),
        cosine(a.sounds, i, b.sounds, j),
        _compared(fuzz.ratio, a.name[i], b.name[j]) / 100,
        _compared(JaroWinkler.similarity, a.name[i], b.name[j]),
        _compared(fuzz.ratio, a.sorted[i], b.sorted[j]) / 100,
        _compared(fuzz.ratio, a.bare[i], b.bare[j]) / 100,
        _compared(fuzz.token_set_ratio, a.sorted[i], b.sorted[j]) / 100,
    ]


def _compared(scorer: object, x: np.ndarray, y: np.ndarray) -> FloatArray:
    if not len(x):
        return np.zeros(0)
    found = cpdist(x.tolist(), y.tolist(), scorer=scorer, workers=1)
    return np.asarray(found, dtype=np.float64)


def _masses(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    shared = shared_mass(a.words, i, b.words, j)
    mass = np.stack([a.words.mass[i], b.words.mass[j]])
    covered = np.divide(shared, mass, out=np.zeros_like(mass), where=mass > 0)
    left = np.stack(unmatched(a.words, i, b.words, j))
    return [covered.min(axis=0), covered.max(axis=0), shared, left.min(axis=0), left.max(axis=0)]


def _initials(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
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


def _sizes(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    letters = np.stack([_lengths(a.name[i]), _lengths(b.name[j])])
    count = np.stack([a.count[i], b.count[j]]).astype(np.float64)
    contained = [
        float(bool(x) and bool(y) and (x in y or y in x))
        for x, y in zip(a.name[i].tolist(), b.name[j].tolist(), strict=True)
    ]
    return [
        np.array(contained),
        letters.min(axis=0),
        letters.max(axis=0),
        count.min(axis=0),
        count.max(axis=0),
        count.max(axis=0) - count.min(axis=0),
    ]


def _lengths(texts: np.ndarray) -> FloatArray:
    return np.array([len(text) for text in texts.tolist()], dtype=np.float64)


def _digits(a: Table, i: IntArray, b: Table, j: IntArray) -> list[FloatArray]:
    shared = shared_mass(a.digits, i, b.digits, j)
    left = np.stack(unmatched(a.digits, i, b.digits, j))
    return [shared, left.min(axis=0), left.max(axis=0)]
