"""MinHash: how often two fragments share a key is what the formula says."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge_plugins.indexes.minhash import MinHash
from kbforge_plugins.indexes.recall import recall_of
from tests.indexes.records import sparse_records
from tests.profile import examples

WORDS = st.lists(st.sampled_from([f"w{i}" for i in range(40)]), min_size=1, max_size=25)


def text(words: list[str], identity: str = "x") -> Fragment:
    return Fragment(identity, {"text": (" ".join(words),)})


def shared(index: MinHash, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


@pytest.mark.parametrize("both", [0, 10, 20, 30, 40])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("single", [0, 256])
def test_keys_are_shared_as_often_as_the_formula_says(both: int, rows: int, single: int) -> None:
    """Within four standard errors, over 512 bands."""
    one = [f"a{i}" for i in range(40)]
    other = one[:both] + [f"b{i}" for i in range(40 - both)]
    index = MinHash(rows=rows, bands=512, single=single, weighted=False)
    similarity = both / (80 - both)
    several = similarity**rows
    mean = single * similarity + (512 - single) * several
    variance = single * similarity * (1 - similarity) + (512 - single) * several * (1 - several)
    assert abs(shared(index, text(one), text(other)) - mean) <= 4 * math.sqrt(variance)


def test_weights_count_as_the_formula_says() -> None:
    rng = random.Random(3)
    vocabulary = [f"w{i}" for i in range(200)]
    corpus = [
        text([w for i, w in enumerate(vocabulary) if rng.random() < 1 / (1 + i)] or ["w0"], str(k))
        for k in range(400)
    ]
    index = MinHash(rows=1, bands=512)
    index.fit(corpus)
    n_with = {w: sum(w in f.properties["text"][0].split() for f in corpus) for w in vocabulary}
    weight = {w: math.log((len(corpus) + 1) / (n + 0.5)) for w, n in n_with.items()}
    one, other = vocabulary[:30], [*vocabulary[:15], *vocabulary[100:115]]
    both = sum(weight[w] for w in {*one} & {*other})
    p = both / sum(weight[w] for w in {*one} | {*other})
    error = 4 * math.sqrt(512 * p * (1 - p))
    assert abs(shared(index, text(one), text(other)) - 512 * p) <= error
    plain = len({*one} & {*other}) / len({*one} | {*other})
    assert abs(shared(index, text(one), text(other)) - 512 * plain) > error


@examples(30)
@given(several=st.lists(WORDS, min_size=1, max_size=6), unit=st.sampled_from(["word", "character"]))
def test_keys_do_not_depend_on_who_was_asked_about(several: list[list[str]], unit: str) -> None:
    index = MinHash(unit=unit, order=2, bands=8)  # type: ignore[arg-type]
    fragments = [text(words, str(i)) for i, words in enumerate(several)]
    index.fit(fragments[:3])
    starts, keys = index.keys_of(fragments)
    for i, fragment in enumerate(fragments):
        assert keys[starts[i] : starts[i + 1]].tolist() == index.keys(fragment)
        again = text(fragment.properties["text"][0].split(), "another")
        assert index.keys(again) == index.keys(fragment)
        assert len({*index.keys(fragment)}) == 8


def test_order_and_repetition_of_words_do_not_matter_alone() -> None:
    one, two = MinHash(), MinHash(order=2)
    plain, turned = text(["a", "b", "c", "d"]), text(["d", "c", "b", "a", "a"])
    assert one.keys(plain) == one.keys(turned)
    assert not shared(two, plain, turned)


def test_members_of_lists_are_features() -> None:
    tags = tuple(f"tag {i}" for i in range(30))
    one, other = Fragment("x", {"tags": tags}), Fragment("y", {"tags": tags[::-1]})
    assert MinHash().keys(one) == MinHash().keys(other)
    assert not shared(MinHash(), one, Fragment("z", {"other": tags}))


def test_seeds_draw_other_orders() -> None:
    one = text(["a", "b", "c"])
    assert not {*MinHash(seed=1).keys(one)} & {*MinHash(seed=2).keys(one)}
    assert MinHash(seed=1).keys(one) == MinHash(seed=1).keys(one)


def test_nothing_said_has_no_keys() -> None:
    index = MinHash()
    starts, keys = index.keys_of((text(["a"]), Fragment("y", {"text": ("!!!",)}), text(["b"])))
    assert np.diff(starts).tolist() == [40, 0, 40]
    assert len(keys) == 80
    assert index.keys(Fragment("z", {}, (1.0,))) == []


def test_fitted_to_nothing_said() -> None:
    """What comes later has the keys of what nobody has."""
    index = MinHash()
    index.fit([Fragment("x", {"text": ("!!!",)})])
    assert shared(index, text(["a", "b"]), text(["b", "a"])) == 40


def test_a_million_characters() -> None:
    rng = random.Random(1)
    long = "".join(rng.choices("abcdefgh ", k=1_000_000))
    for index in (MinHash(), MinHash(unit="character", order=5)):
        index.fit([Fragment("x", {"text": (long,)})])
        assert len(index.keys(Fragment("x", {"text": (long,)}))) == 40


def test_recall_on_long_texts() -> None:
    """Two texts of an entity have two words in three in common."""
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(3000)]
    fragments = []
    for entity in range(150):
        own = rng.sample(words, 60)
        for k in range(3):
            said = {"text": (" ".join(rng.sample(own, 48)),)}
            fragments.append(Fragment(f"{entity}-{k}", said, label=str(entity)))
    rng.shuffle(fragments)
    index = MinHash()
    index.fit(fragments)
    found = recall_of(index, fragments)
    assert found.recall > 0.99
    assert found.candidates < 15
    few = MinHash(single=0)
    few.fit(fragments)
    assert recall_of(few, fragments).candidates < 5


def test_single_minima_find_what_has_little_in_common() -> None:
    """Two records of a person share two of some five words."""
    fragments = sparse_records()
    recall = {}
    for single in (0, 12):
        index = MinHash(single=single)
        index.fit(fragments)
        recall[single] = recall_of(index, fragments).recall
    assert recall[12] > 0.97
    assert recall[0] < recall[12] - 0.015
