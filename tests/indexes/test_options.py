"""What all indexes share: checked options, likeness, and keys that hang on nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.errors import UsageError
from kbforge.indexes import make_index
from kbforge.indexes.projection import Projection
from kbforge.indexes.recall import recall_of
from tests.people import people
from tests.profile import examples


def make(name: str, **options: object) -> CandidateIndex:
    return make_index(name, options)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("ngrams", {"families": 0}, "families: expected at least 1, got 0"),
    ("ngrams", {"compared": -1}, "compared: expected at least 0, got -1"),
    ("ngrams", {"order": 1}, "order: expected 2 to 8, got 1"),
    ("ngrams", {"order": 9}, "order: expected 2 to 8, got 9"),
    ("projection", {"families": 0}, "families: expected at least 1, got 0"),
    ("projection", {"compared": -1}, "compared: expected at least 0, got -1"),
    (
        "projection",
        {"tables": 6},
        "tables: expected 1 to 512, a multiple of 4 unless by angles, got 6",
    ),
    ("projection", {"rows": 25}, "rows: expected 0 to 24, got 25"),
    ("selective", {"families": 0}, "families: expected at least 1, got 0"),
    ("selective", {"shared": 0}, "shared: expected at least 1, got 0"),
    ("selective", {"common": -1}, "common: expected at least 1, got -1"),
    ("selective", {"rules": ("a++b",)}, 'a rule names attributes joined by "+"'),
    ("selective", {"rules": ("",)}, 'a rule names attributes joined by "+"'),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD)
def test_bad_options(name, options, sentence):
    with pytest.raises(UsageError) as error:
        make(name, **options)
    assert str(error.value) == f"index {name}: {sentence}"


@pytest.mark.parametrize(
    ("name", "one", "other", "alike"),
    [
        ("ngrams", {"compared": 0, "families": 9}, {}, True),
        ("ngrams", {"order": 4}, {}, False),
        ("ngrams", {"attributes": ("name",)}, {}, False),
        ("projection", {"seed": 1}, {"seed": 1, "families": 9}, True),
        ("projection", {"seed": 1}, {"seed": 2}, False),
        ("selective", {}, {"families": 3, "shared": 1}, True),
        ("selective", {}, {"common": 21}, False),
        ("selective", {}, {"attributes": ("name",)}, False),
        ("selective", {}, {"rules": ("a+b",)}, False),
    ],
)
def test_indexes_are_alike_by_the_options_that_keys_depend_on(name, one, other, alike):
    first, second = make(name, **one), make(name, **other)
    assert first.like(second) is second.like(first) is alike


@pytest.mark.parametrize(("name", "options"), [("ngrams", {}), ("projection", {"tables": 4})])
def test_equal_fragments_lead_to_their_one_entity(name, options):
    check_equal_fragments(make(name, **options))


def check_equal_fragments(index: CandidateIndex) -> None:
    said = {"name": ("Ann Lee",)}
    same = [Fragment(str(i), said, (1.0, 2.0), label="x") for i in range(10_000)]
    index.fit(same)
    found = recall_of(index, same)
    assert (found.recall, found.entities) == (1.0, 1)
    assert found.candidates <= 1


FITTED: list[tuple[str, dict[str, Any], int, int]] = [  # and how many keys a fragment has
    ("ngrams", {"common": 2}, 1, 512),
    ("projection", {}, 32, 32),
    ("projection", {"angles": True}, 32, 32),
    ("selective", {}, 1, 512),
]
WORDS = st.lists(st.sampled_from([f"w{i}" for i in range(40)]), min_size=1, max_size=25)
SAID = st.tuples(
    WORDS.map(" ".join) | st.text("aé東1", min_size=1, max_size=30),
    st.tuples(*[st.floats(-1e6, 1e6)] * 3),
)


@pytest.mark.parametrize(("name", "options", "fewest", "most"), FITTED)
@examples(30)
@given(said=st.lists(SAID, min_size=2, max_size=9))
def test_keys_of_many_are_those_of_each_whoever_was_asked_about(name, options, fewest, most, said):
    check_keys(make(name, **options), fewest, most, said)


def check_keys(
    index: CandidateIndex, fewest: int, most: int, said: list[tuple[str, tuple[float, ...]]]
) -> None:
    fragments = [Fragment(str(i), {"name": (t,)}, vector=v) for i, (t, v) in enumerate(said)]
    index.fit(fragments[1:4])
    starts, keys = index.keys_of(fragments)
    assert starts.dtype == keys.dtype == np.int64
    assert len(starts) == len(fragments) + 1
    for i, fragment in enumerate(fragments):
        own = keys[starts[i] : starts[i + 1]].tolist()
        assert own == list(index.keys(fragment)) == list(index.keys(replace(fragment, id="y")))
        assert fewest <= len(set(own)) == len(own) <= most


@pytest.mark.parametrize("name", ["ngrams", "selective"])
def test_fitting_again_forgets(name):
    fragments = people(20, 4)
    index, other = make(name), make(name)
    index.fit(people(20, 3))
    index.fit(fragments)
    other.fit(fragments[::-1])
    assert [list(index.keys(f)) for f in fragments] == [list(other.keys(f)) for f in fragments]


def test_seeds_draw_other_keys():
    check_seeds(Projection, 31)


def check_seeds(index: Callable[..., CandidateIndex], alike: int) -> None:
    one = Fragment("x", {"text": ("a b c",)}, (1.0, 2.0))
    first, second = (set(index(seed=seed).keys(one)) for seed in (1, 2))
    assert first
    assert len(first & second) <= alike
    assert set(index(seed=1).keys(one)) == first
