"""Binary hashes of texts: how often two fragments share a key is what angles and parts say."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge_plugins.indexes.minhash import BinaryHash
from kbforge_plugins.indexes.recall import recall_of
from tests.indexes.records import sparse_records
from tests.profile import examples

WORDS = st.lists(st.sampled_from([f"w{i}" for i in range(40)]), max_size=25)


def text(*words: str, identity: str = "x") -> Fragment:
    return Fragment(identity, {"text": (" ".join(words),)})


def shared(index: BinaryHash, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


def equal_keys(both: int, one: int, other: int, rows: int) -> float:
    """The probability that as many directions have two sets of words on one side."""
    cosine = both / math.sqrt((both + one) * (both + other))
    return (1 - math.acos(min(cosine, 1.0)) / math.pi) ** rows


@pytest.mark.parametrize(("both", "rows"), [(0, 1), (2, 1), (3, 2), (4, 3), (2, 9), (2, 16)])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.2])
def test_keys_are_shared_as_often_as_angles_and_parts_say(
    both: int, rows: int, part: float
) -> None:
    """Of four words some are the same; within four standard errors, over 512 keys.

    Enumerated are the parts of the different words that a key may read.
    """
    index = BinaryHash(rows=rows, bands=512, part=part, weighted=False)
    one = text("a0", "a1", "a2", "a3")
    other = text(*(f"a{i}" if i < both else f"b{i}" for i in range(4)))
    p = 0.0
    for read in product([0, 1], repeat=8 - both):
        n = sum(read[:both]), sum(read[both:4]), sum(read[4:])
        if n[0] + n[1] and n[0] + n[2]:
            chance = part ** sum(read) * (1 - part) ** (len(read) - sum(read))
            p += chance * equal_keys(*n, rows)
    first = equal_keys(both, 4 - both, 4 - both, rows)  # reads all
    error = 4 * math.sqrt(511 * p * (1 - p) + first * (1 - first)) + 1e-9
    assert abs(shared(index, one, other) - (first + 511 * p)) <= error


def test_common_words_are_read_less() -> None:
    """A fragment of one word has a key of each part that reads it."""
    crowd = [text("common", f"w{i}", identity=f"f{i}") for i in range(200)]
    index = BinaryHash(bands=512, part=0.3)
    index.fit(crowd)
    for word, n in (("common", 200), ("w3", 1), ("new", 0)):
        weight = math.log(201 / (n + 0.5)) / math.log(201 / 0.5)
        read = 1 - 0.7**weight
        keys = len(index.keys(text(word)))
        assert abs(keys - (1 + 511 * read)) <= 4 * math.sqrt(511 * read * (1 - read))


def test_rare_words_count_for_more() -> None:
    crowd = [text("common", f"w{i}", identity=f"f{i}") for i in range(200)]
    index = BinaryHash(rows=1, bands=512, part=1.0)
    index.fit(crowd)
    one = text("common", "w1", "rare")
    rare, common = (shared(index, one, text("w2", "w3", word)) for word in ("rare", "common"))
    assert rare > common + 60


@examples(30)
@given(several=st.lists(WORDS, min_size=1, max_size=6), rows=st.sampled_from([3, 8, 16]))
def test_keys_do_not_depend_on_who_was_asked_about(several: list[list[str]], rows: int) -> None:
    index = BinaryHash(rows=rows, bands=20)
    fragments = [text(*words, identity=str(i)) for i, words in enumerate(several)]
    index.fit(fragments[:3])
    starts, keys = index.keys_of(fragments)
    assert len(starts) == len(fragments) + 1
    for i, fragment in enumerate(fragments):
        own = keys[starts[i] : starts[i + 1]].tolist()
        assert own == index.keys(fragment)
        assert len(set(own)) == len(own) <= 20
        assert bool(own) == bool(several[i])
        assert index.keys(text(*several[i][::-1], identity="another")) == own


def test_keys_of_many_are_those_of_few() -> None:
    """However many features are drawn at once."""
    fragments = [text(*(f"w{(7 * i + k) % 97}" for k in range(i % 40))) for i in range(1000)]
    index = BinaryHash()
    index.fit(fragments)
    starts, keys = index.keys_of(fragments)
    parts = [index.keys_of(fragments[i : i + 10]) for i in range(0, 1000, 10)]
    assert keys.tolist() == np.concatenate([found for _, found in parts]).tolist()
    lengths = np.concatenate([np.diff(begins) for begins, _ in parts])
    assert np.diff(starts).tolist() == lengths.tolist()


def test_parts_find_what_has_little_in_common() -> None:
    """Two records of a person share two of some five words, an angle of 60 degrees."""
    fragments = sparse_records()
    recall = {}
    for part in (0.2, 1.0):
        index = BinaryHash(part=part)
        index.fit(fragments)
        recall[part] = recall_of(index, fragments).recall
    assert recall[0.2] > 0.97
    assert recall[1.0] < 0.5
