"""MinHash and binary hashes: how often two fragments share a key is what the formulas say."""

import math
import random
from itertools import product

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.indexes.recall import recall_of
from kbforge_lab.minhash import BinaryHash, MinHash


def text(words: list[str], identity: str = "x") -> Fragment:
    return Fragment(identity, {"text": (" ".join(words),)})


def shared(index: MinHash, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


@pytest.mark.parametrize("both", [0, 10, 20, 30, 40])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("single", [0, 256])
def test_keys_are_shared_as_often_as_the_formula_says(both, rows, single):
    """Within four standard errors, over 512 bands."""
    one = [f"a{i}" for i in range(40)]
    other = one[:both] + [f"b{i}" for i in range(40 - both)]
    index = MinHash(rows=rows, bands=512, single=single, weighted=False)
    similarity = both / (80 - both)
    several = similarity**rows
    mean = single * similarity + (512 - single) * several
    variance = single * similarity * (1 - similarity) + (512 - single) * several * (1 - several)
    assert abs(shared(index, text(one), text(other)) - mean) <= 4 * math.sqrt(variance)


def test_weights_count_as_the_formula_says():
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


def test_order_and_repetition_of_words_do_not_matter_alone():
    one, two = MinHash(), MinHash(order=2)
    plain, turned = text(["a", "b", "c", "d"]), text(["d", "c", "b", "a", "a"])
    assert one.keys(plain) == one.keys(turned)
    assert BinaryHash().keys(plain) == BinaryHash().keys(text(["d", "c", "b", "a"])) != []
    assert not shared(two, plain, turned)


def test_members_of_lists_are_features():
    tags = tuple(f"tag {i}" for i in range(30))
    one, other = Fragment("x", {"tags": tags}), Fragment("y", {"tags": tags[::-1]})
    assert MinHash().keys(one) == MinHash().keys(other)
    assert not shared(MinHash(), one, Fragment("z", {"other": tags}))


def test_nothing_said_has_no_keys():
    index = MinHash()
    starts, keys = index.keys_of((text(["a"]), Fragment("y", {"text": ("!!!",)}), text(["b"])))
    assert np.diff(starts).tolist() == [40, 0, 40]
    assert len(keys) == 80
    assert index.keys(Fragment("z", {}, (1.0,))) == BinaryHash().keys(text([])) == []


def test_fitted_to_nothing_said():
    """What comes later has the keys of what nobody has."""
    index = MinHash()
    index.fit([Fragment("x", {"text": ("!!!",)})])
    assert shared(index, text(["a", "b"]), text(["b", "a"])) == 40


def test_a_million_characters():
    rng = random.Random(1)
    long = "".join(rng.choices("abcdefgh ", k=1_000_000))
    for index in (MinHash(), MinHash(unit="character", order=5)):
        index.fit([Fragment("x", {"text": (long,)})])
        assert len(index.keys(Fragment("x", {"text": (long,)}))) == 40


def test_recall_on_long_texts():
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


def sparse_records(people: int = 600) -> list[Fragment]:
    """Three records each of some people: of seven words a person has, a record says four."""
    rng = random.Random(5)
    sizes = (400, 400, 400, 400, 60, 20, 5)  # of the vocabularies
    out = []
    for person in range(people):
        own = [f"w{k}x{rng.randrange(size)}" for k, size in enumerate(sizes)]
        for k in range(3):
            said = {"text": (" ".join(rng.sample(own, 4)),)}
            out.append(Fragment(f"{person}-{k}", said, label=str(person)))
    rng.shuffle(out)
    return out


@pytest.mark.parametrize(
    ("few", "found", "less"),
    [
        (MinHash(single=12), MinHash(single=0), 0.015),
        # two of five words are an angle of 60 degrees
        (BinaryHash(part=0.2), BinaryHash(part=1.0), 0.47),
    ],
    ids=["single minima", "parts"],
)
def test_what_has_little_in_common_is_found(few, found, less):
    """Two records of a person share two of some five words."""
    fragments = sparse_records()
    recall = []
    for index in (few, found):
        index.fit(fragments)
        recall.append(recall_of(index, fragments).recall)
    assert recall[0] > 0.97
    assert recall[1] < recall[0] - less


# Signs of random projections.


def equal_keys(both: int, one: int, other: int, rows: int) -> float:
    """The probability that as many directions have two sets of words on one side."""
    cosine = both / math.sqrt((both + one) * (both + other))
    return (1 - math.acos(min(cosine, 1.0)) / math.pi) ** rows


@pytest.mark.parametrize(("both", "rows"), [(0, 1), (2, 1), (3, 2), (4, 3), (2, 9), (2, 16)])
@pytest.mark.parametrize("part", [1.0, 0.5, 0.2])
def test_signs_are_shared_as_often_as_angles_and_parts_say(both, rows, part):
    """Of four words some are the same; within four standard errors, over 512 keys.

    Enumerated are the parts of the different words that a key may read.
    """
    index = BinaryHash(rows=rows, bands=512, part=part, weighted=False)
    one = text(["a0", "a1", "a2", "a3"])
    other = text([f"a{i}" if i < both else f"b{i}" for i in range(4)])
    p = 0.0
    for read in product([0, 1], repeat=8 - both):
        n = sum(read[:both]), sum(read[both:4]), sum(read[4:])
        if n[0] + n[1] and n[0] + n[2]:
            chance = part ** sum(read) * (1 - part) ** (len(read) - sum(read))
            p += chance * equal_keys(*n, rows)
    first = equal_keys(both, 4 - both, 4 - both, rows)  # reads all
    error = 4 * math.sqrt(511 * p * (1 - p) + first * (1 - first)) + 1e-9
    assert abs(shared(index, one, other) - (first + 511 * p)) <= error


def test_common_words_are_read_less():
    """A fragment of one word has a key of each part that reads it."""
    crowd = [text(["common", f"w{i}"], f"f{i}") for i in range(200)]
    index = BinaryHash(bands=512, part=0.3)
    index.fit(crowd)
    for word, n in (("common", 200), ("w3", 1), ("new", 0)):
        weight = math.log(201 / (n + 0.5)) / math.log(201 / 0.5)
        read = 1 - 0.7**weight
        keys = len(index.keys(text([word])))
        assert abs(keys - (1 + 511 * read)) <= 4 * math.sqrt(511 * read * (1 - read))


def test_rare_words_count_for_more():
    crowd = [text(["common", f"w{i}"], f"f{i}") for i in range(200)]
    index = BinaryHash(rows=1, bands=512, part=1.0)
    index.fit(crowd)
    one = text(["common", "w1", "rare"])
    rare, common = (shared(index, one, text(["w2", "w3", word])) for word in ("rare", "common"))
    assert rare > common + 60
