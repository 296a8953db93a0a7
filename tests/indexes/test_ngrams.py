"""Keys by rare n-grams: which texts are compared, and that the keys hang on nothing else."""

import random
import tracemalloc

import pytest

from kbforge.contracts import Fragment
from kbforge.indexes.ngrams import Ngrams
from kbforge.indexes.recall import recall_of
from tests.people import people


def named(*names: str, identity: str = "x") -> Fragment:
    return Fragment(identity, {"name": names})


def fitted(fragments: list[Fragment], **options: object) -> Ngrams:
    index = Ngrams(**options)  # type: ignore[arg-type]
    index.fit(fragments)
    return index


def in_common(index: Ngrams, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Ann Lee", "ann  LEE", True),
        ("Annabel", "Anabel", True),
        ("Łódź", "Lódz", True),
        ("Ann", "Bob", False),
        ("北京大学", "北京", True),
        ("!!!", "...", True),  # both say nothing, and a model of names cannot tell them apart
        ("!!!", "Ann", False),
    ],
)
def test_names_that_are_compared(one, other, alike):
    index = fitted(people(30, 1))
    assert bool(in_common(index, named(one), named(other))) is alike


def test_equal_texts_share_all_keys_and_the_nearest_most():
    index = fitted(people(100, 1))
    one = named("Annabel Lee")
    counts = [
        in_common(index, one, named(other))
        for other in ("ANNABEL LEE", "Annabel Lea", "Annabel Poe", "Edgar Poe")
    ]
    assert counts[0] == len(index.keys(one))
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4


def test_the_rarest_are_kept():
    fragments = [named(f"common {chr(97 + i)}x{chr(97 + i)}", identity=str(i)) for i in range(20)]
    index = fitted(fragments, rarest=2)
    # the beginning is everyone's, the last word nobody else's
    assert in_common(index, fragments[0], fragments[1]) == 0
    assert in_common(index, fragments[0], named("axa")) > 0


def test_two_common_ones_together_are_a_key():
    fragments = people(60, 2)
    plain, paired = fitted(fragments, common=10**6), fitted(fragments, common=1)
    for fragment in fragments[:20]:
        assert set(plain.keys(fragment)) <= set(paired.keys(fragment))
    more = [(len(paired.keys(f)) - len(plain.keys(f))) / len(f.properties) for f in fragments]
    assert 0 < max(more) <= 15, "of each value"


def test_attributes_share_no_key_and_only_those_named_are_read():
    index = fitted(people(30, 1))
    assert not in_common(index, named("york"), Fragment("y", {"town": ("york",)}))
    only = fitted(people(30, 1), attributes=("name",))
    assert only.keys(Fragment("y", {"town": ("york",)})) == []
    assert only.keys(Fragment("y", {"town": ("york",), "name": ("ann",)})) == only.keys(
        named("ann")
    )


def test_it_works_unfitted_and_without_fragments():
    index = Ngrams()
    assert in_common(index, named("Ann Lee"), named("ann lee"))
    starts, keys = index.keys_of(())
    assert starts.tolist() == [0]
    assert not len(keys)


def test_long_texts_and_many_values_are_bounded():
    rng = random.Random(1)
    letters = "".join(rng.choices("abcdefghij ", k=1_000_000))
    index = fitted([named(letters)])
    tracemalloc.start()
    keys = index.keys(named(letters))
    many = index.keys(named(*(letters[i : i + 60] for i in range(0, 600_000, 60))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 <= len(keys) <= 64 + 15 + 1
    assert len(many) == 512
    assert peak < 1 << 26


def test_recall_on_slips_of_the_pen():
    fragments = people(400, 7, error=0.4)
    found = recall_of(fitted(fragments, attributes=("name",)), fragments)
    with_name = [f for f in fragments if "name" in f.properties]
    only = recall_of(fitted(with_name, attributes=("name",)), with_name)
    assert only.recall > 0.98
    assert only.candidates < 70
    assert found.recall > 0.85, "some records have no name"
