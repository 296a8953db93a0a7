"""Names that are like one another, compared with a plain implementation of the same definition."""

import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.fit.description import FileCounts, _alike, _parts_of

NAMES = st.lists(
    st.text("ab é ß字w", min_size=1, max_size=9).map(lambda x: " ".join(x.split())).filter(bool),
    min_size=1,
    max_size=30,
    unique=True,
)
SHARING, KEYS, ALIKE, LEAST = 64, 8, 10, 0.2


def parts_of(name):
    """Its words, marked as words, and its trigrams."""
    padded = f" {name} "
    yield from (f"w {word}" for word in name.split())
    yield from (padded[k : k + 3] for k in range(len(padded) - 2))


@given(NAMES)
def test_parts_are_words_and_trigrams(names):
    numbers = {}
    expected = [sorted({numbers.setdefault(p, len(numbers)) for p in parts_of(n)}) for n in names]
    starts, columns, documents, table = _parts_of(names, None)
    assert [columns[a:b].tolist() for a, b in pairwise(starts.tolist())] == expected
    often = [sum(k in row for row in expected) for k in range(len(numbers))]
    assert documents.tolist() == often
    for part, count in zip(numbers, often, strict=True):
        assert table[zlib.crc32(part.encode()) % len(table)] >= count


def test_words_and_trigrams_of_the_same_text_are_one_part():
    _, columns, documents, _ = _parts_of(["w a"], None)
    assert len(columns) == len(documents) == 4  # "w w", "w a" twice, " w ", " a "


def nearest(names):
    """By definition: cosines of names that are near by their rarest parts, either way."""
    held = [set(parts_of(name)) for name in names]
    often = {}
    for part in (part for own in held for part in own):
        often[part] = often.get(part, 0) + 1
    vectors = [{p: np.log1p(len(names) / often[p]) for p in own} for own in held]
    lengths = [np.sqrt(sum(w * w for w in vector.values())) for vector in vectors]
    order = {p: k for k, p in enumerate(dict.fromkeys(p for n in names for p in parts_of(n)))}
    leads = [
        sorted((p for p in own if 1 < often[p] <= SHARING), key=lambda p: (often[p], order[p]))
        for own in held
    ]

    def product(i, j, parts):
        return sum(vectors[i][p] * vectors[j][p] for p in parts) / lengths[i] / lengths[j]

    near = set()
    for i in range(len(names)):
        scores = {}
        for j in range(len(names)):
            shared = {*leads[i][:KEYS]} & {*leads[j][:KEYS]}
            if i != j and shared:
                scores[j] = round(product(i, j, shared), 9)
        best = sorted(scores, key=lambda j: (-scores[j], j))
        if len(best) > ALIKE and scores[best[ALIKE - 1]] == scores[best[ALIKE]]:
            return None  # a tie, which the last bit decides
        near |= {(i, j) for j in best[:ALIKE]} | {(j, i) for j in best[:ALIKE]}
    cosines = {(i, j): product(i, j, held[i] & held[j]) for i, j in near}
    return {pair: cosine for pair, cosine in cosines.items() if cosine >= LEAST}


@given(NAMES)
def test_the_most_similar_names_are_found(names):
    expected = nearest(names)
    if expected is None:
        return
    found, _ = _alike(names, None)
    first = np.arange(len(names)).repeat(np.diff(found.starts))
    pairs = list(zip(first.tolist(), found.second.tolist(), strict=True))
    assert pairs == sorted(expected)
    assert found.strength.tolist() == pytest.approx([expected[pair] for pair in pairs])


def test_counts_of_a_file_make_its_parts_common():
    names = ["ada lovelace", "ada byron", "lovelace"]
    _, table = _alike(names, None)
    file = FileCounts(1000, ("name",), (), 40 * table)
    _, _, documents, _ = _parts_of(names, file)
    assert documents.min() >= 40
